"""Commands on persisted bytes: inspect, diff, convert, and the holes of a subscription."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest

from ackwell import Cursor, Ledgers, ManagedCursorInfo, Position, PositionInfo, PositionRangeSet
from ackwell.broker.broker_settings import BrokerSettings
from ackwell.diagnosis.difference import difference, differences, read_state
from ackwell.diagnosis.holes import blockage, holes
from ackwell.diagnosis.inspection import COMPRESSIONS, StoredEntry, inspect, inspect_entries, inspect_store
from ackwell.errors import CorruptStateError, StatsError
from ackwell.saving.chunks import EntrySettings, encode_entries, split
from ackwell.saving.parts import Save, cut
from ackwell.store import SqliteStore
from tests.broker.answers import answer, subscription
from tests.broker.answers import holes as every_second
from tests.cluster.fake_admin import broker, served
from tests.commands import ERROR, ackwell, command, held
from tests.shared import shared_path

HOLES = PositionRangeSet.parse("[(3:0..3:1],(3:6..3:9],(4:-1..4:0]]")
STATE = PositionInfo(3, -1, HOLES, {Position(3, 4): (0b101,)}, {"a": 7})


@pytest.mark.parametrize("form", ["pulsar-ranges", "pulsar-long-array", "compact"])
def test_every_form_of_a_state_is_told_by_its_content(form: str) -> None:
    data = STATE.encode(form)
    found = inspect(data)
    assert (found.kind, found.form, found.size_bytes) == ("PositionInfo", form, len(data))
    assert found.info is not None
    assert str(found.info.individually_deleted) == str(HOLES)
    assert found.sizes()[form] == len(data)


def test_a_state_that_pulsar_cannot_hold_is_shown_as_such(tmp_path: Path) -> None:
    path = tmp_path / "state.bin"
    path.write_bytes(PositionInfo(3, 5, redelivery_counts={(3, 7): 2}).encode("compact"))
    sizes = inspect(path.read_bytes()).sizes()
    assert (None, None, path.stat().st_size) == tuple(sizes.values())
    code, text = command("inspect", path)
    assert code == 0
    assert text.count("cannot hold all of it") == 2


@pytest.mark.parametrize("compression", [None, *COMPRESSIONS])
def test_a_value_of_the_metadata_store_is_told_by_its_content(compression: str | None) -> None:
    found = inspect(ManagedCursorInfo(-1, STATE).encode(compression))
    assert (found.kind, found.form, found.cursor_ledger_id) == ("ManagedCursorInfo", "pulsar-ranges", None)
    assert found.compression == compression
    assert found.info is not None
    assert found.info.position == Position(3, -1)


def test_a_value_that_points_at_a_cursor_ledger_says_so() -> None:
    found = inspect(ManagedCursorInfo(17, PositionInfo(3, 5)).encode())
    assert found.cursor_ledger_id == 17
    assert "cursor ledger 17" in found.cannot_say[-1]


@pytest.mark.parametrize("compression", ["NONE", *COMPRESSIONS])
def test_a_state_in_several_entries_is_joined_by_its_footer(compression: str) -> None:
    ranges = PositionRangeSet()
    for entry_id in range(0, 4_000, 3):
        ranges.add(5, entry_id)
    settings = EntrySettings(multiple_entries=True, max_entry_bytes=512, compression=compression)
    data = PositionInfo(5, -1, ranges).encode("pulsar-ranges")
    stored = [StoredEntry(f"entry{n}", part) for n, part in enumerate(encode_entries(data, settings))]
    assert len(stored) > 2
    given = None if compression == "NONE" else compression
    (found,) = inspect_entries(stored, compression=given)
    assert (found.entries, found.info) == (len(stored), PositionInfo(5, -1, ranges))
    alone = StoredEntry("older", STATE.encode("compact"))
    if given is None:
        assert [each.source for each in inspect_entries([alone, *stored, alone])] == [
            "older",
            found.source,
            "older",
        ]
    with pytest.raises(CorruptStateError, match=r"in entry"):
        inspect_entries(stored[1:], compression=given)


def test_a_part_of_a_stores_save_is_named_as_one() -> None:
    parts = cut(Save(STATE.encode("compact")), 0, 20)
    assert len(parts) > 1
    for number, part in enumerate(parts, 1):
        with pytest.raises(CorruptStateError, match=f"part {number} of {len(parts)} of a store's saves"):
            inspect(part)


def test_bytes_that_are_no_state_are_refused_with_their_file_and_offset() -> None:
    with pytest.raises(CorruptStateError, match=r"at byte \d+: .*\(in torn\)"):
        inspect_entries([StoredEntry("torn", STATE.encode("pulsar-ranges")[:-3])])
    footer = split(b"ab", 1)[-1]
    with pytest.raises(CorruptStateError, match=r"in footer"):
        inspect_entries([StoredEntry("footer", footer)])
    with pytest.raises(CorruptStateError, match="footer"):
        inspect(footer)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b'{"cursors": {}, "padding": "' + b"x" * 300 + b'"}', "`ackwell doctor` reads it"),
        (b"[1, 2]", "other JSON, not persisted cursor bytes"),
        (b"<html>", "an HTML page"),
        (gzip.compress(b'{"cursors": {}}', mtime=0), "`ackwell doctor` reads it"),
        (bytes.fromhex("0a0408392000"), "a ManagedLedgerInfo, the list of a topic's ledgers"),
    ],
)
def test_another_kind_of_file_is_named_with_the_command_that_reads_it(data: bytes, said: str) -> None:
    with pytest.raises(CorruptStateError, match=said):
        inspect(data)
    with pytest.raises(CorruptStateError, match=rf"{said}.*\(in a file\)"):
        inspect_entries([StoredEntry("a file", data)])


def test_what_a_restart_forgets_is_told_of_bytes_too() -> None:
    settings = BrokerSettings.of("4.0").with_values(["managedLedgerMaxUnackedRangesToPersist=1"])
    losses = inspect(STATE.encode("compact")).restart_losses(settings, ("graceful",))
    assert [(loss.entries, loss.partial_entries) for loss in losses] == [(1, 1)]


def test_json_has_the_keys_of_replay_and_says_what_is_missing(tmp_path: Path) -> None:
    file = tmp_path / "cursor.bin"
    file.write_bytes(STATE.encode("pulsar-ranges"))
    code, output = command("inspect", "--format", "json", file)
    (found,) = json.loads(output)
    assert code == 0
    assert found["markDeletePosition"] == "3:-1"
    assert found["individuallyDeletedMessages"] == str(HOLES)
    assert found["batchDeletedIndexes"] == {"3:4": [5]}
    assert (found["topic"], found["subscription"], found["backlogEntries"]) == (None, None, None)
    assert (found["form"], found["bytes"]) == ("pulsar-ranges", file.stat().st_size)
    assert "topic" in found["cannotSay"]


def test_the_screen_shows_the_state_its_size_in_each_form_and_the_loss(tmp_path: Path) -> None:
    for n, part in enumerate(split(STATE.encode("pulsar-ranges"), 7)):
        (tmp_path / f"entry{n}.bin").write_bytes(part)
    setting = "managedLedgerMaxUnackedRangesToPersist=1"
    _, output = command(
        "inspect", *tmp_path.iterdir(), "--broker-version", "4.0", "--broker-setting", setting
    )
    for shown in (
        "3:-1",
        "(3:6..3:9]",
        "pulsar-long-array",
        "% of an entry's limit",
        "forgets 1 entries",
        "#25540",
    ):
        assert shown in output
    assert command("inspect", "--compression", "rar", tmp_path / "entry0.bin")[0] == 2


def test_every_recorded_state_reads_as_its_manifest_says() -> None:
    folder = shared_path("data/raw")
    read = 0
    for case in json.loads((folder / "manifest.json").read_text()):
        for name, said in (("positioninfo", "persistedPositionInfo"), ("cursorinfo", "persistedCursorInfo")):
            # The manifest marks compressed values, but does not describe them.
            if name not in case or not isinstance(case.get(said), dict):
                continue
            found = inspect((folder / case[name]).read_bytes())
            assert found.kind == {"positioninfo": "PositionInfo", "cursorinfo": "ManagedCursorInfo"}[name]
            assert found.info is not None
            assert list(found.info.position) == case[said]["markDelete"]
            assert len(found.info.individually_deleted) == case[said]["rangeCount"]
            read += 1
    assert read > 100


def test_a_difference_names_what_was_acknowledged_since_and_what_no_longer_is(tmp_path: Path) -> None:
    before, after = tmp_path / "before.bin", tmp_path / "after.bin"
    before.write_bytes(STATE.encode("pulsar-ranges"))
    after.write_bytes(PositionInfo(3, 1, [(3, 7, 9), (3, 11, 12)]).encode("compact"))
    found = difference(read_state(before), read_state(after))
    assert (str(found.acked), str(found.unacked)) == (
        "[(3:-1..3:0],(3:11..3:12]]",
        "[(3:6..3:7],(4:-1..4:0]]",
    )
    assert found.ack_sets == {Position(3, 4): ((0b101,), None)}
    assert not found.ledgers_known
    assert command("diff", before, before)[0] == 0
    code, output = command("diff", "--format", "json", before, after)
    assert (code, json.loads(output)["ackedEntries"]) == (3, 2)
    assert "no longer acknowledged: 2 entries" in command("diff", before, after)[1]


def test_a_difference_to_a_brokers_answer_knows_how_long_ledgers_are(tmp_path: Path) -> None:
    told = tmp_path / "stats.json"
    told.write_text(json.dumps(answer("[(3:0..3:1]]", entries=20)))
    moved = tmp_path / "moved.bin"
    moved.write_bytes(PositionInfo(4, 0).encode("compact"))
    found = difference(read_state(told), read_state(moved))
    assert found.ledgers_known
    assert str(found.acked) == "[(3:-1..3:0],(3:1..3:19],(4:-1..4:0]]"


def test_a_difference_of_bytes_alone_counts_what_the_mark_delete_position_passed(tmp_path: Path) -> None:
    before, after = tmp_path / "before.bin", tmp_path / "after.bin"
    before.write_bytes(PositionInfo(3, 5).encode("compact"))
    after.write_bytes(PositionInfo(3, 9).encode("pulsar-ranges"))
    moved = difference(read_state(before), read_state(after))
    assert (str(moved.acked), str(moved.unacked)) == ("[(3:5..3:9]]", "[]")
    back = difference(read_state(after), read_state(before))
    assert (str(back.acked), str(back.unacked)) == ("[]", "[(3:5..3:9]]")


def answer_of(topic: str, ranges: str) -> str:
    told = answer(ranges, entries=20)
    told["internalStats"]["cursors"]["sub"] |= {"individuallyDeletedMessages": ranges}
    return json.dumps({topic: told})


def test_folders_are_compared_subscription_by_subscription(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    for folder, topics in (
        ("a", {"one": "[(3:0..3:1]]", "two": "[(3:0..3:5]]", "gone": "[]"}),
        ("b", {"one": "[(3:0..3:4]]", "two": "[(3:0..3:5]]", "new": "[]"}),
    ):
        (tmp_path / folder).mkdir()
        for topic, ranges in topics.items():
            text = answer_of(f"persistent://p/d/{topic}", ranges)
            (tmp_path / folder / f"{topic}-{folder}.json").write_text(text)
    code, output = command("diff", tmp_path / "a", tmp_path / "b")
    assert code == 3
    assert [" ".join(line.split()) for line in output.splitlines() if line] == [
        "topic subscription acked since no longer acked ack sets", "p/d/one sub 3 0 0",
        "2 in both, 1 differ", "only in A: p/d/gone · sub", "only in B: p/d/new · sub",
    ]  # fmt: skip
    found = json.loads(command("diff", "--format", "json", tmp_path / "a", tmp_path / "b")[1])
    assert [each["ackedEntries"] for each in found["subscriptions"]] == [3, 0]
    assert command("diff", tmp_path / "a", tmp_path / "a")[0] == 0
    (tmp_path / "b/broken.json").write_text("{")
    unread = ackwell("diff", str(tmp_path / "a"), str(tmp_path / "b"))
    assert unread.code == 5
    assert "not read: " in held(unread).err


def test_of_several_dumps_in_a_folder_the_newest_is_compared(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    for name, ranges in (("1", "[(3:0..3:9]]"), ("2", "[(3:0..3:1]]")):
        (tmp_path / f"a/{name}.json").write_text(answer_of("persistent://p/d/one", ranges))
    one = tmp_path / "one.json"
    one.write_text(answer_of("persistent://p/d/one", "[(3:0..3:2]]"))
    found = json.loads(command("diff", "--format", "json", tmp_path / "a", one)[1])
    assert found["subscriptions"][0]["ackedEntries"] == 1


def test_whatever_the_order_of_files_the_newest_of_a_subscription_is_compared(tmp_path: Path) -> None:
    for folder, entry in (("before", 1), ("after", 2)):
        (tmp_path / folder).mkdir()
        for number, time_ms in enumerate((5, 9, 7)):
            ranges = f"[(3:{entry}..3:{entry + 1}]]" if time_ms == 9 else "[]"
            topic = "persistent://p/d/one"
            told = json.loads(answer_of(topic, ranges))[topic] | {"t": time_ms}
            (tmp_path / folder / f"{number}.json").write_text(json.dumps({topic: told}))
    (found,) = differences(tmp_path / "before", tmp_path / "after").both.values()
    assert (str(found.acked), str(found.unacked)) == ("[(3:2..3:3]]", "[(3:1..3:2]]")


def test_a_list_of_many_subscriptions_ends_on_a_screen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    for folder, ranges in (("a", "[]"), ("b", "[(3:0..3:4]]")):
        (tmp_path / folder).mkdir()
        for n in range(40):
            (tmp_path / f"{folder}/{n}.json").write_text(answer_of(f"persistent://p/d/{n}", ranges))
    output = command("diff", tmp_path / "a", tmp_path / "b")[1]
    assert len(re.findall(r"^p/d/\d+ ", output, re.MULTILINE)) == 30
    assert "and 10 more that differ" in output


def test_two_different_topics_are_named_and_not_compared(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.json").write_text(answer_of(f"persistent://p/d/{name}", "[]"))
        (tmp_path / f"of {name}").mkdir()
        (tmp_path / f"of {name}" / "x.json").write_text(answer_of(f"persistent://p/d/{name}", "[]"))
    files = ackwell("diff", str(tmp_path / "one.json"), str(tmp_path / "two.json"))
    assert files.code == ERROR
    assert "one.json: is of topic persistent://p/d/one, and " in held(files).err
    assert "a position of one means nothing in the other" in files.err
    folders = ackwell("diff", str(tmp_path / "of one"), str(tmp_path / "of two"))
    assert folders.code == ERROR
    assert "here is 'sub' of persistent://p/d/one, there 'sub' of persistent://p/d/two" in held(folders).err


def test_converting_keeps_everything_or_refuses(tmp_path: Path) -> None:
    source, target = tmp_path / "source.bin", tmp_path / "target.bin"
    source.write_bytes(STATE.encode("pulsar-ranges"))
    assert command("convert", "--to", "compact", source, target)[0] == 0
    assert PositionInfo.decode(target.read_bytes()) == STATE
    target.unlink()
    refused = ackwell("convert", "--to", "pulsar-ranges", "--max-ranges", "1", str(source), str(target))
    assert (refused.code, target.exists()) == (ERROR, False)
    assert "--lossy" in held(refused).err
    assert command("convert", "--to", "pulsar-ranges", "--max-ranges", 1, "--lossy", source, target)[0] == 0
    assert len(PositionInfo.decode(target.read_bytes()).individually_deleted) == 1
    assert command("convert", "--to", "json", source, target)[0] == 2


def test_holes_are_the_existing_entries_between_the_ranges() -> None:
    told = subscription("[(3:0..3:1],(3:6..3:99999],(4:-1..4:9]]")
    assert [str(hole) for hole in holes(told)] == ["3:0", "3:2..6", "4:10..99999"]
    assert sum(hole.entries for hole in holes(told)) == told.backlog_entries


def test_the_oldest_hole_says_what_it_pins_and_what_acknowledging_it_frees() -> None:
    told = answer("[(3:0..3:99999],(4:-1..4:9]]")
    told["internalStats"]["ledgers"][0]["size"] = 5_000
    told["internalStats"] |= {"currentLedgerEntries": 100_000, "currentLedgerSize": 700}
    told["stats"]["subscriptions"]["sub"]["lastMarkDeleteAdvancedTimestamp"] = 1_000
    from ackwell.broker.stats import parse_stats

    (stats,) = parse_stats(json.dumps(told | {"t": 61_000}).encode(), "answer.json")
    blocked = blockage(stats)
    assert blocked is not None
    assert (str(blocked.hole), blocked.pinned_bytes, blocked.blocked_ms) == ("3:0", 5_700, 60_000)
    assert (blocked.next_mark_delete, blocked.freed_ledgers, blocked.freed_bytes) == (
        Position(4, 9),
        1,
        5_000,
    )


def test_the_holes_command_prints_and_writes_json(tmp_path: Path) -> None:
    file = tmp_path / "stats.json"
    file.write_text(json.dumps(answer(every_second(3))))
    assert "3:0" in command("holes", file)[1]
    (found,) = json.loads(command("holes", "--format", "json", file)[1])
    assert (found["oldestUnacked"], found["ledger"], found["entries"]) == ("3:0", 3, 1)


def test_the_holes_command_asks_a_live_broker_and_counts_what_it_could_not_read() -> None:
    told = served("orders", "gone")
    del told["/admin/v2/persistent/shop/eu/gone/stats"]
    with broker(told) as (url, _):
        code, output = command("holes", "--format", "json", "--admin", url)
    (found,) = json.loads(output)
    assert (code, found["topic"]) == (5, "persistent://shop/eu/orders")


def test_an_error_says_why_where_and_in_which_file_as_values() -> None:
    with pytest.raises(CorruptStateError) as raised:
        inspect_entries([StoredEntry("a: file", b"\x08\x03\x10\x05\xff: no")])
    error = raised.value
    assert error.reason.endswith(
        "(in a: file); a state in several entries needs them all and the footer last"
    )
    assert str(error) == f"at byte {error.offset}: {error.reason}"


def test_each_ledger_of_a_store_is_inspected_with_all_its_entries(tmp_path: Path) -> None:
    file = tmp_path / "acks.db"
    cursor, entry_ids = Cursor(Ledgers({3: 1_000})), iter(range(1, 1_000, 2))
    for name, saves in (("one", 1), ("two", 3)):
        with SqliteStore(file, name) as store:
            for _ in range(saves):
                # Scattered, and few of them: the later saves are written as what changed.
                for _ in range(100 if not cursor.individually_deleted.cardinality else 2):
                    cursor.ack(3, next(entry_ids))
                cursor.save(store)
    one, two = inspect_store(file)
    assert [each.source for each in (one, two)] == [f"{file}, one", f"{file}, two"]
    assert [each.entries for each in (one, two)] == [1, 2]
    assert {each.kind for each in (one, two)} == {"PositionInfo"}
    assert (two.compression, two.cursor_ledger_id) == (None, None)
    assert two.info is not None
    assert two.info.individually_deleted == cursor.individually_deleted
    (named,) = inspect_store(file, "one")
    assert named == one
    assert 0 < one.size_bytes < two.size_bytes
    for found in (read_state(file, ledger="two"), cursor.to_state()):
        assert found.individually_deleted == cursor.individually_deleted
    with pytest.raises(StatsError, match=r"name one ledger with --ledger; here are: .*one, .*two"):
        read_state(file)


def test_a_state_without_positions_has_no_form_and_one_without_a_state_no_size() -> None:
    empty = inspect(PositionInfo(3, 5).encode("pulsar-ranges"))
    assert (empty.form, empty.oldest_unacked) == (None, Position(3, 6))
    assert {"pulsar-ranges", "pulsar-long-array", "compact"} <= empty.sizes().keys()
    elsewhere = inspect(ManagedCursorInfo(9).encode())
    assert (elsewhere.form, elsewhere.sizes(), elsewhere.oldest_unacked) == (None, {}, None)
    assert elsewhere.restart_losses() == ()
    assert elsewhere.cannot_say[-1] == "the newest state: it is in cursor ledger 9"
    assert empty.cannot_say == (
        "topic",
        "subscription",
        "backlogEntries",
        "entries of ledgers",
        "batch sizes",
    )


def test_an_answer_with_several_subscriptions_needs_a_name(tmp_path: Path) -> None:
    file = tmp_path / "answer.json"
    told = {
        "lastConfirmedEntry": "3:9",
        "currentLedgerEntries": 10,
        "ledgers": [{"ledgerId": 3, "entries": 0, "size": 0}],
        "cursors": {
            name: {"markDeletePosition": f"3:{at}", "individuallyDeletedMessages": "[]"}
            for at, name in enumerate(("a", "b"))
        },
    }
    file.write_text(json.dumps(told))
    assert read_state(file, subscription="b").mark_delete_position == Position(3, 1)
    for name in (None, "c"):
        with pytest.raises(StatsError, match="name one subscription with --subscription; here are: a, b"):
            read_state(file, subscription=name)
    file.write_text(json.dumps(told | {"cursors": {}}))
    with pytest.raises(StatsError, match="here are: none"):
        read_state(file)
    (tmp_path / "cursor.bin").write_bytes(ManagedCursorInfo(9).encode())
    with pytest.raises(StatsError, match="the state is in cursor ledger 9, not here"):
        read_state(tmp_path / "cursor.bin")
