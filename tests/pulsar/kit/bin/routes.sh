#!/usr/bin/env bash
# routes.sh: print each route of the broker's admin API as "METHOD<TAB>path<TAB>class#method".
set -eu
. "$(dirname "$0")/env.sh"
exec java -Xmx512m $JAVA_OPTIONS -Dlog4j.configurationFile="$KIT/conf/log4j2-quiet.xml" \
  -cp "$CLASSPATH_OF_KIT" "$KIT/bin/Routes.java"
