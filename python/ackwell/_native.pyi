"""Stubs of the native engine, in the order of `docs/architecture.md`; checked by `make types`."""
