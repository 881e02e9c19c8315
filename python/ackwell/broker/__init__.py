"""The rules by which a Pulsar broker persists acknowledgments, and its reports about subscriptions.

`settings` are the broker's settings by name. `writes` are its rules for persisting a cursor, and `restart`
counts the acknowledged messages that a restart loses by these rules. `stats` reads the broker's reports
from files.
"""
