#!/usr/bin/env bash
# settings.sh [JVM option …]: print each setting of the broker and its default as "name<TAB>value".
set -eu
. "$(dirname "$0")/env.sh"
exec java -Xmx512m $JAVA_OPTIONS -Dlog4j.configurationFile="$KIT/conf/log4j2-quiet.xml" "$@" \
  -cp "$CLASSPATH_OF_KIT" ackwell.kit.Settings
