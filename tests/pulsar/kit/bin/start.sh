#!/usr/bin/env bash
# start.sh [key=value …]: start Apache Pulsar standalone on 127.0.0.1 (6650 binary, 8080 admin, 8090
# side door) with conf/standalone.conf and these overrides; returns when it answers (15 to 40 s).
# Its data and log are in $ACKWELL_PULSAR_DATA (by default "data" in the kit's cache); delete that for a fresh one.
set -eu
. "$(dirname "$0")/env.sh"
DATA="${ACKWELL_PULSAR_DATA:-$KIT_HOME/data}"
PID_FILE="$DATA/broker.pid"
LOG="$DATA/broker.log"
mkdir -p "$DATA"
if [ -f "$PID_FILE" ] && kill -0 "$(cat "$PID_FILE")" 2>/dev/null; then
  echo "already running, process $(cat "$PID_FILE")" >&2
  exit 1
fi
if curl -s -m 2 -o /dev/null http://127.0.0.1:8090/ping; then
  echo "another broker answers on 127.0.0.1:8090" >&2
  exit 1
fi
python3 - "$KIT/conf/standalone.conf" "$DATA/effective.conf" "$@" <<'PY'
import sys

source, target, *pairs = sys.argv[1:]
overrides = dict(pair.split("=", 1) for pair in pairs)
kept = [line for line in open(source) if line.split("=", 1)[0].strip() not in overrides]
open(target, "w").writelines(kept + [f"{key}={value}\n" for key, value in overrides.items()])
PY
PULSAR_STANDALONE_USE_ZOOKEEPER=0 setsid nohup java -Xmx2g -XX:MaxDirectMemorySize=2g $JAVA_OPTIONS \
  -Dackwell.sideDoorPort=8090 -Dlog4j.configurationFile="$KIT/conf/log4j2.xml" \
  -cp "$CLASSPATH_OF_KIT" ackwell.kit.SideDoorBroker \
  --config "$DATA/effective.conf" --metadata-dir "$DATA/metadata" \
  --bookkeeper-dir "$DATA/bookkeeper" --bookkeeper-port 13181 \
  --no-functions-worker --no-stream-storage -a 127.0.0.1 >"$LOG" 2>&1 </dev/null &
echo $! >"$PID_FILE"
for second in $(seq 1 120); do
  if [ "$(curl -s -m 2 -o /dev/null -w '%{http_code}' http://127.0.0.1:8090/ping || true)" = 200 ]; then
    echo "up after $second s, process $(cat "$PID_FILE")"
    exit 0
  fi
  kill -0 "$(cat "$PID_FILE")" 2>/dev/null || { echo "died" >&2; tail -30 "$LOG" >&2; exit 1; }
  sleep 1
done
echo "no answer in 120 s" >&2
exit 1
