"""The live differential: random sequences played on a broker and on `ackwell.Subscription`.

`operations` draws a sequence, `client` speaks the binary protocol, `theirs` plays an action on the broker and
`ours` on a subscription, `compare` names the differences, `play` runs a sequence and `shrink` makes it small.
"""
