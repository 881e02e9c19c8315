"""Saves of a cursor: what is written, what is kept, and what loading says it used."""

from __future__ import annotations

import random
import zlib
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackwell import (
    CorruptStateError,
    FencedError,
    Ledgers,
    LimitError,
    NewerVersionError,
    NotLoadedError,
    PositionInfo,
    PositionRangeSet,
    StoreError,
)
from ackwell.protocol.codes import COMPRESSIONS
from ackwell.saving import delta
from ackwell.saving import journal as journal_module
from ackwell.saving.journal import DELTA_BYTES_MIN, DELTAS_MAX, Journal, Saved
from ackwell.saving.parts import Part, Save, cut
from ackwell.saving.source import Given
from ackwell.store import MemoryLedger, MemoryStore
from ackwell.subscription import Subscription
from tests.saving.saves import states

if TYPE_CHECKING:
    from collections.abc import Mapping

ENTRIES = st.integers(0, 40)
POSITIONS = st.tuples(st.integers(3, 4), ENTRIES)
STATES = st.builds(
    PositionInfo,
    st.integers(3, 4),
    st.integers(-1, 20),
    individually_deleted=st.lists(st.tuples(st.integers(3, 4), ENTRIES, st.integers(1, 9))).map(
        lambda runs: [(ledger_id, lower, lower + length) for ledger_id, lower, length in runs]
    ),
    batch_deleted=st.dictionaries(POSITIONS, st.sampled_from([(1,), (2,), (0, 1)]), max_size=4),
    redelivery_counts=st.dictionaries(POSITIONS, st.integers(0, 3), max_size=4),
    properties=st.dictionaries(st.sampled_from("ab"), st.integers(0, 2)),
    idle_since=st.sampled_from([None, 5]),
    unknown_fields=st.sampled_from([b"", bytes([0xF8, 0x01, 7])]),
)


def loaded(ledger: MemoryLedger) -> PositionInfo | None:
    return Journal(MemoryStore(ledger, read_only=True)).load().position_info


def saved(*states: PositionInfo, form: str = "compact") -> MemoryLedger:
    """Return a ledger with these saves."""
    ledger = MemoryLedger()
    journal = Journal(MemoryStore(ledger), form=form)
    for state in states:
        journal.save(state)
    return ledger


def damage(ledger: MemoryLedger, entry_id: int, bit: int = 40) -> None:
    data = bytearray(ledger.entries[entry_id])
    data[bit // 8] ^= 1 << bit % 8
    ledger.entries[entry_id] = bytes(data)


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
    # What the move and the acks cover leaves the state, as it leaves a cursor.
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


@given(
    st.binary(max_size=40),
    st.lists(st.integers(0, (1 << 40) - 1), max_size=2),
    st.booleans(),
    st.booleans(),
    st.sampled_from(COMPRESSIONS),
    st.integers(1 << 40, (1 << 63) - 100),
    st.integers(1, 50),
)
def test_a_save_in_parts_is_read_as_it_was_written(
    body: bytes,
    distances: list[int],
    properties: bool,
    others: bool,
    compression: str,
    first_id: int,
    size: int,
) -> None:
    bases = tuple(first_id - 1 - distance for distance in distances)
    save = Save(body, bases, properties, others, compression)
    entries = cut(save, first_id, size)
    read = [Part.decode(entry, first_id + number) for number, entry in enumerate(entries)]
    assert b"".join(part.save.body for part in read) == body
    assert all(part.save._replace(body=body) == save for part in read)
    assert [(part.number, part.parts) for part in read] == [(n, len(read)) for n in range(len(read))]
    assert all(len(entry) - len(part.save.body) <= 50 for entry, part in zip(entries, read, strict=True))


@pytest.mark.parametrize("part_bytes_max", [20, 1 << 20])
def test_every_changed_bit_of_an_entry_is_found(part_bytes_max: int) -> None:
    entries = cut(Save(b"a state of some forty bytes, or a delta.", (15, 16)), 17, part_bytes_max)
    for entry_id, entry in enumerate(entries, 17):
        for bit in range(8 * len(entry)):
            data = bytearray(entry)
            data[bit // 8] ^= 1 << bit % 8
            with pytest.raises(CorruptStateError):
                Part.decode(bytes(data), entry_id)
        for length in range(len(entry)):
            with pytest.raises(CorruptStateError):
                Part.decode(entry[:length], entry_id)


def test_the_bytes_of_another_entry_are_found() -> None:
    (entry,) = cut(Save(b"state"), 17, 100)
    assert Part.decode(entry, 17).save.body == b"state"
    for other in (0, 16, 18, 17 + 256):
        with pytest.raises(CorruptStateError, match="the bytes of entry 17"):
            Part.decode(entry, other)


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


def test_a_save_of_nothing_new_writes_nothing() -> None:
    store = MemoryStore()
    journal = Journal(store)
    assert journal.save(PositionInfo(3, 5)).kind == "full"
    assert journal.save(PositionInfo(3, 5)) == Saved("unchanged", 0, 0)
    assert store.last_id == 0


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
    # One more is whole, so that a delta has two saves to build on.
    for upper in (30, 31):
        after = after.replace(individually_deleted=[*after.individually_deleted, (3, 29, upper)])
        kinds.append(journal.save(after).kind)
        assert loaded(ledger) == after
    assert kinds == ["full", "full", "delta"], why


def test_idle_since_and_unknown_fields_are_part_of_deltas() -> None:
    ledger = MemoryLedger()
    journal = Journal(MemoryStore(ledger))
    field = bytes([0xF8, 0x01])
    # Each also once more: what the save before changed is in the next delta, too.
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
    # Most are deltas, and what they build on is deleted behind them.
    assert 4 <= kinds.count("full") <= 12
    assert ledger.first_id > 20


def test_a_source_that_did_not_change_writes_nothing() -> None:
    ledger = MemoryLedger()
    journal = Journal(MemoryStore(ledger))
    assert journal.save_source(Given(PositionInfo(3, 5))).kind == "full"
    assert journal.save_source(Given(PositionInfo(3, 5))) == Saved("unchanged", 0, 0)
    assert len(ledger.entries) == 1


def test_what_lies_before_the_last_full_save_but_one_is_deleted() -> None:
    ledger = MemoryLedger()
    journal = Journal(MemoryStore(ledger), form="pulsar-ranges", entry_bytes_max=8)
    last: list[int] = []
    for state in states(3, 20):
        saved = journal.save(state)
        last = [*last[-1:], saved.entries]
        assert len(ledger.entries) == sum(last)
    assert ledger.first_id > 20


@pytest.mark.parametrize("saves", range(1, 6))
def test_a_new_owner_saves_on_with_deltas(saves: int) -> None:
    lives = list(states(4, saves + 3, resets=False))
    ledger = saved(*lives[:saves])
    kinds = []
    for state in lives[saves:]:
        # Each save by an owner of its own.
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


def test_an_owner_that_loads_again_builds_on_what_another_saved() -> None:
    lives = list(states(4, 12, resets=False))
    ledger = saved(*lives[:3])
    journal = Journal(MemoryStore(ledger))
    journal.load()
    for index in range(3, 10, 3):
        journal.save(lives[index])
        other = Journal(MemoryStore(ledger))
        other.load()
        other.save(lives[index + 1])
        # What was fenced may read what there is now, but saves no more; a store of its own may.
        journal._store = MemoryStore(ledger)
        journal.load()
        assert journal.save(lives[index + 2]).kind == "delta"
        assert loaded(ledger) == lives[index + 2]


def test_a_save_after_an_error_is_a_full_one() -> None:
    class FullDisk(MemoryStore):
        full = False

        def append(self, data: bytes) -> int:
            if self.full:
                raise StoreError("disk full")
            return super().append(data)

    ledger = MemoryLedger()
    store = FullDisk(ledger)
    journal = Journal(store)
    for entry_id in (5, 6, 7):
        journal.save(PositionInfo(3, entry_id))
    store.full = True
    with pytest.raises(StoreError):
        journal.save(PositionInfo(3, 8))
    assert loaded(ledger) == PositionInfo(3, 7)
    store.full = False
    assert journal.save(PositionInfo(3, 9)).kind == "full"
    assert journal.save(PositionInfo(3, 10)).kind == "delta"
    assert loaded(ledger) == PositionInfo(3, 10)


def test_nothing_saved_is_no_state() -> None:
    recovery = Journal(MemoryStore()).load()
    assert recovery.position_info is None
    assert recovery.saved_as is None
    assert str(recovery) == "read 0 entries, 0 bytes\nno state was ever saved whole"


def test_loading_reads_every_second_delta() -> None:
    ledger = saved(*(PositionInfo(3, entry_id) for entry_id in range(102)))
    recovery = Journal(MemoryStore(ledger)).load()
    assert (recovery.position_info, recovery.deltas, recovery.entries_read) == (PositionInfo(3, 101), 50, 51)
    assert (recovery.form, recovery.full_first_id, recovery.full_last_id) == ("compact", 1, 1)
    assert (recovery.entry_id, recovery.last_id, recovery.damaged, recovery.skipped) == (101, 101, (), ())
    assert recovery.bytes_read == recovery.full_bytes + recovery.delta_bytes
    assert "the state of entry 101: compact" in str(recovery)


# Damage


@pytest.mark.parametrize("saves", [3, 4, 7, 8])
def test_any_one_damaged_entry_but_the_last_leaves_the_exact_state(saves: int) -> None:
    last = saves - 1
    for damaged in range(last):
        ledger = saved(*states(9, saves, resets=False))
        expected = loaded(ledger)
        assert expected is not None
        damage(ledger, damaged)
        journal = Journal(MemoryStore(ledger))
        recovery = journal.load()
        assert recovery.position_info == expected
        assert not recovery.older
        if recovery.damaged:
            assert [skip.entry_id for skip in recovery.damaged] == [damaged]
            assert f"damaged entry {damaged}: the checksum does not match" in str(recovery)
            # Two whole saves once more.
            assert journal.save(expected.replace(entry_id=90)).kind == "full"


def test_both_bases_damaged_is_an_error_that_names_what_is_whole() -> None:
    lives = list(states(9, 8, resets=False))
    ledger = saved(*lives)
    damage(ledger, 6)
    damage(ledger, 5)
    with pytest.raises(
        CorruptStateError, match=r"entry 7 is damaged \(builds on entry .*state is that of entry 4"
    ):
        loaded(ledger)
    journal = Journal(MemoryStore(ledger))
    recovery = journal.load(take_older=True)
    assert recovery.position_info == lives[4]
    assert recovery.older
    assert [skip.entry_id for skip in recovery.damaged] == [7, 6, 5]
    assert "an older state was taken" in str(recovery)
    assert journal.save(lives[7]).kind == "full"
    assert loaded(ledger) == lives[7]


@pytest.mark.parametrize("form", ["compact", "pulsar-ranges"])
def test_a_damaged_last_entry_is_an_error_and_an_older_state_is_taken_only_when_asked_for(form: str) -> None:
    for saves in (2, 3, 4):
        lives = list(states(9, saves, resets=False))
        ledger = saved(*lives, form=form)
        damage(ledger, saves - 1)
        store = MemoryStore(ledger)
        journal = Journal(store, form=form)
        with pytest.raises(
            CorruptStateError, match=rf"entry {saves - 1} is damaged.*take_older=True"
        ) as caught:
            journal.load()
        assert str(lives[-2].position) in str(caught.value)
        # A refusal fences nobody, and the damaged save cannot be replaced by accident.
        assert (store.generation, ledger.generation) == (0, 1)
        with pytest.raises(NotLoadedError):
            journal.save(lives[-1])
        assert journal.load(take_older=True).position_info == lives[-2]


@pytest.mark.parametrize("damaged", [5, 7])
def test_where_an_entry_is_damaged_the_next_save_is_a_full_one_though_nothing_changed(damaged: int) -> None:
    """Else the save would return, and the next load would still find the damage."""
    for kind in ("state", "subscription"):
        lives = list(states(9, 8, resets=False))
        ledger = saved(*lives)
        damage(ledger, damaged)
        store = MemoryStore(ledger)
        if kind == "state":
            journal = Journal(store)
            found = journal.load(take_older=True)
            assert found.position_info == lives[6 if damaged == 7 else 7]
            assert found.damaged
            assert journal.save(found.position_info).kind == "full"
            assert journal.save(found.position_info).kind == "unchanged"
        else:
            ledgers = Ledgers({3: 1000, 4: 1000})
            subscription = Subscription.load("Shared", store, ledgers, take_older=True)
            subscription.save(store)
            assert Subscription.load("Shared", MemoryStore(ledger), ledgers).cursor == subscription.cursor
        assert not Journal(MemoryStore(ledger)).load().damaged
        assert ledger.last_id == 8


def test_a_missing_entry_is_damage() -> None:
    lives = list(states(9, 6, resets=False))
    for missing in range(6):
        ledger = saved(*lives)
        del ledger.entries[missing]
        if missing == 5:
            with pytest.raises(CorruptStateError, match="entry 5 is missing"):
                loaded(ledger)
        else:
            assert loaded(ledger) == lives[-1]


def test_one_bit_of_the_first_save_does_not_empty_a_cursor_of_200() -> None:
    ledger = saved(*(PositionInfo(3, -1, [(3, 0, 2 + entry_id)]) for entry_id in range(200)))
    damage(ledger, 0)
    damage(ledger, 1)
    with pytest.raises(CorruptStateError, match="no entry holds a whole state"):
        loaded(ledger)
    with pytest.raises(CorruptStateError, match="no entry holds a whole state"):
        Journal(MemoryStore(ledger)).load(take_older=True)
    journal = Journal(MemoryStore(ledger))
    journal.save(PositionInfo(3, 7), replace=True)
    assert loaded(ledger) == PositionInfo(3, 7)
    assert len(ledger.entries) == 201


def test_an_entry_overwritten_by_any_other_is_found() -> None:
    lives = list(states(9, 12, resets=False))
    whole = saved(*lives)
    found = 0
    for at in whole.entries:
        for other in whole.entries:
            ledger = MemoryLedger(entries=dict(whole.entries), last_id=whole.last_id)
            ledger.entries[at] = whole.entries[other]
            try:
                assert loaded(ledger) == lives[-1]
            except CorruptStateError:
                assert at == whole.last_id
                found += 1
    assert found == 11


@pytest.mark.parametrize("form", ["compact", "pulsar-ranges"])
@pytest.mark.parametrize("entry_bytes_max", [16, 1 << 20])
def test_every_changed_bit_of_a_history_leaves_the_exact_state_or_is_an_error(
    form: str, entry_bytes_max: int
) -> None:
    ledger = MemoryLedger()
    journal = Journal(MemoryStore(ledger), form=form, entry_bytes_max=entry_bytes_max)
    for state in states(2, 5, resets=False):
        journal.save(state)
    exact = refused = 0
    for entry_id, entry in list(ledger.entries.items()):
        for bit in range(8 * len(entry)):
            damage(ledger, entry_id, bit)
            try:
                assert loaded(ledger) == state
                exact += 1
            except CorruptStateError:
                refused += 1
            ledger.entries[entry_id] = entry
    assert loaded(ledger) == state
    assert exact > 500
    assert refused > 200


def test_where_appends_can_tear_only_the_last_entry_is_skipped_and_recovery_says_so() -> None:
    class TearingStore(MemoryStore):
        atomic_appends = False

    lives = list(states(9, 6, resets=False))
    whole = saved(*lives)
    for length in range(len(whole.entries[5])):
        ledger = MemoryLedger(entries=dict(whole.entries), last_id=5)
        ledger.entries[5] = ledger.entries[5][:length]
        recovery = Journal(TearingStore(ledger)).load()
        assert recovery.position_info == lives[4]
        assert [skip.entry_id for skip in recovery.skipped] == [5]
        assert not recovery.older
        assert not recovery.damaged
        assert "skipped entry 5" in str(recovery)
        with pytest.raises(CorruptStateError):
            Journal(MemoryStore(ledger)).load()
    # Two are more than a crash leaves.
    damage(ledger, 4)
    with pytest.raises(CorruptStateError, match="entry 4 is damaged"):
        Journal(TearingStore(ledger)).load()


def test_whole_parts_of_an_unfinished_save_are_skipped_and_recovery_says_so() -> None:
    before, after = PositionInfo(3, 5, [(3, 7, 9)]), PositionInfo(3, 6, [(3, 8, 9), (4, 1, 70)])
    entries = cut(Save(after.encode("compact")), 1, 6)
    assert len(entries) > 3
    for finished in range(len(entries) + 1):
        ledger = saved(before)
        store = MemoryStore(ledger)
        for entry in entries[:finished]:
            store.append(entry)
        recovery = Journal(store).load()
        if finished == len(entries):
            assert (recovery.position_info, recovery.skipped) == (after, ())
        else:
            assert recovery.position_info == before
            assert [skip.entry_id for skip in recovery.skipped] == list(range(finished, 0, -1))
            assert all("not finished" in skip.reason for skip in recovery.skipped)
            # A damaged one is no unfinished save.
            if finished:
                damage(ledger, finished)
                with pytest.raises(CorruptStateError, match=f"entry {finished} is damaged"):
                    Journal(store).load()


def test_a_delta_builds_on_the_save_before_an_unfinished_one() -> None:
    ledger = saved(PositionInfo(3, 5))
    ledger.entries[1] = cut(Save(PositionInfo(3, 6).encode("compact")), 1, 2)[0]
    ledger.last_id = 1
    for entry_id, kind in ((7, "full"), (8, "delta")):
        journal = Journal(MemoryStore(ledger))
        journal.load()
        assert journal.save(PositionInfo(3, entry_id)).kind == kind
        assert loaded(ledger) == PositionInfo(3, entry_id)


def test_parts_of_two_saves_are_never_joined() -> None:
    one, other = (
        cut(Save(PositionInfo(3, entry_id, [(3, 90, 95)]).encode("pulsar-ranges")), 0, 6)
        for entry_id in (5, 6)
    )
    assert len(one) == len(other) > 2
    for at in range(len(one)):
        mixed = [*one[:at], other[at], *one[at + 1 :]]
        ledger = MemoryLedger(entries=dict(enumerate(mixed)), last_id=len(mixed) - 1)
        with pytest.raises(CorruptStateError):
            loaded(ledger)


def test_unfinished_parts_alone_are_no_state_unless_older_ones_were_deleted() -> None:
    entries = cut(Save(PositionInfo(3, 5, [(3, 7, 9)]).encode("compact")), 1, 4)
    for first_id in (0, 1):
        shifted = cut(Save(PositionInfo(3, 5, [(3, 7, 9)]).encode("compact")), first_id, 4)[:2]
        ledger = MemoryLedger(
            entries=dict(enumerate(shifted, first_id)), first_id=first_id, last_id=first_id + 1
        )
        if first_id:
            with pytest.raises(CorruptStateError, match="those before were deleted"):
                loaded(ledger)
        else:
            assert loaded(ledger) is None
    assert len(entries) > 2


def test_a_ledger_whose_entries_were_all_deleted_is_no_new_one() -> None:
    for first_id in (1, 2, 500):
        with pytest.raises(CorruptStateError, match="those before were deleted"):
            loaded(MemoryLedger(first_id=first_id, last_id=first_id - 1))


def test_a_delta_on_itself_or_on_a_later_save_is_refused_at_once() -> None:
    change = PositionInfo(3, 6).encode("compact")
    for entry_id in (0, 3):
        for bases in ((entry_id,), (entry_id + 1,), (entry_id, entry_id)):
            data = Part(entry_id, 0, 1, 0, Save(change, bases)).encode()
            with pytest.raises(CorruptStateError):
                Part.decode(data, entry_id)
    # A base that is a part of the same save.
    whole = cut(Save(change, (0,)), 1, len(change) // 2 + 1)
    ledger = saved(PositionInfo(3, 5))
    ledger.entries |= dict(enumerate(whole, 1))
    ledger.last_id = 2
    assert loaded(ledger) == PositionInfo(3, 6)
    last = Part.decode(whole[1], 2)
    ledger.entries[2] = last._replace(save=last.save._replace(bases=(1,))).encode()
    with pytest.raises(CorruptStateError, match="builds on entry 1: part 1 of 2"):
        loaded(ledger)


@pytest.mark.parametrize(("number", "parts"), [(1, 1), (0, 0), (5, 2)])
def test_a_part_beyond_the_parts_of_its_save_is_refused(number: int, parts: int) -> None:
    data = Part(3, number, parts, 0, Save(PositionInfo(3, 6).encode("compact"))).encode()
    with pytest.raises(CorruptStateError, match="a part that no save has"):
        Part.decode(data, 3)


def test_a_long_chain_on_damaged_entries_is_walked_once() -> None:
    ledger = saved(*(PositionInfo(3, entry_id) for entry_id in range(DELTAS_MAX)))
    ledger.entries[0] = ledger.entries[1] = b"damaged"
    store = CountingStore(ledger)
    with pytest.raises(CorruptStateError, match="no entry holds a whole state"):
        Journal(store).load()
    assert DELTAS_MAX <= store.reads <= 2 * DELTAS_MAX


class CountingStore(MemoryStore):
    reads = 0

    def read(self, entry_id: int) -> bytes:
        self.reads += 1
        return super().read(entry_id)


# Who may save


def test_a_save_over_what_was_not_loaded_is_refused_and_neither_writes_nor_fences() -> None:
    ledger = MemoryLedger()
    owner = Journal(MemoryStore(ledger))
    owner.save(PositionInfo(3, 5))
    store = MemoryStore(ledger)
    journal = Journal(store)
    with pytest.raises(NotLoadedError, match=r"holds saves that were not loaded.*replace=True"):
        journal.save(PositionInfo(0, -1))
    assert (store.generation, ledger.generation, ledger.last_id) == (0, 1, 0)
    owner.save(PositionInfo(3, 6))
    assert loaded(ledger) == PositionInfo(3, 6)
    assert journal.save(PositionInfo(3, 7), replace=True).kind == "full"
    assert loaded(ledger) == PositionInfo(3, 7)
    # What was replaced stays, until the next full save is whole.
    assert ledger.first_id == 0
    with pytest.raises(FencedError):
        owner.save(PositionInfo(3, 8))


def test_two_journals_on_one_store_never_overwrite_each_other() -> None:
    store = MemoryStore()
    one, other = Journal(store), Journal(store)
    one.save(PositionInfo(3, 5))
    other.load()
    other.save(PositionInfo(3, 6))
    with pytest.raises(NotLoadedError, match="was written to since"):
        one.save(PositionInfo(3, 7))
    assert Journal(store).load().position_info == PositionInfo(3, 6)
    one.load()
    one.save(PositionInfo(3, 7))
    with pytest.raises(NotLoadedError, match="was written to since"):
        other.save(PositionInfo(3, 6))
    assert other.save(PositionInfo(3, 8), replace=True).kind == "full"
    assert Journal(store).load().position_info == PositionInfo(3, 8)


def test_an_owner_that_saves_while_another_loads_is_read_again() -> None:
    ledger = MemoryLedger()
    owner = Journal(MemoryStore(ledger))
    owner.save(PositionInfo(3, 5))

    class SlowStore(MemoryStore):
        def own(self) -> None:
            if not self.generation:
                owner.save(PositionInfo(3, 6))
            super().own()

    assert Journal(SlowStore(ledger)).load().position_info == PositionInfo(3, 6)
    owner = Journal(MemoryStore(empty := MemoryLedger()))
    with pytest.raises(NotLoadedError, match="another owner in this moment"):
        Journal(SlowStore(empty)).save(PositionInfo(3, 5))
    assert loaded(empty) == PositionInfo(3, 6)


def test_a_read_only_store_is_loaded_and_not_owned() -> None:
    ledger = saved(PositionInfo(3, 5))
    store = MemoryStore(ledger, read_only=True)
    journal = Journal(store)
    assert journal.load().position_info == PositionInfo(3, 5)
    assert ledger.generation == 1
    with pytest.raises(StoreError, match="read-only"):
        journal.save(PositionInfo(3, 6))


def test_a_check_that_refuses_a_state_leaves_the_owner_its_store() -> None:
    ledger = saved(PositionInfo(3, 5))
    store = MemoryStore(ledger)

    def check(info: PositionInfo) -> None:
        raise ValueError(str(info.position))

    with pytest.raises(ValueError, match="3:5"):
        Journal(store).load(check=check)
    assert (store.generation, ledger.generation) == (0, 1)


# Limits


def test_a_state_above_the_memory_limit_is_an_error_not_a_skip() -> None:
    ledger = saved(PositionInfo(3, 5), PositionInfo(3, 4, [(number, 3, 4) for number in range(1000)]))
    with pytest.raises(LimitError):
        Journal(MemoryStore(ledger), max_bytes=1000).load()


@given(st.lists(STATES, min_size=1, max_size=4), st.integers(200, 3000), st.integers(0, 20))
def test_what_a_save_confirms_a_load_with_the_same_limit_reads(
    given_states: list[PositionInfo], max_bytes: int, many: int
) -> None:
    ledger = MemoryLedger()
    journal = Journal(MemoryStore(ledger), max_bytes=max_bytes)
    expected = None
    counts = {(9, number): 1 for number in range(many)}
    for state in given_states:
        state = state.replace(redelivery_counts=counts)
        before = dict(ledger.entries)
        try:
            journal.save(state)
        except LimitError:
            assert ledger.entries == before
            continue
        expected = state
        assert Journal(MemoryStore(ledger, read_only=True), max_bytes=max_bytes).load().position_info == state
    assert expected is None or ledger.entries


def test_a_state_that_no_load_would_read_is_refused_before_anything_is_written() -> None:
    ledger = MemoryLedger()
    journal = Journal(MemoryStore(ledger), max_bytes=100_000)
    for entry_id in (5, 6, 7):
        journal.save(PositionInfo(3, entry_id))
    large = PositionInfo(3, 7, redelivery_counts={(4, number): 1 for number in range(5_000)})
    with pytest.raises(LimitError, match="raise max_bytes"):
        journal.save(large)
    assert (ledger.last_id, loaded(ledger)) == (2, PositionInfo(3, 7))
    assert journal.save(PositionInfo(3, 8)).kind == "delta"
    assert journal.save(PositionInfo(3, 9, redelivery_counts={(4, 1): 1})).kind == "delta"


def test_a_save_in_parts_counts_against_the_memory_limit_before_it_is_decoded() -> None:
    # One range, so small in memory, and 170 KB of words.
    state, ledger = PositionInfo(3, -1, [(3, 0, 1_000_000)]), MemoryLedger()

    def journal(max_bytes: int) -> Journal:
        return Journal(
            MemoryStore(ledger), form="pulsar-long-array", entry_bytes_max=1_000, max_bytes=max_bytes
        )

    with pytest.raises(LimitError):
        journal(100_000).save(state)
    assert journal(1_000_000).save(state).kind == "full"
    with pytest.raises(LimitError, match="more than 100000 bytes"):
        journal(100_000).load()


def test_a_save_above_the_limit_is_no_base_and_no_obstacle() -> None:
    large = PositionInfo(3, 7, redelivery_counts={(4, number): 1 for number in range(5_000)})
    ledger = saved(large, PositionInfo(3, 8))
    journal = Journal(MemoryStore(ledger), max_bytes=100_000)
    journal.load()
    assert journal.save(PositionInfo(3, 9)).kind == "full"
    assert loaded(ledger) == PositionInfo(3, 9)


@pytest.mark.slow
def test_a_million_redelivery_counts_in_a_delta_are_loaded() -> None:
    ledger = saved(PositionInfo(3, 5), PositionInfo(3, 6))
    journal = Journal(MemoryStore(ledger))
    journal.load()
    many = PositionInfo(3, 6, redelivery_counts={(4, number): 1 for number in range(1_000_000)})
    assert journal.save(many).bytes < 200
    assert loaded(ledger) == many


# Versions and forms


def of_version(version: int, entry: bytes) -> bytes:
    """Return an entry as another release would write it: whole by its checksum."""
    data = entry[:1] + bytes((version,)) + entry[2:-4]
    return data + zlib.crc32(data).to_bytes(4, "big")


def newer_compact(state: PositionInfo) -> bytes:
    data = state.encode("compact")
    head = bytes((data[0], data[1] + 1, data[2]))
    return head + zlib.crc32(data[7:], zlib.crc32(head)).to_bytes(4, "little") + data[7:]


@pytest.mark.parametrize("kind", ["a delta", "one entry", "parts", "a compact body"])
def test_a_whole_save_of_a_newer_version_is_refused_by_name_and_not_passed_over(kind: str) -> None:
    ledger = saved(PositionInfo(3, 4), PositionInfo(3, 5))
    body = PositionInfo(3, 6, [(3, 8, 9)]).encode("compact")
    entries = {
        "a delta": [of_version(2, entry) for entry in cut(Save(body, (0, 1)), 2, 100)],
        "one entry": [of_version(2, entry) for entry in cut(Save(body), 2, 100)],
        "parts": [of_version(2, entry) for entry in cut(Save(body), 2, 10)],
        "a compact body": cut(Save(newer_compact(PositionInfo(3, 6))), 2, 100),
    }[kind]
    store = MemoryStore(ledger)
    last_id = [store.append(entry) for entry in entries][-1]
    with pytest.raises(NewerVersionError, match=rf"version 2.* 1 \(in entry {last_id}\)"):
        Journal(MemoryStore(ledger)).load()
    with pytest.raises(NewerVersionError):
        Journal(MemoryStore(ledger)).load(take_older=True)
    if kind == "parts":
        return
    # Damage to it is damage.
    damage(ledger, last_id)
    with pytest.raises(CorruptStateError, match=f"entry {last_id} is damaged"):
        Journal(MemoryStore(ledger)).load()
    assert Journal(MemoryStore(ledger)).load(take_older=True).position_info == PositionInfo(3, 5)


def test_a_delta_on_a_newer_version_is_refused_by_name_too() -> None:
    store = MemoryStore(ledger := MemoryLedger())
    store.append(cut(Save(newer_compact(PositionInfo(3, 5))), 0, 100)[0])
    store.append(cut(Save(PositionInfo(3, 6).encode("compact"), (0,)), 1, 100)[0])
    with pytest.raises(NewerVersionError, match=r"compact version 2.*\(in entry 0\)"):
        loaded(ledger)


@pytest.mark.parametrize("form", ["pulsar-ranges", "pulsar-long-array", "pulsar-auto"])
@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_each_save_says_its_form_and_its_compression(form: str, compression: str) -> None:
    ledger = MemoryLedger(metadata={"kept": b"as it is"})
    for state in states(5, 6, acks_per_save=30):
        journal = Journal(MemoryStore(ledger), form=form, compression=compression, entry_bytes_max=100)
        journal.load()
        journal.save(state)
        assert loaded(ledger) == state
    assert ledger.metadata == {"kept": b"as it is"}


def test_form_and_compression_may_change_with_every_save() -> None:
    ledger = MemoryLedger()
    settings = [
        *(("pulsar-ranges", compression) for compression in COMPRESSIONS),
        ("compact", "NONE"),
        ("compact", "NONE"),
        ("compact", "NONE"),
        ("pulsar-long-array", "LZ4"),
    ]
    kinds = []
    for number, (form, compression) in enumerate(settings):
        journal = Journal(MemoryStore(ledger), form=form, compression=compression)
        journal.load()
        state = PositionInfo(3, number, [(3, 50 + number, 60 + number)])
        kinds.append(journal.save(state).kind)
        recovery = Journal(MemoryStore(ledger)).load()
        assert (recovery.position_info, recovery.form) == (state, form)
    assert set(kinds[:7]) == {"full"}


def test_the_first_save_of_another_form_is_a_full_one() -> None:
    ledger = MemoryLedger()
    journal = Journal(MemoryStore(ledger))
    kinds = []
    forms = ["pulsar-ranges", "pulsar-ranges", "compact", "compact", "compact", "pulsar-ranges"]
    for number, form in enumerate(forms):
        journal.use(form)
        state = PositionInfo(3, 5, [(3, 7, 8 + number)])
        kinds.append(journal.save(state).kind)
        recovery = Journal(MemoryStore(ledger, read_only=True)).load()
        assert (recovery.form, recovery.position_info) == (form, state)
    assert kinds == ["full", "full", "full", "delta", "delta", "full"]


def test_compact_takes_no_compression() -> None:
    with pytest.raises(ValueError, match="compresses itself"):
        Journal(MemoryStore(), compression="ZSTD")
    with pytest.raises(ValueError, match="expected one of NONE, LZ4"):
        Journal(MemoryStore(), form="pulsar-ranges", compression="zstd")
    with pytest.raises(TypeError, match="not a store"):
        Journal(object())  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at least 1"):
        Journal(MemoryStore(), entry_bytes_max=0)


@pytest.mark.parametrize(("more", "entries"), [(-1, 2), (0, 1), (1, 1)])
def test_a_state_of_exactly_the_threshold_is_one_entry(more: int, entries: int) -> None:
    state = PositionInfo(3, 5, properties={f"property {number}": number for number in range(40)})
    size = len(state.encode("compact"))
    ledger = MemoryLedger()
    saved = Journal(MemoryStore(ledger), entry_bytes_max=size + more).save(state)
    assert (saved.kind, saved.entries) == ("full", entries)
    assert saved.bytes - size <= 50 * entries
    recovery = Journal(MemoryStore(ledger)).load()
    assert (recovery.position_info, recovery.full_bytes) == (state, saved.bytes)


def test_a_delta_above_the_threshold_is_in_parts_too() -> None:
    ledger = MemoryLedger()
    journal = Journal(MemoryStore(ledger), entry_bytes_max=20)
    for state in states(5, 9, acks_per_save=30, resets=False):
        saved = journal.save(state)
        assert saved.kind == "full" or saved.entries > 1
        assert loaded(ledger) == state
    assert saved.kind == "delta"
