"""A recording: it numbers the events of all connections, and has the state that the connections share."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice, zip_longest
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ackwell.broker.dates import clock_ms
from ackwell.replay.events import Event, Kind

if TYPE_CHECKING:
    from typing import Unpack

    from ackwell.protocol.command_ack import TransactionId
    from ackwell.replay.events import EventFields


@dataclass(slots=True)
class TransactionParts:
    """The topics and subscriptions that a transaction concerns."""

    topics: set[str] = field(default_factory=set)
    subscriptions: set[tuple[str, str]] = field(default_factory=set)


@dataclass(slots=True)
class UpstreamBroker:
    """One broker to which the proxy connects."""

    connections: int = 0
    """The number of open connections from the proxy to this broker."""
    opened: set[tuple[str, str]] = field(default_factory=set)
    """The subscriptions that were opened on this broker since the last connection loss."""


class PublishedEntry(NamedTuple):
    """The properties of a published entry that are recorded in the events of the entry."""

    batch_size: int
    key: str | None


class AckedEntry(NamedTuple):
    """The acknowledgment of an entry, or of a part of its messages."""

    consumers: int
    """The number of consumers that had been opened when the entry was acknowledged. A consumer with a greater
    number was opened later."""
    ack_set: tuple[int, ...] | None
    """The ack set of a partly acknowledged batch; None if the whole entry is acknowledged."""

    def is_in(self, delivered: Sequence[int], batch_size: int) -> bool:
        """Return whether a delivery of the entry contains a message that was acknowledged.

        `delivered` is the ack set of the delivery: bit 1 means that the message is delivered. It is empty if
        the whole entry is delivered.
        """
        if self.ack_set is None:
            return True
        words = self.ack_set
        if not delivered:
            if 64 * len(words) < batch_size:
                # `words` has no bits for the last messages of the batch: these are acknowledged.
                return True
            delivered = (-1,) * len(words)
        return any(
            ~before & now & (1 << min(max(batch_size - 64 * index, 0), 64)) - 1
            for index, (before, now) in enumerate(zip_longest(words, delivered, fillvalue=0))
        )


REMEMBERED_ENTRIES_MAX: Final = 100_000
"""The maximum number of entries whose properties are kept in memory. They take about 20 MB."""


def _drop_older_half(noted: dict[Any, Any]) -> None:
    """If a dictionary has reached `REMEMBERED_ENTRIES_MAX` items, drop the older half of them."""
    if len(noted) >= REMEMBERED_ENTRIES_MAX:
        for name in list(islice(noted, REMEMBERED_ENTRIES_MAX // 2)):
            del noted[name]


class Recording:
    """A recording. It numbers events and passes them to `write`.

    If `keep` is given, the bytes of each entry are passed to it.
    """

    def __init__(
        self,
        write: Callable[[Event], None],
        keep: Callable[[str, tuple[int, int], bytes], None] | None = None,
    ) -> None:
        self._write = write
        self.keep_payload = keep
        self._sequence = 0
        self.known_subscriptions: set[tuple[str, str]] = set()
        """The subscriptions whose position was recorded. The events after this record are complete."""
        self.acked_entries: defaultdict[tuple[str, str], dict[tuple[int, int], AckedEntry]] = defaultdict(
            dict
        )
        """Maps each subscription to the entries that were acknowledged last, wholly or in part."""
        self.consumers = 0
        """The number of consumers that were opened since the recording began."""
        self.readers: defaultdict[tuple[str, str], set[tuple[object, int]]] = defaultdict(set)
        """Maps each subscription that is not durable to its open consumers. A consumer is identified by the
        observer of its connection and by its id."""
        self.brokers: defaultdict[str, UpstreamBroker] = defaultdict(UpstreamBroker)
        """Maps the address of each broker to its state."""
        self.transactions: dict[TransactionId, TransactionParts] = {}
        self.published_entries: dict[tuple[str, int, int], PublishedEntry] = {}
        """Maps each of the newest entries to its properties, so that deliveries do not parse the metadata."""

    def record(
        self,
        topic: str,
        subscription: str,
        kind: Kind,
        position: tuple[int, int] | tuple[None, None] = (None, None),
        consumer: str | None = None,
        **fields: Unpack[EventFields],
    ) -> None:
        """Record one event. Its time is the current time."""
        self._sequence += 1
        ledger_id, entry_id = position
        now_ms = clock_ms()
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
        """Record a publish or a delivery of an entry."""
        self._sequence += 1
        self._write(
            Event(
                topic,
                subscription,
                self._sequence,
                kind,
                clock_ms(),
                consumer,
                ids[0],
                ids[1],
                batch_size=published[0],
                ack_set=ack_set,
                key=published[1],
                deliver_at_ms=deliver_at_ms,
                redelivery_count=redelivery_count,
                transaction=transaction,
            )
        )

    def note_entry(
        self, topic: str, position: tuple[int, int], published: PublishedEntry, data: bytes
    ) -> None:
        """Store the properties of an entry. If payloads are recorded, pass the entry's bytes to `keep`."""
        if self.keep_payload is not None:
            self.keep_payload(topic, position, data)
        _drop_older_half(self.published_entries)
        self.published_entries[topic, *position] = published

    def note_acknowledged(
        self, name: tuple[str, str], position: tuple[int, int], ack_set: tuple[int, ...] | None = None
    ) -> None:
        """Store that an entry is acknowledged. If `ack_set` is given, only a part of it is acknowledged."""
        acked = self.acked_entries[name]
        _drop_older_half(acked)
        if ack_set is not None and (before := acked.get(position)) is not None:
            # A word that is missing in one of the sets is zero: all messages of the word are acknowledged.
            words = before.ack_set
            ack_set = None if words is None else tuple(a & b for a, b in zip(ack_set, words, strict=False))
        if ack_set is not None and not any(ack_set):
            # The parts together are the whole entry.
            ack_set = None
        acked[position] = AckedEntry(self.consumers, ack_set)

    def drop_parts(self, name: tuple[str, str]) -> None:
        """Drop the partly acknowledged batches of a subscription from `acked_entries`."""
        acked = self.acked_entries[name]
        self.acked_entries[name] = {at: each for at, each in acked.items() if each.ack_set is None}

    def record_gap(self, what: str, topic: str = "") -> None:
        """Record a gap event; `what` describes the facts that the recording does not contain."""
        self.record(topic or "*", "", Kind.GAP, detail=what)
