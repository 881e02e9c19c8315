"""A recording: the state that its connections share, and the order of their events."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice, zip_longest
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ackwell.replay.events import Event, Kind

if TYPE_CHECKING:
    from typing import Unpack

    from ackwell.protocol.command_ack import TransactionId
    from ackwell.replay.events import EventFields


@dataclass(slots=True)
class TransactionParts:
    """The topics and subscriptions of a transaction."""

    topics: set[str] = field(default_factory=set)
    subscriptions: set[tuple[str, str]] = field(default_factory=set)


@dataclass(slots=True)
class UpstreamBroker:
    """One broker to which the proxy connects."""

    connections: int = 0
    """The number of connections from the proxy to this broker."""
    opened: set[tuple[str, str]] = field(default_factory=set)
    """The subscriptions that were opened on this broker since the last connection loss."""


class PublishedEntry(NamedTuple):
    """The properties of a published entry that its events contain."""

    batch_size: int
    key: str | None


class AckedEntry(NamedTuple):
    """An acknowledged entry."""

    consumers: int
    """The number of the newest consumer at the time of the acknowledgment."""
    ack_set: tuple[int, ...] | None
    """The ack set of a partly acknowledged batch; None if the whole entry is acknowledged."""

    def is_in(self, delivered: Sequence[int], batch_size: int) -> bool:
        """Return whether a delivery with the ack set `delivered` contains an acknowledged message."""
        if self.ack_set is None:
            return True
        words = self.ack_set
        if not delivered:
            if 64 * len(words) < batch_size:
                # The messages after the last word are acknowledged.
                return True
            delivered = (-1,) * len(words)
        return any(
            ~before & now & (1 << min(max(batch_size - 64 * index, 0), 64)) - 1
            for index, (before, now) in enumerate(zip_longest(words, delivered, fillvalue=0))
        )


REMEMBERED_ENTRIES_MAX: Final = 100_000
"""The maximum number of entries whose properties are kept in memory: about 20 MB."""


def _drop_older_half(noted: dict[Any, Any]) -> None:
    """Drop the older half of a dictionary that has reached its limit."""
    if len(noted) >= REMEMBERED_ENTRIES_MAX:
        for name in list(islice(noted, REMEMBERED_ENTRIES_MAX // 2)):
            del noted[name]


class Recording:
    """A recording: numbers events and passes them to `write`, and passes each entry's bytes to `keep`."""

    def __init__(
        self,
        write: Callable[[Event], None],
        keep: Callable[[str, tuple[int, int], bytes], None] | None = None,
    ) -> None:
        self._write = write
        self.keep_payload = keep
        self._sequence = 0
        self.known_subscriptions: set[tuple[str, str]] = set()
        """The subscriptions whose position is known. Their events are complete from this position on."""
        self.acked_entries: defaultdict[tuple[str, str], dict[tuple[int, int], AckedEntry]] = defaultdict(
            dict
        )
        """For each subscription, the entries that were acknowledged last, wholly or in part."""
        self.consumers = 0
        """The number of consumers that were opened."""
        self.readers: defaultdict[tuple[str, str], set[tuple[object, int]]] = defaultdict(set)
        """The open consumers of each subscription that is not durable, by their connection and id."""
        self.brokers: defaultdict[str, UpstreamBroker] = defaultdict(UpstreamBroker)
        """The brokers by address."""
        self.transactions: dict[TransactionId, TransactionParts] = {}
        self.published_entries: dict[tuple[str, int, int], PublishedEntry] = {}
        """The properties of the newest entries. Their metadata is therefore not parsed at each delivery."""

    def record(
        self,
        topic: str,
        subscription: str,
        kind: Kind,
        position: tuple[int, int] | tuple[None, None] = (None, None),
        consumer: str | None = None,
        **fields: Unpack[EventFields],
    ) -> None:
        """Record one event with the current time."""
        self._sequence += 1
        ledger_id, entry_id = position
        now_ms = time.time_ns() // 1_000_000
        self._write(
            Event(topic, subscription, self._sequence, kind, now_ms, consumer, ledger_id, entry_id, **fields)
        )

    def record_entry(
        self,
        topic: str,
        subscription: str,
        kind: Kind,
        ids: Any,
        consumer: str | None,
        published: PublishedEntry,
        *,
        ack_set: tuple[int, ...] | None = None,
        deliver_at_ms: int | None = None,
        redelivery_count: int | None = None,
        transaction: str | None = None,
    ) -> None:
        """Record a publish or a delivery.

        This is called for every message. It builds the event from positional arguments, because keyword
        arguments take twice as long.
        """
        self._sequence += 1
        self._write(
            Event(
                topic,
                subscription,
                self._sequence,
                kind,
                time.time_ns() // 1_000_000,
                consumer,
                ids[0],
                ids[1],
                None,
                published[0],
                ack_set,
                published[1],
                None,
                deliver_at_ms,
                redelivery_count,
                transaction,
            )
        )

    def note_entry(
        self, topic: str, position: tuple[int, int], published: PublishedEntry, data: bytes
    ) -> None:
        """Store the properties of an entry, and pass its bytes to `keep`."""
        if self.keep_payload is not None:
            self.keep_payload(topic, position, data)
        _drop_older_half(self.published_entries)
        self.published_entries[topic, *position] = published

    def note_acknowledged(
        self, name: tuple[str, str], position: tuple[int, int], ack_set: tuple[int, ...] | None = None
    ) -> None:
        """Store that an entry is acknowledged, or with `ack_set` a part of it."""
        acked = self.acked_entries[name]
        _drop_older_half(acked)
        if ack_set is not None and (before := acked.get(position)) is not None:
            # A missing word is zero: all its messages are acknowledged.
            words = before.ack_set
            ack_set = None if words is None else tuple(a & b for a, b in zip(ack_set, words, strict=False))
        acked[position] = AckedEntry(self.consumers, ack_set)

    def drop_parts(self, name: tuple[str, str]) -> None:
        """Drop the partly acknowledged batches of a subscription."""
        acked = self.acked_entries[name]
        self.acked_entries[name] = {at: each for at, each in acked.items() if each.ack_set is None}

    def record_gap(self, what: str, topic: str = "") -> None:
        """Record a gap event; `what` describes the facts that the recording does not contain."""
        self.record(topic or "*", "", Kind.GAP, detail=what)
