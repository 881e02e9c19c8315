"""The rounds of a watch with fixed answers: events, counters, and the files of its folder. No broker runs."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from http.server import ThreadingHTTPServer
from math import inf
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from ackwell import PositionRangeSet
from ackwell.broker.stats import UnreadableSource
from ackwell.cluster.admin import BrokerFacts, TopicAnswer
from ackwell.errors import StatsError
from ackwell.position import Position
from ackwell.rescue import watch as rounds
from ackwell.rescue.plans import read_plans
from ackwell.rescue.refusals import RefusedError
from ackwell.rescue.restoring import Report
from ackwell.rescue.snapshot import Snapshot, snapshots_of
from ackwell.rescue.watch import Watch, WatchCounts, WatchEvent
from ackwell.rescue.watch_folder import WatchFolder
from ackwell.rescue.watch_server import is_healthy, watch_metrics, watch_server
from ackwell.rescue.watching import RANGES_MIN, both_losses, decide
from tests.rescue.test_plan import facts_of

if TYPE_CHECKING:
    from ackwell.rescue.connection import Connection
    from ackwell.rescue.planning import Plan

TOPIC = "persistent://shop/eu/orders"
OTHER = "persistent://shop/eu/returns"
NAME = TOPIC, "billing"
FACTS = facts_of(ranges=10)
OPEN = {3: 41}
LOADED = {3: 41, 4: 1}
TWICE = {3: 41, 4: 1, 5: 1}


def answer(
    ranges: int = 20,
    ledgers: Mapping[int, int] = OPEN,
    *,
    topic: str = TOPIC,
    time_ms: int | None = 1_000_000,
    names: tuple[str, ...] = ("billing",),
    passed: int = 0,
    **shown: Any,
) -> TopicAnswer:
    """Return the answers about a topic, of which every second entry is acknowledged in `ranges` ranges.

    The mark-delete position has passed the first `passed` ranges.
    """
    newest = max(ledgers)
    text = ",".join(f"(3:{2 * each}..3:{2 * each + 1}]" for each in range(passed, ranges))
    cursor = {
        "markDeletePosition": f"3:{2 * passed - 1}",
        "individuallyDeletedMessages": f"[{text}]",
        "cursorLedger": -1,
    }
    internal = {
        "lastConfirmedEntry": f"{newest}:{ledgers[newest] - 1}",
        "currentLedgerEntries": ledgers[newest],
        "ledgers": [
            {"ledgerId": each, "entries": count, "size": 9 * count} for each, count in ledgers.items()
        ],
        "cursors": dict.fromkeys(names, cursor),
    }
    stats = {"subscriptions": dict.fromkeys(names, {"type": "Shared", "isDurable": True} | shown)}
    return TopicAnswer(topic, topic, time_ms, internal, stats, {})


class Admin:
    """The part of `Admin` that a watch uses: the answers by topic."""

    cluster = "standalone"

    def __init__(self, *answers: TopicAnswer | UnreadableSource) -> None:
        self.endpoint = SimpleNamespace(shown_url="http://here")
        self.found: list[TopicAnswer | UnreadableSource] = list(answers)
        self.with_ranges: dict[str, Any] = {}
        self.known = FACTS
        self.asked: list[str] = []

    def overviews(self) -> dict[str, Any]:
        return self.with_ranges

    def brokers(self) -> set[str]:
        self.asked.append("brokers")
        return {"a", "b"}

    def facts(self, owner: str | None = None) -> BrokerFacts:
        return self.known

    def answers(
        self, names: list[str], *, wants: Callable[[str], bool] = lambda _: True, owners: object = None
    ) -> Iterator[TopicAnswer | UnreadableSource]:
        for each in self.found:
            if isinstance(each, UnreadableSource) or (
                (each.topic in names or "shop/eu" in names) and wants(each.topic)
            ):
                self.asked.append(each.topic or "")
                yield each


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def made(admin: Admin, *, restores: bool = False) -> Watch:
    connection = SimpleNamespace(admin=admin)
    connection.renewed = lambda: connection
    folder = WatchFolder(Path("state"))
    return Watch(cast("Connection", connection), ["shop/eu"], folder, restores=restores)


def events(watch: Watch) -> list[tuple[str, bool]]:
    return [(each.text, each.is_error) for each in watch.round()]


def files(kind: str) -> list[Path]:
    return sorted(Path("state").glob(f"*.{kind}.json"))


def refused() -> list[Path]:
    return sorted(Path("state/refused").iterdir())


def lost(admin: Admin, **options: bool) -> Watch:
    """Return a watch that has seen the topic before a load lost 9 of its ranges."""
    admin.found = [answer()]
    watch = made(admin, **options)
    assert events(watch) == []
    admin.found = [answer(11, LOADED)]
    return watch


LOST = ("loaded anew: 9 acknowledgments are lost; --yes restores them", False)


def test_a_round_counts_its_topics_and_the_subscriptions_at_risk(monkeypatch: pytest.MonkeyPatch) -> None:
    elapsed_s, cpu_s = iter((50.0, 50.5, 60.0, 60.5)), iter((3.0, 3.25, 4.0, 4.25))
    clocks = SimpleNamespace(monotonic=lambda: next(elapsed_s), process_time=lambda: next(cpu_s))
    monkeypatch.setattr(rounds, "time", clocks)
    monkeypatch.setattr(rounds, "clock_ms", lambda: 1_700_000_000_500)
    admin = Admin(answer(9, names=("a", "b")), answer(8, topic=OTHER))
    watch = made(admin)
    assert events(watch) == []
    counts = watch.counts
    assert (counts.rounds, counts.topics, counts.at_risk, counts.unread, counts.pending) == (1, 2, 2, 0, 0)
    assert (counts.round_ended_s, counts.round_seconds, counts.round_cpu_seconds) == (50.5, 0.5, 0.25)
    assert counts.complete_round_ms == 1_700_000_000_500
    assert len(files("snapshot")) == 1
    admin.found = [answer(8, topic=OTHER)]
    assert events(watch) == []
    assert (counts.rounds, counts.topics, counts.at_risk) == (2, 1, 0)
    # A topic that does not exist any longer is forgotten.
    assert files("snapshot") == []


def test_only_topics_with_ranges_or_an_observation_are_requested() -> None:
    admin = Admin(answer(), answer(topic=OTHER))
    watch = made(admin)
    admin.with_ranges = {
        TOPIC: SimpleNamespace(has_ranges=True),
        OTHER: SimpleNamespace(has_ranges=False),
    }
    events(watch)
    assert admin.asked == [TOPIC]
    # An overview may miss acknowledgments of the last minute.
    admin.with_ranges = {OTHER: SimpleNamespace(has_ranges=False)}
    events(watch)
    assert admin.asked == [TOPIC, TOPIC]
    admin.with_ranges = {}
    events(watch)
    assert admin.asked == [TOPIC, TOPIC, TOPIC, OTHER]


def test_a_loss_and_a_seek_are_events_with_counters() -> None:
    admin = Admin()
    watch = lost(admin)
    assert events(watch) == [LOST]
    counts = watch.counts
    assert (counts.losses, counts.moves, counts.pending, counts.pending_entries) == (1, 0, 1, 9)
    (plan,) = read_plans(files("plan")[0])
    assert plan.missing.cardinality == 9
    assert events(watch) == []
    assert (counts.losses, counts.pending, counts.pending_entries) == (1, 1, 9)
    # A watch that begins again reads the plan and the observation.
    again = made(admin)
    assert events(again) == []
    assert again.counts.pending_entries == 9
    admin.found = [answer(10, LOADED)]
    moved = events(watch)
    assert moved[0][0].startswith("not restored (lost-since-the-plan): ")
    assert moved[0][1]
    assert moved[1] == ("moved back: 1 entries are no longer acknowledged", False)
    assert (counts.moves, counts.losses, counts.pending, counts.refused.total()) == (1, 1, 0, 1)
    assert (files("plan"), len(refused())) == ([], 1)


@pytest.mark.parametrize(
    ("time_ms", "age"), [(None, "of unknown age"), (99_999, "15 min newer than the live state")]
)
def test_a_loss_that_is_not_certain_is_refused_and_its_observation_is_kept(
    time_ms: int | None, age: str
) -> None:
    admin = Admin()
    lost(admin)
    observed = files("snapshot")[0].read_bytes()
    # A later run reads the observation, and its time may be in the future if a clock was set back.
    watch = made(admin)
    admin.found = [answer(11, LOADED, time_ms=time_ms)]
    ((text, is_error),) = events(watch)
    assert text.startswith("not restored (snapshot-too-old): ")
    assert f"is {age}, and the limit of `rescue watch` is 15 min" in text
    (kept,) = refused()
    assert f" ({kept})" in text
    assert is_error
    assert kept.read_bytes() == observed
    assert watch.counts.refused == {"snapshot-too-old": 1}
    assert (watch.counts.losses, watch.counts.pending) == (0, 0)
    assert files("snapshot")[0].read_bytes() != observed
    assert events(watch) == []


def test_a_plan_with_too_few_unchanged_ranges_is_refused() -> None:
    admin = Admin()
    watch = lost(admin)
    events(watch)
    admin.found = [answer(11, LOADED, passed=11 - RANGES_MIN)]
    assert events(watch) == []
    admin.found = [answer(11, LOADED, passed=12 - RANGES_MIN)]
    ((text, is_error),) = events(watch)
    assert text.startswith("not restored (few-ranges-kept): ")
    assert is_error
    assert watch.counts.pending == 0


def test_a_topic_with_a_plan_is_observed_although_no_limit_is_near() -> None:
    admin = Admin()
    watch = lost(admin)
    events(watch)
    own = {**(FACTS.settings or {}), "managedLedgerMaxUnackedRangesToPersist": "100"}
    admin.known = replace(FACTS, settings=own)
    # The plan does not concern the other topics, one before and one after it in the alphabet.
    admin.found += [answer(topic=OTHER), answer(topic="persistent://shop/eu/a")]
    assert events(watch) == []
    assert (watch.counts.at_risk, watch.counts.pending, len(files("snapshot"))) == (0, 1, 1)


def test_a_plan_that_was_carried_out_is_removed() -> None:
    admin = Admin()
    watch = lost(admin)
    events(watch)
    admin.found = [answer(20, LOADED)]
    assert events(watch) == [("nothing is missing any longer", False)]
    assert (files("plan"), refused(), watch.counts.pending) == ([], [], 0)


def test_a_plan_whose_subscription_is_gone_is_refused_after_a_complete_round_only() -> None:
    admin = Admin()
    watch = lost(admin)
    events(watch)
    complete_ms = watch.counts.complete_round_ms = 5
    admin.found = [UnreadableSource("http://here", OTHER, "no answer")]
    assert events(watch) == [("not read: no answer", True)]
    assert (watch.counts.unread, watch.counts.pending) == (1, 1)
    assert watch.counts.complete_round_ms == complete_ms
    admin.found = [answer(8, topic=OTHER)]
    ((text, is_error),) = events(watch)
    assert text.startswith("not restored (not-watched): 'billing' of ")
    assert is_error
    assert (watch.counts.unread, watch.counts.pending, files("plan")) == (0, 0, [])
    assert watch.counts.complete_round_ms > complete_ms


def test_the_losses_of_two_loads_are_one_plan() -> None:
    admin = Admin()
    watch = lost(admin)
    events(watch)
    (first,) = read_plans(files("plan")[0])
    # A lower limit cuts more at the second load.
    own = {**(FACTS.settings or {}), "managedLedgerMaxUnackedRangesToPersist": "8"}
    admin.known = replace(FACTS, settings=own)
    admin.found = [answer(9, TWICE)]
    assert events(watch) == [("loaded anew: 2 acknowledgments are lost; --yes restores them", False)]
    (both,) = read_plans(files("plan")[0])
    assert both.missing.cardinality == 11
    assert len(first.missing - both.missing) == 0
    assert (watch.counts.losses, watch.counts.pending_entries) == (2, 11)


def test_a_second_loss_after_a_seek_refuses_the_first_plan_only(monkeypatch: pytest.MonkeyPatch) -> None:
    admin = Admin()
    watch = lost(admin)
    events(watch)
    own = {**(FACTS.settings or {}), "managedLedgerMaxUnackedRangesToPersist": "8"}
    admin.known = replace(FACTS, settings=own)
    admin.found = [answer(9, TWICE)]

    def refuses(*_: object) -> Plan:
        raise RefusedError("few-ranges-kept", count=7, least=8)

    monkeypatch.setattr(rounds, "both_losses", refuses)
    first, second = events(watch)
    assert (first[0][:33], first[1]) == ("not restored (few-ranges-kept): o", True)
    assert second == ("loaded anew: 2 acknowledgments are lost; --yes restores them", False)
    assert (watch.counts.pending_entries, len(files("plan")), len(refused())) == (2, 1, 1)


def test_a_plan_of_two_losses_needs_unchanged_ranges_and_has_the_ack_sets_of_both() -> None:
    before, now, later = (snapshot(answer(*each)) for each in ((20, OPEN), (11, LOADED), (9, TWICE)))
    earlier = plan_of(before, now)
    more = replace(earlier, missing=PositionRangeSet.parse("[(3:18..3:19]]"), ack_sets={Position(3, 4): (2,)})
    earlier = replace(earlier, ack_sets={Position(3, 2): (1,), Position(3, 4): (1,)})
    both = both_losses(earlier, more, later)
    assert both.ack_sets == {(3, 2): (1,), (3, 4): (2,)}
    # A later acknowledgment by a consumer is not lost.
    assert both.missing == (earlier.missing | more.missing) - later.acked
    with pytest.raises(RefusedError, match="only 7 ranges"):
        both_losses(earlier, more, snapshot(answer(RANGES_MIN - 1, TWICE)))


def snapshot(of: TopicAnswer) -> Snapshot:
    (found,) = snapshots_of(of.to_json(), of.topic, of.source, FACTS, "standalone")
    assert isinstance(found, Snapshot), found
    return found


def plan_of(before: Snapshot, now: Snapshot) -> Plan:
    found = decide(before, now).plan
    assert found is not None
    return found


def test_what_cannot_be_read_or_judged_is_an_error_and_counted() -> None:
    admin = Admin(answer())
    watch = made(admin)
    events(watch)
    damaged = answer()
    cast("dict[str, Any]", damaged.internal["cursors"])["billing"] = 5
    admin.found = [damaged]
    ((text, is_error),) = events(watch)
    assert text.startswith("not read: ")
    assert is_error
    assert watch.counts.unread == 1
    admin.known = replace(
        FACTS, settings={**(FACTS.settings or {}), "managedLedgerMaxUnackedRangesToPersist": "x"}
    )
    admin.found = [answer(11, LOADED)]
    ((text, is_error),) = events(watch)
    assert text.startswith("not judged: ")
    assert is_error
    assert (watch.counts.unread, watch.counts.topics) == (1, 1)


def test_the_invalid_settings_of_a_broker_end_no_watch() -> None:
    admin = Admin()
    watch = lost(admin)
    wrong = replace(FACTS, settings={**(FACTS.settings or {}), "managedLedgerMaxUnackedRangesToPersist": "x"})
    admin.facts = lambda owner=None: FACTS if owner is None else wrong  # type: ignore[method-assign]
    ((text, is_error),) = events(watch)
    assert text.startswith("not judged: http://here: the settings of a broker: ")
    assert is_error


def test_the_settings_of_all_brokers_are_requested_once_if_there_is_a_new_ledger() -> None:
    admin = Admin(answer(names=("a", "b")))
    watch = made(admin)
    for ledgers, asked in (
        (OPEN, False),
        (OPEN, False),
        ({3: 42}, False),
        ({3: 42, 4: 1}, True),
        ({4: 1}, False),
    ):
        admin.found = [answer(0 if 3 not in ledgers else 20, ledgers, names=("a", "b"))]
        admin.asked.clear()
        events(watch)
        assert admin.asked == [TOPIC, *(["brokers"] * asked)]


def test_subscriptions_that_no_plan_may_restore_are_not_watched() -> None:
    admin = Admin(answer(names=("billing", "__compaction")))
    watch = made(admin)
    events(watch)
    assert watch.counts.at_risk == 1
    admin.found = [answer(isDurable=False)]
    events(watch)
    assert (watch.counts.at_risk, files("snapshot")) == (0, [])


def test_an_observation_is_written_again_if_it_changed_or_is_old() -> None:
    admin = Admin(answer())
    watch = made(admin)
    events(watch)
    for found, is_written in (
        (answer(time_ms=1_000_001), False),
        (answer(time_ms=1_300_000), False),
        (answer(time_ms=1_300_001), True),
        (answer(time_ms=1_300_002), False),
        (answer(19, time_ms=1_300_003), True),
        (answer(19, {3: 42}, time_ms=1_300_004), True),
        (answer(19, {3: 42}, time_ms=1_300_005, type="Key_Shared"), True),
        # A clock was set back.
        (answer(19, {3: 42}, time_ms=1_000_005, type="Key_Shared"), False),
        (answer(19, {3: 42}, time_ms=1_000_004, type="Key_Shared"), True),
        # An answer without a time has the time 0.
        (answer(18, time_ms=None), True),
        (answer(18, time_ms=300_000), False),
        (answer(18, time_ms=300_001), True),
    ):
        admin.found = [found]
        files("snapshot")[0].write_text("{}")
        events(watch)
        assert (files("snapshot")[0].read_text() != "{}") is is_written, found.time_ms


def test_a_topic_that_was_forgotten_and_returns_is_written_again() -> None:
    admin = Admin(answer(), answer(8, topic=OTHER))
    watch = made(admin)
    events(watch)
    for found, count in ((admin.found[1:], 0), (list(admin.found), 1)):
        admin.found = found
        events(watch)
        assert len(files("snapshot")) == count


def report(missing: int) -> Report:
    return Report(topic=TOPIC, subscription="billing", sent=9, missing=missing, ack_sets=0)


@pytest.mark.parametrize(
    ("result", "text", "is_left"),
    [
        (report(2), "not restored yet: 2 of 9 are still missing", True),
        (StatsError("it broke", "http://here"), "not restored yet: http://here: it broke", True),
        (RefusedError("no-type", subscription="billing"), "not restored (no-type): ", False),
        (report(0), "restored 9 acknowledgments", False),
    ],
)
def test_the_result_of_a_restore_is_an_event(
    result: Report | Exception, text: str, is_left: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin = Admin()
    watch = lost(admin, restores=True)
    monkeypatch.setattr(rounds, "_restored", lambda connection, plan: result)
    first, (got, is_error) = events(watch)
    assert first == ("loaded anew: 9 acknowledgments are lost", False)
    assert got.startswith(text)
    is_success = result == report(0)
    assert is_error is not is_success
    assert (len(files("plan")), watch.counts.pending) == (is_left, is_left)
    assert (watch.counts.restored, watch.counts.restored_entries) == ((1, 9) if is_success else (0, 0))
    # A topic without a plan is observed again.
    assert admin.asked == [TOPIC, TOPIC, "brokers", *([] if is_left else [TOPIC])]


def test_the_names_of_the_files_depend_on_the_topic_and_the_subscription() -> None:
    folder = WatchFolder(Path("state"))
    admin = Admin()
    of_two = answer(names=("billing", "audit"))
    folder.write_observation(of_two, FACTS, "standalone")
    folder.write_observation(answer(topic=OTHER), FACTS, None)
    found = folder.observations()
    assert {topic: [*names] for topic, names in found.items()} == {
        TOPIC: ["billing", "audit"],
        OTHER: ["billing"],
    }
    assert [found[topic]["billing"].cluster for topic in (TOPIC, OTHER)] == ["standalone", None]
    assert found[TOPIC]["billing"].broker == FACTS
    plan = plan_of(snapshot(answer()), snapshot(answer(11, LOADED)))
    for each in (plan, replace(plan, subscription="audit"), replace(plan, topic=OTHER)):
        folder.write_plan(each, 5)
    assert folder.plans().keys() == {NAME, (TOPIC, "audit"), (OTHER, "billing")}
    folder.remove_plan(NAME)
    folder.remove_plan(NAME)
    assert folder.plans().keys() == {(TOPIC, "audit"), (OTHER, "billing")}
    kept = folder.refuse_plan((TOPIC, "audit"), 7)
    assert (kept.parent, kept.name.split(".")[1:]) == (Path("state/refused"), ["7", "plan", "json"])
    assert len(kept.name.split(".")[0]) == 16
    folder.remove_observation(OTHER)
    folder.remove_observation(OTHER)
    assert folder.keep_refused((OTHER, "billing"), 7) is None
    assert folder.observations().keys() == {TOPIC}
    files("snapshot")[0].write_text("{}")
    with pytest.raises(StatsError):
        folder.observations()
    assert admin.asked == []


def test_a_damaged_observation_is_an_error_that_names_its_file() -> None:
    folder = WatchFolder(Path("state"))
    folder.write_observation(answer(), FACTS, "standalone")
    (file,) = files("snapshot")
    file.write_text(file.read_text().replace("3:40", "3:39"))
    with pytest.raises(StatsError, match="its SHA-256 does not match") as raised:
        folder.observations()
    assert raised.value.source == str(file)
    assert json.loads(file.read_text())["schemaVersion"] == 1


METRICS = {
    "restores": 1.0,
    "rounds_total": 2.0,
    "round_seconds": 0.25,
    "round_cpu_seconds": 0.125,
    "last_round_timestamp_seconds": 1.5,
    "topics": 3.0,
    "subscriptions_at_risk": 4.0,
    "unread": 5.0,
    "pending_subscriptions": 6.0,
    "pending_entries": 7.0,
    "losses_total": 8.0,
    "moves_total": 9.0,
    "restored_subscriptions_total": 10.0,
    "restored_entries_total": 11.0,
}


def test_each_counter_is_a_metric() -> None:
    counts = WatchCounts(
        rounds=2,
        round_seconds=0.25,
        round_cpu_seconds=0.125,
        complete_round_ms=1_500,
        topics=3,
        at_risk=4,
        unread=5,
        pending=6,
        pending_entries=7,
        losses=8,
        moves=9,
        restored=10,
        restored_entries=11,
    )
    counts.refused.update({"b": 2, "a": 1})
    lines = [line.split(" ") for line in watch_metrics(counts, restores=True).splitlines() if line[0] != "#"]
    shown = {name.removeprefix("ackwell_watch_"): float(value) for name, value in lines}
    assert [*shown.items()] == [
        *METRICS.items(),
        ('refused_total{code="a"}', 1),
        ('refused_total{code="b"}', 2),
    ]
    none = [line for line in watch_metrics(WatchCounts(), restores=False).splitlines() if line[0] != "#"]
    assert none == [f"ackwell_watch_{name} 0.0" for name in METRICS]


def test_a_watch_is_healthy_for_three_intervals_with_their_rounds() -> None:
    counts = WatchCounts(round_ended_s=1.0, round_seconds=2.0)
    assert is_healthy(counts, 10, 37.0)
    assert not is_healthy(counts, 10, 37.001)
    assert not is_healthy(WatchCounts(), 10, 0.0)


def test_the_server_answers_three_paths_until_it_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = WatchCounts(round_ended_s=inf)
    # A server that is referenced is not closed by its deletion.
    servers: list[object] = []
    monkeypatch.setattr(ThreadingHTTPServer, "server_activate", servers_of(servers))
    with watch_server(("127.0.0.1", 0), counts, every_seconds=10, restores=False) as (host, port):
        assert host == "127.0.0.1"
        for path, code, body in (
            ("/metrics?x=1", 200, watch_metrics(counts, restores=False)),
            ("/healthz", 200, "ok\n"),
            ("/a", 404, "only /metrics and /healthz\n"),
            ("/z", 404, "only /metrics and /healthz\n"),
        ):
            client = http.client.HTTPConnection(host, port, timeout=10)
            client.request("GET", path)
            answered = client.getresponse()
            assert (answered.status, answered.read().decode()) == (code, body)
            assert answered.headers["Content-Length"] == str(len(body))
            assert answered.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
            client.close()
    with pytest.raises(ConnectionError):
        http.client.HTTPConnection(host, port, timeout=10).connect()


def servers_of(found: list[object]) -> Callable[[ThreadingHTTPServer], None]:
    activate = ThreadingHTTPServer.server_activate

    def remember(server: ThreadingHTTPServer) -> None:
        found.append(server)
        activate(server)

    return remember


def test_an_event_is_no_error_by_default() -> None:
    assert not WatchEvent(NAME, "text").is_error
