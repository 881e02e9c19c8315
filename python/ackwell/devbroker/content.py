"""What is in a topic: its log, the transactions that hold parts of it back, and what a compacted read gets.

Subscriptions read this much of their topic. `Topic` adds who publishes and who subscribes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ackwell.devbroker.log import Log
from ackwell.devbroker.transactions import TopicTransactions
from ackwell.position import Position
from ackwell.protocol.payload import read_payload

if TYPE_CHECKING:
    from ackwell.devbroker.compaction import Compacted
    from ackwell.devbroker.core import BrokerCore
    from ackwell.devbroker.entries import Entry
    from ackwell.protocol.topic_name import TopicName
    from ackwell.replay.events import Kind


class TopicContent:
    """The content of one topic, or of one partition of a partitioned topic."""

    def __init__(
        self, broker: BrokerCore, name: TopicName, ledgers: dict[int, list[Entry]] | None = None
    ) -> None:
        self.broker = broker
        self.name = name
        self.full_name = str(name)
        self.namespace = name.in_namespace
        self.partition = name.partition
        self.settings = broker.settings
        self.clock = broker.clock
        self.log = Log(
            str(name),
            broker.new_ledger_id,
            broker.settings.entries_per_ledger,
            broker.disk if name.persistent else None,
            ledgers,
        )
        self.transactions = TopicTransactions()
        self.compacted: Compacted | None = None

    @property
    def first_place(self) -> Position:
        """The first entry, or where it will be."""
        return self.log.ledgers.next_valid(*(self.log.ledgers.first_position or self.log.end))

    @property
    def end_place(self) -> Position:
        """Where the next entry will be."""
        return Position(self.log.end.ledger_id, self.log.end.entry_id + 1)

    def last_message(self, *, compacted: bool = False) -> Position:
        """Return the last entry that is a message, or that a compacted read gets; -1:-1 for none."""
        place = self.log.last_position
        while place.entry_id >= 0 and (
            self.log.read(*place).marker or (compacted and self.is_compacted_out(place))
        ):
            place = self.log.ledgers.previous_valid(*place)
        return place if place.entry_id >= 0 else Position(-1, -1)

    def batch_size(self, place: tuple[int, int]) -> int | None:
        """Return how many messages an entry's batch holds; None where it is no batch."""
        if place[1] < 0:
            return None
        metadata = read_payload(self.log.read(*place).data).metadata
        return metadata.num_messages_in_batch if metadata.HasField("num_messages_in_batch") else None

    def batch_sizes(self) -> dict[tuple[int, int], int]:
        """Return how many messages each entry holds that holds several."""
        return {
            (ledger_id, entry_id): entry.batch_size
            for ledger_id, entries in self.log.entries.items()
            for entry_id, entry in enumerate(entries)
            if entry.batch_size > 1
        }

    def is_compacted_out(self, place: tuple[int, int]) -> bool:
        """Return whether a compacted read leaves an entry out."""
        return self.compacted is not None and self.compacted.leaves_out(place)

    def record(self, kind: Kind, place: tuple[int, int] | None = None, **fields: Any) -> None:
        """Take down what happened to the topic."""
        self.broker.recorder.record(self.full_name, "", kind, place, **fields)
