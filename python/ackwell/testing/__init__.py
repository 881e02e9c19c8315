"""Tests for code that extends ackwell. `stores` has the conformance suite for stores."""
