"""Saves in parts: cutting, joining, and detection of mixed and unfinished saves."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackwell import (
    CorruptStateError,
    PositionInfo,
)
from ackwell.protocol.constants import COMPRESSIONS
from ackwell.saving.journal import Journal
from ackwell.saving.parts import Part, Save, cut, whole_save
from ackwell.store import MemoryLedger, MemoryStore
from tests.saving.helpers import damage, loaded, saved
from tests.saving.saves import states


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
        with pytest.raises(CorruptStateError, match="the bytes of entry 17") as refusal:
            Part.decode(entry, other)
        assert refusal.value.offset == 3


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
            assert all("unfinished" in skip.reason for skip in recovery.skipped)
            # A damaged part does not count as an unfinished save.
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
            with pytest.raises(CorruptStateError, match="earlier entries were deleted"):
                loaded(ledger)
        else:
            assert loaded(ledger) is None
    assert len(entries) > 2


@pytest.mark.parametrize(("number", "parts"), [(1, 1), (0, 0), (5, 2)])
def test_a_part_beyond_the_parts_of_its_save_is_refused(number: int, parts: int) -> None:
    data = Part(3, number, parts, 0, Save(PositionInfo(3, 6).encode("compact"))).encode()
    with pytest.raises(CorruptStateError, match="a part number outside its save"):
        Part.decode(data, 3)


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


def test_a_single_entry_has_a_whole_state_unless_it_is_a_part_or_a_delta() -> None:
    (entry,) = cut(Save(b"state", compression="ZSTD"), 17, 100)
    assert whole_save(entry) == (b"state", "ZSTD")
    for part, what in (
        (cut(Save(b"state"), 17, 3)[1], "part 2 of 2"),
        (cut(Save(b"s", (16,)), 17, 9)[0], "a delta"),
    ):
        with pytest.raises(CorruptStateError, match=what):
            whole_save(part)
