"""`PositionInfo` and `ManagedCursorInfo`: native, reference and Python protobuf agree."""

from __future__ import annotations

import copy
import hashlib
import json
import pickle
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import ackwell
import tests.reference
from ackwell import CorruptStateError, LimitError, Position, StateTooLargeError
from ackwell.wire import varint
from tests.differential.pair import outcome, plain
from tests.differential.pulsar_messages import messages
from tests.reference.position_info.compact import sections
from tests.shared import shared_path

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

ENGINES = (ackwell, tests.reference)
FORMS = ("pulsar-ranges", "pulsar-long-array", "compact")
FIELDS = (
    "position",
    "individually_deleted",
    "batch_deleted",
    "properties",
    "redelivery_counts",
    "idle_since",
    "spanning_ranges",
    "unknown_fields",
)

FAR = 1 << 62
ledger_ids = st.integers(0, 3) | st.sampled_from([7, 2**31, FAR])
entry_ids = st.integers(0, 200) | st.integers(0, 5000)
positions = st.tuples(ledger_ids, entry_ids)
words = st.lists(st.sampled_from([0, -1, 1]) | st.integers(-(2**63), 2**63 - 1), max_size=3)
ranges = st.tuples(ledger_ids, entry_ids, st.integers(0, 40)).map(
    lambda item: (item[0], item[1] - 1, item[1] + item[2])
)
UNKNOWN = bytes.fromhex("f20103616263")

states = st.fixed_dictionaries(
    {
        "ledger_id": ledger_ids,
        "entry_id": st.integers(-1, 50),
        "individually_deleted": st.lists(ranges, max_size=25),
        "batch_deleted": st.dictionaries(positions, words, max_size=4),
        "properties": st.dictionaries(st.text(max_size=4), st.integers(-(2**63), 2**63 - 1), max_size=3),
        "idle_since": st.none() | st.integers(0, 2**45),
        "unknown_fields": st.sampled_from([b"", UNKNOWN]),
    }
)
whole_states = st.tuples(
    states,
    st.dictionaries(positions, st.integers(0, 99), max_size=3),
    st.lists(st.tuples(positions, st.integers(1, 3), entry_ids), max_size=2),
).map(
    lambda parts: {
        **parts[0],
        "redelivery_counts": parts[1],
        "spanning_ranges": [(low, (low[0] + more, up)) for low, more, up in parts[2]],
    }
)


def content(info: Any) -> dict[str, object]:
    info.validate()
    return {name: plain(getattr(info, name)) for name in FIELDS}


def record_content(record: Any) -> tuple[object, ...]:
    info = record.position_info
    return (
        record.cursors_ledger_id,
        record.last_active,
        record.cursor_properties,
        record.unknown_fields,
        record.compression,
        info and content(info),
    )


def both(call: Callable[[Any], object]) -> tuple[str, object]:
    """Run both engines and check that the outcomes are equal."""
    native, reference = (outcome(lambda engine=engine: call(engine)) for engine in ENGINES)  # type: ignore[misc]
    assert reference == native
    return native


@given(whole_states, st.sampled_from(FORMS))
def test_both_engines_write_the_same_bytes(state: Mapping[str, Any], form: str) -> None:
    def encode(engine: Any) -> object:
        data, report = engine.PositionInfo(**state).encode_with_report(form)
        # Two releases of zstd may compress differently; the decompressed content must be equal.
        return "compressed" if data[:1] == b"\xac" and data[2] & 1 else data, content_of(report)

    assert both(encode)[0] == "returned"


def content_of(report: Any) -> tuple[object, ...]:
    return (
        plain(report.individually_deleted),
        plain(report.spanning_ranges),
        plain(report.batch_deleted),
        plain(report.redelivery_counts),
        bool(report.reasons),
    )


@given(whole_states, st.sampled_from(FORMS), st.sampled_from([(0, 1), (1, 0), (0, 0), (1, 1)]))
def test_each_engine_reads_what_the_other_wrote(
    state: Mapping[str, Any], form: str, way: tuple[int, int]
) -> None:
    writer, reader = ENGINES[way[0]], ENGINES[way[1]]
    info = writer.PositionInfo(**state)
    data, report = info.encode_with_report(form)
    found = reader.PositionInfo.decode(data)
    assert found.encode() == data
    if not report:
        assert content(info) == content(found)
        again = copy.copy(pickle.loads(pickle.dumps(found)))
        assert again == found
        assert found.replace() == found


@given(states, st.sampled_from(FORMS), st.sampled_from(FORMS))
def test_conversion_between_forms_loses_nothing(state: Mapping[str, Any], first: str, second: str) -> None:
    info = ackwell.PositionInfo(**state)
    once = ackwell.PositionInfo.decode(info.encode(first))
    twice = ackwell.PositionInfo.decode(once.encode(second))
    assert info == once == twice


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("form", FORMS[:2])
def test_what_a_form_cannot_hold_is_refused_with_the_report(engine: Any, form: str) -> None:
    spanning = [((1, 4), (3, 2))]
    info = engine.PositionInfo(1, 2, redelivery_counts={(1, 3): 4}, spanning_ranges=spanning)
    with pytest.raises(StateTooLargeError) as caught:
        info.encode(form)
    report: Any = caught.value.report
    assert report.redelivery_counts == {(1, 3): 4}
    assert (form == "pulsar-long-array") == bool(report.spanning_ranges)
    data, same = info.encode_with_report(form)
    assert content_of(report) == content_of(same)
    assert engine.PositionInfo.decode(data).position == (1, 2)
    assert engine.PositionInfo.decode(info.encode("compact")) == info


limits = st.fixed_dictionaries(
    {},
    optional={
        "max_ranges": st.integers(0, 8),
        "max_ledgers": st.integers(0, 3),
        "max_bytes": st.integers(0, 120),
    },
)


@given(states, st.sampled_from((*FORMS[:2], "pulsar-auto")), limits)
@settings(max_examples=60)
def test_limits_cut_alike_and_report_exactly_what_they_cut(
    state: Mapping[str, Any], form: str, limits: Mapping[str, int]
) -> None:
    def cut(engine: Any) -> object:
        info = engine.PositionInfo(**state)
        data, report = info.encode_with_report(form, **limits)
        assert len(data) <= limits.get("max_bytes", len(data))
        kept = engine.PositionInfo.decode(data)
        assert len(kept.individually_deleted) <= limits.get("max_ranges", 1 << 60)
        whole = kept.individually_deleted | report.individually_deleted
        assert plain(info.individually_deleted) == plain(whole)
        cardinality = kept.individually_deleted.cardinality + report.entries
        assert info.individually_deleted.cardinality == cardinality
        assert info.batch_deleted == {**kept.batch_deleted, **report.batch_deleted}
        assert bool(report) == (kept != info)
        return data, content_of(report)

    assert both(cut) is not None


@given(st.binary(max_size=60))
@example(b"\x08\x01\x10\x02" + b"\x73" * 200)
@example(b"\xac\x02" + bytes(20))
def test_any_bytes_have_one_outcome(data: bytes) -> None:
    both(lambda engine: content(engine.PositionInfo.decode(data)))
    both(lambda engine: record_content(engine.ManagedCursorInfo.decode(data)))


@given(states, st.integers(0, 1 << 20), st.integers(0, 255))
@settings(max_examples=150, suppress_health_check=[HealthCheck.filter_too_much])
def test_a_changed_byte_has_one_outcome(state: Mapping[str, Any], at: int, byte: int) -> None:
    data = bytearray(ackwell.PositionInfo(**state).encode(FORMS[at % 2]))
    data[at % len(data)] = byte
    kind, found = both(lambda engine: content(engine.PositionInfo.decode(bytes(data))))
    assert kind == "returned" or found in (CorruptStateError, LimitError)


records = st.fixed_dictionaries(
    {
        "cursors_ledger_id": st.integers(-1, 5),
        "last_active": st.none() | st.integers(0, 2**45),
        "cursor_properties": st.dictionaries(st.text(max_size=4), st.text(max_size=4), max_size=2),
        "unknown_fields": st.sampled_from([b"", UNKNOWN]),
    }
)
COMPRESSIONS = (None, "NONE", "LZ4", "ZLIB", "ZSTD", "SNAPPY")


@given(records, st.none() | states, st.sampled_from(COMPRESSIONS))
def test_cursor_records_come_back_in_both_engines(
    record: Mapping[str, Any], state: Mapping[str, Any] | None, compression: str | None
) -> None:
    data = []
    for engine in ENGINES:
        kept = state and {**state, "idle_since": None, "unknown_fields": b""}
        info = kept and engine.PositionInfo(**kept)
        data.append(engine.ManagedCursorInfo(position_info=info, **record).encode(compression))
    assert compression or data[0] == data[1]
    for each in data:
        kind, found = both(lambda engine, each=each: record_content(engine.ManagedCursorInfo.decode(each)))  # type: ignore[misc]
        assert kind == "returned"
        assert isinstance(found, tuple)
        assert found[4] == compression
        assert ackwell.ManagedCursorInfo.decode(each).encode() == each


def test_a_lying_size_and_a_bomb_are_refused() -> None:
    for compression in COMPRESSIONS[1:]:
        bomb = ackwell.ManagedCursorInfo(1, cursor_properties={"a": "b" * 3_000_000})
        data = bomb.encode(compression)
        for engine in ENGINES:
            with pytest.raises(LimitError):
                engine.ManagedCursorInfo.decode(data, max_bytes=1_000_000)
        assert len(data) > 12
        for lie in (1, 3_000_000, 3_100_000, 2**31 - 1, 2**31, 2**63):
            size = varint(lie)
            metadata = data[6:8] + b"\x10" + size
            lying = data[:2] + len(metadata).to_bytes(4, "big") + metadata + data[6 + data[5] :]
            for engine in ENGINES:
                with pytest.raises((CorruptStateError, LimitError)):
                    engine.ManagedCursorInfo.decode(lying)


@pytest.mark.parametrize("engine", ENGINES)
def test_python_protobuf_reads_what_we_write_and_we_read_what_it_writes(engine: Any) -> None:
    theirs = messages().PositionInfo(ledgerId=3, entryId=-1, idle_since=7)
    for lower in (-1, 7, 300):
        item = theirs.individualDeletedMessages.add()
        item.lowerEndpoint.ledgerId = item.upperEndpoint.ledgerId = 3
        item.lowerEndpoint.entryId, item.upperEndpoint.entryId = lower, lower + 2
    theirs.properties.add(name="é", value=-5)
    theirs.batchedEntryDeletionIndexInfo.add(deleteSet=[-1, 5]).position.ledgerId = 4
    theirs.batchedEntryDeletionIndexInfo[0].position.entryId = 9
    data = theirs.SerializeToString()
    info = engine.PositionInfo.decode(data)
    assert info.replace().encode("pulsar-ranges") == data
    assert list(info.individually_deleted) == [(3, -1, 1), (3, 7, 9), (3, 300, 302)]
    assert info.batch_deleted == {(4, 9): (-1, 5)}
    assert info.properties == {"é": -5}
    assert info.idle_since == 7
    longs = messages().PositionInfo.FromString(info.encode("pulsar-long-array"))
    assert [item.key for item in longs.individualDeletedMessageRanges] == [3]
    assert longs.individualDeletedMessageRanges[0].values[0] == 0b11_0000_0011
    assert not longs.individualDeletedMessages


@pytest.mark.parametrize("engine", ENGINES)
def test_field_3_wins_over_field_6_in_any_order(engine: Any) -> None:
    ranges = engine.PositionInfo(1, 2, [(3, 4, 5)]).encode("pulsar-ranges")
    words = engine.PositionInfo(1, 2, [(3, 9, 10)]).encode("pulsar-long-array")
    for data in (ranges + words, words + ranges):
        info = engine.PositionInfo.decode(data)
        assert list(info.individually_deleted) == [(3, 4, 5)]
        assert info.form == "pulsar-ranges"
        assert info.encode() == data


@pytest.mark.parametrize("engine", ENGINES)
def test_packed_words_trailing_zeros_and_empty_ranges_are_read(engine: Any) -> None:
    packed = bytes.fromhex("08011002 3206 0803 12020500")
    info = engine.PositionInfo.decode(packed)
    assert list(info.individually_deleted) == [(3, -1, 0), (3, 1, 2)]
    empty = bytes.fromhex("08011002 1a0c 0a0408031005 120408031005")
    assert not len(engine.PositionInfo.decode(empty).individually_deleted)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_range_over_a_ledgers_end_counts_in_its_upper_ledger(engine: Any) -> None:
    data = bytes.fromhex("08011002 1a0c 0a0408011005 120408031007")
    info = engine.PositionInfo.decode(data)
    assert list(info.individually_deleted) == [(3, -1, 7)]
    assert info.spanning_ranges == (((1, 5), (3, 7)),)
    assert info.replace(entry_id=3).encode("pulsar-ranges").endswith(data[4:])


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("data", "why"),
    [
        ("", "empty"),
        ("0801", "no entryId"),
        ("1001", "no ledgerId"),
        ("08", "torn varint"),
        ("08ffffffffffffffffff02", "more than 64 bits"),
        ("08ffffffffffffffffff01 1001", "a negative ledger"),
        ("08011001 1a0c 0a0408031008 120408031007", "a range that ends before it begins"),
        ("08011001 1a06 0a0408031008", "a range without upper endpoint"),
        ("08011001 3202 1005", "a long array without its ledger"),
        ("08011001 2a02 1005", "batch indexes without a position"),
        ("08011001 2202 1005", "a property without name"),
        ("08011001 2205 0a01ff 1005", "a name that is not UTF-8"),
        ("08011001 07", "wire type 7"),
        ("08011001 0400", "field number 0"),
        ("08011001 1c", "the end of a group"),
        ("08011001 ffffffff7f00", "a field number beyond the greatest"),
        ("ac01", "a torn header"),
    ],
)
def test_what_is_no_state_is_refused_with_its_offset(engine: Any, data: str, why: str) -> None:
    raw = bytes.fromhex(data)
    with pytest.raises(CorruptStateError) as caught:
        engine.PositionInfo.decode(raw)
    assert 0 <= caught.value.offset <= len(raw), why


@pytest.mark.parametrize("engine", ENGINES)
def test_a_newer_compact_version_is_refused_by_name(engine: Any) -> None:
    data = bytearray(engine.PositionInfo(1, 2).encode("compact"))
    data[1] = 2
    with pytest.raises(CorruptStateError, match="compact version 2"):
        engine.PositionInfo.decode(bytes(data))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("lost", [0, 1])
@pytest.mark.parametrize("last", [0, 6])
def test_an_ack_set_whose_words_are_missing_or_end_in_zeros_is_refused(
    engine: Any, lost: int, last: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Test each alone, and both."""
    from tests.reference.position_info.compact.column import put_rows

    def put_fewer(bits: Any, rows: list[tuple[int, ...]], columns: int) -> None:
        put_rows(bits, rows[: len(rows) - lost] if columns == 1 else rows, columns)

    monkeypatch.setattr(sections, "put_rows", put_fewer)
    info = tests.reference.PositionInfo(1, 2)
    info._state.batch_deleted |= {Position(3, 1): (5, last), Position(3, 2): (6,)}
    data = info.encode("compact")
    if not lost and last:
        assert engine.PositionInfo.decode(data).batch_deleted == {(3, 1): (5, last), (3, 2): (6,)}
        return
    with pytest.raises(CorruptStateError, match="words are missing or end in zeros"):
        engine.PositionInfo.decode(data)


@pytest.mark.parametrize("engine", ENGINES)
def test_bad_arguments_are_refused(engine: Any) -> None:
    for error, arguments in (
        (ValueError, {"ledger_id": -1, "entry_id": 0}),
        (ValueError, {"ledger_id": 1, "entry_id": -2}),
        (ValueError, {"ledger_id": 1 << 63, "entry_id": 0}),
        (ValueError, {"ledger_id": 1, "entry_id": 0, "batch_deleted": {(1, -1): [1]}}),
        (ValueError, {"ledger_id": 1, "entry_id": 0, "batch_deleted": {(1, 1): [1 << 63]}}),
        (ValueError, {"ledger_id": 1, "entry_id": 0, "redelivery_counts": {(1, 1): -1}}),
        (ValueError, {"ledger_id": 1, "entry_id": 0, "unknown_fields": b"\x08\x01"}),
        (ValueError, {"ledger_id": 1, "entry_id": 0, "unknown_fields": b"\xf2"}),
        (ValueError, {"ledger_id": 1, "entry_id": 0, "spanning_ranges": [((1, 1), (1, 2))]}),
        (TypeError, {"ledger_id": "1", "entry_id": 0}),
        (TypeError, {"ledger_id": 1, "entry_id": 0, "properties": {1: 1}}),
    ):
        with pytest.raises(error):
            engine.PositionInfo(**arguments)
    for form in ("longs", ""):
        with pytest.raises(ValueError, match="form"):
            engine.PositionInfo(1, 0).encode(form)


@pytest.mark.parametrize("engine", ENGINES)
def test_auto_takes_the_smaller_form_that_the_broker_reads(engine: Any) -> None:
    alternating = engine.PositionInfo(1, -1, [(1, at, at + 1) for at in range(0, 400, 2)])
    whole = engine.PositionInfo(1, 0, [(1, 0, 49_999)])
    for info, broker, form in (
        (alternating, "4.2.4", "pulsar-long-array"),
        (alternating, "3.0.1", "pulsar-ranges"),
        (whole, "4.2.4", "pulsar-ranges"),
    ):
        data = info.encode("pulsar-auto", broker=broker)
        assert engine.PositionInfo.decode(data).form == form


@pytest.mark.slow
def test_a_state_over_a_bookies_frame_is_refused_unless_a_limit_is_given() -> None:
    count, gap = 400_000, 1000
    lowers = range(10**9, 10**9 + gap * count, gap)
    acked = ackwell.PositionRangeSet()
    acked.add_ranges([1] * count, lowers, [lower + 1 for lower in lowers])
    large = ackwell.PositionInfo(1, 0, acked)
    with pytest.raises(StateTooLargeError) as caught:
        large.encode("pulsar-auto")
    assert caught.value.report.entries > 10_000
    assert len(large.encode("pulsar-auto", max_bytes=1 << 30)) > 5 << 20


def test_far_entries_take_no_memory_of_their_distance() -> None:
    far = ackwell.PositionInfo(1, 0, [(1, -1, 0), (1, (1 << 40) - 1, 1 << 40)])
    for form in ("pulsar-ranges", "compact", "pulsar-auto"):
        assert ackwell.PositionInfo.decode(far.encode(form)) == far
    with pytest.raises(LimitError):
        far.encode("pulsar-long-array")


def rendered(info: Any) -> dict[str, object]:
    """The values that the recordings' manifest gives for bytes."""
    text = ",".join(f"({ledger}:{low}..{ledger}:{up}]" for ledger, low, up in info.individually_deleted)
    return {
        "markDelete": list(info.position),
        "rangeCount": len(info.individually_deleted),
        "rangesSha256": hashlib.sha256(f"[{text}]".encode()).hexdigest(),
        "batchDeletedIndexes": {str(key): list(value) for key, value in info.batch_deleted.items()},
    }


def agrees(expected: Mapping[str, Any], info: Any) -> bool:
    return {key: value for key, value in expected.items() if key != "form"} == rendered(info)


def test_every_recorded_state_decodes_to_what_it_holds_and_comes_back_byte_for_byte() -> None:
    folder = shared_path("data/raw")
    seen = compressed = 0
    for item in json.loads((folder / "manifest.json").read_text()):
        if "positioninfo" in item:
            data = (folder / item["positioninfo"]).read_bytes()
            info = ackwell.PositionInfo.decode(data)
            assert agrees(item["persistedPositionInfo"], info)
            assert info.encode() == data
            assert ackwell.PositionInfo.decode(info.encode("compact")) == info
            seen += 1
        data = (folder / item["cursorinfo"]).read_bytes()
        record = ackwell.ManagedCursorInfo.decode(data)
        assert record.encode() == data
        if item["persistedCursorInfo"] == "compressed":
            assert record.compression == item["config"]["managedCursorInfoCompressionType"]
            compressed += 1
        else:
            assert agrees(item["persistedCursorInfo"], record.position_info)
            seen += 1
    assert seen > 100
    assert compressed >= 4


def test_odd_states_decode_to_what_the_brokers_recovery_made_of_them() -> None:
    folder = shared_path("data/raw")
    seen = 0
    for case in json.loads((folder / "edge_cases.json").read_text()):
        data = (folder / "edge" / case["case"]).read_bytes()
        if not case["accepted"]:
            with pytest.raises(CorruptStateError):
                ackwell.PositionInfo.decode(data)
            continue
        info = ackwell.PositionInfo.decode(data)
        assert info.encode() == data
        assert info == ackwell.PositionInfo.decode(info.encode("compact"))
        # The broker joins a range at the mark-delete position; here the cursor does that.
        if case["case"] != "adjacent_md":
            assert list(info.position) == list(case["markDelete"].values())
        first = [[one, low, one, up] for one, low, up in info.individually_deleted][: len(case["first"])]
        assert case["first"] == first
        assert case["rangeCount"] == len(info.individually_deleted)
        seen += 1
    assert seen == 9
