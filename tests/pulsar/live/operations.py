"""The parts of a sequence: settings, and operations that are drawn before the run.

An operation is a kind and a seed. Its consumer and its entries are chosen when it is played, from the state
at that moment. A sequence without some of its operations is therefore still a sequence, so it can be shrunk
by removing operations.
"""

from __future__ import annotations

import json
import random
from typing import Any, NamedTuple, Self

TYPES = ("Shared", "Key_Shared", "Failover", "Exclusive")

WEIGHTS = {
    "publish": 16,
    "subscribe": 5,
    "close": 3,
    "flow": 14,
    "ack": 16,
    "ack_part": 8,
    "ack_cumulative": 7,
    "redeliver": 8,
    "redeliver_all": 3,
    "seek": 2,
    "skip": 1,
    "clear": 1,
    "expire": 1,
    "unload": 2,
}
MIXED = {"nack": 5, "change_type": 2, "unsubscribe": 1, "publish_chunks": 2, "publish_soon": 1}
RETURNED = {
    "publish": 14,
    "subscribe": 6,
    "close": 2,
    "flow": 26,
    "ack": 12,
    "ack_part": 4,
    "redeliver": 22,
    "redeliver_all": 8,
    "nack": 5,
    "unload": 1,
}
IN_TRANSACTIONS = {"transaction_ack": 8, "transaction_cumulative": 2, "transaction_end": 5}


class Operation(NamedTuple):
    """One step of a sequence."""

    kind: str
    seed: int


class Sequence(NamedTuple):
    """A type, the broker's settings for its topic, and the operations."""

    seed: int
    type: str
    settings: dict[str, int]
    transactions: bool
    operations: tuple[Operation, ...]
    partition: int | None = None
    """The number of the topic's partition; `None` for a topic without partitions."""

    def to_json(self) -> str:
        return json.dumps(self._asdict() | {"operations": [list(each) for each in self.operations]})

    @classmethod
    def from_json(cls, text: str) -> Self:
        fields: dict[str, Any] = json.loads(text)
        return cls(**fields | {"operations": tuple(Operation(*each) for each in fields["operations"])})


def drawn(seed: int, *, transactions: bool, restarts: bool = True) -> Sequence:
    """Draw a sequence."""
    chance = random.Random(seed)
    type = chance.choice(TYPES)  # noqa: A001  # the field's word
    settings = {
        "maxUnackedMessagesPerConsumer": chance.choice((50_000, 10, 6)),
        "maxUnackedMessagesPerSubscription": chance.choice((200_000, 200_000, 10, 20)),
        "managedLedgerMaxEntriesPerLedger": chance.choice((5_000, 5_000, 20, 7)),
        "managedLedgerMaxUnackedRangesToPersist": chance.choice((10_000, 10_000, 3)),
    }
    if chance.random() < 0.3:
        settings |= {"defaultRetentionTimeInMinutes": 60, "defaultRetentionSizeInMB": 100}
    else:
        settings |= {"defaultRetentionTimeInMinutes": 0, "defaultRetentionSizeInMB": 0}
    weights = WEIGHTS | MIXED | (IN_TRANSACTIONS if transactions else {})
    if (
        settings["maxUnackedMessagesPerConsumer"] < 50_000
        or settings["maxUnackedMessagesPerSubscription"] < 200_000
    ):
        # Operations that reach the configured limits: they acknowledge and return messages.
        weights |= {"flow": 24, "ack_part": 14, "redeliver": 14, "redeliver_all": 6}
    kinds = chance.choices(list(weights), list(weights.values()), k=chance.randint(30, 80))
    kinds[:0] = ["subscribe", "publish", "flow"]
    if restarts and not transactions and chance.random() < 0.5:
        for _ in range(chance.randint(1, 2)):
            kinds.insert(chance.randint(len(kinds) // 2, len(kinds)), "restart")
    operations = tuple(Operation(kind, chance.getrandbits(32)) for kind in kinds)
    partition = chance.choice((None, None, 0, 1, 3))
    return Sequence(seed, type, settings, transactions, operations, partition)


def drawn_returned(seed: int) -> Sequence:
    """Draw a Key_Shared sequence in which many entries are returned, for the order of the reads."""
    base = drawn(seed, transactions=False)
    chance = random.Random(seed * 7 + 1)
    kinds = ["subscribe", "subscribe", "publish", "flow", "flow"]
    kinds += chance.choices(list(RETURNED), list(RETURNED.values()), k=chance.randint(40, 90))
    settings = dict(base.settings)
    if chance.random() < 0.6:
        settings |= {"maxUnackedMessagesPerConsumer": 50_000, "maxUnackedMessagesPerSubscription": 200_000}
    operations = tuple(Operation(kind, chance.getrandbits(32)) for kind in kinds)
    return base._replace(type="Key_Shared", settings=settings, operations=operations)
