"""The rules by which a Pulsar broker persists acknowledgments, and the statistics that it reports.

`broker_settings` contains the broker's settings by name. `writes` contains the rules for persisting a cursor.
`restart` counts the acknowledged messages that a restart loses by these rules. `stats` reads the broker's
statistics from files.
"""
