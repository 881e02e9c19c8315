"""What we write in Pulsar's forms is recovered by the broker's own code as the state it was."""

from __future__ import annotations

import random
from typing import Any

import pytest

from ackwell import Cursor, Ledgers, Position, PositionInfo, PositionRangeSet
from tests.pulsar import kit

FORMS = ("pulsar-ranges", "pulsar-long-array", "pulsar-auto")
STATES = 210


def generated(seed: int) -> tuple[PositionInfo, dict[int, int]]:
    """Make a state as a cursor may have it, and the entries of each ledger."""
    chance = random.Random(seed)
    first = chance.choice((0, 1, 3, 70_000, 1 << 40))
    ledgers = {
        first + 3 * number: chance.choice((1, 64, 65, 200, 5_000, 50_000))
        for number in range(chance.choice((1, 1, 2, 5, 40)))
    }
    mark_delete = (first, chance.choice((-1, 0, ledgers[first] // 2, ledgers[first] - 1)))
    acked = PositionRangeSet()
    for ledger_id, entries in ledgers.items():
        lowest = mark_delete[1] + 2 if ledger_id == first else chance.choice((0, 1))
        for _ in range(chance.choice((0, 1, 3, 60, 700))):
            lower = chance.randrange(entries)
            upper = min(lower + chance.choice((0, 1, 2, 63, 64, 65, 500)), entries - 1)
            if lowest <= lower:
                acked.add_range(ledger_id, lower - 1, upper)
    batches = {}
    for _ in range(chance.choice((0, 0, 1, 20))):
        ledger_id = chance.choice(list(ledgers))
        position = (ledger_id, chance.randrange(ledgers[ledger_id]))
        if position > mark_delete and position not in acked:
            batches[position] = [chance.getrandbits(64) - (1 << 63) for _ in range(chance.randint(0, 3))] + [
                1
            ]
    properties = {
        name: chance.choice((0, -1, 1, -(1 << 63), (1 << 63) - 1))
        for name in chance.sample(("a", "größe", "#pulsar.internal", ""), chance.choice((0, 0, 1, 3)))
    }
    state = PositionInfo(*mark_delete, acked, batch_deleted=batches, properties=properties)
    return state, ledgers


def edges() -> dict[str, tuple[PositionInfo, dict[int, int]]]:
    """States at the limits of the forms."""
    return {
        "nothing acknowledged": (PositionInfo(3, -1), {3: 10}),
        "everything acknowledged": (PositionInfo(3, 9), {3: 10}),
        "bits around a word": (
            PositionInfo(3, -1, [(3, 61, 62), (3, 63, 64), (3, 126, 128)]),
            {3: 200},
        ),
        "a whole later ledger": (PositionInfo(3, -1, [(4, -1, 9)]), {3: 10, 4: 10}),
        "more than the default limit of ranges": (
            PositionInfo(3, -1, [(3, entry_id, entry_id + 1) for entry_id in range(0, 25_000, 2)]),
            {3: 25_001},
        ),
        "a thousand ledgers": (
            PositionInfo(0, -1, [(ledger_id, 0, 8) for ledger_id in range(1_000)]),
            dict.fromkeys(range(1_000), 10),
        ),
        "only a batch": (PositionInfo(3, -1, batch_deleted={(3, 0): [-1, -1, 1]}), {3: 10}),
    }


def believed(answer: dict[str, Any]) -> PositionInfo:
    """Return the broker's in-memory state as a `CursorState`."""
    assert answer["accepted"], answer
    acked = PositionRangeSet()
    for ledger_id, lower, upper_ledger_id, upper in answer["ranges"]:
        assert ledger_id == upper_ledger_id
        acked.add_range(ledger_id, lower, upper)
    batches = {Position.parse(text): words for text, words in answer["batchDeletedIndexes"].items()}
    ledger_id, entry_id = answer["markDelete"]
    return PositionInfo(ledger_id, entry_id, acked, batch_deleted=batches, properties=answer["properties"])


def settled(state: PositionInfo, ledgers: dict[int, int]) -> PositionInfo:
    """Return the state as a cursor has it: one mark-delete position for all that cover the same entries."""
    directory = Ledgers(ledgers, open=False)
    state = Cursor.from_position_info(state, directory).to_position_info()
    ledger_id, entry_id = directory.next_valid(*state.position)
    return state.replace(ledger_id=ledger_id, entry_id=entry_id)


@pytest.mark.parametrize("form", FORMS)
def test_the_broker_recovers_what_we_wrote(form: str) -> None:
    cases = [generated(seed) for seed in range(STATES)] + list(edges().values())
    answers = kit.probe(
        kit.Case(ledgers, position=state.encode(form), options={"rewrite": True, "longArray": seed % 2 == 0})
        for seed, (state, ledgers) in enumerate(cases)
    )
    assert len(answers) >= STATES
    for (state, ledgers), answer in zip(cases, answers, strict=True):
        assert settled(believed(answer), ledgers) == settled(state, ledgers)
        # The broker's own bytes, in both of its forms, decode to the same state.
        rewritten = PositionInfo.decode(kit.decoded(answer["rewritten"]))
        rewritten = rewritten.replace(properties=state.properties)
        assert settled(rewritten, ledgers) == settled(state, ledgers)


def test_the_broker_refuses_what_is_no_state() -> None:
    (answer,) = kit.probe([kit.Case({3: 10}, position=b"")])
    assert not answer["accepted"]
