"""Parts of batches: a command equals its acknowledgments one by one."""

from __future__ import annotations

import random
from typing import Any

import pytest

from ackwell import CursorSettings, Ledgers, LimitError, ProtocolError, Subscription
from ackwell.cursor.ack_sets import WORDS_MAX
from ackwell.protocol.command_ack import AckColumns, CommandAck, MessageId
from ackwell.subscription import SubscriptionSettings, SubscriptionType, TransactionId
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
    subscription = Subscription(
        SubscriptionType(kind), Ledgers({3: ENTRIES, 4: ENTRIES}), settings=settings, engine=engine
    )
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
                Subscription(SubscriptionType(kind), Ledgers({3: ENTRIES, 4: ENTRIES}), settings=settings)
                for _ in "12"
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


@pytest.mark.parametrize("engine", [None, reference], ids=["native", "reference"])
def test_columns_equal_a_command(engine: Any) -> None:
    chosen = random.Random(7)
    for settings in SETTINGS.values():
        columns, command = (delivered(settings, "Shared", engine) for _ in range(2))
        for _ in range(examples(3)):
            ids = drawn(chosen)
            ledger_ids, entry_ids, starts, words = AckColumns.of(CommandAck(1, message_ids=tuple(ids)))[2:6]
            ack_sets: tuple[Any, Any] = (
                ([0] * (len(ids) + 1), []) if starts is None or words is None else (starts, words)
            )
            changed = columns.ack_many("a", ledger_ids, entry_ids, ack_sets)
            assert changed == command.handle("a", CommandAck(1, message_ids=tuple(ids)))
            assert columns == command
    assert columns.ack_many("a", [], [], ([0], [])) == 0


def test_too_many_words_change_nothing() -> None:
    subscription = delivered(SETTINGS["default"], "Shared")
    words = (1,) * (WORDS_MAX + 1)
    ids = (MessageId(3, 1), MessageId(3, 2, ack_set=(5,)), MessageId(3, 3, ack_set=words))
    with pytest.raises(LimitError):
        subscription.handle("a", CommandAck(1, message_ids=ids))
    for rows in (1, 2):
        with pytest.raises(LimitError):
            subscription.ack_many("a", [3] * rows, [1, 2][:rows], ([0] * rows + [WORDS_MAX + 1], words))
    assert subscription == delivered(SETTINGS["default"], "Shared")


def test_columns_that_are_refused_change_nothing() -> None:
    subscription = delivered(SETTINGS["default"], "Shared")
    for entry_ids, starts, error in (
        ([1, -1], [0, 1, 2], ValueError),
        ([1, ENTRIES], [0, 0, 2], ProtocolError),
        ([1, 2], [0, 2], ValueError),
        ([1, 2], [1, 1, 2], ValueError),
        ([1, 2], [0, 1, 1], ValueError),
        ([1, 2], [0, 3, 2], ValueError),
        ([1, 2], [], ValueError),
        ([1, 2], [0, 1.5, 2], TypeError),
    ):
        with pytest.raises(error):
            subscription.ack_many("a", [4, 4], entry_ids, (starts, [5, 5]))
    assert subscription == delivered(SETTINGS["default"], "Shared")
