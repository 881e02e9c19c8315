"""The result of a load from each kind of source, and the facts that it reports as missing. No broker runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ackwell import DelayedDeliveryTracker, Ledgers, Position, PositionInfo
from ackwell.cursor.cursor import Cursor
from ackwell.devbroker.loading import LoadedTopic, LoadReport, read
from ackwell.errors import StatsError
from ackwell.protocol import messages
from ackwell.protocol.payload import write_payload
from ackwell.replay.events import Event, Kind
from ackwell.replay.payloads import PREFIX, payload_line
from ackwell.replay.traces import line
from ackwell.store.sqlite import SqliteStore
from ackwell.subscription import Subscription
from tests.devbroker.loaded import TOPIC, dump

NOT_SHOWN = f"{TOPIC}, billing: which parts of batches are acknowledged"
PUBLISHED = [
    Event(TOPIC, "billing", 1, Kind.SEEK, ledger_id=3, entry_id=0),
    Event(TOPIC, "", 2, Kind.PUBLISH, 5_000, ledger_id=3, entry_id=0, deliver_at_ms=9_000),
    Event(TOPIC, "", 3, Kind.PUBLISH, 4_000, ledger_id=3, entry_id=1, batch_size=3),
]
OF_CURSOR = "persistent://public/default/{}"


def loaded(folder: Path, *events: Event, name: str = "events.jsonl") -> LoadReport:
    (folder / name).write_text("".join(map(line, [*PUBLISHED, *events])))
    return read([folder / name])


def of_dump(folder: Path, **changes: Any) -> LoadReport:
    """Load a dump of which parts were changed."""
    answer = dump("[]", **{key: changes.pop(key) for key in ("stats", "t") if key in changes})
    answer["internalStats"] |= changes
    (folder / "orders.stats.json").write_text(json.dumps(answer))
    return read([folder])


def only(report: LoadReport) -> LoadedTopic:
    (topic,) = report.topics.values()
    return topic


def test_the_facts_that_a_dump_lacks_are_named(tmp_path: Path) -> None:
    delayed = {"subscriptions": {"billing": {"type": "Shared", "msgDelayed": 7}}}
    report = of_dump(tmp_path, stats=delayed)
    assert report.unknown == [NOT_SHOWN, f"{TOPIC}, billing: which 7 entries are delayed"]
    assert (report.unread, report.subscriptions) == ([], 1)
    lines = str(report).splitlines()
    assert lines == ["loaded 1 topics with 1 subscriptions", *report.unknown]


def test_a_subscription_that_is_not_durable_is_named_and_not_loaded(tmp_path: Path) -> None:
    cursor = dump("[]")["internalStats"]["cursors"]["billing"] | {"cursorLedger": -1}
    shown = {"subscriptions": {"billing": {"isDurable": False}}}
    report = of_dump(tmp_path, stats=shown, cursors={"billing": cursor})
    assert report.unknown == [f"{TOPIC}, billing: not durable, so it ended with its reader"]
    assert (report.subscriptions, only(report).ledgers) == (0, {3: (10, 1_000)})


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"ledgers": "x"}, "ledgers is 'x'"),
        ({"ledgers": [5]}, "ledgers is "),
        ({"ledgers": [{"ledgerId": 3, "entries": -1}]}, "entries is -1"),
        ({"lastConfirmedEntry": 5}, "got 5"),
        ({"currentLedgerEntries": "x"}, "currentLedgerEntries is 'x'"),
        ({"stats": [1]}, "stats is "),
        ({"t": "noon"}, "t is 'noon'"),
    ],
)
def test_a_dump_with_a_damaged_topic_is_named_and_another_one_is_loaded(
    changes: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    with pytest.raises(StatsError, match=reason):
        of_dump(tmp_path, **changes)
    (tmp_path / "whole.stats.json").write_text(json.dumps(dump("[]")))
    report = read([tmp_path])
    assert [*report.topics] == ["persistent://public/default/whole"]
    assert [reason in each.reason for each in report.unread] == [True]
    assert f"{tmp_path / 'orders.stats.json'}: orders: " in str(report)


def test_a_damaged_subscription_is_named_and_its_topic_is_loaded(tmp_path: Path) -> None:
    cursors = {"billing": 5}
    for report in (
        of_dump(tmp_path, cursors=cursors),
        of_dump(tmp_path, stats={"subscriptions": []}),
        of_dump(tmp_path, stats={"subscriptions": {"billing": 5}}),
    ):
        assert (report.subscriptions, only(report).ledgers) == (0, {3: (10, 1_000)})
        (unread,) = report.unread
        assert unread.reason.startswith("orders: subscription 'billing': ")


def test_the_properties_of_a_subscription_are_loaded_or_named(tmp_path: Path) -> None:
    def of(properties: object) -> LoadReport:
        return of_dump(tmp_path, stats={"subscriptions": {"billing": {"subscriptionProperties": properties}}})

    found = only(of({"team": "eu", "number": 7})).cursors["billing"]
    assert found.properties == {"team": "eu", "number": "7"}
    report = of([1])
    assert only(report).cursors["billing"].properties == {}
    wrong = f"{TOPIC}, billing: subscriptionProperties is [1]; expected an object"
    assert report.unknown == [NOT_SHOWN, wrong]


def test_the_last_confirmed_entry_of_a_dump_is_loaded(tmp_path: Path) -> None:
    assert only(of_dump(tmp_path)).last_confirmed == Position(3, 9)
    assert only(of_dump(tmp_path, lastConfirmedEntry="2:4")).last_confirmed == Position(2, 4)


def test_the_time_of_a_dump_is_the_publish_time_of_its_entries(tmp_path: Path) -> None:
    assert only(of_dump(tmp_path, t=5_000)).known.publish_ms == 5_000
    (tmp_path / "orders.stats.json").write_text(json.dumps(dump("[]")))
    assert only(read([tmp_path], now_ms=77)).known.publish_ms == 77
    assert only(read([tmp_path])).known.publish_ms > 1_700_000_000_000


def test_names_that_are_given_replace_those_of_the_sources(tmp_path: Path) -> None:
    file = tmp_path / "cursor.bin"
    file.write_bytes(PositionInfo(3, 5).encode("compact"))
    (tmp_path / "orders.stats.json").write_text(json.dumps(dump("[]")))
    assert [*read([tmp_path / "orders.stats.json"], "other").topics] == [OF_CURSOR.format("other")]
    report = read([file])
    assert ([*report.topics], [*only(report).cursors]) == ([OF_CURSOR.format("cursor")], ["sub"])
    report = read([file], "orders", "billing")
    assert ([*report.topics], [*only(report).cursors]) == ([TOPIC], ["billing"])
    assert report.unknown == [f"{file}: the entries after the last acknowledged entry of each ledger"]
    assert str(only(report).cursors["billing"].type) == "Shared"


def test_each_state_of_a_store_is_loaded_under_its_own_name(tmp_path: Path) -> None:
    for ledger in (f"{TOPIC} billing", "alone"):
        with SqliteStore(tmp_path / "acks.db", ledger) as store:
            cursor = Cursor(Ledgers({3: 9}))
            cursor.ack(3, 4)
            cursor.save(store)
    found = read([tmp_path / "acks.db"]).topics
    assert {name: [*topic.cursors] for name, topic in found.items()} == {
        TOPIC: ["billing"],
        OF_CURSOR.format("alone"): ["alone"],
    }
    assert {each.ledgers[3] for each in found.values()} == {(5, 0)}


def test_a_folder_gives_its_states_recordings_and_dumps(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    with pytest.raises(StatsError, match="file in the folder"):
        read([tmp_path])
    (inner / "state.bin").write_bytes(PositionInfo(3, 5).encode("compact"))
    assert [*read([tmp_path]).topics] == [OF_CURSOR.format("state")]
    loaded(inner)
    # A copy on some systems makes files with these names.
    for name in ("._events.jsonl", "_events.jsonl"):
        (inner / name).write_text("not events")
    (inner / "dump.json").write_text(json.dumps(dump("[]")))
    assert {*read([tmp_path]).topics} == {*map(OF_CURSOR.format, ("state", "dump", "orders"))}
    (inner / "state.bin").unlink()
    (inner / "dump.json").unlink()
    assert [*read([tmp_path]).topics] == [TOPIC]


def test_a_damaged_state_is_named_and_the_others_are_loaded(tmp_path: Path) -> None:
    whole = PositionInfo(3, 5, [(3, 7, 9)]).encode("compact")
    (tmp_path / "whole.bin").write_bytes(whole)
    (tmp_path / "torn.bin").write_bytes(whole[:-1])
    report = read([tmp_path])
    assert [*report.topics] == [OF_CURSOR.format("whole")]
    assert [each.source for each in report.unread] == [str(tmp_path / "torn.bin")]
    (tmp_path / "plan.bin").write_text('{"plans": []}')
    reasons = {Path(each.source).name: each.reason for each in read([tmp_path]).unread}
    assert reasons["plan.bin"].startswith("a plan of `ackwell rescue plan`, not ")
    (tmp_path / "other.json").write_text('{"a": [1]}')
    reasons = {Path(each.source).name: each.reason for each in read([tmp_path]).unread}
    assert reasons["other.json"].startswith("other JSON, not the answer of ")
    with pytest.raises(StatsError, match="cannot be read: No such file"):
        read([tmp_path / "absent.bin"])


@pytest.mark.parametrize("name", ["events.jsonl", "events.txt"])
def test_a_single_file_of_events_is_loaded_with_any_name(name: str, tmp_path: Path) -> None:
    report = loaded(tmp_path, Event(TOPIC, "billing", 4, Kind.ACK, ledger_id=3, entry_id=0), name=name)
    topic = only(report)
    assert (topic.ledgers, str(topic.cursors["billing"].type)) == ({3: (2, 0)}, "Exclusive")
    info = topic.cursors["billing"].info
    assert (info.ledger_id, info.entry_id) == (3, 0)
    known = topic.known
    assert (known.batch_sizes, known.deliver_at_ms) == ({Position(3, 1): 3}, {Position(3, 0): 9_000})
    assert known.publish_ms == 5_000
    entries = topic.entries()[3]
    assert [(each.batch_size, each.publish_ms, each.deliver_at_ms) for each in entries] == [
        (1, 5_000, 9_000),
        (3, 5_000, 0),
    ]


def test_a_recording_without_times_is_as_old_as_the_load(tmp_path: Path) -> None:
    events = [Event(TOPIC, "billing", 1, Kind.PUBLISH, ledger_id=3, entry_id=0)]
    (tmp_path / "events.jsonl").write_text("".join(map(line, events)))
    assert only(read([tmp_path], now_ms=77)).known.publish_ms == 77


def test_the_gaps_of_a_recording_are_named(tmp_path: Path) -> None:
    report = loaded(tmp_path, Event("*", "", 4, Kind.GAP, detail="the proxy was restarted"))
    assert [*report.topics] == [TOPIC]
    assert len(report.unknown) == 1
    assert report.unknown[0].endswith("events.jsonl: the proxy was restarted")


def test_a_subscription_whose_events_contradict_each_other_is_named(tmp_path: Path) -> None:
    wrong = Event(TOPIC, "wrong", 4, Kind.ACK, ledger_id=3, entry_id=0, batch_index=5, batch_size=2)
    odd = Event(TOPIC, "odd", 5, Kind.CONSUMER_OPEN, consumer="c", detail="Odd")
    report = loaded(tmp_path, wrong, odd)
    assert [*only(report).cursors] == ["billing"]
    assert [(each.source, each.topic) for each in report.unread] == [(str(tmp_path), TOPIC)] * 2
    first, second = (each.reason for each in report.unread)
    assert "batch index 5 of 3:0" in first
    assert "'Odd' is not a subscription type" in second


def test_the_payloads_of_a_recording_have_the_values_of_their_metadata(tmp_path: Path) -> None:
    metadata = messages.MessageMetadata(
        producer_name="p",
        sequence_id=0,
        publish_time=4_321,
        num_messages_in_batch=4,
        txnid_most_bits=1,
        txnid_least_bits=2,
    )
    plain = messages.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1_234)
    data = {0: write_payload(metadata, b"x"), 1: write_payload(plain, b"y")}
    lines = [payload_line(TOPIC, (3, entry_id), each) for entry_id, each in data.items()]
    (tmp_path / f"{PREFIX}000001.jsonl").write_text("".join(lines))
    first, second = only(loaded(tmp_path)).entries()[3]
    assert (first.data, first.batch_size, first.publish_ms, first.deliver_at_ms) == (data[0], 4, 4_321, 9_000)
    assert first.transaction == (1, 2)
    assert (second.data, second.batch_size, second.publish_ms, second.deliver_at_ms) == (data[1], 1, 1_234, 0)
    assert second.transaction is None


def test_two_sources_of_a_topic_give_the_entries_and_delays_of_both(tmp_path: Path) -> None:
    plain = messages.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1_234)
    later = Event(TOPIC, "", 4, Kind.PUBLISH, ledger_id=4, entry_id=2, deliver_at_ms=7_000, batch_size=2)
    for name, position, more in (("a", (3, 0), []), ("b", (4, 2), [later])):
        folder = tmp_path / name
        folder.mkdir()
        loaded(folder, *more)
        (folder / f"{PREFIX}1.jsonl").write_text(payload_line(TOPIC, position, write_payload(plain, b"x")))
    first, second = tmp_path / "a" / "events.jsonl", tmp_path / "b" / "events.jsonl"
    for order in ([first, second], [second, first]):
        topic = only(read(order))
        assert topic.ledgers == {3: (2, 0), 4: (3, 0)}
        assert topic.known.entries.keys() == {(3, 0), (4, 2)}
        assert topic.known.deliver_at_ms == {(3, 0): 9_000, (4, 2): 7_000}
        assert topic.known.batch_sizes == {(3, 1): 3, (4, 2): 2}


def test_a_subscription_gives_its_delays_and_keeps_them() -> None:
    source = Subscription("Key_Shared", Ledgers({3: 3}), delayed=DelayedDeliveryTracker())
    source.add_consumer("c")
    source.flow("c", 10)
    for entry_id in range(2):
        source.dispatch(3, entry_id, now_ms=0, deliver_at_ms=60_000 + entry_id, sticky_key_hash=7)
    for _ in range(2):
        topic = only(read([source], "orders", "billing", now_ms=77))
        assert topic.known.deliver_at_ms == {(3, 0): 60_000, (3, 1): 60_001}
    assert (topic.known.publish_ms, str(topic.cursors["billing"].type)) == (77, "Key_Shared")
    empty = Subscription("Shared", Ledgers({3: 3}), delayed=DelayedDeliveryTracker())
    assert only(read([empty], "orders", "billing")).known.deliver_at_ms == {}
    for names in (("orders", None), (None, "billing")):
        with pytest.raises(ValueError, match="give topic= and subscription="):
            read([source], *names)
