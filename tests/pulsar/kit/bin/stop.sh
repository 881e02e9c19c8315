#!/usr/bin/env bash
# stop.sh: close the broker, then the bookie, as in production. With -9: a crash.
set -eu
. "$(dirname "$0")/ports.sh"
KIT_HOME="${ACKWELL_PULSAR_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/ackwell-pulsar}"
PID_FILE="${ACKWELL_PULSAR_DATA:-$KIT_HOME/data}/broker.pid"
PID="$(cat "$PID_FILE")"
if [ "${1:-}" = -9 ]; then
  kill -9 "$PID"
else
  curl -sf -m 5 "$SIDE_DOOR/shutdown" >/dev/null || kill -TERM "$PID"
fi
for tenth in $(seq 1 900); do
  kill -0 "$PID" 2>/dev/null || { echo "stopped"; rm -f "$PID_FILE"; exit 0; }
  sleep 0.1
done
echo "did not stop in 90 s: killed" >&2
kill -9 "$PID"
rm -f "$PID_FILE"
exit 1
