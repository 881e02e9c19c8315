"""Public test support: hypothesis strategies and the store conformance suite."""
