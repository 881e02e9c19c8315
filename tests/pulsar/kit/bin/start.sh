#!/usr/bin/env bash
# start.sh [key=value …]: start Apache Pulsar standalone on 127.0.0.1 with conf/standalone.conf and these overrides;
# return when it answers (15 to 40 s). ACKWELL_PULSAR_PORTS sets its four ports: "binary admin side-door bookie".
# Its data and log are in $ACKWELL_PULSAR_DATA (by default "data" in the kit's cache); delete that for a fresh one.
# With ACKWELL_PULSAR_ZOOKEEPER=host:port it is one broker of the cluster of that ZooKeeper (see store.sh).
set -eu
. "$(dirname "$0")/env.sh"
. "$KIT/bin/ports.sh"
DATA="${ACKWELL_PULSAR_DATA:-$KIT_HOME/data}"
PID_FILE="$DATA/broker.pid"
LOG="$DATA/broker.log"
mkdir -p "$DATA"
if [ -f "$PID_FILE" ] && kill -0 "$(cat "$PID_FILE")" 2>/dev/null; then
  echo "already running, process $(cat "$PID_FILE")" >&2
  exit 1
fi
if curl -s -m 2 -o /dev/null "$SIDE_DOOR/ping"; then
  echo "another broker answers at $SIDE_DOOR" >&2
  exit 1
fi
python3 - "$KIT/conf/standalone.conf" "$DATA/effective.conf" \
  "brokerServicePort=$BINARY_PORT" "webServicePort=$ADMIN_PORT" "$@" <<'PY'
import sys

source, target, *pairs = sys.argv[1:]
overrides = dict(pair.split("=", 1) for pair in pairs)
kept = [line for line in open(source) if line.split("=", 1)[0].strip() not in overrides]
open(target, "w").writelines(kept + [f"{key}={value}\n" for key, value in overrides.items()])
PY
case "$VERSION" in
  5.*) BOOKIE="" ;; # It has no such option, and takes a free port.
  *) BOOKIE="--bookkeeper-port $BOOKIE_PORT" ;;
esac
# A broker of a test lives for minutes: the second compiler and a concurrent collector cost more than they give.
if [ -n "${ACKWELL_PULSAR_ZOOKEEPER:-}" ]; then
  STORE="zk:$ACKWELL_PULSAR_ZOOKEEPER"
  printf '%s\n' "metadataStoreUrl=$STORE" "configurationMetadataStoreUrl=$STORE" loadBalancerEnabled=true \
    loadBalancerAutoBundleSplitEnabled=false loadBalancerSheddingEnabled=false >>"$DATA/effective.conf"
  set -- -Dackwell.cluster=true -Djute.maxbuffer=10485760 -cp "$CLASSPATH_OF_KIT" ackwell.kit.SideDoorBroker "$DATA/effective.conf"
else
  set -- -cp "$CLASSPATH_OF_KIT" ackwell.kit.SideDoorBroker --config "$DATA/effective.conf" \
    --metadata-dir "$DATA/metadata" --bookkeeper-dir "$DATA/bookkeeper" $BOOKIE \
    --no-functions-worker --no-stream-storage -a 127.0.0.1
fi
PULSAR_STANDALONE_USE_ZOOKEEPER=0 setsid nohup java -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xmx2g -XX:MaxDirectMemorySize=2g $JAVA_OPTIONS \
  -Dackwell.sideDoorPort="$SIDE_DOOR_PORT" -Dlog4j.configurationFile="$KIT/conf/log4j2.xml" \
  "$@" >>"$LOG" 2>&1 </dev/null &
echo $! >"$PID_FILE"
for second in $(seq 1 400); do
  if [ "$(curl -s -m 2 -o /dev/null -w '%{http_code}' "$SIDE_DOOR/ping" || true)" = 200 ]; then
    echo "up after $second s, process $(cat "$PID_FILE")"
    exit 0
  fi
  kill -0 "$(cat "$PID_FILE")" 2>/dev/null || { echo "died" >&2; tail -30 "$LOG" >&2; exit 1; }
  sleep 1
done
kill -9 "$(cat "$PID_FILE")"
echo "no answer in 400 s" >&2
exit 1
