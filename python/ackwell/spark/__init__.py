"""Replay whole fleets of subscriptions on Spark; needs the extra `ackwell[spark]`."""
