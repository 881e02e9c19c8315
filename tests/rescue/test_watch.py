"""`ackwell rescue watch` with a broker in this process."""

from __future__ import annotations

import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from ackwell.cluster.admin import Admin
from ackwell.cluster.endpoint import Endpoint
from ackwell.protocol.constants import SubscriptionType
from ackwell.rescue import BrokerError, Connection
from ackwell.rescue.watch import Watch, WatchCounts
from ackwell.rescue.watch_folder import WatchFolder
from ackwell.rescue.watch_server import watch_metrics, watch_server
from tests.cluster.fake_admin import broker
from tests.cluster.test_admin import scalable_cluster
from tests.commands import ackwell
from tests.rescue.cluster import NAME, TOPIC, Cluster, cluster
from tests.rescue.test_rescue import at_step, with_type
from tests.rescue.test_windows import kill

if TYPE_CHECKING:
    from ackwell.position import Position

LIMIT = 10
QUIET = "1 subscriptions at risk, 0 with a loss that is not restored; 0 topics or brokers not read"


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    monkeypatch.chdir(tmp_path)
    with cluster(limit=LIMIT) as made:
        yield made


def watch(there: Cluster, *, restores: bool = True) -> Watch:
    return Watch(there.connection(), ["public/default"], WatchFolder(Path("state")), restores=restores)


def texts(watching: Watch) -> list[str]:
    """Run a round; return its events."""
    return [each.text for each in watching.round()]


def with_waiting_plan(there: Cluster) -> tuple[list[Position], Watch]:
    """Lose acknowledgments under a watch that restores nothing; return the entries and the watch."""
    positions = there.fill()
    with_type(there)
    dry = watch(there, restores=False)
    texts(dry)
    there.unload()
    assert texts(dry) == ["loaded anew: 9 acknowledgments are lost; --yes restores them"]
    return positions, dry


@pytest.mark.parametrize("kind", [SubscriptionType.SHARED, SubscriptionType.KEY_SHARED], ids=str)
def test_an_unload_is_restored_in_the_next_round(there: Cluster, kind: SubscriptionType) -> None:
    positions = there.fill(kind=kind)
    with_type(there)
    watching = watch(there)
    assert texts(watching) == []
    assert watching.counts.at_risk == 1
    there.unload()
    assert len(there.acked()) == LIMIT + 1
    assert texts(watching) == ["loaded anew: 9 acknowledgments are lost", "restored 9 acknowledgments"]
    assert there.acked() == set(positions[1::2])
    # The restored acknowledgments are watched, too.
    there.unload()
    assert texts(watching)[-1] == "restored 9 acknowledgments"
    assert there.acked() == set(positions[1::2])
    assert (watching.counts.restored, watching.counts.restored_entries, watching.counts.pending) == (2, 18, 0)
    assert texts(watching) == []


def test_a_seek_is_not_undone_with_or_without_a_load(there: Cluster) -> None:
    positions = there.fill()
    with_type(there)
    watching = watch(there)
    assert texts(watching) == []
    there.do(lambda each: each.seek(positions[5]))
    (text,) = texts(watching)
    assert text == "moved back: 18 entries are no longer acknowledged"
    there.unload()
    assert texts(watching) == []
    there.do(lambda each: each.seek(positions[0]))
    there.unload()
    assert texts(watching) == []
    assert len(there.acked()) == 0


def test_a_seek_and_a_load_between_two_rounds_are_refused_and_the_snapshot_is_kept(there: Cluster) -> None:
    positions = there.fill()
    with_type(there)
    watching = watch(there)
    texts(watching)
    there.do(lambda each: each.seek(positions[0]))
    there.unload()
    (text,) = texts(watching)
    assert text.startswith("not restored (first-range-gone): ")
    (kept,) = Path("state/refused").iterdir()
    assert str(kept) in text
    assert texts(watching) == []
    assert (len(there.acked()), dict(watching.counts.refused)) == (0, {"first-range-gone": 1})
    # A person who knows that there was no seek can use it.
    crash = ("--restart", "crash", "--admin", there.url)
    assert ackwell("rescue", "plan", str(kept), *crash).code == 0
    assert ackwell("rescue", "apply", "plan.json", "--admin", there.url, "--yes").code == 0
    assert there.acked() == set(positions[1::2])


def test_a_dry_run_sends_get_requests_and_writes_a_plan_that_a_later_run_carries_out(there: Cluster) -> None:
    positions, watching = with_waiting_plan(there)
    assert texts(watching) == []
    assert {method for method, _ in there.asked} == {"GET"}
    assert (watching.counts.pending, watching.counts.pending_entries) == (1, 9)
    assert texts(watch(there)) == ["restored 9 acknowledgments"]
    assert there.acked() == set(positions[1::2])
    assert list(Path("state").glob("*.plan.json")) == []


def test_the_losses_of_a_second_load_are_added_to_a_plan_that_waits(there: Cluster) -> None:
    positions, dry = with_waiting_plan(there)
    with_type(there)
    later = positions[24:40:2]
    there.do(lambda each: [each.subscription.ack(None, *position) for position in later])
    assert texts(dry) == []
    there.unload()
    assert texts(dry) == ["loaded anew: 8 acknowledgments are lost; --yes restores them"]
    assert (dry.counts.losses, dry.counts.pending, dry.counts.pending_entries) == (2, 1, 17)
    assert texts(watch(there)) == ["restored 17 acknowledgments"]
    assert there.acked() == {*positions[1::2], *later}


def test_a_seek_before_a_second_load_refuses_the_plan_that_waits(there: Cluster) -> None:
    positions, dry = with_waiting_plan(there)
    with_type(there)
    there.do(lambda each: each.seek(positions[5]))
    there.unload()
    with_type(there)
    of_plan, of_load = texts(dry)
    assert of_plan.startswith("not restored (lost-since-the-plan): ")
    assert of_load.startswith("not restored (")
    assert dry.counts.pending == 0
    assert texts(watch(there)) == []
    assert there.acked() == {*positions[:5]}


def test_a_plan_of_an_earlier_run_that_no_longer_matches_is_refused_and_kept(there: Cluster) -> None:
    positions, _ = with_waiting_plan(there)
    # A seek forward keeps every acknowledgment that the plan knew.
    there.do(lambda each: each.seek(positions[30]))
    (text,) = texts(watch(there))
    assert text.startswith("not restored (few-ranges-kept): ")
    assert [path.name.split(".")[-2:] for path in Path("state/refused").iterdir()] == [["plan", "json"]]
    assert len(there.acked()) == 30


def test_a_scalable_topic_is_reported_once_and_does_not_make_a_round_incomplete(tmp_path: Path) -> None:
    with broker(scalable_cluster()) as (url, _):
        connection = Connection(Admin(Endpoint(url=url)))
        watching = Watch(connection, ["shop/eu"], WatchFolder(tmp_path), restores=False)
        (text,) = texts(watching)
        assert "not judged: the admin API does not show the cursors of a scalable topic" in text
        assert texts(watching) == []
    assert (watching.counts.unread, watching.counts.topics) == (0, 1)
    assert watching.counts.complete_round_ms


@pytest.mark.parametrize("gone", [TOPIC, f"{TOPIC}/subscription/{NAME}"], ids=["topic", "subscription"])
def test_the_plan_of_a_deleted_subscription_is_refused_and_kept(there: Cluster, gone: str) -> None:
    _, watching = with_waiting_plan(there)
    path = gone.replace("://", "/")
    there.connection().admin.change("DELETE", f"{path}?force=true")
    (text,) = texts(watching)
    assert text.startswith("not restored (not-watched): ")
    assert watching.counts.pending == 0
    assert [path.name.split(".")[-2:] for path in Path("state/refused").iterdir()] == [["plan", "json"]]


def test_what_consumers_acknowledged_again_needs_no_restore(there: Cluster) -> None:
    positions, watching = with_waiting_plan(there)
    there.do(lambda each: [each.subscription.ack(None, *position) for position in positions[1::2]])
    assert texts(watching) == ["nothing is missing any longer"]
    assert watching.counts.pending == 0


def test_a_watch_continues_from_its_folder(there: Cluster) -> None:
    """It is killed after the observation; another one starts after the restart of the broker."""
    positions = there.fill()
    with_type(there)
    texts(watch(there))
    there.unload()
    assert texts(watch(there))[-1] == "restored 9 acknowledgments"
    assert there.acked() == set(positions[1::2])
    file = next(Path("state").glob("*.snapshot.json"))
    file.write_text(file.read_text().replace("orders", "others"))
    done = ackwell("rescue", "watch", "--admin", there.url, "--rounds", "1")
    assert (done.code, "its SHA-256 does not match" in done.err) == (1, True)


def test_a_topic_without_a_subscription_at_risk_is_not_watched(there: Cluster) -> None:
    positions = there.fill()
    with_type(there)
    watching = watch(there)
    texts(watching)
    assert len(list(Path("state").glob("*.snapshot.json"))) == 1
    there.do(lambda each: each.clear_backlog())
    assert texts(watching) == []
    assert list(Path("state").glob("*.snapshot.json")) == []
    assert watching.counts.at_risk == 0
    assert there.acked() == set(positions)


def test_a_restore_that_fails_is_tried_again(there: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    positions = there.fill()
    with_type(there)
    watching = watch(there)
    texts(watching)
    there.unload()
    acknowledge = Connection.acknowledge

    def breaks(*_: object) -> None:
        monkeypatch.setattr(Connection, "acknowledge", acknowledge)
        raise BrokerError("the connection broke")

    monkeypatch.setattr(Connection, "acknowledge", breaks)
    assert texts(watching)[-1] == "not restored yet: the connection broke"
    assert watching.counts.pending == 1
    assert texts(watching) == ["restored 9 acknowledgments"]
    assert there.acked() == set(positions[1::2])


def test_a_broker_that_does_not_answer_is_an_event_and_nothing_is_forgotten(
    there: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ackwell.cluster.endpoint._FIRST_PAUSE_SECONDS", 0.001)
    there.fill()
    with_type(there)
    watching = watch(there)
    texts(watching)
    complete_ms = watching.counts.complete_round_ms
    url, watching._connection = there.url, Cluster(there.broker, "http://127.0.0.1:9", []).connection()
    assert all(text.startswith("not read: ") for text in texts(watching))
    assert watching.counts.unread == 1
    assert watching.counts.complete_round_ms == complete_ms
    assert len(list(Path("state").glob("*.snapshot.json"))) == 1
    there.url = url
    watching._connection = there.connection()
    there.unload()
    assert texts(watching)[-1] == "restored 9 acknowledgments"


def test_the_command_runs_rounds_and_serves_metrics(there: Cluster) -> None:
    there.fill()
    with_type(there)
    options = ("rescue", "watch", "--admin", there.url, "public/default", "--every", "1s", "--rounds", "1")
    done = ackwell(*options, "--listen", "127.0.0.1:0")
    assert done.code == 0, done.err
    metrics, start, counts = done.out.splitlines()
    assert metrics.startswith("metrics: http://127.0.0.1:")
    assert start.endswith("UTC watching public/default, a round every 1 s: dry run; add --yes to restore")
    assert counts.endswith(f"UTC {QUIET}")
    there.unload()
    done = ackwell(*options)
    assert f"{NAME!r} of {TOPIC}: loaded anew: 9 acknowledgments are lost; --yes restores them" in done.out
    assert {method for method, _ in there.asked} == {"GET"}
    assert f"{NAME!r} of {TOPIC}: restored 9 acknowledgments" in ackwell(*options, "--yes").out
    lines = Path("ackwell-rescue.audit.jsonl").read_text().splitlines()
    assert [json.loads(line)["what"] for line in lines] == ["acknowledge"]
    for wrong in (("--every", "0"), ("--every", "x"), ("--listen", "x")):
        assert ackwell("rescue", "watch", "--admin", there.url, *wrong).code == 2


def test_a_round_without_a_change_prints_nothing(there: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    there.fill()
    with_type(there)
    pauses = list[float]()

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 2:
            there.unload()

    clock = SimpleNamespace(sleep=sleep)
    monkeypatch.setattr("ackwell.cli.rescue_command.time", clock)
    options = ("rescue", "watch", "--admin", there.url, "public/default", "--rounds", "4")
    _, *lines = (line.partition(" UTC ")[2] for line in ackwell(*options).out.splitlines())
    assert len(pauses) == 3
    assert lines == [
        QUIET,
        f"{NAME!r} of {TOPIC}: loaded anew: 9 acknowledgments are lost; --yes restores them",
        QUIET.replace("0 with", "1 with"),
    ]


def test_the_server_shows_metrics_and_health() -> None:
    counts = WatchCounts(rounds=3, at_risk=2, restored_entries=9)
    counts.refused["first-range-gone"] += 1
    with watch_server(("127.0.0.1", 0), counts, every_seconds=10, restores=True) as (host, port):

        def get(path: str) -> tuple[int, str]:
            try:
                with urllib.request.urlopen(f"http://{host}:{port}{path}", timeout=10) as answer:
                    return answer.status, answer.read().decode()
            except urllib.error.HTTPError as error:
                return error.code, error.read().decode()

        assert get("/metrics") == (200, watch_metrics(counts, restores=True))
        assert get("/healthz") == (503, "no recent round\n")
        counts.round_ended_s = time.monotonic()
        assert get("/healthz") == (200, "ok\n")
        assert get("/other")[0] == 404
    text = watch_metrics(counts, restores=True)
    assert "# TYPE ackwell_watch_restored_entries_total counter\n" in text
    assert (
        "# TYPE ackwell_watch_subscriptions_at_risk gauge\nackwell_watch_subscriptions_at_risk 2.0\n" in text
    )
    assert 'ackwell_watch_refused_total{code="first-range-gone"} 1\n' in text


@pytest.mark.faults
def test_a_watch_is_exact_after_a_kill_at_any_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kills = at = 0
    code = -9
    while code:
        with at_step(at, tmp_path, monkeypatch, LIMIT) as (there, wire):
            truth = set(there.fill(kind=SubscriptionType.KEY_SHARED)[1::2])
            with_type(there)
            options = ("--admin", there.url, "--broker", wire, "--rounds", "1", "--yes")
            assert ackwell("rescue", "watch", *options).code == 0
            there.unload()
            code = kill(there, at, "watch", *options)
            assert code in (0, -9)
            kills += code == -9
            for _ in range(2):
                done = ackwell("rescue", "watch", *options)
                assert done.code == 0, f"killed at step {at}: {done.err}"
            assert there.acked() == truth, f"killed at step {at}"
            assert list(Path("state").glob("*.plan.json")) == []
            assert list(Path("state/refused").iterdir()) == []
        at += 1
    print(kills)
    assert kills > 15


def test_two_watches_of_one_folder_are_refused(there: Cluster) -> None:
    from ackwell.cluster.collect import hold_lock

    WatchFolder(Path("state"))
    with hold_lock(Path("state/.watch.lock"), "ackwell rescue watch"):
        done = ackwell("rescue", "watch", "--admin", there.url, "--rounds", "1")
    assert (done.code, "another run of `ackwell rescue watch`" in done.err) == (1, True)


def test_a_state_folder_that_cannot_be_listed_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str) -> object:
        raise PermissionError(13, "Permission denied", os.fspath(path))

    folder = WatchFolder(tmp_path)
    for name in ("listdir", "scandir"):
        monkeypatch.setattr(os, name, refuse)
    for read in (folder.observations, folder.plans):
        with pytest.raises(PermissionError):
            read()
