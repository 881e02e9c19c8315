"""The restore: attach a helper, acknowledge the missing entries, close the helper, and read the result."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from ackwell.errors import AckwellError
from ackwell.protocol.constants import SubscriptionType
from ackwell.rescue.planning import Plan, attachable_type, commands, plan, remaining

if TYPE_CHECKING:
    from ackwell._native import PositionRangeSet
    from ackwell.cursor.cursor_state import AckSetMapping
    from ackwell.rescue.planning import Acknowledgment
    from ackwell.rescue.snapshot import Snapshot

_SLOW_S: Final = 1.0


class Cluster(Protocol):
    """The cluster on which a restore works: `ackwell.rescue.Connection`, or a model of a cluster."""

    def read_live(self, topic: str, subscription: str) -> Snapshot:
        """Request and return the live state of a subscription."""

    def attached(self, topic: str, subscription: str, kind: SubscriptionType) -> AbstractContextManager[None]:
        """Return a context manager. It attaches a helper to the subscription during the `with` block."""

    def acknowledge(
        self,
        topic: str,
        subscription: str,
        commands: Iterable[Acknowledgment],
        positions: int,
        digest: str,
    ) -> None:
        """Acknowledge the positions in `commands`. `positions` is the total number of positions."""

    def wake(self, topic: str, subscription: str) -> int:
        """Make a Key_Shared subscription deliver its blocked messages.

        Return the number of messages that still wait.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The result of a restore for one subscription, read from the live state afterwards."""

    topic: str
    subscription: str
    sent: int
    """The number of positions that the helper acknowledged."""
    missing: int
    """The number of planned entries that are still unacknowledged; 0 after a success."""
    ack_sets: int
    """The number of ack sets that were sent. The admin API does not show whether they took effect."""
    waiting: int = 0
    """The number of entries that still wait for redelivery, on a Key_Shared subscription."""
    lost_parts: bool = False
    """Whether the load of the topic lost acknowledged parts of batches, if there were any. Only
    `ackwell.rescue.windows.end` sets this attribute."""

    def __str__(self) -> str:
        text = f"{self.subscription!r} of {self.topic}: "
        lost = "; acknowledged parts of batches, if there were any, are lost and cannot be restored"
        lost = lost if self.lost_parts else ""
        if not self.sent:
            return f"{text}nothing is missing{lost}"
        text += f"{self.sent:,} acknowledgments restored, {self.missing:,} are still missing"
        if self.ack_sets:
            text += f"; {self.ack_sets:,} of them are ack sets, which cannot be read back"
        if self.waiting:
            text += f"; {self.waiting:,} entries wait to be delivered again"
        return text + lost


Check = Callable[["Plan", "Snapshot"], "tuple[PositionRangeSet, AckSetMapping]"]
"""A function with the contract of `ackwell.rescue.planning.remaining`."""


def apply(plan: Plan, connection: Cluster, *, check: Check = remaining) -> Report:
    """Acknowledge the missing entries of a plan; return the report. A second call changes nothing.

    `check` compares the plan with the live state. If it raises `RefusedError`, nothing is sent.
    """
    sent = 0
    left, parts = check(plan, connection.read_live(*plan.name))
    if len(left) or parts:
        assert plan.type is not None
        with connection.attached(*plan.name, plan.type):
            # Check again while the helper is attached, because a seek may have happened after the first
            # check. A seek after this check disconnects the helper.
            sent = send(connection, plan.name, *check(plan, connection.read_live(*plan.name)))
    return _report(plan, connection, sent)


def restore_after_unload(before: Snapshot, connection: Cluster) -> tuple[Plan, Report]:
    """Restore the acknowledgments that an unload lost; return the plan and the report.

    Call the function directly after the unload, so that the helper attaches before other consumers. The plan
    is made while the helper is attached.
    """
    with connection.attached(*before.name, attachable_type(before)):
        made = plan(before, connection.read_live(*before.name))
        sent = send(connection, before.name, made.missing, made.ack_sets)
    return made, _report(made, connection, sent)


def check_restored(plan: Plan, connection: Cluster) -> None:
    """Raise `AckwellError` if a broker has lost a restored acknowledgment of a plan.

    A broker keeps acknowledgments beyond its limits only in memory. After a crash or an unload, the next
    broker loads the topic without these acknowledgments.
    """
    if count := remaining(plan, _fresh(plan.name, connection))[0].cardinality:
        # This is not a `StatsError`, because callers retry after a `StatsError`. Here, a retry has the same
        # result.
        raise AckwellError(
            f"{plan.name[0]}: {count:,} entries are missing before the release; run the same command again"
        )


def _fresh(name: tuple[str, str], connection: Cluster) -> Snapshot:
    """Request and return a live state. No part of it is older than the last load of the topic.

    A live state consists of several answers. A request takes long while the topic moves to another broker.
    So if the requests take long, the first answer may be older than the load. The state is then requested
    again.
    """
    began_s = time.monotonic()
    live = connection.read_live(*name)
    return live if time.monotonic() - began_s < _SLOW_S else connection.read_live(*name)


def send(
    connection: Cluster, name: tuple[str, str], entries: PositionRangeSet, ack_sets: AckSetMapping
) -> int:
    """Acknowledge entries and ack sets; return the number of positions. A helper must be attached."""
    positions = entries.cardinality + len(ack_sets)
    if positions:
        digest = hashlib.sha256(f"{entries} {ack_sets}".encode()).hexdigest()
        connection.acknowledge(*name, commands(entries, ack_sets), positions, digest)
    return positions


def _report(plan: Plan, connection: Cluster, sent: int) -> Report:
    name = plan.name
    waits = sent and plan.type is SubscriptionType.KEY_SHARED
    return Report(
        topic=plan.topic,
        subscription=plan.subscription,
        sent=sent,
        missing=remaining(plan, connection.read_live(*name))[0].cardinality,
        ack_sets=len(plan.ack_sets),
        waiting=connection.wake(*name) if waits else 0,
    )
