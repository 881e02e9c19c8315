"""What a Pulsar broker writes of its subscriptions, says of them, and forgets when it restarts.

`settings` are the broker's own, by name; `writes` are its rules of what it persists, `restart` is what a
restart loses by them; `stats` reads what a broker says, from files, and `admin` asks a live one.
"""
