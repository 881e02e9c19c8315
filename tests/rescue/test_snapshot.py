"""Snapshots: their contents, reading from files and brokers, and the errors for other files."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ackwell.broker.stats import UnreadableSource
from ackwell.cluster.admin import BrokerFacts, TopicAnswer
from ackwell.cluster.collect import MANIFEST
from ackwell.errors import StatsError
from ackwell.position import Position
from ackwell.protocol.constants import SubscriptionType
from ackwell.replay.events import Event, Kind
from ackwell.replay.traces import line
from ackwell.rescue.acks import read_acks
from ackwell.rescue.checksums import with_sha256
from ackwell.rescue.snapshot import Snapshot, dump, read_snapshots, snapshots_of, take
from ackwell.sources import SourceKind, wrong_kind
from tests.rescue.test_plan import FACTS, HOLES, answer

TOPIC = "persistent://shop/eu/orders"
INTERNAL: dict[str, Any] = {
    "lastConfirmedEntry": "3:9",
    "currentLedgerEntries": 10,
    "ledgers": [{"ledgerId": 3, "entries": 0, "size": 0}],
    "cursors": {
        name: {"markDeletePosition": "3:0", "individuallyDeletedMessages": "[(3:1..3:2]]"} for name in "ab"
    },
}
SUBSCRIPTIONS = {"a": {"type": "Shared", "consumers": [{"consumerName": "c"}]}, "b": {"type": "None"}}
STATS = {"subscriptions": SUBSCRIPTIONS, "msgInCounter": 5}
NO_TYPE = "`internalStats` without `stats`, so the type of a subscription is unknown; take the snapshot"


def found(document: Any, file: Path) -> list[Snapshot | UnreadableSource]:
    file.write_text(document if isinstance(document, str) else json.dumps(document))
    return list(read_snapshots([file]))


def document(**changed: Any) -> dict[str, Any]:
    return {"topic": TOPIC, "t": 7, "internalStats": INTERNAL, "stats": STATS} | changed


def test_a_snapshot_has_what_is_said_of_its_subscription_and_its_topic(tmp_path: Path) -> None:
    first, second = found(document(cluster="east"), tmp_path / "a.json")
    assert isinstance(first, Snapshot)
    assert isinstance(second, Snapshot)
    assert (first.name, second.name) == ((TOPIC, "a"), (TOPIC, "b"))
    assert (first.type, second.type) == (SubscriptionType.SHARED, None)
    assert (first.consumers, second.consumers) == ([{"consumerName": "c"}], [])
    assert (first.shown, first.topic_shown, first.cluster) == (SUBSCRIPTIONS["a"], STATS, "east")
    assert (first.broker, first.settings) == (None, None)
    assert str(first.acked) == "[(3:-1..3:0],(3:1..3:2]]"


def test_a_dump_says_what_its_broker_was_and_which_subscription_is_meant(tmp_path: Path) -> None:
    source = TopicAnswer(TOPIC, "http://x", 7, INTERNAL, STATS, {})
    written = dump(source, "b", FACTS, "east")
    assert written == source.to_json() | {
        "schemaVersion": 1,
        "subscription": "b",
        "cluster": "east",
        "broker": {"version": FACTS.version, "settings": FACTS.settings},
    }
    (read,) = found(with_sha256(written), tmp_path / "a.json")
    assert isinstance(read, Snapshot)
    assert (read.name, read.cluster, read.broker) == ((TOPIC, "b"), "east", FACTS)
    assert read.settings is not None
    assert read.settings.max_unacked_ranges_to_persist == 1
    (unread,) = found(with_sha256(written | {"subscription": "c"}), tmp_path / "a.json")
    assert isinstance(unread, UnreadableSource)
    assert (unread.topic, unread.reason) == (TOPIC, "there is no subscription 'c' in it")
    for odd in ({"version": 5}, {"settings": [1]}, {"settings": {"x": 1}}):
        (unread,) = found(with_sha256(written | {"broker": odd}), tmp_path / "a.json")
        assert isinstance(unread, UnreadableSource)
        assert unread.reason == "the broker: expected a version and settings that are texts"
    of = {"version": "4.2.4", "settings": {"managedLedgerMaxUnackedRangesToPersist": "many"}}
    (read,) = found(with_sha256(written | {"broker": of}), tmp_path / "a.json")
    assert isinstance(read, Snapshot)
    with pytest.raises(StatsError, match=r"the broker's settings: .* is a whole number, not 'many'"):
        _ = read.settings
    (unsealed,) = found(written, tmp_path / "a.json")
    assert isinstance(unsealed, UnreadableSource)
    (changed,) = found(with_sha256(written) | {"cluster": "west"}, tmp_path / "a.json")
    assert isinstance(changed, UnreadableSource)
    assert "SHA-256" in changed.reason


def test_a_manifest_beside_says_what_the_broker_was(tmp_path: Path) -> None:
    settings = {"managedLedgerMaxUnackedRangesToPersist": "9"}
    (tmp_path / "orders.json").write_text(json.dumps(document()))
    (before, _) = read_snapshots([tmp_path])
    assert isinstance(before, Snapshot)
    assert before.broker is None
    (tmp_path / MANIFEST).write_text(json.dumps({"version": "4.0.7", "settings": settings, "assumed": []}))
    read = [each for each in read_snapshots([tmp_path / "orders.json"]) if isinstance(each, Snapshot)]
    assert [each.broker for each in read] == [BrokerFacts(version="4.0.7", settings=settings, assumed=())] * 2


@pytest.mark.parametrize(
    "facts",
    [
        BrokerFacts(version=None, settings={}, assumed=()),
        BrokerFacts(version="4.2.4", settings=None, assumed=()),
    ],
)
def test_settings_need_a_version_and_what_is_configured(facts: BrokerFacts) -> None:
    assert answer("3:0", HOLES, {3: 20}, facts=facts).settings is None


def test_what_is_not_a_snapshot_is_named_with_the_reason(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    wrongs: list[tuple[Any, SourceKind]] = [
        ([1], SourceKind.JSON),
        ({"internalStats": []}, SourceKind.DUMP),
        (INTERNAL, SourceKind.STATS),
    ]
    for wrong, kind in wrongs:
        assert found(wrong, file) == [UnreadableSource(str(file), None, wrong_kind(kind, SourceKind.DUMP))]
    nothing: list[Any] = [None, {}, {"subscriptions": []}, []]
    for stats in nothing:
        (unread,) = found(document(stats=stats), file)
        assert isinstance(unread, UnreadableSource)
        assert (unread.source, unread.topic) == (str(file), TOPIC)
        assert unread.reason.startswith(NO_TYPE)
        assert "`ackwell rescue snapshot` or `ackwell collect`" in unread.reason
    (broken,) = found("{", file)
    assert isinstance(broken, UnreadableSource)
    assert broken.source == str(file)
    (gone,) = read_snapshots([tmp_path / "none"])
    assert gone == UnreadableSource(str(tmp_path / "none"), None, "cannot be read: No such file or directory")
    (tmp_path / "empty").mkdir()
    (empty,) = read_snapshots([tmp_path / "empty"])
    assert isinstance(empty, UnreadableSource)
    assert empty.source == str(tmp_path / "empty")
    assert empty.reason.startswith("no .json or .json.gz file in the folder")
    # The later files are still read.
    file.write_text(json.dumps(document()))
    assert len(list(read_snapshots([tmp_path / "none", file]))) == 3


def test_a_cursor_that_cannot_be_read_is_named_and_the_other_one_is_there(tmp_path: Path) -> None:
    cursors = INTERNAL["cursors"] | {"a": {"markDeletePosition": "x"}}
    read = found(document(internalStats=INTERNAL | {"cursors": cursors}), tmp_path / "a.json")
    assert [isinstance(each, Snapshot) for each in read] == [False, True]
    # A subscription that `stats` does not list is internal; the snapshot has no details of it.
    (own,) = snapshots_of(
        document(stats={"subscriptions": {}}, internalStats=INTERNAL | {"cursors": {"a": cursors["b"]}}),
        TOPIC,
        "x",
        None,
        None,
    )
    assert isinstance(own, Snapshot)
    assert (own.shown, own.type, own.consumers) == ({}, None, [])


def test_a_digest_is_of_everything_that_a_plan_follows_from() -> None:
    whole = answer("3:0", HOLES, {3: 20})
    others = [
        answer("3:0", HOLES, {3: 20}, name="other"),
        answer("3:0", HOLES, {3: 20}, topic=f"{TOPIC}-2"),
        answer("3:0", HOLES, {3: 20}, time_ms=5),
        answer("3:-1", HOLES, {3: 20}),
        answer("3:0", "[]", {3: 20}),
        answer("3:0", HOLES, {3: 21}),
        answer("3:0", HOLES, {3: 20, 4: 0}),
    ]
    (ledger,) = whole.stats.ledger_sizes
    larger = replace(ledger, size_bytes=ledger.size_bytes + 1)
    others.append(replace(whole, stats=replace(whole.stats, ledger_sizes=(larger,))))
    digests = {each.digest for each in (whole, *others)}
    assert len(digests) == len(others) + 1
    assert all(len(each) == 64 for each in digests)
    assert answer("3:0", HOLES, {3: 20}).digest == whole.digest
    # Values that change all the time are not part of the digest.
    assert answer("3:0", HOLES, {3: 20}, consumers=[{}]).digest == whole.digest


class Answering:
    """An admin API with some answers, the last of which it repeats."""

    cluster = "east"

    def __init__(self, *given: TopicAnswer | UnreadableSource) -> None:
        self.given = [*given]

    def answers(self, wanted: list[str]) -> Any:
        assert wanted == [TOPIC]
        return iter([self.given.pop(0) if len(self.given) > 1 else self.given[0]])

    def facts(self, owner: str | None) -> BrokerFacts:
        assert owner == "127.0.0.1:8180"
        return FACTS


def test_one_subscription_is_taken_or_it_is_said_why_not() -> None:
    source = TopicAnswer(TOPIC, "http://x", 7, INTERNAL, STATS, {}, {}, "127.0.0.1:8180")
    taken, read = take(Answering(source), TOPIC, "b")  # type: ignore[arg-type]
    assert taken is source
    assert (read.name, read.cluster, read.broker) == ((TOPIC, "b"), "east", FACTS)
    assert (read.stats.source, read.stats.mark_delete_position) == ("http://x", Position(3, 0))
    for given, reason, where in (
        (source, "there is no subscription 'c'", TOPIC),
        (UnreadableSource("http://x", None, "no answer"), "no answer", "http://x"),
        (UnreadableSource("http://x", TOPIC, "no answer"), "no answer", TOPIC),
        (source._replace(stats={}), NO_TYPE, "http://x"),
    ):
        with pytest.raises(StatsError) as caught:
            take(Answering(given), TOPIC, "c")  # type: ignore[arg-type]
        assert caught.value.reason.startswith(reason)
        assert caught.value.source == where


def test_an_answer_that_acknowledgments_made_contradictory_is_requested_again() -> None:
    whole = TopicAnswer(TOPIC, "http://x", 7, INTERNAL, STATS, {}, {}, "127.0.0.1:8180")
    cursors = INTERNAL["cursors"]
    changed = cursors | {"a": cursors["a"] | {"totalNonContiguousDeletedMessagesRange": 9}}
    torn = whole._replace(internal=INTERNAL | {"cursors": changed})
    assert take(Answering(torn, whole), TOPIC, "a")[0] is whole  # type: ignore[arg-type]
    # The acknowledgments of another subscription do not matter.
    assert take(Answering(torn), TOPIC, "b")[0] is torn  # type: ignore[arg-type]
    with pytest.raises(StatsError, match="contradiction: totalNonContiguousDeletedMessagesRange is 9"):
        take(Answering(torn), TOPIC, "a")  # type: ignore[arg-type]


def test_a_snapshot_is_one_moment() -> None:
    whole = answer("3:0", HOLES, {3: 20})
    assert replace(whole, cluster="west").cluster == "west"
    with pytest.raises(AttributeError):
        whole.cluster = "west"  # type: ignore[misc]


def test_the_acknowledgments_of_a_trace_are_those_of_the_named_subscription(tmp_path: Path) -> None:
    lines = [
        Event("t", subscription, number, kind, ledger_id=3, entry_id=entry_id)
        for subscription, acked in (("a", 1), ("b", 2))
        for number, (kind, entry_id) in enumerate(
            [*((Kind.PUBLISH, each) for each in range(4)), (Kind.ACK, acked)]
        )
    ]
    (tmp_path / "trace.jsonl").write_text("".join(map(line, lines)))
    for subscription, ranges in (("a", "[(3:0..3:1]]"), ("b", "[(3:1..3:2]]")):
        found = read_acks(str(tmp_path / "trace.jsonl"), "t", subscription)
        assert str(found.individually_deleted) == ranges
    with pytest.raises(StatsError, match="no event of 'c' of t"):
        read_acks(tmp_path / "trace.jsonl", "t", "c")
