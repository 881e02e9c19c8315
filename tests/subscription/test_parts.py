"""Parts of batches: a command equals its acknowledgments one by one."""

from __future__ import annotations

import random
from typing import Any

import pytest

from ackwell import CursorSettings, Ledgers, LimitError, Subscription
from ackwell.cursor.ack_sets import WORDS_MAX
from ackwell.protocol.command_ack import CommandAck, MessageId
from ackwell.subscription import SubscriptionSettings, TransactionId
from tests import reference
from tests.samples import examples

ENTRIES = 24
SIZE = 70
"""Messages of a batch: two words."""

SETTINGS = {
    "default": SubscriptionSettings(),
    "4.0.7": SubscriptionSettings.pulsar("4.0.7"),
    "4.2.4": SubscriptionSettings.pulsar("4.2.4"),
    "5.0.1": SubscriptionSettings.pulsar("5.0.1"),
    "a full consumer": SubscriptionSettings(max_unacked_per_consumer=SIZE * 4),
    "parts are kept": SubscriptionSettings(plain_acks_conflict=True, transactions_keep_parts=True),
    "without batch indexes": SubscriptionSettings(cursor=CursorSettings(batch_index_acks=False)),
}


def mask(chosen: random.Random) -> tuple[int, ...]:
    """Return words of which a few bits are clear, or none, or all."""
    bits = 2**SIZE - 1
    for _ in range(chosen.randrange(3)):
        bits &= ~(((1 << chosen.randrange(1, 40)) - 1) << chosen.randrange(SIZE))
    words = (bits & 2**64 - 1, bits >> 64)
    signed = tuple(word - 2**64 if word >= 2**63 else word for word in words)
    return signed if chosen.randrange(8) else (0,) * chosen.randrange(1, 3)


def delivered(settings: SubscriptionSettings, kind: str, engine: Any = None) -> Subscription:
    """Return a subscription whose two consumers have all entries."""
    subscription = Subscription(kind, Ledgers({3: ENTRIES, 4: ENTRIES}), settings=settings, engine=engine)
    for consumer in ("a", "b"):
        subscription.add_consumer(consumer)
        subscription.flow(consumer, 10_000)
    while positions := subscription.next_reads(10, now_ms=0):
        for position in positions:
            subscription.dispatch(*position, now_ms=0, batch_size=SIZE, sticky_key_hash=position.entry_id)
    return subscription


def drawn(chosen: random.Random) -> list[MessageId]:
    """Return the ids of a command: parts and whole entries, some of them twice or without an entry."""
    ids = []
    for _ in range(chosen.randrange(1, 30)):
        entry_id = chosen.choice((chosen.randrange(ENTRIES), 2, 3))
        ack_set = mask(chosen) if chosen.randrange(5) else ()
        ids.append(MessageId(chosen.choice((3, 3, 4, 2)), entry_id, ack_set=ack_set))
    return ids


@pytest.mark.parametrize("engine", [None, reference], ids=["native", "reference"])
@pytest.mark.parametrize("kind", ["Shared", "Key_Shared", "Exclusive"])
@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_a_command_equals_its_ids_one_by_one(settings: SubscriptionSettings, kind: str, engine: Any) -> None:
    chosen = random.Random(f"{kind} {settings}")
    for _ in range(examples(3)):
        if kind == "Exclusive":
            together, alone = (
                Subscription(kind, Ledgers({3: ENTRIES, 4: ENTRIES}), settings=settings) for _ in "12"
            )
            together.add_consumer("a")
            alone.add_consumer("a")
        else:
            together, alone = (delivered(settings, kind, engine) for _ in range(2))
        if chosen.randrange(3) == 0:
            held = CommandAck(
                1,
                message_ids=(MessageId(3, 2, ack_set=(-2, 63), batch_size=SIZE),),
                transaction=TransactionId(1, 1),
            )
            for subscription in (together, alone):
                subscription.handle("a", held)
        for _ in range(3):
            ids = drawn(chosen)
            # A command applies its whole entries first, unless a consumer is blocked.
            in_order = together._acks.partial_ack_keeps_blocked()
            changed = together.handle("a", CommandAck(1, message_ids=tuple(ids)))
            ordered = ids if in_order else sorted(ids, key=lambda each: bool(each.ack_set))
            one_by_one = sum(alone.handle("a", CommandAck(1, message_ids=(each,))) for each in ordered)
            assert changed == one_by_one
            assert together == alone
            together.validate()


def test_a_command_with_too_many_words_changes_nothing() -> None:
    subscription = delivered(SETTINGS["default"], "Shared")
    ids = (MessageId(3, 1), MessageId(3, 2, ack_set=(5,)), MessageId(3, 3, ack_set=(1,) * (WORDS_MAX + 1)))
    with pytest.raises(LimitError):
        subscription.handle("a", CommandAck(1, message_ids=ids))
    assert subscription == delivered(SETTINGS["default"], "Shared")
