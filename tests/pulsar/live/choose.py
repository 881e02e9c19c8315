"""Convert an operation to an action; all choices depend on our model's state, which is the broker's."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ackwell import Position
from ackwell.cursor.ack_sets import WHOLE
from tests.pulsar.live import actions
from tests.pulsar.live.operations import TYPES

if TYPE_CHECKING:
    from tests.pulsar.live.actions import AckSet, Action
    from tests.pulsar.live.operations import Operation
    from tests.pulsar.live.ours import Ours

KEYS = ("a", "b", "c", "d", "e")
CONSUMERS = 4
DELAYED = 0.15
"""The share of publications to be delivered later than any sequence lasts."""
FAR_MS = 4_102_444_800_000
SOON_MS = 3_000
"""A broker delivers up to a second (`delayedDeliveryTickTimeMillis`) early; before that both sides rest."""


def action_of(operation: Operation, ours: Ours) -> Action | None:
    """Choose the action of an operation; `None` if it has no target."""
    return _CHOOSE[operation.kind](random.Random(operation.seed), ours)


def _publish(chance: random.Random, ours: Ours) -> Action:
    sizes = (None, None, None, 1, 3, 10, 10, 70)
    deliver_at_ms = FAR_MS if chance.random() < DELAYED else 0
    return actions.Publish(
        tuple((chance.choice(sizes), chance.choice((None, *KEYS))) for _ in range(chance.randint(1, 12))),
        deliver_at_ms,
    )


def _publish_soon(chance: random.Random, ours: Ours) -> Action | None:
    if not ours.individual:
        return None
    entries = tuple(
        (chance.choice((None, 3)), chance.choice((None, *KEYS))) for _ in range(chance.randint(1, 2))
    )
    return actions.Publish(entries, int(time.time() * 1_000) + SOON_MS)


def _publish_chunks(chance: random.Random, ours: Ours) -> Action | None:
    # On Shared a broker gives the chunks of a message to one consumer: it reads of them what ours does not.
    return (
        None if ours.type == "Shared" else actions.Publish(((None, chance.choice(KEYS)),) * 3, chunked=True)
    )


def _change_type(chance: random.Random, ours: Ours) -> Action | None:
    types = [each for each in TYPES if not (ours.has_chunks and each == "Shared")]
    return None if ours.transactions else actions.ChangeType(chance.choice(types))


def _unsubscribe(chance: random.Random, ours: Ours) -> Action | None:
    return actions.Unsubscribe() if ours.begins_again_cleanly else None


def _subscribe(chance: random.Random, ours: Ours) -> Action | None:
    if len(ours.consumers) >= CONSUMERS:
        return None
    ours.next_consumer_id += 1
    name = f"c{ours.next_consumer_id}"
    if ours.individual and ours.consumers and chance.random() < 0.2:
        name = ours.names[chance.choice(ours.consumers)]
    priority = chance.choice((0, 0, 0, 1)) if ours.type != "Key_Shared" else 0
    return actions.Subscribe(ours.next_consumer_id, name, priority)


def _close(chance: random.Random, ours: Ours) -> Action | None:
    return actions.Close(chance.choice(ours.consumers)) if ours.consumers else None


def _flow(chance: random.Random, ours: Ours) -> Action | None:
    permits = chance.choice((1, 2, 5, 10, 30, 100))
    return actions.Flow(chance.choice(ours.consumers), permits) if ours.consumers else None


def _who(chance: random.Random, ours: Ours) -> tuple[int, list[Position]] | None:
    """Choose a consumer and the entries it has, mostly one that has any."""
    if not ours.consumers:
        return None
    have = [consumer for consumer in ours.consumers if ours.held(consumer)]
    consumer = chance.choice(have if have and chance.random() < 0.9 else ours.consumers)
    return consumer, ours.held(consumer)


def _some(chance: random.Random, positions: Sequence[Position], ours: Ours, most: int) -> list[Position]:
    """Choose entries: mostly those given, seldom any other that was published."""
    pool = positions if positions and chance.random() < 0.93 else sorted(ours.log)
    return chance.sample(list(pool), min(len(pool), chance.randint(1, most))) if pool else []


def _ack(chance: random.Random, ours: Ours) -> Action | None:
    return _acked(chance, ours, part=0.0, transaction=None)


def _ack_part(chance: random.Random, ours: Ours) -> Action | None:
    return _acked(chance, ours, part=0.8, transaction=None)


def _acked(
    chance: random.Random, ours: Ours, *, part: float, transaction: actions.Transaction | None
) -> Action | None:
    who = _who(chance, ours)
    if who is None:
        return None
    consumer, held = who
    if transaction is None:
        chosen = _some(chance, held, ours, chance.choice((1, 1, 4)))
    else:
        chosen = chance.sample(held, min(len(held), chance.choice((1, 1, 4))))
    if transaction is None and chance.random() < 0.02 and ours.last is not None:
        # Alone: of several the broker applies those before it.
        chosen = [Position(ours.last.ledger_id, ours.last.entry_id + 5)]
    ids = []
    for position in chosen:
        if not _is_answered(ours, position, transaction):
            continue
        size = ours.log[position].batch_size if position in ours.log else 1
        ack_set: AckSet = ()
        if size > 1 and chance.random() < part:
            ack_set = words(chance.getrandbits(size) | chance.getrandbits(size))
        if transaction is None and ack_set and ours.ends(position, ack_set):
            ack_set = ()
        ids.append((position, ack_set, size))
    if not ids:
        return None
    action = actions.Ack(consumer, tuple(ids), transaction)
    if transaction is not None and any(ours.is_part(*each) for each in ids):
        ours.in_part.add(transaction)
    # The broker takes the entries off their consumer before it refuses a conflict.
    return None if transaction is not None and ours.would_refuse(action) else action


def _is_answered(ours: Ours, position: Position, transaction: actions.Transaction | None) -> bool:
    """Return whether a broker answers the acknowledgment of an entry and counts it correctly (see README)."""
    held_bits = ours.held_by_transactions(position)
    if held_bits == WHOLE:
        return False
    if transaction is None:
        return not held_bits
    return ours.counts_parts_in_transactions or not ours.is_acked_in_part_before(position)


def _ack_cumulative(chance: random.Random, ours: Ours) -> Action | None:
    return _acked_cumulative(chance, ours, None)


def _acked_cumulative(
    chance: random.Random, ours: Ours, transaction: actions.Transaction | None
) -> Action | None:
    if not ours.consumers or not ours.log or (ours.individual and chance.random() < 0.8):
        return None
    consumer = ours.active or chance.choice(ours.consumers)
    read = [position for position in sorted(ours.log) if position < ours.read_position][-30:]
    if not read:
        return None
    position = chance.choice(read)
    size = ours.log[position].batch_size
    ack_set: AckSet = ()
    if size > 1 and chance.random() < 0.6:
        index = chance.randrange(size - 1)
        ack_set = words(((1 << size) - 1) >> (index + 1) << (index + 1))
    return actions.AckCumulative(consumer, position, ack_set, transaction)


def _redeliver(chance: random.Random, ours: Ours) -> Action | None:
    who = _who(chance, ours)
    if who is None:
        return None
    consumer, held = who
    chosen = _some(chance, held, ours, 5)
    if not ours.counts_parts_in_transactions:
        chosen = [position for position in chosen if not ours.held_by_transactions(position)]
    return actions.Redeliver(consumer, tuple(chosen)) if chosen else None


def _redeliver_all(chance: random.Random, ours: Ours) -> Action | None:
    return actions.Redeliver(chance.choice(ours.consumers), None) if ours.consumers else None


def _nack(chance: random.Random, ours: Ours) -> Action | None:
    who = _who(chance, ours)
    if who is None or not who[1] or not ours.individual:
        return None
    return actions.Nack(who[0], chance.choice(who[1]))


def _seek(chance: random.Random, ours: Ours) -> Action | None:
    if not ours.consumers or not ours.log or ours.transactional:
        return None
    if ours.type == "Failover" and len(ours.consumers) > 1:
        return None  # The broker goes on naming the consumer active that the seek disconnected.
    consumer = ours.active or chance.choice(ours.consumers)
    earliest, latest = Position(-1, -1), Position((1 << 63) - 1, (1 << 63) - 1)
    position = chance.choice((*chance.choices(sorted(ours.log), k=8), earliest, latest))
    ack_set: AckSet = ()
    size = ours.log[position].batch_size if position in ours.log else 1
    if size > 1 and chance.random() < 0.7:
        index = chance.randrange(size)
        ack_set = words(((1 << size) - 1) >> index << index)
    return actions.Seek(consumer, position, ack_set)


def _skip(chance: random.Random, ours: Ours) -> Action | None:
    return actions.Skip(chance.randint(1, 6)) if ours.moves_are_clean else None


def _clear(chance: random.Random, ours: Ours) -> Action | None:
    return actions.Clear() if ours.moves_are_clean else None


def _expire(chance: random.Random, ours: Ours) -> Action | None:
    existing = [position for position in sorted(ours.log) if ours.ledgers.contains(*position)]
    return actions.Expire(chance.choice(existing)) if existing and ours.moves_are_clean else None


def _unload(chance: random.Random, ours: Ours) -> Action | None:
    return None if ours.transactional else actions.Unload()


def _transaction(chance: random.Random, ours: Ours) -> actions.Transaction:
    if ours.transactions and chance.random() < 0.7:
        return chance.choice(ours.transactions)
    ours.next_transaction += 1
    return 0, ours.next_transaction


def _transaction_ack(chance: random.Random, ours: Ours) -> Action | None:
    transaction = _transaction(chance, ours)
    return _acked(chance, ours, part=0.6, transaction=transaction)


def _transaction_cumulative(chance: random.Random, ours: Ours) -> Action | None:
    if ours.individual:
        return None
    return _acked_cumulative(chance, ours, _transaction(chance, ours))


def _transaction_end(chance: random.Random, ours: Ours) -> Action | None:
    if not ours.transactions:
        return None
    transaction = chance.choice(ours.transactions)
    commit = chance.random() < 0.5 or (ours.individual and transaction in ours.in_part)
    return actions.EndTransaction(transaction, commit=commit)


def words(bits: int) -> AckSet:
    """Return bits as the signed 64-bit words of an ack set; at least one word."""
    count = max(bits.bit_length() + 63 >> 6, 1)
    found = [bits >> 64 * index & (1 << 64) - 1 for index in range(count)]
    return tuple(word - (1 << 64) if word >> 63 else word for word in found)


_CHOOSE: dict[str, Callable[[random.Random, Ours], Action | None]] = {
    "publish": _publish,
    "publish_soon": _publish_soon,
    "publish_chunks": _publish_chunks,
    "change_type": _change_type,
    "unsubscribe": _unsubscribe,
    "subscribe": _subscribe,
    "close": _close,
    "flow": _flow,
    "ack": _ack,
    "ack_part": _ack_part,
    "ack_cumulative": _ack_cumulative,
    "redeliver": _redeliver,
    "redeliver_all": _redeliver_all,
    "nack": _nack,
    "seek": _seek,
    "skip": _skip,
    "clear": _clear,
    "expire": _expire,
    "unload": _unload,
    "transaction_ack": _transaction_ack,
    "transaction_cumulative": _transaction_cumulative,
    "transaction_end": _transaction_end,
}
