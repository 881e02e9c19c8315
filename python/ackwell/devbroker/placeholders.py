"""The entries of a loaded ledger. An entry whose payload is unknown is a placeholder.

A dump contains the number of entries, but not their payloads. A `Placeholder` creates its bytes when they are
read. A ledger of millions of entries therefore takes only the memory of the entries whose bytes are known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, overload

from ackwell.devbroker.entry import LogEntry
from ackwell.position import Position
from ackwell.protocol import messages
from ackwell.protocol.batches import write_batch
from ackwell.protocol.payload import write_payload

PLACEHOLDER: Final = "ackwell-placeholder"
"""The name of the property that marks the messages of a placeholder. It is also the name of their
producer."""


class Placeholder(LogEntry):
    """An entry whose payload is unknown.

    An unknown batch size is 1, and an unknown delivery time is 0 (no delay).
    """

    __slots__ = ("position",)

    def __init__(self, position: Position, batch_size: int, publish_ms: int, deliver_at_ms: int) -> None:
        self.position = position
        self.batch_size = batch_size
        self.publish_ms = publish_ms
        self.deliver_at_ms = deliver_at_ms
        self.key_hash = -1
        self.key_mode = ""
        self.transaction = None
        self.marker = 0

    @property
    def data(self) -> bytes:  # type: ignore[override] # created when it is read
        """The encoded entry: a message or a batch.

        Each message has a property that marks it as a placeholder.
        """
        about = [messages.KeyValue(key=PLACEHOLDER, value=str(self.position))]
        body = f"placeholder for {self.position}: its payload was not recorded".encode()
        metadata = messages.MessageMetadata(
            producer_name=PLACEHOLDER, sequence_id=self.position.entry_id, publish_time=self.publish_ms
        )
        if self.deliver_at_ms:
            metadata.deliver_at_time = self.deliver_at_ms
        if self.batch_size == 1:
            metadata.properties.extend(about)
            return write_payload(metadata, body)
        metadata.num_messages_in_batch = self.batch_size
        single = messages.SingleMessageMetadata(payload_size=len(body), properties=about)
        return write_payload(metadata, write_batch([(single, body)] * self.batch_size))


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownEntries:
    """Entries, batch sizes and delivery times of a topic, by position, as far as the sources contain them."""

    entries: Mapping[Position, LogEntry] = field(default_factory=dict)
    batch_sizes: Mapping[Position, int] = field(default_factory=dict)
    deliver_at_ms: Mapping[Position, int] = field(default_factory=dict)
    publish_ms: int
    """The publish time of all entries for which no source has a publish time."""


class LoadedLedger(Sequence[LogEntry]):
    """The `count` loaded entries of one ledger, followed by the entries that are published later.

    `size_bytes` is the total size of the loaded entries, as their broker reported it.
    """

    def __init__(self, ledger_id: int, count: int, known: KnownEntries, size_bytes: int = 0) -> None:
        self._id = ledger_id
        self._count = count
        self._known = known
        self._later: list[LogEntry] = []
        self.held_bytes = sum(
            len(entry.data) for position, entry in known.entries.items() if position.ledger_id == ledger_id
        )
        """The number of bytes in memory: the size of those entries whose bytes are known."""
        self.largest_entry_bytes = max((len(entry.data) for entry in known.entries.values()), default=0)
        """An upper bound of the size of the largest entry whose bytes are known."""
        self.delays = bool(known.deliver_at_ms) or any(each.deliver_at_ms for each in known.entries.values())
        """Whether any entry of the topic has a delivery time. It may be in another ledger."""
        self.size_bytes = max(size_bytes, self.held_bytes)

    def __len__(self) -> int:
        return self._count + len(self._later)

    @overload
    def __getitem__(self, index: int) -> LogEntry: ...
    @overload
    def __getitem__(self, index: slice) -> list[LogEntry]: ...
    def __getitem__(self, index: int | slice) -> LogEntry | list[LogEntry]:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(len(self)))]
        if not 0 <= index < self._count:
            return self._later[index - self._count] if index >= 0 else self[len(self) + index]
        position, known = Position(self._id, index), self._known
        return known.entries.get(position) or Placeholder(
            position,
            known.batch_sizes.get(position, 1),
            known.publish_ms,
            known.deliver_at_ms.get(position, 0),
        )

    def __iter__(self) -> Iterator[LogEntry]:
        return map(self.__getitem__, range(len(self)))

    def append(self, entry: LogEntry) -> None:
        """Append an entry that was published after the load."""
        self._later.append(entry)
        self.held_bytes += len(entry.data)
        self.size_bytes += len(entry.data)
