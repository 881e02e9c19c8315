"""The size of the record that a close writes, and the verdict on it."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from ackwell import PositionRangeSet
from ackwell.broker.batch_sizes import Bounds
from ackwell.broker.broker_settings import BrokerSettings
from ackwell.broker.metadata_node import closing_request_bytes, ledger_list_bytes
from ackwell.broker.stats import LedgerSize, SubscriptionStats, parse_stats
from ackwell.cursor.cursor_state import CursorState
from ackwell.diagnosis.checkup import JudgedBroker
from ackwell.diagnosis.doctor import Verdict, diagnose
from ackwell.diagnosis.upgrade import BrokerUpgrade, upgrade_of
from ackwell.integers import INT64_MAX
from ackwell.position import Position
from ackwell.releases import RELEASES
from ackwell.wire import bytes_field, int_field
from tests.broker.answers import answer, holes
from tests.broker.test_stats import internal, stats
from tests.commands import ackwell

NEWEST = BrokerSettings.of("5.0.1")


def state(ranges: int, per_ledger: int = 25_000) -> CursorState:
    ledgers = [(3 + k // per_ledger, 2 * (k % per_ledger), 2 * (k % per_ledger) + 1) for k in range(ranges)]
    return CursorState(Position(3, -1), PositionRangeSet(ledgers))


def test_the_record_has_the_size_that_a_broker_wrote() -> None:
    """5.0.1 wrote 960,847 bytes for 120,000 ranges and 1,441,316 for 180,000, with LZ4.

    With ledgers of 2,500 ranges, it wrote 1,048,285 bytes for 128,454 ranges. For 128,551, ZooKeeper refused
    a request of 1,049,156 bytes.
    """
    for ranges, per_ledger, written in (
        (120_000, 25_000, 960_847),
        (180_000, 25_000, 1_441_316),
        (128_454, 2_500, 1_048_285),
        (128_551, 2_500, 1_049_156),
    ):
        size = closing_request_bytes(state(ranges, per_ledger), NEWEST)
        assert size is not None
        assert abs(size - written) < 0.01 * written
    # Without compression the record has about twice the size.
    older = NEWEST.with_values(["managedCursorInfoCompressionType=NONE"])
    assert (closing_request_bytes(state(120_000), older) or 0) > 1.8 * 960_847


def test_a_small_state_and_a_state_of_the_cursor_ledger_have_no_size() -> None:
    assert closing_request_bytes(state(1_000), NEWEST) is None
    few = NEWEST.with_values(["managedLedgerMaxUnackedRangesToPersistInMetadataStore=100000"])
    assert closing_request_bytes(state(100_001), few) is None
    assert closing_request_bytes(state(100_000), few) is not None
    # Only the ranges within the limit are written.
    cut = NEWEST.with_values(["managedLedgerMaxUnackedRangesToPersist=10000"])
    assert closing_request_bytes(state(100_000), cut) == closing_request_bytes(
        state(10_000), replace(cut, metadata_node_bytes=1)
    )


@pytest.mark.parametrize("version", RELEASES)
def test_the_record_contains_the_ack_sets_within_their_limit(version: str) -> None:
    def size_of(sets: int, most: int = 1_000, *, enabled: bool = True) -> int | None:
        settings = BrokerSettings.of(version).with_values(
            [
                "managedCursorInfoCompressionType=NONE",
                f"managedLedgerMaxBatchDeletedIndexToPersist={most}",
                f"acknowledgmentAtBatchIndexLevelEnabled={enabled}",
            ]
        )
        parts = {Position(3, entry): (-1,) * 16 for entry in range(sets)}
        cursor = CursorState(Position(3, -1), PositionRangeSet(), parts)
        return closing_request_bytes(cursor, replace(settings, metadata_node_bytes=200_000))

    # 1,000 messages of a batch are 16 words, and a word with its tag takes 11 bytes.
    size = size_of(800)
    assert size is not None
    assert 800 * 16 * 11 < size < 800 * (16 * 11 + 16)
    assert size_of(1_000, 800) == size
    assert size_of(1_100) == size_of(1_000) != size
    assert (size_of(400), size_of(1_000, enabled=False)) == (None, None)


def test_the_compression_is_one_of_the_brokers() -> None:
    assert NEWEST.cursor_info_compression == "LZ4"
    assert BrokerSettings.of("4.2.4").cursor_info_compression == "NONE"
    with pytest.raises(ValueError, match="is one of NONE, LZ4"):
        NEWEST.with_values(["managedCursorInfoCompressionType=GZIP"])


def test_a_record_above_the_limit_is_a_verdict_with_its_remedy(tmp_path: Path) -> None:
    file = tmp_path / "stats.json"
    file.write_text(json.dumps(answer(holes(150_000), entries=400_000)))
    options = ("doctor", str(file), "--broker-version", "5.0.1", "--format", "json", "--restart")
    found = {}
    for restart, limit in (("graceful", "1048575"), ("crash", "1048575"), ("graceful", "10485760")):
        done = ackwell(*options, restart, "--metadata-node-bytes", limit)
        (found[restart, limit],) = json.loads(done.out)["subscriptions"]
    assert found["graceful", "1048575"]["verdict"] == "unwritable"
    assert found["graceful", "10485760"]["verdict"] != "unwritable"
    assert found["crash", "1048575"]["verdict"] != "unwritable"
    (limit,) = (each for each in found["graceful", "1048575"]["limits"] if "metadata" in each["setting"])
    assert limit["used"] > limit["limit"] == 1_048_575
    remedies = [each["settings"] for each in found["graceful", "1048575"]["remedies"]]
    assert ["managedLedgerMaxUnackedRangesToPersistInMetadataStore=1000"] in remedies
    assert ackwell(*options, "graceful").code == 4


LEDGERS = 2_000
ENTRIES = 50_000


def ledgers(**first: Any) -> dict[str, Any]:
    """Return a dump of a topic with `LEDGERS` ledgers and an open one; `first` changes the first ledger."""
    listed = [{"ledgerId": 1_000 + k, "entries": ENTRIES, "size": 20_000_000} for k in range(LEDGERS)]
    listed[0] |= first
    last = 1_000 + LEDGERS
    shown = internal(
        entriesAddedCounter=0,
        numberOfEntries=LEDGERS * ENTRIES,
        currentLedgerEntries=0,
        currentLedgerSize=0,
        lastConfirmedEntry=f"{last - 1}:{ENTRIES - 1}",
        ledgers=[*listed, {"ledgerId": last, "entries": 0, "size": 0}],
    )
    shown["cursors"]["sub"] |= {
        "markDeletePosition": f"{last - 1}:{ENTRIES - 1}",
        "readPosition": f"{last}:0",
        "individuallyDeletedMessages": "[]",
    }
    return {"internalStats": shown, "stats": stats(0)}


def parsed(dump: dict[str, Any]) -> SubscriptionStats:
    (found,) = parse_stats(json.dumps(dump).encode(), "dump.json")
    return found


# A tag and a length, the id (1 + 2 bytes), the entries (1 + 3), the size (1 + 4) and the time (1 + 6).
LIST_BYTES = LEDGERS * (2 + 3 + 4 + 5 + 7) + (2 + 3 + 2) + 256
"""The request of a load: it removes the empty ledger, and adds a new one without entries, size and time."""


def test_a_ledger_list_has_the_size_that_a_broker_wrote() -> None:
    """5.0.1 wrote 10,082 bytes for 600 ledgers of one entry each and a new one, and 7,133 for 601 with LZ4.

    With a limit of 20,000 bytes, ZooKeeper refused a request of 20,009 bytes for 1,179 ledgers and a new one,
    again and again. Producers, an unload and the creation of another topic received no answer.
    """

    def size_of(count: int, compression: str = "NONE") -> Bounds | None:
        sizes = tuple(
            LedgerSize(ledger_id=3 + k, entries=1, size_bytes=135 + k * 37 % 900) for k in range(count)
        )
        settings = replace(NEWEST, metadata_node_bytes=20_000, ledger_info_compression=compression)
        return ledger_list_bytes(replace(parsed(ledgers()), ledger_sizes=sizes), settings)

    assert size_of(600) == Bounds(10_082 + 256, 10_082 + 256)
    compressed = size_of(601, "LZ4")
    assert compressed is not None
    assert compressed.at_most is not None
    assert 7_133 < compressed.at_most < 10_099
    refused = size_of(1_179)
    assert refused is not None
    assert 20_009 < refused.at_least < 1.01 * 20_009


def test_a_ledger_list_has_the_bytes_of_its_fields() -> None:
    older, newest = (
        replace(BrokerSettings.of(version), metadata_node_bytes=LIST_BYTES) for version in ("4.2.4", "5.0.1")
    )
    found = parsed(ledgers())
    assert ledger_list_bytes(found, older) == Bounds(LIST_BYTES, LIST_BYTES)
    assert ledger_list_bytes(found, BrokerSettings.of("4.2.4")) is None
    # No answer shows the times of the ledgers, so a compressed list has only an upper bound.
    compressed = ledger_list_bytes(found, newest)
    assert compressed is not None
    assert compressed.at_least == 0
    assert compressed.at_most is not None
    assert 0.3 * LIST_BYTES < compressed.at_most < LIST_BYTES
    edges = [0, 1, 127, 128, 2**14 - 1, 2**14, 2**35, INT64_MAX]
    sizes = tuple(
        LedgerSize(ledger_id=ledger_id, entries=entries, size_bytes=size)
        for ledger_id, entries, size in product(edges, edges, [0, 128, INT64_MAX])
    )
    listed = [(each.ledger_id, each.entries, each.size_bytes, 1 << 40) for each in sizes if each.entries]
    new = bytes_field(1, int_field(1, INT64_MAX + 1) + int_field(4, 0))
    expected = (
        256
        + len(new)
        + sum(
            len(bytes_field(1, b"".join(int_field(number, value) for number, value in enumerate(each, 1))))
            for each in listed
        )
    )
    tight = replace(older, metadata_node_bytes=1)
    assert ledger_list_bytes(replace(found, ledger_sizes=sizes), tight) == Bounds(expected, expected)
    # Each property has a tag and a length, as its name and its value have.
    dump = ledgers()
    dump["internalStats"]["properties"] = {"owner": "shop\ud800"}
    assert ledger_list_bytes(parsed(dump), older) == Bounds(*[LIST_BYTES + 2 + 7 + 9] * 2)
    offloaded = parsed(ledgers(offloaded=True))
    assert ledger_list_bytes(offloaded, older) == Bounds(LIST_BYTES, None)
    assert ledger_list_bytes(offloaded, newest) == Bounds(0, None)


@pytest.mark.parametrize(
    ("version", "limit", "verdict"),
    [
        ("4.2.4", LIST_BYTES - 1, "unwritable"),
        ("4.2.4", LIST_BYTES, "at risk"),
        ("4.2.4", LIST_BYTES * 5 // 4, "at risk"),
        ("4.2.4", LIST_BYTES * 5 // 4 + 1, "unproven"),
        ("5.0.1", LIST_BYTES // 3, "at risk"),
        ("5.0.1", LIST_BYTES * 5 // 4, "unproven"),
    ],
)
def test_a_ledger_list_above_the_limit_is_a_verdict_with_its_remedy(
    version: str, limit: int, verdict: str, tmp_path: Path
) -> None:
    file = tmp_path / "stats.json"
    file.write_text(json.dumps(ledgers()))
    options = ("--broker-version", version, "--broker-setting", "defaults", "--format", "json")
    done = ackwell("doctor", str(file), *options, "--metadata-node-bytes", str(limit))
    assert done.code == {"unwritable": 4, "at risk": 3, "unproven": 0}[verdict]
    (found,) = json.loads(done.out)["subscriptions"]
    assert found["verdict"] == verdict, found
    verdicts = {each["verdict"] for each in found["restarts"].values()}
    assert verdicts == ({"fine", verdict} if verdict == "unproven" else {verdict})
    texts = " ".join(each["text"] for each in found["remedies"])
    assert ("keep fewer ledgers" in texts) is (verdict != "unproven")
    settings = [name for each in found["remedies"] for name in each["settings"]]
    is_uncompressed = verdict != "unproven" and version == "4.2.4"
    assert ("managedLedgerInfoCompressionType=LZ4" in settings) is is_uncompressed
    (usage,) = (each for each in found["limits"] if each["setting"].startswith("metadata-node"))
    assert usage["what"].endswith(", at most") is usage["isUpperBound"] is (version == "5.0.1")
    notes = [note for note in found["notes"] if "without end, the topic does not load" in note]
    assert len(notes) == (verdict == "at risk")


@pytest.mark.parametrize(
    "unpredicted", [{"durable": False}, {"persisted_only": True}, {"shows_cursor": False}]
)
@pytest.mark.parametrize(
    ("version", "limit", "verdict"),
    [
        ("4.2.4", LIST_BYTES - 1, Verdict.UNWRITABLE),
        ("4.2.4", LIST_BYTES, Verdict.AT_RISK),
        ("4.2.4", LIST_BYTES * 5 // 4 + 1, None),
        ("5.0.1", LIST_BYTES // 3, Verdict.AT_RISK),
    ],
)
def test_a_refused_ledger_list_stops_also_subscriptions_without_a_prediction(
    unpredicted: dict[str, Any], version: str, limit: int, verdict: Verdict | None
) -> None:
    """No subscription of a topic receives messages if the topic does not load."""
    settings = replace(BrokerSettings.of(version), metadata_node_bytes=limit)
    found = diagnose(replace(parsed(ledgers()), **unpredicted), settings)
    other = Verdict.FINE if unpredicted == {"durable": False} else Verdict.UNPROVEN
    expected = verdict or other
    assert (found.verdict, found.verdict_of("crash")) == (expected, expected)
    assert bool(found.remedies) is (verdict is not None)
    assert any("the topic does not load" in note for note in found.notes) is (verdict is Verdict.AT_RISK)
    assert found.restarts == ()


def test_the_size_of_a_list_with_offloaded_ledgers_is_unknown(tmp_path: Path) -> None:
    file = tmp_path / "stats.json"
    file.write_text(json.dumps(ledgers(offloaded=True)))
    for version, counts in (("4.2.4", [LIST_BYTES]), ("5.0.1", [])):
        options = ("--broker-version", version, "--metadata-node-bytes", str(LIST_BYTES * 2))
        (found,) = json.loads(ackwell("doctor", str(file), *options, "--format", "json").out)["subscriptions"]
        assert [each["used"] for each in found["limits"] if "ledger list" in each["what"]] == counts
        assert any("unknown: 1 of 2,001 ledgers are offloaded" in note for note in found["notes"])


def test_a_downgrade_may_write_a_list_that_the_newer_broker_compressed() -> None:
    """In an upgrade, a topic that moves twice is first loaded by another old broker."""
    found = parsed(ledgers())
    verdicts = {}
    for before, after in (("5.0.1", "4.2.4"), ("4.2.4", "5.0.1"), ("5.0.1", "5.0.1")):
        broker = JudgedBroker.of(before, others_are_defaults=True).with_node_bytes(LIST_BYTES - 1)
        made = upgrade_of(found, BrokerUpgrade.of(broker, after, others_are_defaults=True))
        verdicts[before, after] = {each.verdict for each in made.moves}
        changed = {each.name: each in made.improvements for each in made.changes}
        compresses = None if before == after else after == "5.0.1"
        assert changed.get("managedLedgerInfoCompressionType") is compresses
        improved = made.to_json()["improvements"]
        assert ("managedLedgerInfoCompressionType" in improved) is (compresses is True)
        limits = [[each["setting"] for each in move["limits"]] for move in made.to_json()["moves"]]
        refused = [each.verdict is Verdict.UNWRITABLE for each in made.moves]
        assert limits == [["metadata-node-bytes of the ledger list"] * each for each in refused]
        reader = upgrade_of(replace(found, durable=False), made.upgrade)
        assert [each.verdict for each in reader.moves] == [each.verdict for each in made.moves]
        assert [each.name for each in reader.changes] == [each.name for each in made.changes]
    assert verdicts == {
        ("5.0.1", "4.2.4"): {Verdict.UNWRITABLE},
        ("4.2.4", "5.0.1"): {Verdict.FINE, Verdict.UNWRITABLE},
        ("5.0.1", "5.0.1"): set(),
    }


@pytest.mark.parametrize(("messages", "is_noted"), [(300, False), (400, True)])
def test_hidden_ack_sets_may_exceed_the_limit(messages: int, is_noted: bool, tmp_path: Path) -> None:
    """10,000 ack sets of 5 words have at most 850,000 bytes, and of 7 words 1,070,000 bytes."""
    file = tmp_path / "stats.json"
    file.write_text(json.dumps(answer("[]", entries=5_000) | {"stats": stats(10_000 * messages)}))
    options = ("--broker-version", "5.0.1", "--messages-per-entry", str(messages), "--format", "json")
    (found,) = json.loads(ackwell("doctor", str(file), *options).out)["subscriptions"]
    notes = [note for note in found["notes"] if "does not show acknowledgments inside batches" in note]
    assert [("1,070,000 bytes" in note) for note in notes] == [True] * is_noted
