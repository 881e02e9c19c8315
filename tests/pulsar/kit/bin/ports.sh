# Sourced by start.sh and stop.sh: where the broker listens.
read -r BINARY_PORT ADMIN_PORT SIDE_DOOR_PORT BOOKIE_PORT <<<"${ACKWELL_PULSAR_PORTS:-6650 8080 8090 13181}"
SIDE_DOOR="http://127.0.0.1:$SIDE_DOOR_PORT"
