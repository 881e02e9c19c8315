"""Consumers, dispatch, acknowledgments and redelivery: a subscription's decisions, without any I/O."""
