"""Entries of a ledger: recorded layouts, compression, damaged tails, mixed saves, hostile footers."""

from __future__ import annotations

import json
import random
import zlib
from typing import TYPE_CHECKING, Any

import pytest

from ackwell import CorruptStateError, LimitError, ManagedCursorInfo, PositionInfo
from ackwell.diagnosis.inspection import inspect
from ackwell.saving import snapshot
from ackwell.saving.chunks import join, split
from ackwell.saving.compression import COMPRESSIONS
from ackwell.saving.snapshot import EntrySettings, encode_entries, recover
from tests.shared import shared_path

if TYPE_CHECKING:
    from collections.abc import Sequence

FORMS = ("pulsar-ranges", "pulsar-long-array", "compact")


def state(acks: int, entry_id: int = 5, seed: int = 1) -> PositionInfo:
    rolls = random.Random(seed)
    return PositionInfo(3, entry_id, [(3, at - 1, at) for at in rolls.sample(range(10, 9000), acks)])


def reading(entries: Sequence[bytes | None]) -> Any:
    def read(entry_id: int) -> bytes:
        entry = entries[entry_id] if 0 <= entry_id < len(entries) else None
        if entry is None:
            raise KeyError(entry_id)
        return entry

    return read


def test_recorded_layouts_are_read_and_written_alike() -> None:
    folder = shared_path("data/raw") / "multientry"
    seen = 0
    for line in (folder / "manifest.jsonl").read_text().splitlines():
        item = json.loads(line)
        entries = [(folder / name).read_bytes() for name in item["entries"]]
        pip = EntrySettings(True, item["chunk"], item["compression"], pip_381=True)
        found = recover(reading(entries), len(entries) - 1, settings=pip)
        assert item["uncompressed"] == len(found.data)
        assert item["stored"] == sum(map(len, entries[: len(entries) - (len(entries) > 1)]))
        if item["compression"] == "NONE":
            assert entries == encode_entries(found.data, pip)
        seen += 1
    assert seen == 4


def test_settings_have_the_pips_names_and_defaults() -> None:
    assert EntrySettings(pip_381=True) == EntrySettings.from_properties({})
    assert EntrySettings().max_entry_bytes == 1 << 20
    given_all = {
        "persistentUnackedRangesWithMultipleEntriesEnabled": "true",
        "persistentUnackedRangesMaxEntrySize": "8192",
        "cursorInfoCompressionType": "LZ4",
    }
    assert EntrySettings(True, 8192, "LZ4", pip_381=True) == EntrySettings.from_properties(given_all)
    large = state(3000).encode("pulsar-ranges")
    assert [large] == encode_entries(large, EntrySettings(max_entry_bytes=100, pip_381=True))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("pip_381", [False, True])
def test_a_save_cut_anywhere_leaves_the_save_before(form: str, compression: str, pip_381: bool) -> None:
    entry_settings = EntrySettings(True, 256, compression, pip_381=pip_381)
    old, new = state(150, 5, seed=1), state(160, 6, seed=2)
    before = encode_entries(old.encode(form), entry_settings, generation=1)
    after = encode_entries(new.encode(form), entry_settings, generation=2)
    for whole in range(len(after) + 1):
        entries = [*before, *after[:whole]]
        found = recover(reading(entries), len(entries) - 1, settings=entry_settings)
        assert (new if whole == len(after) else old) == found.position_info
        if whole < len(after) and not pip_381:
            # Torn inside an entry: every length of it that a crash can leave.
            for cut in range(0, len(after[whole]), 7):
                torn = [*entries, after[whole][:cut]]
                found = recover(reading(torn), len(torn) - 1, settings=entry_settings)
                assert old == found.position_info
                assert found.skipped


@pytest.mark.parametrize("form", FORMS)
def test_parts_of_two_saves_are_never_joined(form: str) -> None:
    own = EntrySettings(True, 128)
    one = encode_entries(state(150, seed=1).encode(form), own, generation=1)
    two = encode_entries(state(150, seed=2).encode(form), own, generation=2)
    length = min(len(one), len(two)) - 1
    for at in range(length):
        mixed = [*two[:at], one[at], *two[at + 1 :]]
        if mixed != two:
            with pytest.raises(CorruptStateError):
                recover(reading(mixed), len(mixed) - 1, settings=own)


def test_a_missing_part_a_missing_footer_and_a_missing_entry_are_passed_over() -> None:
    own = EntrySettings(True, 128)
    old = encode_entries(state(100, seed=1).encode("pulsar-ranges"), own)
    new = encode_entries(state(100, seed=2).encode("pulsar-ranges"), own)
    for lost in range(len(new)):
        entries: list[bytes | None] = [*old, *new]
        entries[len(old) + lost] = None
        found = recover(reading(entries), len(entries) - 1, settings=own)
        assert state(100, seed=1) == found.position_info
        assert (0, len(old) - 1) == (found.first_id, found.last_id)
        assert len(found.skipped) == len(new)


def footers() -> list[bytes]:
    numbers = (
        "1000000000",
        "-1",
        "NaN",
        "Infinity",
        "1e9",
        "true",
        "null",
        '"1"',
        "[]",
        "0",
        "9" * 40,
        "1.5",
    )
    texts = [f'{{"numParts":{number},"length":5}}' for number in numbers]
    texts += [f'{{"numParts":1,"length":{number}}}' for number in numbers]
    texts += [f'{{"numParts":1,"length":5,"checksum":{number}}}' for number in numbers if number != "null"]
    texts += ["{", "{}", '{"numParts":1}', "{" * 200, '{"a":' * 40, '{"numParts":1,"length":5}' + " " * 999]
    return [text.encode() for text in texts]


@pytest.mark.parametrize("footer", footers(), ids=range(len(footers())))
def test_a_hostile_footer_is_refused_at_once(footer: bytes) -> None:
    entries = [b"\x08\x01\x10\x02\x00", footer]
    with pytest.raises((CorruptStateError, LimitError)):
        join(reading(entries), 1)
    for pip_381 in (False, True):
        with pytest.raises((CorruptStateError, LimitError)):
            recover(reading(entries[1:]), 0, settings=EntrySettings(True, pip_381=pip_381))


def four_kilobytes_in_parts(seed: int) -> list[bytes]:
    data = state(260, seed=seed).encode("pulsar-ranges")
    assert 3500 < len(data) < 4500
    return encode_entries(data, EntrySettings(True, 1000), generation=seed)


def test_every_changed_bit_of_a_state_in_parts_is_found() -> None:
    old, new = four_kilobytes_in_parts(1), four_kilobytes_in_parts(2)
    own = EntrySettings(True, 1000)
    before, after = state(260, seed=1), state(260, seed=2)
    found_old = 0
    for number, entry in enumerate(new):
        for bit in range(8 * len(entry)):
            damaged = bytearray(entry)
            damaged[bit // 8] ^= 1 << bit % 8
            entries = [*old, *new[:number], bytes(damaged), *new[number + 1 :]]
            found = recover(reading(entries), len(entries) - 1, settings=own)
            # Only the generation, which is told and not checked, may be another one.
            same = found.position_info == after and found.generation != 2
            assert same or found.position_info == before
            found_old += not same
    assert found_old > 8 * 3500


def test_every_number_of_a_footer_replaced_is_refused_or_only_the_generation() -> None:
    *parts, footer = four_kilobytes_in_parts(1)
    for name, number in json.loads(footer).items():
        for lie in (0, 1, -1, 1 << 31, 1 << 63, number - 1, number + 1, 10**9, float("nan")):
            keys = json.loads(footer) | {name: lie}
            entries = [*parts, json.dumps(keys).encode()]
            if keys == json.loads(footer) or (name == "generation" and lie in (0, 1, 2, 1 << 31, 10**9)):
                assert recover(reading(entries), len(parts)).position_info == state(260, seed=1)
            else:
                with pytest.raises((CorruptStateError, LimitError)):
                    recover(reading(entries), len(parts))


def test_a_billion_empty_parts_cost_no_billion_reads() -> None:
    reads = []

    def read(entry_id: int) -> bytes:
        reads.append(entry_id)
        return b'{"numParts":1000000000,"length":0}' if entry_id == 1 << 40 else b""

    with pytest.raises(CorruptStateError):
        join(read, 1 << 40)
    assert len(reads) < 5


def test_the_footer_of_a_full_last_chunk_may_count_an_empty_one() -> None:
    data = state(20).encode("pulsar-ranges")
    entries = [data, b"", b'{"numParts":2,"length":%d}' % len(data)]
    pip = EntrySettings(True, len(data), pip_381=True)
    assert data == recover(reading(entries), 2, settings=pip).data


def test_lying_sizes_and_bombs_in_entries_are_refused() -> None:
    data = bytes(5_000_000)
    for compression in COMPRESSIONS[1:]:
        bomb = snapshot.encode_entries(data, EntrySettings(compression=compression, pip_381=True))[0]
        with pytest.raises(LimitError):
            snapshot.decode_entry(bomb, compression, max_bytes=1 << 20)
        for lie in (0, 1, len(data) - 1, len(data) + 1, (1 << 26) - 1):
            with pytest.raises(CorruptStateError):
                snapshot.decode_entry(lie.to_bytes(4, "big") + bomb[4:], compression)
        assert data == snapshot.decode_entry(bomb, compression)


def test_footers_say_generation_and_checksum_in_our_own_stores_only() -> None:
    *_, footer = split(b"abc", 2, generation=7)
    assert {"numParts": 2, "length": 3, "generation": 7, "checksum": zlib.crc32(b"abc")} == json.loads(footer)
    *_, strict = split(b"abc", 2)
    assert strict == b'{"numParts":2,"length":3}'


def test_kinds_are_told_by_content() -> None:
    info = state(5)
    for form in FORMS:
        assert ("PositionInfo", form) == (inspect(info.encode(form)).kind, inspect(info.encode(form)).form)
    assert inspect(PositionInfo(3, 5).encode("pulsar-ranges")).kind == "PositionInfo"
    for compression in (None, *COMPRESSIONS):
        for record in (
            ManagedCursorInfo(7),
            ManagedCursorInfo(7, last_active=3),
            ManagedCursorInfo(-1, info),
        ):
            assert inspect(record.encode(compression)).kind == "ManagedCursorInfo"
    for data in (b"", b"\xac", b"\x47\x78", b"{", b"\x00\x00\x00\x05abc", split(b"abc")[-1]):
        with pytest.raises(CorruptStateError):
            inspect(data)


def test_every_recorded_file_is_told_by_content() -> None:
    folder = shared_path("data/raw")
    seen = 0
    for path in folder.glob("*.bin"):
        kind = path.name.split(".")[-2]
        if kind in ("cursorinfo", "positioninfo"):
            expected = "ManagedCursorInfo" if kind == "cursorinfo" else "PositionInfo"
            assert expected == inspect(path.read_bytes()).kind
            seen += 1
    assert seen > 100
