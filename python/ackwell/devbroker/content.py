"""The content of a topic: its log, its transactions and its compacted view.

This is the part of a topic that its subscriptions read. `Topic` adds the producers and the subscriptions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ackwell.cursor.ack_sets import all_messages, to_words
from ackwell.devbroker.compaction import CompactedLog
from ackwell.devbroker.log import Log
from ackwell.devbroker.persistent_map import PersistentMap
from ackwell.devbroker.topic_transactions import TopicTransactions
from ackwell.integers import INT64_MAX
from ackwell.position import Position
from ackwell.protocol.message_ids import position_of
from ackwell.protocol.payload import read_payload

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ackwell.devbroker.log import Ledger
    from ackwell.devbroker.shared import SharedState
    from ackwell.devbroker.throttle import Throttle
    from ackwell.protocol.command_ack import TransactionId
    from ackwell.protocol.topic_name import TopicName
    from ackwell.replay.events import Kind


class TopicContent:
    """The content of a topic. For a partitioned topic, each partition has its own content."""

    def __init__(
        self,
        shared: SharedState,
        name: TopicName,
        ledgers: Mapping[int, Ledger] | None = None,
        *,
        is_open: bool = False,
    ) -> None:
        self.shared = shared
        self.name = name
        self.full_name = str(name)
        self.namespace = name.in_namespace
        self.partition = name.partition
        self.settings = shared.settings
        self.clock = shared.clock
        self.file = shared.file if name.persistent else None
        """The broker's file; None if the topic is not persistent or the broker has no file."""
        self.log = Log(self.full_name, shared, self.file, ledgers, is_open=is_open)
        self.facts = PersistentMap[Any](self.file, "topic", self.full_name)
        """The facts of the topic that no later change removes: `terminated`, `epoch`, `compacted`."""
        self.replicated = PersistentMap[bool](self.file, "replicated", self.full_name)
        """The names of the subscriptions for which a consumer requested replication."""
        self.transactions = TopicTransactions()
        self.compacted: CompactedLog | None = None
        self.throttle: Throttle | None = None
        """The limit of the topic's dispatch rate, which all subscriptions share; None without a limit."""

    @property
    def terminated(self) -> bool:
        """Whether the topic is terminated, so that it refuses new messages."""
        return bool(self.facts.get("terminated"))

    @property
    def epoch(self) -> int | None:
        """The epoch of the newest exclusive producer; None if the topic never had one."""
        found: int | None = self.facts.get("epoch")
        return found

    def compact(self) -> None:
        """Compact all entries that are in the topic now."""
        self.facts["compacted"] = list(self.log.last_position)
        self.compacted = CompactedLog(self.log, self.log.last_position)

    def recover(self, is_open: Callable[[TransactionId], bool]) -> None:
        """Restore the transactions and the compacted view from the saved entries and facts."""
        self.transactions.recover(self.log, is_open)
        self.shared.memory_bytes += self.log.held_bytes
        if "compacted" in self.facts:
            self.compacted = CompactedLog(self.log, Position(*self.facts["compacted"]))

    @property
    def first_position(self) -> Position:
        """The position of the first entry. In an empty topic, the position that the next entry gets."""
        return self.log.ledgers.next_valid(*(self.log.ledgers.first_position or self.log.end))

    @property
    def end_position(self) -> Position:
        """The position that the next entry gets."""
        return Position(self.log.end.ledger_id, self.log.end.entry_id + 1)

    def last_message(self, *, compacted: bool = False) -> Position:
        """Return the position of the last message; -1:-1 if the topic has no message.

        With `compacted`, return the position of the last message in the compacted view.
        """
        position = self.log.last_position
        while position.entry_id >= 0 and (
            self.log.read(*position).marker or (compacted and self.is_compacted_out(position))
        ):
            position = self.log.ledgers.previous_valid(*position)
        return position if position.entry_id >= 0 else Position(-1, -1)

    def batch_size(self, position: tuple[int, int]) -> int | None:
        """Return the number of messages in the batch of an entry; None if the entry is not a batch."""
        if position[1] < 0:
            return None
        metadata = read_payload(self.log.read(*position).data).metadata
        return metadata.num_messages_in_batch if metadata.HasField("num_messages_in_batch") else None

    def within_batch(
        self, position: tuple[int, int], batch_index: int, *, excluded: bool
    ) -> tuple[tuple[int, int], tuple[int, ...]]:
        """Return the position and the ack set for a seek to the message at `batch_index` of a batch.

        If `excluded` is true, return the values for a seek to the next message.
        """
        size = self.batch_size(position) if self.log.ledgers.contains(*position) else None
        acked = max(batch_index + excluded, 0)
        if size is not None and acked < size:
            return position, to_words(all_messages(size) >> acked << acked) if acked else ()
        return (self.log.ledgers.next_valid(*position) if excluded else position), ()

    def batch_sizes(self) -> dict[tuple[int, int], int]:
        """Return the batch sizes of all entries with more than one message, by position."""
        return {
            (ledger_id, entry_id): entry.batch_size
            for ledger_id, entries in self.log.entries.items()
            for entry_id, entry in enumerate(entries)
            if entry.batch_size > 1
        }

    def is_compacted_out(self, position: tuple[int, int]) -> bool:
        """Return whether a compacted read skips an entry as a whole."""
        return self.compacted is not None and self.compacted.leaves_out(position)

    def record(self, kind: Kind, position: tuple[int, int] | None = None, **fields: Any) -> None:
        """Record an event of the topic for `broker.events`."""
        self.shared.recorder.record(self.full_name, "", kind, position, **fields)

    def position_of(self, message_id: Any) -> tuple[int, int]:
        """Return the position of a `MessageIdData`.

        The id `earliest` becomes the first position, and `latest` the position of the next entry.
        """
        ledger_id, entry_id = position_of(message_id)
        if ledger_id < 0:
            return self.first_position
        if ledger_id == INT64_MAX:
            return self.end_position
        position = ledger_id, max(entry_id, 0)
        if position < self.first_position:
            return self.first_position
        ledgers = self.log.ledgers
        return (
            position if ledgers.contains(*position) else ledgers.next_valid(ledger_id, max(entry_id - 1, -1))
        )
