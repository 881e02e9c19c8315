"""What an operator asks about a cursor: is it at risk, what does it hold, and what would help.

`doctor` predicts what a restart forgets, `inspection` reads persisted bytes, `holes` and `difference` explain
and compare states, and `report` makes the HTML page.
"""
