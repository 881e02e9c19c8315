#!/usr/bin/env bash
# Times Apache Pulsar's own classes, from Maven Central, on the named workloads: CPU time of the measuring
# thread, JSON lines on stdout.
#
#   run.sh A LABEL [DATASET…]     pending acks; LABEL: v424 | m1 | port | v501; DATASET: LEDGERSxENTRIES, as 1x50000
#   run.sh Amem LABEL [DATASET…]  … retained bytes (JOL), and that cleanup keeps exactly the rest
#   run.sh B LABEL [SIZE…]        heap of delayed messages; LABEL: v424 | m1 (hole sifts) | flat (one long[])
#   run.sh Bmem LABEL
#   run.sh C IMPL [CFG…]          time buckets; IMPL: seed64 | r32 | r32opt | tracker; CFG: 1,10 4,10 8,10 8,15 rand,10
#   run.sh D IMPL [PATTERN…]      range sets and PositionInfo; IMPL: open | wrapper | default | position; PATTERN: alt1m rand70 batch oldest50m
#   run.sh E LABEL WORKLOAD…      ack sets of a cursor; LABEL: v424 | v501d; WORKLOAD: inorder scattered large
#   run.sh can LABEL              whether this machine can run it; if not, the reason on stderr
#
# v424 = Pulsar 4.2.4, m1 = 5.0.0-M1, v501 = 5.0.1 (PendingAcksMap only, needs a JDK ≥ 21); port = our own port
# of the hash map of apache/pulsar#26024 on fastutil; position = PositionRangeSet of 5.0.1 (a JDK ≥ 21), on a bitmap of src/v501d. JVM: G1 and a fixed heap (HEAP=11g for `oldest50m` and `rand,10`);
# windows by JAVA_OPTS="-DwinMs=… -Dwarm=… -Diters=…". Built classes are kept in ACKWELL_PEERS_HOME.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
built=${ACKWELL_PEERS_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/ackwell-peers}
repository=${MAVEN_REPO:-$HOME/.m2/repository}

usage() { sed -n '2,/^set /{/^#/!d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"; exit 2; }
fail() { echo "$1" >&2; exit 1; }

# The home of a JDK of at least this version: the one named, the one on PATH, or any that is installed.
jdk_at_least() { # VERSION NAMED
  local home version
  local homes=("$2" "${JAVA_HOME:-}" "$(dirname "$(dirname "$(readlink -f "$(command -v javac || echo /)")")")")
  for home in "${homes[@]}" /usr/lib/jvm/* /Library/Java/JavaVirtualMachines/*/Contents/Home; do
    [ -x "$home/bin/javac" ] || continue
    version=$("$home/bin/javac" -version 2>&1 | sed -E 's/^javac ([0-9]+).*/\1/')
    [ "$version" -ge "$1" ] && { echo "$home"; return; }
  done
  return 1
}

# Labels that share sources and jars.
base() { case $1 in port | seed64 | r32 | r32opt | tracker | open | wrapper | default) echo v424 ;; position) echo v501d ;; flat) echo m1 ;; *) echo "$1" ;; esac; }
implementation() { case $1 in port | flat) echo "$1" ;; *) echo real ;; esac; }
jdk() {
  case $1 in
    v501 | v501d) jdk_at_least 21 "${JAVA21_HOME:-}" || fail "5.0.1 needs a JDK >= 21 (JAVA21_HOME)" ;;
    *) jdk_at_least 17 "${JAVA17_HOME:-}" || fail "Pulsar's jars need a JDK >= 17 (JAVA17_HOME)" ;;
  esac
}

class_path() { # BASE: into cp-BASE.txt
  local artifact group name version
  if [ "$1" = v501 ]; then
    # Its one class is newer than the rest, whose jars are those of 5.0.0-M1.
    build m1
    for artifact in org.apache.pulsar:pulsar-broker:5.0.1 it.unimi.dsi:fastutil:8.5.19; do
      mvn -B -q dependency:get -Dartifact="$artifact" -Dtransitive=false
    done
    printf '%s:' "$repository/org/apache/pulsar/pulsar-broker/5.0.1/pulsar-broker-5.0.1.jar" \
      "$repository/it/unimi/dsi/fastutil/8.5.19/fastutil-8.5.19.jar" >"$built/cp-v501.txt"
    cat "$built/cp-m1.txt" >>"$built/cp-v501.txt"
  elif [ "$1" = v501d ]; then
    # The jar of its bitmap, pulsar-common 5.0.1, is not in Maven Central; the rest is as of 4.2.4.
    build v424
    local jars=()
    for artifact in org.apache.pulsar:managed-ledger:5.0.1 io.github.merlimat.slog:slog:0.10.0 it.unimi.dsi:fastutil:8.5.19; do
      mvn -B -q dependency:get -Dartifact="$artifact" -Dtransitive=false
      IFS=: read -r group name version <<<"$artifact"
      jars+=("$repository/${group//.//}/$name/$version/$name-$version.jar")
    done
    printf '%s:' "${jars[@]}" "$built/v424" >"$built/cp-v501d.txt"
    cat "$built/cp-v424.txt" >>"$built/cp-v501d.txt"
  else
    (cd "$here/poms/$1" && mvn -B -q dependency:build-classpath -Dmdep.outputFile="$built/cp-$1.txt")
  fi
}

build() { # BASE
  local stamp=$built/$1/.built
  [ -f "$stamp" ] && [ -z "$(find "$here/src" "$here/poms" -newer "$stamp" -type f -print -quit)" ] && return
  mkdir -p "$built/$1"
  class_path "$1" >&2
  find "$here/src/common" "$here/src/$1" -name '*.java' -print0 |
    xargs -0 "$(jdk "$1")/bin/javac" -nowarn -proc:none -cp "$(cat "$built/cp-$1.txt")" -d "$built/$1" >&2
  touch "$stamp"
}

run() { # LABEL HEAP MAIN ARGUMENT…
  local label=$1 heap=$2 main=$3 sources home
  shift 3
  sources=$(base "$label")
  home=$(jdk "$sources")
  build "$sources"
  # shellcheck disable=SC2086 # JAVA_OPTS is a list of words
  "$home/bin/java" -Xms"$heap" -Xmx"$heap" -XX:+UseG1GC -Djol.magicFieldOffset=true ${JAVA_OPTS:-} \
    -cp "$built/$sources:$(cat "$built/cp-$sources.txt")" "$main" "$@" 2>"$built/$sources.err" | grep '^{' ||
    { cat "$built/$sources.err" >&2; exit 1; }
}

[ $# -ge 2 ] || usage
part=$1 label=$2
shift 2
name=$(implementation "$label")
case $part in
  can) jdk "$(base "$label")" >/dev/null ;;
  A) run "$label" "${HEAP:-3g}" ackwell.peers.AMain "$label" "$name" 1 "${@:-1x50000}" ;;
  Amem) run "$label" "${HEAP:-6g}" ackwell.peers.AMem "$label" "$name" "${@:-1x50000}" ;;
  B) [ $# -gt 0 ] || set -- 50000 500000 2000000; run "$label" "${HEAP:-4g}" ackwell.peers.BMain "$label" "$name" 1 "$@" ;;
  Bmem) run "$label" "${HEAP:-4g}" ackwell.peers.BMem "$label" "$name" ;;
  C) [ $# -gt 0 ] || set -- 1,10 4,10 8,10 8,15
    for configuration; do run v424 "${HEAP:-4g}" ackwell.peers.CMain v424 "$label" "$configuration" 1; done ;;
  D) [ $# -gt 0 ] || set -- alt1m rand70
    for pattern; do
      JAVA_OPTS="-DskipBigDefault=true ${JAVA_OPTS:-}" run "$label" "${HEAP:-5g}" ackwell.peers.DMain "$(base "$label")" "$label" "$pattern" 1
    done ;;
  E) for workload; do run "$label" "${HEAP:-4g}" ackwell.peers.EMain "$label" "$workload"; done ;;
  *) usage ;;
esac
