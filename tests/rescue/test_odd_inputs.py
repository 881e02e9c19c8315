"""Unlikely inputs: each is refused in one line, and nothing is changed."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ackwell import Position, PositionInfo
from ackwell.errors import StatsError
from ackwell.rescue import Plan, RefusedError, Report
from ackwell.rescue.checksums import with_sha256
from tests.commands import USAGE, ackwell, held
from tests.diagnosis.damages import places_of, value_at
from tests.hostile.values import damaged
from tests.rescue.cluster import NAME, TOPIC, Cluster, cluster


@pytest.fixture(scope="module")
def shared() -> Iterator[Cluster]:
    with cluster() as made:
        made.fill()
        made.do(lambda each: setattr(each, "had_consumer", True))
        yield made


@pytest.fixture
def there(shared: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    monkeypatch.chdir(tmp_path)
    before = shared.acked()
    shared.asked.clear()
    yield shared
    assert {method for method, _ in shared.asked} <= {"GET"}
    assert (shared.acked(), shared.rates) == (before, {})
    assert list(shared.broker._broker.state.topics[TOPIC].subscriptions) == [NAME]


def refused(there: Cluster, *arguments: str) -> str:
    """Run a command that refuses; return its message on one line."""
    done = held(ackwell("rescue", *arguments, "--admin", there.url))
    assert done.code
    return " ".join((done.err).split())


@pytest.mark.parametrize("url", ["", "x", "pulsar://[::1", "pulsar://x:99999", "http://x:1"])
def test_an_address_that_cannot_be_one_is_a_wrong_command_line(there: Cluster, url: str) -> None:
    done = ackwell("rescue", "unload", TOPIC, NAME, "--admin", there.url, "--broker", url, "--yes")
    assert done.code == USAGE
    assert "--broker" in done.err


COMMANDS: dict[str, tuple[str, ...]] = {
    "snapshot": (NAME,),
    "hold": (NAME, "--journal", "j", "--yes"),
    "copy": (NAME, "new", "--yes"),
    "ack": (NAME, "0:1", "--yes"),
    "unload": (NAME, "--yes"),
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("topic", "says"),
    [
        ("", "the text is empty"),
        ("x/y", "invalid topic name"),
        ("public/default", "invalid topic name"),
        ("persistent://public/default/", "invalid topic name"),
        ("non-persistent://public/default/orders", "keeps no acknowledgments"),
        ("persistent://public/default/..", "404"),
        ("\udc80", "404"),
    ],
)
def test_what_is_not_the_topic_is_named(there: Cluster, command: str, topic: str, says: str) -> None:
    assert says in refused(there, command, topic, *COMMANDS[command])
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize("position", [f"{2**63}:0", f"0:{2**63}", "99999999999999999999999:1", "1:2:3", "x"])
def test_what_is_not_a_position_is_a_wrong_command_line(there: Cluster, position: str) -> None:
    assert "not a position" in refused(there, "ack", TOPIC, NAME, position, "--yes")


def test_what_cannot_be_done_is_refused_without_yes_too(there: Cluster) -> None:
    assert "has a subscription 'billing' already" in refused(there, "copy", TOPIC, NAME, NAME)
    assert "is an internal subscription of the broker" in refused(there, "copy", TOPIC, NAME, "__compaction")
    Path("j").write_text("{}")
    assert "not a journal of `ackwell rescue hold`" in refused(there, "hold", TOPIC, NAME, "--journal", "j")


def test_a_snapshot_of_another_cluster_is_refused(there: Cluster) -> None:
    assert ackwell("rescue", "snapshot", TOPIC, NAME, "--admin", there.url).code == 0
    value = json.loads(Path("before.json").read_text())
    del value["sha256"]
    Path("before.json").write_text(json.dumps(with_sha256(value | {"cluster": "east"})))
    said = refused(there, "plan", "before.json")
    assert "refused (other-cluster)" in said
    assert "the snapshot is of cluster 'east', and this is 'standalone'" in said
    assert json.loads(Path("plan.json").read_text())["plans"] == []
    # An unread source has a higher exit code than a refusal.
    done = ackwell("rescue", "plan", "before.json", "nope.json", "--admin", there.url)
    assert (done.code, "1 refused, 1 not read" in done.out) == (5, True)


@pytest.mark.parametrize(
    "value",
    [
        b"[" * 100_000,
        b"\xff\xfe{}",
        {"version": 1},
        {"version": 1, "plans": None},
        {"version": 1, "plans": {"a": 1}},
        {"version": 1, "plans": [1]},
        {"version": 1, "plans": [{"topic": 5}]},
    ],
)
def test_what_is_not_a_plan_is_named(there: Cluster, value: Any) -> None:
    Path("p.json").write_bytes(value if isinstance(value, bytes) else json.dumps(with_sha256(value)).encode())
    answer = refused(there, "apply", "p.json", "--yes")
    assert "p.json: " in answer
    assert "not a plan of `ackwell rescue plan`" in answer


def test_a_plan_whose_names_are_none_is_named(there: Cluster) -> None:
    assert ackwell("rescue", "snapshot", TOPIC, NAME, "--admin", there.url).code == 0
    assert ackwell("rescue", "plan", "before.json", "--admin", there.url).code == 0
    value = json.loads(Path("plan.json").read_text())
    del value["sha256"]
    for topic in (5, "x/y"):
        value["plans"][0]["topic"] = topic
        Path("p.json").write_text(json.dumps(with_sha256(value)))
        assert "p.json: damaged or incomplete: not a plan of" in refused(there, "apply", "p.json", "--yes")


def test_a_plan_with_a_field_of_another_type_is_read_or_named(there: Cluster) -> None:
    assert ackwell("rescue", "snapshot", TOPIC, NAME, "--admin", there.url).code == 0
    assert ackwell("rescue", "plan", "before.json", "--admin", there.url).code == 0
    (plan,) = json.loads(Path("plan.json").read_text())["plans"]
    read = named = 0
    for *path, name in places_of(plan):
        for value in (None, 5, 1.5, True, "x", [], {}, [1], {"a": 1}, 1 << 70):
            changed = copy.deepcopy(plan)
            value_at(changed, tuple(path))[name] = value
            try:
                Plan.of_json(changed)
                read += 1
            except StatsError:
                named += 1
    assert read > 0
    assert named > 100


@pytest.fixture(scope="module")
def crashed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, Path]]:
    """Return a cluster that lost acknowledgments, and a folder with a snapshot from before the loss."""
    folder = tmp_path_factory.mktemp("crashed")
    with cluster() as made:
        made.fill()
        made.do(lambda each: setattr(each, "had_consumer", True))
        before = str(folder / "before.json")
        assert ackwell("rescue", "snapshot", TOPIC, NAME, "--admin", made.url, "-o", before).code == 0
        made.crash()
        yield made, folder


ACKED = [(0, n - 1, n) for n in range(1, 40, 2)]
ACKS = PositionInfo(0, -1, ACKED, {(0, 4): [5]}).encode()


@given(st.just(ACKS) | damaged(ACKS) | st.binary(max_size=60))
@settings(max_examples=12, suppress_health_check=list(HealthCheck))
def test_any_file_of_acks_leaves_the_entries_of_a_plan_alone(
    crashed: tuple[Cluster, Path], data: bytes
) -> None:
    """Parts of batches in a damaged file can be wrong, because such a file has no checksum."""
    there, folder = crashed
    acks, output = folder / "acks", folder / "plan.json"
    acks.write_bytes(data)
    output.unlink(missing_ok=True)
    arguments = ("--admin", there.url, "--restart", "crash", "-o", str(output), "--acks", str(acks))
    done = held(ackwell("rescue", "plan", str(folder / "before.json"), *arguments))
    plans = json.loads(output.read_text())["plans"] if output.exists() else []
    assert bool(plans) == (done.code == 0)
    assert plans or data != ACKS
    for plan in map(Plan.of_json, plans):
        assert set(plan.missing.positions()) == {Position(0, n) for n in range(1, 40, 2)} - there.acked()
        assert {Position(0, n) for n in range(0, 40, 2)}.issuperset(plan.ack_sets)
        held(ackwell("rescue", "apply", str(output), "--admin", there.url))


def test_the_worst_of_several_subscriptions_is_the_exit_code(
    there: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ackwell("rescue", "snapshot", TOPIC, NAME, "--admin", there.url).code == 0
    assert ackwell("rescue", "plan", "before.json", "--admin", there.url).code == 0
    value = json.loads(Path("plan.json").read_text())
    del value["sha256"]
    Path("p.json").write_text(json.dumps(with_sha256(value | {"plans": value["plans"] * 3})))
    missing = Report(topic=TOPIC, subscription=NAME, sent=1, missing=1, ack_sets=0)
    whole = Report(topic=TOPIC, subscription=NAME, sent=0, missing=0, ack_sets=0)
    refusal = RefusedError("transactions", topic=TOPIC)
    for outcomes in permutations([missing, refusal, whole]):
        monkeypatch.setattr("ackwell.rescue.apply", Mock(side_effect=outcomes))
        assert ackwell("rescue", "apply", "p.json", "--admin", there.url, "--yes").code == 4


def test_what_an_unload_would_touch_beside_is_counted(there: Cluster) -> None:
    done = ackwell("rescue", "unload", TOPIC, NAME, "--admin", there.url)
    assert "unload the topic, with 0 other subscriptions" in done.out
