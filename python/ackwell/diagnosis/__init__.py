"""Diagnose cursors for operators: risks of a restart, contents, and remedies.

`doctor` predicts the loss of a restart, `inspection` reads persisted bytes, `holes` and `difference` explain
and compare states, and `report` makes the HTML page.
"""
