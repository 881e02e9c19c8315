"""PIP-381's entries: recorded layouts, compression, hostile footers."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pytest

from ackwell import CorruptStateError, LimitError, ManagedCursorInfo, PositionInfo
from ackwell.diagnosis.inspection import inspect
from ackwell.protocol.constants import COMPRESSIONS
from ackwell.saving.chunks import EntrySettings, Footer, decompress, encode_entries, join, split
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
        pip = EntrySettings(True, item["chunk"], item["compression"])
        stored = join(reading(entries), len(entries) - 1)[0] if len(entries) > 1 else entries[0]
        data = decompress(stored, item["compression"])
        assert item["uncompressed"] == len(data)
        assert PositionInfo.decode(data).individually_deleted.cardinality
        assert item["stored"] == sum(map(len, entries[: len(entries) - (len(entries) > 1)]))
        if item["compression"] == "NONE":
            assert entries == encode_entries(data, pip)
        seen += 1
    assert seen == 4


def test_settings_have_the_pips_names_and_defaults() -> None:
    assert EntrySettings() == EntrySettings.from_properties({})
    assert EntrySettings().max_entry_bytes == 1 << 20
    given_all = {
        "persistentUnackedRangesWithMultipleEntriesEnabled": "true",
        "persistentUnackedRangesMaxEntrySize": "8192",
        "cursorInfoCompressionType": "LZ4",
    }
    assert EntrySettings(True, 8192, "LZ4") == EntrySettings.from_properties(given_all)
    large = state(3000).encode("pulsar-ranges")
    assert [large] == encode_entries(large, EntrySettings(max_entry_bytes=100))


def test_chunks_have_at_least_one_byte() -> None:
    assert EntrySettings(True, 1).max_entry_bytes == 1
    with pytest.raises(ValueError, match="max_entry_bytes 0: expected at least 1"):
        EntrySettings(True, 0)


def test_a_footer_has_at_least_one_part_and_at_most_256_bytes() -> None:
    with pytest.raises(CorruptStateError, match="0 parts"):
        join(reading([b"", b'{"numParts":0,"length":0}']), 1)
    footer = b'{"numParts":1,"length":5}'
    assert Footer.decode(footer.ljust(256)) == (1, 5)
    with pytest.raises(CorruptStateError, match="257 bytes are too many"):
        Footer.decode(footer.ljust(257))


@pytest.mark.parametrize(("size", "entries"), [(99, 1), (100, 2), (101, 3)])
def test_a_state_of_the_threshold_is_cut(size: int, entries: int) -> None:
    assert len(encode_entries(bytes(size), EntrySettings(True, 100))) == entries


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
    texts += ["{", "{}", '{"numParts":1}', "{" * 200, '{"a":' * 40, '{"numParts":1,"length":5}' + " " * 999]
    return [text.encode() for text in texts]


@pytest.mark.parametrize("footer", footers(), ids=range(len(footers())))
def test_a_hostile_footer_is_refused_at_once(footer: bytes) -> None:
    entries = [b"\x08\x01\x10\x02\x00", footer]
    for footer_id in (0, 1):
        with pytest.raises((CorruptStateError, LimitError)):
            join(reading(entries[1 - footer_id :]), footer_id)


def test_every_number_of_a_footer_replaced_is_refused() -> None:
    *chunks, footer = encode_entries(state(260).encode("pulsar-ranges"), EntrySettings(True, 1000))
    assert len(chunks) == 5
    for name, number in json.loads(footer).items():
        for lie in (0, 1, -1, 1 << 31, 1 << 63, number - 1, number + 1, 10**9, float("nan")):
            entries = [*chunks, json.dumps(json.loads(footer) | {name: lie}).encode()]
            with pytest.raises((CorruptStateError, LimitError)):
                join(reading(entries), len(chunks))


def test_a_missing_chunk_is_refused() -> None:
    *chunks, footer = encode_entries(state(260).encode("pulsar-ranges"), EntrySettings(True, 1000))
    for lost in range(len(chunks)):
        entries: list[bytes | None] = [*chunks, footer]
        entries[lost] = None
        with pytest.raises(CorruptStateError, match=f"part {lost} of the state is missing"):
            join(reading(entries), len(chunks))


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
    assert join(reading(entries), 2) == (data, 0)


def test_lying_sizes_and_bombs_in_entries_are_refused() -> None:
    data = bytes(5_000_000)
    for compression in COMPRESSIONS[1:]:
        bomb = encode_entries(data, EntrySettings(compression=compression))[0]
        with pytest.raises(LimitError):
            decompress(bomb, compression, max_bytes=1 << 20)
        for lie in (0, 1, len(data) - 1, len(data) + 1, (1 << 26) - 1):
            with pytest.raises(CorruptStateError):
                decompress(lie.to_bytes(4, "big") + bomb[4:], compression)
        assert data == decompress(bomb, compression)


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
