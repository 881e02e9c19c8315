"""What the connections of a recording share: subscriptions seen, open transactions, the order of events."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from ackwell.replay.events import Event, Kind

if TYPE_CHECKING:
    from ackwell.protocol.command_ack import TransactionId


@dataclass(slots=True)
class Parts:
    """The topics and subscriptions that take part in a transaction."""

    topics: set[str] = field(default_factory=set)
    subscriptions: set[tuple[str, str]] = field(default_factory=set)


class Published(NamedTuple):
    """What events say of an entry."""

    batch_size: int
    key: str | None


PUBLISHED_MAX: Final = 100_000
"""Entries of which that is kept: some 20 MB."""


class Book:
    """Records events; `write` gets each, with its number in the order of all, and `keep` each entry once."""

    def __init__(
        self,
        write: Callable[[Event], None],
        keep: Callable[[str, tuple[int, int], bytes], None] | None = None,
    ) -> None:
        self._write = write
        self.keep = keep
        self._sequence = 0
        self.known: set[tuple[str, str]] = set()
        """The subscriptions whose position is known: their events are complete from there."""
        self.transactions: dict[TransactionId, Parts] = {}
        self.published: dict[tuple[str, int, int], Published] = {}
        """The newest entries, so that what is delivered need not be read again."""

    def record(
        self,
        topic: str,
        subscription: str,
        kind: Kind,
        position: tuple[int, int] | tuple[None, None] = (None, None),
        consumer: str | None = None,
        batch_size: int | None = None,
        ack_set: tuple[int, ...] | None = None,
        key: str | None = None,
        deliver_at_ms: int | None = None,
        redelivery_count: int | None = None,
        transaction: str | None = None,
        detail: str | None = None,
    ) -> None:
        """Record one event, now."""
        self._sequence += 1
        ledger_id, entry_id = position
        # By position: this is done several times a message.
        self._write(
            Event(
                topic,
                subscription,
                self._sequence,
                kind,
                time.time_ns() // 1_000_000,
                consumer,
                ledger_id,
                entry_id,
                None,
                batch_size,
                ack_set,
                key,
                None,
                deliver_at_ms,
                redelivery_count,
                transaction,
                detail,
            )
        )

    def saw(self, topic: str, position: tuple[int, int], published: Published, data: bytes) -> None:
        """Keep what a message said of itself; the older half goes when they are too many."""
        if self.keep is not None:
            self.keep(topic, position, data)
        if len(self.published) >= PUBLISHED_MAX:
            for name in list(islice(self.published, PUBLISHED_MAX // 2)):
                del self.published[name]
        self.published[topic, *position] = published

    def gap(self, what: str, topic: str = "") -> None:
        """Record what was not seen."""
        self.record(topic or "*", "", Kind.GAP, detail=what)
