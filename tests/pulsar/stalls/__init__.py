"""Subscriptions that deliver nothing, each for a reason that was made on purpose, on a real broker.

`causes` creates them, `record` stores the answers of the admin API for tests without a broker.
"""
