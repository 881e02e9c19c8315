"""Saves of a cursor: what is written, what is kept, and what loading says it used."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackwell import (
    CorruptStateError,
    LimitError,
    NewerVersionError,
    PositionInfo,
    PositionRangeSet,
    StoreError,
)
from ackwell import engine as engines
from ackwell.saving import delta
from ackwell.saving.chunks import split
from ackwell.saving.compression import COMPRESSION_TYPE, COMPRESSIONS
from ackwell.saving.journal import DELTA_BYTES_MIN, DELTAS_MAX, Journal, Saved
from ackwell.store import MemoryLedger, MemoryStore
from tests.store.saves import states

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
)


@given(STATES, STATES)
def test_a_delta_says_the_whole_change_or_there_is_none(before: PositionInfo, after: PositionInfo) -> None:
    change = delta.difference(before, after)
    if change is not None:
        previous_id, read = delta.Delta.decode(change.encode(17), engines.native())
        assert previous_id == 17
        assert delta.replay(before, [read]) == after


@given(STATES, st.lists(POSITIONS), st.integers(0, 30))
def test_whatever_acks_do_a_delta_says_it(
    state: PositionInfo, acks: list[tuple[int, int]], step: int
) -> None:
    before = delta.replay(state, [])
    acked = before.individually_deleted
    for position in acks:
        acked.add(*position)
    moved = before.replace(entry_id=before.entry_id + step, individually_deleted=acked)
    # What the move and the acks cover leaves the state, as it leaves a cursor.
    after = delta.replay(moved, [])
    change = delta.difference(before, after)
    assert change is not None
    assert delta.replay(before, [change]) == after


@pytest.mark.parametrize("flip", range(0, 400, 7))
def test_every_changed_bit_of_a_delta_is_found(flip: int) -> None:
    change = delta.difference(PositionInfo(3, 5), PositionInfo(3, 6, [(3, 8, 9), (4, -1, 70)]))
    assert change is not None
    data = bytearray(change.encode(1))
    data[flip // 8 % len(data)] ^= 1 << flip % 8
    with pytest.raises(CorruptStateError):
        delta.Delta.decode(bytes(data), engines.native())


@pytest.mark.parametrize("version", [0, 2])
def test_a_newer_delta_is_refused_by_number(version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    change = delta.difference(PositionInfo(3, 5), PositionInfo(3, 6))
    assert change is not None
    monkeypatch.setattr(delta, "VERSION", version)
    data = change.encode(1)
    monkeypatch.undo()
    with pytest.raises(CorruptStateError, match=f"version {version}; the newest this release reads is 1"):
        delta.Delta.decode(data, engines.native())


@pytest.mark.parametrize("ledgers", [1, 40])
def test_one_ack_beside_a_million_ranges_saves_200_bytes_at_most(ledgers: int) -> None:
    each = 1_000_000 // ledgers
    acked = PositionRangeSet()
    acked.add_many(np.repeat(np.arange(3, 3 + ledgers), each), np.tile(np.arange(each) * 2 + 1, ledgers))
    assert len(acked) == 1_000_000
    ledger = MemoryLedger()
    journal = Journal(MemoryStore(ledger))
    assert journal.save(PositionInfo(3, -1, acked)).kind == "full"
    for entry_id in (2, 2 * each - 2, 1 << 40):
        acked.add(3 + ledgers // 2, entry_id)
        saved = journal.save(PositionInfo(3, -1, acked))
        assert saved.kind == "delta"
        assert 0 < saved.bytes <= 200
    assert Journal(MemoryStore(ledger)).load().position_info == PositionInfo(3, -1, acked)


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
        ({"idle_since": 7}, "a field that deltas do not have"),
    ],
)
def test_what_no_delta_says_is_saved_whole(change: Mapping[str, object], why: str) -> None:
    before = PositionInfo(3, 5, [(3, 7, 9)], batch_deleted={(3, 12): (1,)})
    after = before.replace(**change)
    ledger = MemoryLedger()
    journal = Journal(MemoryStore(ledger))
    journal.save(before)
    assert journal.save(after).kind == "full", why
    assert Journal(MemoryStore(ledger)).load().position_info == after


def test_deltas_are_bounded_in_number_and_in_bytes() -> None:
    ledger = MemoryLedger()
    journal = Journal(MemoryStore(ledger))
    kinds = [journal.save(PositionInfo(3, entry_id)).kind for entry_id in range(2 * DELTAS_MAX + 2)]
    assert [index for index, kind in enumerate(kinds) if kind == "full"] == [0, DELTAS_MAX + 1]
    assert ledger.first_id == 0
    assert len(ledger.entries) == 2 * DELTAS_MAX + 2
    batches: dict[tuple[int, int], tuple[int, ...]] = {}
    delta_bytes = 0
    for index in range(60):
        batches |= {(4, 200 * index + number): (-(number + 1) << index % 32,) for number in range(200)}
        saved = journal.save(PositionInfo(3, 2 * DELTAS_MAX + 2, batch_deleted=batches))
        delta_bytes = delta_bytes + saved.bytes if saved.kind == "delta" else 0
        assert delta_bytes <= max(
            DELTA_BYTES_MIN, len(PositionInfo(3, 0, batch_deleted=batches).encode("compact"))
        )
    # The second full save let the entries before the first go, the third those before the second.
    assert ledger.first_id > 0


def test_what_lies_before_the_last_full_save_but_one_is_deleted() -> None:
    ledger = MemoryLedger()
    journal = Journal(MemoryStore(ledger), form="pulsar-ranges", entry_bytes_max=8)
    last: list[int] = []
    for state in states(3, 20):
        saved = journal.save(state)
        last = [*last[-1:], saved.entries]
        assert len(ledger.entries) == sum(last)
    assert ledger.first_id > 20


def test_a_new_owner_saves_on_with_deltas() -> None:
    ledger = MemoryLedger()
    Journal(MemoryStore(ledger)).save(PositionInfo(3, 5, [(3, 7, 9)]))
    journal = Journal(MemoryStore(ledger))
    journal.load()
    assert journal.save(PositionInfo(3, 5, [(3, 7, 10)])).kind == "delta"
    recovery = Journal(MemoryStore(ledger)).load()
    assert (recovery.position_info, recovery.deltas) == (PositionInfo(3, 5, [(3, 7, 10)]), 1)


def test_a_save_after_an_error_is_a_full_one() -> None:
    ledger = MemoryLedger()
    store = MemoryStore(ledger)
    journal = Journal(store)
    journal.save(PositionInfo(3, 5))
    MemoryStore(ledger)
    with pytest.raises(StoreError):
        journal.save(PositionInfo(3, 6))
    journal.store = MemoryStore(ledger)
    assert journal.save(PositionInfo(3, 7)).kind == "full"


def test_nothing_saved_is_no_state() -> None:
    recovery = Journal(MemoryStore()).load()
    assert recovery.position_info is None
    assert str(recovery) == "read 0 entries, 0 bytes\nno state was ever saved whole"


def test_loading_says_what_it_used_and_what_it_skipped_and_why() -> None:
    ledger = MemoryLedger()
    journal = Journal(MemoryStore(ledger))
    for entry_id in range(5):
        journal.save(PositionInfo(3, entry_id))
    ledger.entries[3] = ledger.entries[3][:-1]
    recovery = Journal(MemoryStore(ledger)).load()
    assert recovery.position_info == PositionInfo(3, 2)
    assert (recovery.form, recovery.full_last_id, recovery.deltas, recovery.entry_id) == ("compact", 0, 2, 2)
    assert recovery.entries_read == 5
    assert recovery.bytes_read == sum(map(len, ledger.entries.values()))
    assert [skip.entry_id for skip in recovery.skipped] == [4, 3]
    assert recovery.skipped[0].reason == f"builds on entry 3: {recovery.skipped[1].reason}"
    assert "checksum" in recovery.skipped[1].reason
    assert "skipped entry 4" in str(recovery)


def test_a_damaged_full_save_gives_the_one_before_it() -> None:
    ledger = MemoryLedger()
    journal = Journal(MemoryStore(ledger), form="pulsar-ranges")
    for state in (PositionInfo(3, 5), PositionInfo(3, 6)):
        journal.save(state)
    damaged = bytearray(ledger.entries[2])
    damaged[1] ^= 1
    ledger.entries[2] = bytes(damaged)
    recovery = Journal(MemoryStore(ledger)).load()
    assert (recovery.position_info, recovery.form) == (PositionInfo(3, 5), "pulsar-ranges")
    assert [skip.entry_id for skip in recovery.skipped] == [3, 2]


def test_a_long_chain_on_a_damaged_entry_is_walked_once() -> None:
    ledger = MemoryLedger()
    journal = Journal(MemoryStore(ledger))
    for entry_id in range(DELTAS_MAX):
        journal.save(PositionInfo(3, entry_id))
    ledger.entries[0] = b"damaged"
    recovery = Journal(MemoryStore(ledger)).load()
    assert recovery.position_info is None
    assert len(recovery.skipped) == DELTAS_MAX
    assert recovery.entries_read <= 2 * DELTAS_MAX


def test_states_that_were_and_are_all_damaged_are_an_error() -> None:
    ledger = MemoryLedger()
    journal = Journal(MemoryStore(ledger), form="pulsar-ranges")
    for entry_id in range(3):
        journal.save(PositionInfo(3, entry_id))
    assert ledger.first_id > 0
    for entry_id in ledger.entries:
        ledger.entries[entry_id] = b"damaged"
    with pytest.raises(CorruptStateError, match="no whole state in entries 2 to 5"):
        Journal(MemoryStore(ledger)).load()


def test_a_state_above_the_memory_limit_is_an_error_not_a_skip() -> None:
    ledger = MemoryLedger()
    journal = Journal(MemoryStore(ledger))
    journal.save(PositionInfo(3, 5))
    journal.save(PositionInfo(3, 4, [(number, 3, 4) for number in range(1000)]))
    with pytest.raises(LimitError):
        Journal(MemoryStore(ledger), max_bytes=1000).load()


def of_a_newer_version(state: PositionInfo) -> bytes:
    """A compact state as a release with another version would write it: whole by its checksum."""
    data = state.encode("compact")
    head = bytes((data[0], data[1] + 1, data[2]))
    return head + zlib.crc32(data[7:], zlib.crc32(head)).to_bytes(4, "little") + data[7:]


def newer_delta(state: PositionInfo, monkeypatch: pytest.MonkeyPatch) -> bytes:
    change = delta.difference(PositionInfo(3, 5), state)
    assert change is not None
    with monkeypatch.context() as patched:
        patched.setattr(delta, "VERSION", 2)
        return change.encode(0)


@pytest.mark.parametrize("kind", ["a delta", "one entry", "parts"])
def test_a_whole_save_of_a_newer_version_is_refused_by_name_and_not_passed_over(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = MemoryLedger()
    Journal(MemoryStore(ledger)).save(PositionInfo(3, 5))
    state = PositionInfo(3, 6, [(3, 8, 9)])
    entries = {
        "a delta": [newer_delta(state, monkeypatch)],
        "one entry": [of_a_newer_version(state)],
        "parts": split(of_a_newer_version(state), 10, generation=1),
    }[kind]
    store = MemoryStore(ledger)
    last_id = [store.append(entry) for entry in entries][-1]
    # What a crash of a later save leaves behind changes nothing.
    store.append(b"torn")
    with pytest.raises(NewerVersionError, match=rf"version 2.*newest.* 1 \(in entry {last_id}\)"):
        Journal(MemoryStore(ledger)).load()
    # Damage to it is damage: the state before it counts.
    damaged = bytearray(ledger.entries[last_id])
    damaged[-2] ^= 1
    ledger.entries[last_id] = bytes(damaged)
    assert Journal(MemoryStore(ledger)).load().position_info == PositionInfo(3, 5)


def test_a_delta_on_a_newer_version_is_refused_by_name_too() -> None:
    store = MemoryStore(ledger := MemoryLedger())
    store.append(of_a_newer_version(PositionInfo(3, 5)))
    change = delta.difference(PositionInfo(3, 5), PositionInfo(3, 6))
    assert change is not None
    store.append(change.encode(0))
    with pytest.raises(NewerVersionError, match=r"compact version 2.*\(in entry 0\)"):
        Journal(MemoryStore(ledger)).load()


@pytest.mark.parametrize("form", ["pulsar-ranges", "pulsar-long-array", "pulsar-auto"])
@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_saves_are_read_by_the_compression_that_the_metadata_tells(form: str, compression: str) -> None:
    ledger = MemoryLedger(metadata={"kept": b"as it is"})
    journal = Journal(MemoryStore(ledger), form=form, compression=compression, entry_bytes_max=100)
    saved = list(states(5, 6, acks_per_save=30))
    for state in saved:
        journal.save(state)
        assert Journal(MemoryStore(ledger)).load().position_info == state
        journal.store = MemoryStore(ledger)
    told = {} if compression == "NONE" else {COMPRESSION_TYPE: compression.encode()}
    assert {"kept": b"as it is", **told} == ledger.metadata


def test_a_compression_may_change_and_each_save_is_read_by_its_own() -> None:
    ledger = MemoryLedger()
    settings = [
        *(("pulsar-ranges", compression) for compression in COMPRESSIONS),
        ("compact", "NONE"),
        ("pulsar-ranges", "LZ4"),
    ]
    for number, (form, compression) in enumerate(settings):
        # The newest save is damaged each time, so the one before it is read.
        journal = Journal(MemoryStore(ledger), form=form, compression=compression)
        journal.load()
        journal.save(PositionInfo(3, number))
        entry = ledger.entries[ledger.last_id]
        ledger.entries[ledger.last_id] = b"damaged"
        if number:
            recovery = Journal(MemoryStore(ledger)).load()
            assert (recovery.position_info, recovery.form) == (
                PositionInfo(3, number - 1),
                settings[number - 1][0],
            )
        ledger.entries[ledger.last_id] = entry
    # Only what is still there needs a word: the save before the last two full ones is deleted.
    assert ledger.metadata[COMPRESSION_TYPE].count(b":") <= 2


def test_metadata_of_an_unknown_compression_is_an_error() -> None:
    ledger = MemoryLedger(metadata={COMPRESSION_TYPE: b"BROTLI"})
    MemoryStore(ledger).append(PositionInfo(3, 5).encode("compact"))
    with pytest.raises(StoreError, match="BROTLI"):
        Journal(MemoryStore(ledger)).load()


def test_compact_takes_no_compression() -> None:
    with pytest.raises(ValueError, match="compresses itself"):
        Journal(MemoryStore(), compression="ZSTD")
    with pytest.raises(ValueError, match="expected one of NONE, LZ4"):
        Journal(MemoryStore(), form="pulsar-ranges", compression="zstd")


@pytest.mark.parametrize(("more", "entries"), [(-1, 3), (0, 1), (1, 1)])
def test_a_compact_state_of_exactly_the_threshold_is_one_entry(more: int, entries: int) -> None:
    state = PositionInfo(3, 5, properties={f"property {number}": number for number in range(40)})
    size = len(state.encode("compact"))
    ledger = MemoryLedger()
    saved = Journal(MemoryStore(ledger), entry_bytes_max=size + more).save(state)
    assert (saved.kind, saved.entries) == ("full", entries)
    recovery = Journal(MemoryStore(ledger)).load()
    assert (recovery.position_info, recovery.full_bytes) == (state, size)
