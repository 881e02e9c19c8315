#!/usr/bin/env bash
# settings.sh [JVM option …]: print the settings of the broker as "name<TAB>default<TAB>whether it is dynamic".
set -eu
. "$(dirname "$0")/env.sh"
exec java -Xmx512m $JAVA_OPTIONS -Dlog4j.configurationFile="$KIT/conf/log4j2-quiet.xml" "$@" \
  -cp "$CLASSPATH_OF_KIT" ackwell.kit.Settings
