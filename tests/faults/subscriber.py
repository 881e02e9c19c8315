"""A process with a subscription that is used and saved until it is killed.

It sends the digest of the state that it found, before each save `saving` with the digest of the state, and
after it `saved` with the entries whose receipt it returned.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from multiprocessing.connection import Connection
from random import Random

from ackwell import Ledgers, PositionInfo, ProtocolError
from ackwell.store import SqliteStore
from ackwell.subscription import CommandAck, MessageId, Subscription, TransactionId

ENTRIES = 100_000
#: The largest distance of an acknowledged entry from the first unacknowledged one.
WINDOW = 200
BATCH_SIZE = 4


class SmallEntries(SqliteStore):
    """A store whose saves are in parts, so that a kill can hit between two of them."""

    entry_bytes_max = 30


def digest(state: PositionInfo | None) -> str:
    """Return a digest of the state."""
    if state is None:
        return "none"
    parts = (
        state.position,
        str(state.individually_deleted),
        sorted(state.batch_deleted.items()),
        sorted(state.redelivery_counts.items()),
        sorted(state.properties.items()),
        state.unknown_fields,
    )
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def use(subscription: Subscription, chance: Random) -> list[int]:
    """Change the subscription; return the entries acknowledged with a receipt."""
    first = subscription.cursor.mark_delete_position.entry_id + 1
    for position in subscription.next_reads(20, 0):
        subscription.dispatch(*position, now_ms=0, batch_size=BATCH_SIZE)
    acked = sorted({first, *(first + chance.randrange(WINDOW) for _ in range(chance.randrange(4)))})
    ids = tuple(MessageId(3, entry_id) for entry_id in acked)
    subscription.handle("a", CommandAck(1, message_ids=ids, request_id=1))
    subscription.ack("a", 3, first + chance.randrange(WINDOW), (chance.choice((14, 6, 3)),))
    subscription.redeliver("a", list(subscription.pending("a"))[:2])
    transaction = TransactionId(0, chance.randrange(3))
    match chance.randrange(5):
        case 0:
            subscription.commit(transaction)
        case 1:
            subscription.abort(transaction)
        case 2:
            held = (MessageId(3, first + chance.randrange(WINDOW), batch_size=BATCH_SIZE),)
            with suppress(ProtocolError):
                subscription.handle("a", CommandAck(1, message_ids=held, transaction=transaction))
    return acked


def live(path: str, seed: int, told: Connection) -> None:
    """Use and save until killed."""
    chance = Random(seed)
    store = SmallEntries(path, timeout_s=60)
    subscription = Subscription.load("Shared", store, Ledgers({3: ENTRIES}))
    assert subscription.recovery is not None
    told.send(("found", digest(subscription.recovery.position_info)))
    subscription.add_consumer("a")
    subscription.flow("a", 10**9)
    while True:
        acked = use(subscription, chance)
        told.send(("saving", digest(subscription.stage().info)))
        receipts = subscription.save(store)
        assert len(receipts) == 1
        told.send(("saved", acked))
