"""Tests for code that extends ackwell: the conformance suite of a store (`stores`)."""
