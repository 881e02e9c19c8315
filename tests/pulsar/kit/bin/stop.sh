#!/usr/bin/env bash
# stop.sh: close the broker, then the bookie, as in production. With -9: a crash.
set -eu
KIT_HOME="${ACKWELL_PULSAR_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/ackwell-pulsar}"
PID_FILE="${ACKWELL_PULSAR_DATA:-$KIT_HOME/data}/broker.pid"
PID="$(cat "$PID_FILE")"
if [ "${1:-}" = -9 ]; then
  kill -9 "$PID"
else
  curl -sf -m 5 http://127.0.0.1:8090/shutdown >/dev/null || kill -TERM "$PID"
fi
for second in $(seq 1 90); do
  kill -0 "$PID" 2>/dev/null || { echo "stopped after $second s"; rm -f "$PID_FILE"; exit 0; }
  sleep 1
done
echo "did not stop in 90 s: killed" >&2
kill -9 "$PID"
rm -f "$PID_FILE"
