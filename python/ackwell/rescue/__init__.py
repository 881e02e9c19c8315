"""Putting back the acknowledgments that a restart of a broker forgot.

`snapshot` reads a subscription as it was and as it is. `planning` decides what may be put back: no I/O, so
that it can be tested on any history. `connection` is a helper consumer that acknowledges and receives
nothing, `putting_back` uses it, `holding` stops the delivery meanwhile, and `verbs` are what is made of them.
"""

from ackwell.rescue.connection import BrokerError, Connection
from ackwell.rescue.holding import held, hold, release
from ackwell.rescue.operations import acknowledge, copy, unload
from ackwell.rescue.planning import Plan, plan
from ackwell.rescue.putting_back import Report, put_back
from ackwell.rescue.refusals import RefusedError
from ackwell.rescue.snapshot import Snapshot, read_snapshots

__all__ = [
    "BrokerError",
    "Connection",
    "Plan",
    "RefusedError",
    "Report",
    "Snapshot",
    "acknowledge",
    "copy",
    "held",
    "hold",
    "plan",
    "put_back",
    "read_snapshots",
    "release",
    "unload",
]
