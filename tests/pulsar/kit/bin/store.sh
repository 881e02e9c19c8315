#!/usr/bin/env bash
# store.sh start ZOOKEEPER_PORT BOOKIE_PORT | stop: ZooKeeper and one bookie for the brokers of a cluster, with the
# data in $ACKWELL_PULSAR_DATA.
set -eu
DATA="$ACKWELL_PULSAR_DATA"
PID_FILE="$DATA/store.pid"
case "$1" in
  start)
    . "$(dirname "$0")/env.sh"
    mkdir -p "$DATA"
    rm -f "$DATA/ready"
    setsid nohup java -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xmx1g -XX:MaxDirectMemorySize=1g $JAVA_OPTIONS \
      -Djute.maxbuffer=10485760 -Dlog4j.configurationFile="$KIT/conf/log4j2.xml" -cp "$CLASSPATH_OF_KIT" \
      ackwell.kit.ClusterStore "$KIT/conf/standalone.conf" "$DATA" "$2" "$3" >>"$DATA/store.log" 2>&1 </dev/null &
    echo $! >"$PID_FILE"
    for second in $(seq 1 200); do
      [ -f "$DATA/ready" ] && exit 0
      kill -0 "$(cat "$PID_FILE")" 2>/dev/null || { echo "died" >&2; tail -30 "$DATA/store.log" >&2; exit 1; }
      sleep 1
    done
    kill -9 "$(cat "$PID_FILE")"
    echo "not ready in 200 s" >&2
    exit 1
    ;;
  stop)
    kill "$(cat "$PID_FILE")"
    rm -f "$PID_FILE"
    ;;
esac
