#!/usr/bin/env bash
# proxy.sh start BINARY_PORT ADMIN_PORT ZOOKEEPER_PORT BROKER_PORTS | stop: Pulsar's proxy for the brokers of a cluster,
# with its log in $ACKWELL_PULSAR_DATA. It is 4.0.8, on the class path of a 4.0.7 (ACKWELL_PULSAR_VERSION=4.0.7).
set -eu
DATA="$ACKWELL_PULSAR_DATA"
PID_FILE="$DATA/proxy.pid"
case "$1" in
  start)
    . "$(dirname "$0")/env.sh"
    mkdir -p "$DATA"
    JARS=""
    for name in org.apache.pulsar:pulsar-{proxy,common,client-original,broker-common,client-api,client-admin-api,client-admin-original,metadata,config-validation,websocket}:4.0.8 \
      org.eclipse.jetty:jetty-proxy:9.4.57.v20241219 com.github.seancfoley:ipaddress:5.5.0; do
      IFS=: read -r group artifact version <<<"$name"
      jar="$HOME/.m2/repository/${group//.//}/$artifact/$version/$artifact-$version.jar"
      [ -e "$jar" ] || mvn -q -B dependency:get -Dartifact="$name" -Dtransitive=false >&2
      JARS="$JARS$jar:"
    done
    STORE="zk:127.0.0.1:$4"
    printf '%s\n' clusterName=standalone "metadataStoreUrl=$STORE" "configurationMetadataStoreUrl=$STORE" \
      "servicePort=$2" "webServicePort=$3" bindAddress=127.0.0.1 advertisedAddress=127.0.0.1 \
      "brokerProxyAllowedTargetPorts=$5" 'brokerProxyAllowedIPAddresses=*' >"$DATA/proxy.conf"
    setsid nohup java -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xmx512m -XX:MaxDirectMemorySize=512m $JAVA_OPTIONS \
      -Dlog4j.configurationFile="$KIT/conf/log4j2.xml" -cp "$JARS$CLASSPATH_OF_KIT" \
      org.apache.pulsar.proxy.server.ProxyServiceStarter -c "$DATA/proxy.conf" >>"$DATA/proxy.log" 2>&1 </dev/null &
    echo $! >"$PID_FILE"
    for second in $(seq 1 200); do
      curl -sf -m 2 -o /dev/null "http://127.0.0.1:$3/admin/v2/clusters" && exit 0
      kill -0 "$(cat "$PID_FILE")" 2>/dev/null || { echo "died" >&2; tail -30 "$DATA/proxy.log" >&2; exit 1; }
      sleep 1
    done
    kill -9 "$(cat "$PID_FILE")"
    echo "no answer in 200 s" >&2
    exit 1
    ;;
  stop)
    kill "$(cat "$PID_FILE")"
    rm -f "$PID_FILE"
    ;;
esac
