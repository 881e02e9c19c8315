"""Restore the acknowledgments that a restart of a broker lost.

`snapshot` reads the state of a subscription from files and from a broker. `planning` decides which
acknowledgments may be restored; it does no I/O, so it can be tested on any history. `plans` reads and writes
plan files. `connection` is a helper consumer, which acknowledges entries and receives no messages.
`restoring` acknowledges the entries of a plan with the helper. `holding` stops the delivery of a
subscription. `operations` combines a hold with a restore. `audit` records each change.
"""

from ackwell.rescue.acks import read_acks
from ackwell.rescue.audit import AuditFile
from ackwell.rescue.connection import BrokerError, Connection
from ackwell.rescue.holding import held, hold, release
from ackwell.rescue.operations import ack, copy, unload
from ackwell.rescue.planning import Plan, plan
from ackwell.rescue.plans import read_plans
from ackwell.rescue.refusals import RefusedError
from ackwell.rescue.restoring import Report, apply
from ackwell.rescue.snapshot import Snapshot, read_snapshots

__all__ = [
    "AuditFile",
    "BrokerError",
    "Connection",
    "Plan",
    "RefusedError",
    "Report",
    "Snapshot",
    "ack",
    "apply",
    "copy",
    "held",
    "hold",
    "plan",
    "read_acks",
    "read_plans",
    "read_snapshots",
    "release",
    "unload",
]

__dir__ = __all__.copy
