"""Diagnose cursors for operators: predict restarts, decode persisted states, and suggest remedies.

`doctor` predicts the loss of a restart. `inspection` decodes persisted bytes. `holes` finds the
unacknowledged entries that block a subscription. `difference` compares two states of a cursor. `report`
writes an HTML page.
"""
