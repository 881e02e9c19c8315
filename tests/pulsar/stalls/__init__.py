"""Subscriptions that deliver nothing, each for a reason that was made on purpose, on a real broker.

`causes` makes them, `record` keeps what the admin API said for tests without a broker.
"""
