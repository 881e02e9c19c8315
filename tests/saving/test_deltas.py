"""Changes as deltas: their content, the cases without a delta, and the length of delta chains."""

from __future__ import annotations

import random
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackwell import (
    PositionInfo,
    PositionRangeSet,
)
from ackwell.saving import delta
from ackwell.saving import journal as journal_module
from ackwell.saving.journal import DELTA_BYTES_MIN, DELTAS_MAX, Journal
from ackwell.store import MemoryLedger, MemoryStore
from tests.saving.helpers import POSITIONS, STATES, loaded, saved
from tests.saving.saves import states


@given(STATES, STATES)
def test_a_change_says_everything_or_there_is_none(before: PositionInfo, after: PositionInfo) -> None:
    change = delta.difference(before, after)
    if change is not None:
        assert delta.replay(before, [change]) == after


@given(STATES, STATES, STATES)
def test_two_changes_in_one_lead_on_from_both_states(
    first: PositionInfo, second: PositionInfo, third: PositionInfo
) -> None:
    one, two = delta.difference(first, second), delta.difference(second, third)
    if one is not None and two is not None:
        both = delta.merge(one, two)
        assert delta.replay(first, [both]) == third
        assert delta.replay(second, [both]) == third


@pytest.mark.parametrize("field", ["batch_deleted", "redelivery_counts"])
@pytest.mark.parametrize("position", [(3, 5), (3, 8)], ids=["before mark-delete", "in a range"])
def test_no_change_says_what_an_acknowledged_entry_still_has(field: str, position: tuple[int, int]) -> None:
    before = PositionInfo(3, 5, [(3, 7, 9)])
    values = {"batch_deleted": (2,), "redelivery_counts": 2}
    after = before.replace(entry_id=6, **{field: {position: values[field]}})
    assert delta.difference(before, after) is None


def acked(state: PositionInfo, acks: list[tuple[int, int]], step: int) -> PositionInfo:
    """Return the state after these acks and a move of the mark-delete position."""
    before = delta.replay(state, [])
    individually_deleted = before.individually_deleted
    for position in acks:
        individually_deleted.add(*position)
    moved = before.replace(entry_id=before.entry_id + step, individually_deleted=individually_deleted)
    # The move and the acks remove the values of the entries that they cover, as in a cursor.
    return delta.replay(moved, [])


ACKS = st.lists(POSITIONS)


@given(STATES, ACKS, st.integers(0, 30), ACKS, st.integers(0, 30))
def test_whatever_acks_do_a_change_says_it(
    state: PositionInfo,
    acks: list[tuple[int, int]],
    step: int,
    more_acks: list[tuple[int, int]],
    further: int,
) -> None:
    before = delta.replay(state, [])
    middle = acked(before, acks, step)
    after = acked(middle, more_acks, further)
    changes = delta.difference(before, middle), delta.difference(middle, after)
    assert changes[0] is not None
    assert changes[1] is not None
    assert delta.replay(before, [changes[0]]) == middle
    both = delta.merge(changes[0], changes[1])
    assert delta.replay(before, [both]) == delta.replay(middle, [both]) == after


@pytest.mark.parametrize("ledgers", [1, 40])
def test_one_ack_beside_a_million_ranges_saves_200_bytes_at_most(ledgers: int) -> None:
    each = 1_000_000 // ledgers
    acked = PositionRangeSet()
    acked.add_many(np.repeat(np.arange(3, 3 + ledgers), each), np.tile(np.arange(each) * 2 + 1, ledgers))
    assert len(acked) == 1_000_000
    ledger = MemoryLedger()
    journal = Journal(MemoryStore(ledger))
    assert journal.save(PositionInfo(3, -1, acked)).kind == "full"
    for entry_id, kind in ((2, "full"), (4, "delta"), (2 * each - 2, "delta"), (1 << 40, "delta")):
        acked.add(3 + ledgers // 2, entry_id)
        saved = journal.save(PositionInfo(3, -1, acked))
        assert saved.kind == kind
        assert kind == "full" or 0 < saved.bytes <= 200
    assert loaded(ledger) == PositionInfo(3, -1, acked)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"entry_id": 3}, "the mark-delete position went back"),
        ({"individually_deleted": []}, "an ack was taken back"),
        ({"batch_deleted": {}}, "an ack set left without an ack of its entry"),
        ({"redelivery_counts": {}}, "a count left without an ack of its entry"),
        ({"spanning_ranges": [((1, 2), (3, -1))]}, "a field that deltas do not have"),
    ],
)
def test_what_no_delta_says_is_saved_whole_and_so_is_the_save_after_it(
    change: Mapping[str, object], why: str
) -> None:
    before = PositionInfo(3, 5, [(3, 7, 9)], batch_deleted={(3, 12): (1,)}, redelivery_counts={(3, 13): 2})
    ledger = MemoryLedger()
    journal = Journal(MemoryStore(ledger))
    for entry_id in (3, 4, 5):
        journal.save(before.replace(entry_id=entry_id))
    after = before.replace(**change)
    kinds = [journal.save(after).kind]
    assert loaded(ledger) == after
    # One more full save, so that a delta has two saves to build on.
    for upper in (30, 31):
        after = after.replace(individually_deleted=[*after.individually_deleted, (3, 29, upper)])
        kinds.append(journal.save(after).kind)
        assert loaded(ledger) == after
    assert kinds == ["full", "full", "delta"], why


def test_idle_since_and_unknown_fields_are_part_of_deltas() -> None:
    ledger = MemoryLedger()
    journal = Journal(MemoryStore(ledger))
    field = bytes([0xF8, 0x01])
    # Each change also appears in the delta of the next save.
    others: list[tuple[int | None, bytes]] = [
        (None, b""),
        (None, b""),
        (5, b""),
        (5, b""),
        (5, field + b"\x07"),
        (5, field + b"\x07"),
        (None, field + b"\x08"),
        (None, b""),
        (None, b""),
    ]
    for entry_id, (idle_since, unknown_fields) in enumerate(others):
        state = PositionInfo(3, entry_id, idle_since=idle_since, unknown_fields=unknown_fields)
        assert journal.save(state).kind == ("full" if entry_id < 2 else "delta")
        assert loaded(ledger) == state


def test_deltas_are_bounded_in_number(monkeypatch: pytest.MonkeyPatch) -> None:
    most = 5
    assert most < DELTAS_MAX
    monkeypatch.setattr(journal_module, "DELTAS_MAX", most)
    ledger = MemoryLedger()
    journal = Journal(MemoryStore(ledger))
    kinds = [journal.save(PositionInfo(3, entry_id)).kind for entry_id in range(2 * most + 4)]
    full = [index for index, kind in enumerate(kinds) if kind == "full"]
    assert full == [0, 1, most + 2, 2 * most + 3]
    assert ledger.first_id == most + 2


def test_deltas_are_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    least = 4_000
    assert least < DELTA_BYTES_MIN
    monkeypatch.setattr(journal_module, "DELTA_BYTES_MIN", least)
    ledger = MemoryLedger()
    journal = Journal(MemoryStore(ledger))
    chance = random.Random(5)
    batches: dict[tuple[int, int], tuple[int, ...]] = {}
    delta_bytes, kinds = 0, []
    for index in range(40):
        batches |= {(4, 20 * index + number): (chance.getrandbits(62),) for number in range(20)}
        saved = journal.save(PositionInfo(3, 5, batch_deleted=batches))
        kinds.append(saved.kind)
        delta_bytes = delta_bytes + saved.bytes if saved.kind == "delta" else 0
        full_bytes = len(PositionInfo(3, 0, batch_deleted=batches).encode("compact"))
        assert delta_bytes <= 100 + max(least, full_bytes)
    # Most saves are deltas, and old base saves are deleted.
    assert 4 <= kinds.count("full") <= 12
    assert ledger.first_id > 20


@pytest.mark.parametrize("saves", range(1, 6))
def test_a_new_owner_saves_on_with_deltas(saves: int) -> None:
    lives = list(states(4, saves + 3, resets=False))
    ledger = saved(*lives[:saves])
    kinds = []
    for state in lives[saves:]:
        # Each save has a different owner.
        journal = Journal(MemoryStore(ledger))
        journal.load()
        kinds.append(journal.save(state).kind)
        assert loaded(ledger) == state
    assert kinds == ["full" if saves == 1 else "delta", "delta", "delta"]


@pytest.mark.parametrize(("bound", "value"), [("DELTAS_MAX", 6), ("DELTA_BYTES_MIN", 240)])
def test_deltas_are_bounded_though_each_save_has_an_owner_of_its_own(
    bound: str, value: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_module, bound, value)
    ledger = MemoryLedger()
    kinds = ""
    for index in range(30):
        journal = Journal(MemoryStore(ledger))
        journal.load()
        kinds += journal.save(PositionInfo(3, index)).kind[0]
        assert loaded(ledger) == PositionInfo(3, index)
    longest = max(map(len, kinds.split("f")))
    assert 2 <= longest <= 12, kinds
    assert ledger.first_id > 5
