#!/usr/bin/env bash
# probe.sh < cases.jsonl: recover persisted cursor bytes with the broker's own code, without a running
# broker. One JSON object a line in and out: see RecoverProbe.
set -eu
. "$(dirname "$0")/env.sh"
exec java -Xmx2g $JAVA_OPTIONS -Dlog4j.configurationFile="$KIT/conf/log4j2-quiet.xml" \
  -cp "$CLASSPATH_OF_KIT" ackwell.kit.RecoverProbe
