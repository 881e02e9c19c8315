# Sourced by the scripts beside it: builds the kit once for each broker version, outside the checkout, and sets
# how to run Java. ACKWELL_PULSAR_VERSION selects the broker: 4.2.4 (the default), 4.0.7, 5.0.0-M1 or 5.0.1.
VERSION="${ACKWELL_PULSAR_VERSION:-4.2.4}"
KIT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
KIT_HOME="${ACKWELL_PULSAR_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/ackwell-pulsar}"
mkdir -p "$KIT_HOME/logs"

POM=pom.xml
if [ "$VERSION" = 5.0.1 ]; then
  POM=pom-5.0.1.xml
  java_release() { "$1/bin/javac" -version 2>&1 | sed -nE 's/^javac ([0-9]+).*/\1/p'; }
  for jdk in "${ACKWELL_JDK21:-}" "${JAVA_HOME:-}" /usr/lib/jvm/*; do
    [ -x "$jdk/bin/javac" ] && [ "$(java_release "$jdk")" -ge 21 ] || continue
    export JAVA_HOME="$jdk" PATH="$jdk/bin:$PATH"
    break
  done
  [ "$(java_release "${JAVA_HOME:-/nonexistent}" || true)" -ge 21 ] 2>/dev/null ||
    { echo "Pulsar 5.0.1 needs a JDK >= 21: set ACKWELL_JDK21 to its folder" >&2; exit 1; }
fi

# The digest of the sources names the build, so checkouts that differ do not overwrite each other's build.
DIGEST="$(cd "$KIT" && find "$POM" stubs src -type f | LC_ALL=C sort | xargs cat | sha256sum | cut -c1-12)"
BUILD="$KIT_HOME/build-$VERSION-$DIGEST"
if [ ! -f "$BUILD/classpath" ]; then
  # In a folder of its own, which gets the build's name when it is whole: others may build at the same time.
  MAKING="$(mktemp -d "$BUILD.XXXXXX")"
  cp -r "$KIT/src" "$KIT/stubs" "$MAKING/"
  cp "$KIT/$POM" "$MAKING/pom.xml"
  PROFILE=""
  case "$VERSION" in
    4.0.*) # Its classes of the persisted state have other names: no probe.
      rm "$MAKING"/src/main/java/ackwell/kit/{RecoverProbe,BookKeeperInMemory}.java ;;
    5.0.1) # Its test jar is not in the registry: no probe.
      rm "$MAKING"/src/main/java/ackwell/kit/{RecoverProbe,BookKeeperInMemory}.java ;;
    5.*) PROFILE="-Ppulsar-5" ;;
  esac
  (cd "$MAKING" && mvn -q -B $PROFILE -Dpulsar.version="$VERSION" compile dependency:build-classpath \
    -Dmdep.outputFile="$MAKING/classpath") \
    >"$KIT_HOME/logs/build.log" 2>&1 || { tail -30 "$KIT_HOME/logs/build.log" >&2; exit 1; }
  [ -f "$BUILD/classpath" ] || rm -rf "$BUILD" # what an interrupted build left
  mv -T "$MAKING" "$BUILD" 2>/dev/null || rm -r "$MAKING"
fi
CLASSPATH_OF_KIT="$KIT/conf:$BUILD/target/classes:$(cat "$BUILD/classpath")"

# What the broker's own launcher opens to its libraries on Java 17 and newer.
JAVA_OPTIONS="-Djava.net.preferIPv4Stack=true -Dio.netty.tryReflectionSetAccessible=true -Dlog4j2.is.webapp=false"
JAVA_OPTIONS="$JAVA_OPTIONS -Dbookkeeper.metadata.bookie.drivers=org.apache.pulsar.metadata.bookkeeper.PulsarMetadataBookieDriver"
JAVA_OPTIONS="$JAVA_OPTIONS -Dbookkeeper.metadata.client.drivers=org.apache.pulsar.metadata.bookkeeper.PulsarMetadataClientDriver"
for package in java.base/java.io java.base/java.lang java.base/java.nio java.base/java.util.zip \
  java.base/jdk.internal.misc java.base/jdk.internal.platform java.base/sun.net \
  java.management/sun.management jdk.management/com.sun.management.internal; do
  JAVA_OPTIONS="$JAVA_OPTIONS --add-opens $package=ALL-UNNAMED"
done
