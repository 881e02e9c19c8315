"""Record the traffic between clients and a broker as events that `ackwell replay` reads.

`proxy` runs between clients and a broker. `observer` converts the frames of a connection to events.
`recording` numbers the events of all connections. `event_files` writes the events to files of limited size.
"""
