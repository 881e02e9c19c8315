"""The header of an entry: version, form and compression."""

from __future__ import annotations

import zlib

import pytest

from ackwell import (
    CorruptStateError,
    NewerVersionError,
    PositionInfo,
)
from ackwell.protocol.constants import COMPRESSIONS
from ackwell.saving.journal import Journal
from ackwell.saving.parts import Part, Save, cut
from ackwell.store import MemoryLedger, MemoryStore
from tests.saving.helpers import damage, loaded, saved
from tests.saving.saves import states


def of_version(version: int, entry: bytes) -> bytes:
    """Return an entry of another release, with a correct checksum."""
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
    # A damaged entry of a newer version is reported as damaged.
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


def test_an_entry_of_version_0_is_damaged_and_not_newer() -> None:
    (entry,) = cut(Save(b"state"), 17, 100)
    with pytest.raises(CorruptStateError, match="an entry of version 0") as refusal:
        Part.decode(of_version(0, entry))
    assert not isinstance(refusal.value, NewerVersionError)
    with pytest.raises(NewerVersionError, match="an entry of version 2"):
        Part.decode(of_version(2, entry))
