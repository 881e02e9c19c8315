"""`ackwell rescue` on Apache Pulsar itself: random histories, held unloads and crashes, order, TLS."""
