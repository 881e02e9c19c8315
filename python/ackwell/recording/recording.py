"""What the connections of a recording share: subscriptions seen, open transactions, the order of events."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ackwell.replay.events import Event, Kind

if TYPE_CHECKING:
    from typing import Unpack

    from ackwell.protocol.command_ack import TransactionId
    from ackwell.replay.events import EventFields


@dataclass(slots=True)
class TransactionParts:
    """The topics and subscriptions that take part in a transaction."""

    topics: set[str] = field(default_factory=set)
    subscriptions: set[tuple[str, str]] = field(default_factory=set)


@dataclass(slots=True)
class UpstreamBroker:
    """One broker behind the proxy."""

    connections: int = 0
    """How many of ours it has."""
    opened: set[tuple[str, str]] = field(default_factory=set)
    """The subscriptions that were opened on it since it was seen to be up."""


class PublishedEntry(NamedTuple):
    """What events say of an entry."""

    batch_size: int
    key: str | None


REMEMBERED_ENTRIES_MAX: Final = 100_000
"""Entries of which that is kept: some 20 MB."""


def _drop_older_half(noted: dict[Any, Any]) -> None:
    """Drop the older half of notes when they are too many."""
    if len(noted) >= REMEMBERED_ENTRIES_MAX:
        for name in list(islice(noted, REMEMBERED_ENTRIES_MAX // 2)):
            del noted[name]


class Recording:
    """Records events; `write` gets each, with its number in the order of all, and `keep` each entry once."""

    def __init__(
        self,
        write: Callable[[Event], None],
        keep: Callable[[str, tuple[int, int], bytes], None] | None = None,
    ) -> None:
        self._write = write
        self.keep_payload = keep
        self._sequence = 0
        self.known_subscriptions: set[tuple[str, str]] = set()
        """The subscriptions whose position is known: their events are complete from there."""
        self.acked_entries: defaultdict[tuple[str, str], dict[tuple[int, int], int]] = defaultdict(dict)
        """By subscription: the newest entries that were acknowledged whole, with the newest consumer then."""
        self.consumers = 0
        """How many were opened."""
        self.brokers: defaultdict[str, UpstreamBroker] = defaultdict(UpstreamBroker)
        """By address."""
        self.transactions: dict[TransactionId, TransactionParts] = {}
        self.published_entries: dict[tuple[str, int, int], PublishedEntry] = {}
        """The newest entries, so that what is delivered need not be read again."""

    def record(
        self,
        topic: str,
        subscription: str,
        kind: Kind,
        position: tuple[int, int] | tuple[None, None] = (None, None),
        consumer: str | None = None,
        **fields: Unpack[EventFields],
    ) -> None:
        """Record one event, now."""
        self._sequence += 1
        ledger_id, entry_id = position
        now_ms = time.time_ns() // 1_000_000
        self._write(
            Event(topic, subscription, self._sequence, kind, now_ms, consumer, ledger_id, entry_id, **fields)
        )

    def note_entry(
        self, topic: str, position: tuple[int, int], published: PublishedEntry, data: bytes
    ) -> None:
        """Keep what a message said of itself."""
        if self.keep_payload is not None:
            self.keep_payload(topic, position, data)
        _drop_older_half(self.published_entries)
        self.published_entries[topic, *position] = published

    def note_acknowledged(self, name: tuple[str, str], position: tuple[int, int]) -> None:
        """Take note of an entry that was acknowledged whole."""
        acked = self.acked_entries[name]
        _drop_older_half(acked)
        acked[position] = self.consumers

    def record_gap(self, what: str, topic: str = "") -> None:
        """Record what was not seen."""
        self.record(topic or "*", "", Kind.GAP, detail=what)
