"""`ackwell rescue` with a broker in this process: its requests, its refusals, and the state afterwards."""

from __future__ import annotations

import json
import random
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ackwell.cli import console
from ackwell.cluster.admin import Admin
from ackwell.cluster.credentials import Token
from ackwell.cluster.endpoint import Endpoint
from ackwell.devbroker import Broker
from ackwell.errors import AckwellError, StatsError
from ackwell.protocol.constants import SubscriptionType
from ackwell.rescue import (
    BrokerError,
    Connection,
    Plan,
    RefusedError,
    Report,
    Snapshot,
    apply,
    operations,
    plan,
)
from ackwell.rescue.checksums import with_sha256
from ackwell.rescue.restoring import restore_after_unload
from tests.cli.test_help import COMMANDS as SUBCOMMANDS
from tests.commands import ackwell
from tests.devbroker.raw import RawClient
from tests.rescue.cluster import LIMIT, NAME, TOPIC, Cluster, cluster, counted_wire

if TYPE_CHECKING:
    from ackwell import Position


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    monkeypatch.chdir(tmp_path)
    with cluster() as made:
        yield made


def prepared(there: Cluster) -> None:
    """Take a snapshot, lose acknowledgments, and make a plan."""
    there.fill()
    snapshot(there)
    there.unload()
    done = ackwell("rescue", "plan", "before.json", "--admin", there.url)
    assert done.code == 0, done.err


def snapshot(there: Cluster) -> None:
    with_type(there)
    done = ackwell("rescue", "snapshot", "--admin", there.url, TOPIC, NAME, "-o", "before.json")
    assert done.code == 0, done.err


def with_type(there: Cluster) -> None:
    there.do(lambda each: setattr(each, "had_consumer", True))


COMMANDS_WITH_EXAMPLES = ("snapshot", "plan", "apply", "unload", "hold", "release", "copy", "ack")


def examples(name: str) -> list[str]:
    """Return the command lines in the help of a subcommand; continued lines are joined."""
    text = SUBCOMMANDS[f"rescue {name}"].examples.replace("\\\n", " ")
    return re.findall(r"^    (\S.*)$", text, re.MULTILINE)


COMMANDS = {
    "snapshot": (TOPIC, NAME, "-o", "again.json"),
    "plan": ("before.json",),
    "apply": ("plan.json",),
    "unload": (TOPIC, NAME),
    "hold": (TOPIC, NAME, "--journal", "held"),
    "release": ("--journal", "held"),
    "copy": (TOPIC, NAME, "new"),
    "ack": (TOPIC, NAME, "0:0"),
}


def test_without_yes_every_command_sends_get_requests_only_and_no_binary_command(there: Cluster) -> None:
    prepared(there)
    with_type(there)
    before = there.acked()
    assert (
        ackwell("rescue", "hold", TOPIC, NAME, "--admin", there.url, "--journal", "held", "--yes").code == 0
    )
    Path("ackwell-rescue.audit.jsonl").unlink()
    rates, journal = dict(there.rates), Path("held").read_bytes()
    for name, arguments in COMMANDS.items():
        there.asked.clear()
        with counted_wire(there) as wire:
            there.pid, there.steps, there.kill_at = 0, 0, -1
            options = ("--broker", wire) if name in ("apply", "unload", "copy", "ack") else ()
            done = ackwell("rescue", name, *arguments, "--admin", there.url, *options)
            there.pid = None
        assert done.code == 0, f"{name}: {done.err}"
        # `release` reads only its journal.
        assert {method for method, _ in there.asked} == (set() if name == "release" else {"GET"}), name
        # Each request is two steps; further steps are binary frames.
        assert there.steps == 2 * len(there.asked), name
    # test_windows.py and test_watch.py have the same test for their commands.
    assert {f"rescue {name}" for name in (*COMMANDS, "begin", "end", "status", "watch")} == {
        each for each in SUBCOMMANDS if each.startswith("rescue ")
    }
    assert there.acked() == before
    assert there.rates == rates != {}
    assert Path("held").read_bytes() == journal
    assert not Path("ackwell-rescue.audit.jsonl").exists()


def test_a_second_run_restores_nothing(there: Cluster) -> None:
    positions = there.fill()
    snapshot(there)
    there.unload()
    assert len(there.acked()) == 4
    for sent in (16, 0):
        done = ackwell("rescue", "plan", "before.json", "--admin", there.url)
        assert f"planned ({sent} entries)" in done.out
        done = ackwell("rescue", "apply", "plan.json", "--admin", there.url, "--yes")
        assert (done.code, there.acked()) == (0, set(positions[1::2]))
        assert (f"{sent} acknowledgments restored, 0 are" if sent else "nothing is missing") in done.out
    (line,) = Path("ackwell-rescue.audit.jsonl").read_text().splitlines()
    assert json.loads(line) | {"timeMs": 0, "sha256": ""} == {
        "timeMs": 0,
        "what": "acknowledge",
        "topic": TOPIC,
        "subscription": NAME,
        "positions": 16,
        "sha256": "",
    }


def test_a_long_plan_shows_on_a_terminal_how_far_it_is(
    there: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared(there)
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(console.err, "is_interactive", True)
    done = ackwell("rescue", "apply", "plan.json", "--admin", there.url, "--yes")
    assert done.code == 0
    assert "commands of up to 1,000 acknowledgments" in done.err


@pytest.mark.parametrize("kind", SubscriptionType)
def test_every_type_is_put_back(there: Cluster, kind: SubscriptionType) -> None:
    positions = there.fill(kind=kind)
    with_type(there)
    with there.connection() as connection:
        before = connection.read_live(TOPIC, NAME)
        there.unload()
        report = apply(plan(before, connection.read_live(TOPIC, NAME)), connection)
        assert (report.sent, report.missing, connection.received, connection.errors) == (16, 0, 0, [])
    assert there.acked() == set(positions[1::2])


def test_a_snapshot_of_before_a_restart_is_not_written_over(there: Cluster) -> None:
    there.fill()
    snapshot(there)
    before = Path("before.json").read_bytes()
    there.unload()
    done = ackwell("rescue", "snapshot", "--admin", there.url, TOPIC, NAME)
    assert (done.code, "before.json exists" in done.err) == (2, True)
    assert Path("before.json").read_bytes() == before
    assert ackwell("rescue", "snapshot", "--admin", there.url, TOPIC, NAME, "-o", "-").code == 0


def test_a_snapshot_that_is_not_there_leaves_the_plan_of_before(there: Cluster) -> None:
    prepared(there)
    before = Path("plan.json").read_bytes()
    done = ackwell("rescue", "plan", "other.json", "--admin", there.url)
    assert (done.code, done.out.splitlines()[-1]) == (
        5,
        "0 planned (0 entries), 0 refused, 1 not read: nothing is written",
    )
    assert Path("plan.json").read_bytes() == before


def test_a_plan_that_does_not_follow_any_more_is_refused(there: Cluster) -> None:
    prepared(there)
    there.do(lambda each: each.seek(each.content.first_position))
    done = ackwell("rescue", "apply", "plan.json", "--admin", there.url, "--yes")
    assert (done.code, "refused (lost-since-the-plan)" in done.err) == (3, True)
    assert there.acked() == set()


def test_a_seek_between_the_first_look_and_the_helper_is_seen(there: Cluster) -> None:
    class Late(Connection):
        def _attach(self, topic: str, subscription: str, kind: SubscriptionType) -> None:
            there.do(lambda each: each.seek(each.content.first_position))
            super()._attach(topic, subscription, kind)

    there.fill()
    with_type(there)
    with Late(there.connection().admin) as connection:
        before = connection.read_live(TOPIC, NAME)
        there.unload()
        made = plan(before, connection.read_live(TOPIC, NAME))
        with pytest.raises(RefusedError, match="acknowledged when the plan was made"):
            apply(made, connection)
    assert there.acked() == set()


def test_a_subscription_that_is_gone_is_not_made_anew(there: Cluster) -> None:
    prepared(there)
    there.do(lambda each: each.delete())
    done = ackwell("rescue", "apply", "plan.json", "--admin", there.url, "--yes")
    assert (done.code, "there is no subscription" in done.err) == (1, True)


def test_what_ends_one_subscription_with_an_error_ends_no_other(there: Cluster) -> None:
    positions = there.fill()
    with_type(there)
    # The plan has the order of the snapshots.
    for number, name in enumerate(("a", "c")):
        assert ackwell("rescue", "copy", TOPIC, NAME, name, "--admin", there.url, "--yes").code == 0
        file = f"{number}.json"
        assert ackwell("rescue", "snapshot", TOPIC, name, "--admin", there.url, "-o", file).code == 0
    snapshot(there)
    there.unload()
    files = ("0.json", "before.json", "1.json")
    assert ackwell("rescue", "plan", *files, "--admin", there.url).code == 0
    subscriptions = there.broker._broker.state.topics[TOPIC].subscriptions
    for name in ("a", "c"):
        there.broker.call(subscriptions[name].delete)
    done = ackwell("rescue", "apply", "plan.json", "--admin", there.url, "--yes")
    assert (done.code, there.acked()) == (1, set(positions[1::2]))
    assert [f"there is no subscription '{name}'" in done.err for name in "abc"] == [True, False, True]
    assert len(done.err.splitlines()) == 2


def test_an_unload_forgets_nothing_and_leaves_the_rate_that_was_set(there: Cluster) -> None:
    positions = there.fill()
    with_type(there)
    path = "/admin/v2/persistent/public/default/orders/billing/dispatchRate"
    there.rates[path] = {"dispatchThrottlingRateInMsg": 7}
    done = ackwell("rescue", "unload", TOPIC, NAME, "--admin", there.url, "--yes")
    assert done.code == 0, done.err
    assert there.acked() == set(positions[1::2])
    assert there.rates == {path: {"dispatchThrottlingRateInMsg": 7}}
    assert [method for method, _ in there.asked if method != "GET"] == ["POST", "PUT", "POST"]
    whats = [json.loads(line)["what"] for line in Path("ackwell-rescue.audit.jsonl").read_text().splitlines()]
    assert whats == ["hold", "unload", "acknowledge", "release"]
    assert sorted(path.name for path in Path().iterdir()) == ["ackwell-rescue.audit.jsonl"]


def test_a_crash_between_the_restore_and_the_release_of_an_unload_leaves_the_hold(
    there: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    positions = there.fill()
    with_type(there)
    unload = ("rescue", "unload", TOPIC, NAME, "--admin", there.url, "--journal", "j", "--yes")

    def crashes(before: Snapshot, cluster: Connection) -> tuple[Plan, Report]:
        done = restore_after_unload(before, cluster)
        there.crash()
        return done

    with monkeypatch.context() as patched:
        patched.setattr(operations, "restore_after_unload", crashes)
        done = ackwell(*unload)
    assert (done.code, f"{TOPIC}: 16 entries are missing before the release" in done.err) == (1, True), done
    assert done.out == "still held, journal j: run the command again, or `ackwell rescue release`\n"
    assert len(there.rates) == 1
    # The next run restores from the same snapshot, and does not unload the topic again.
    done = ackwell(*unload)
    assert (done.code, done.err, there.rates) == (0, "", {})
    assert there.acked() == set(positions[1::2])
    whats = [json.loads(line)["what"] for line in Path("ackwell-rescue.audit.jsonl").read_text().splitlines()]
    assert whats == ["hold", "unload", "acknowledge", "acknowledge", "release"]


@pytest.mark.parametrize("error", [AckwellError("no connection"), StatsError("no answer", TOPIC)])
def test_a_failed_restore_of_an_unload_leaves_the_hold(
    error: AckwellError, there: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    positions = there.fill()
    with_type(there)
    unload = ("rescue", "unload", TOPIC, NAME, "--admin", there.url, "--journal", "j", "--yes")

    def fails(*_: object) -> None:
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(operations, "restore_after_unload", fails)
        done = ackwell(*unload)
    assert (done.code, done.err) == (1, f"error: {error}\n")
    assert done.out == "still held, journal j: run the command again, or `ackwell rescue release`\n"
    assert (len(there.rates), len(there.acked())) == (1, 4)
    done = ackwell(*unload)
    assert (done.code, done.err, there.rates) == (0, "", {})
    assert there.acked() == set(positions[1::2])


def test_hold_its_printed_end_and_unload_work_on_the_dev_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with Broker() as broker, RawClient(broker) as client:
        client.subscribe(TOPIC, permits=10, subscription=NAME, subType=SubscriptionType.SHARED.number)
        held = ackwell("rescue", "hold", TOPIC, NAME, "--admin", broker.admin_url, "--journal", "j", "--yes")
        assert held.code == 0, held.err
        refused = ackwell("rescue", "unload", TOPIC, NAME, "--admin", broker.admin_url, "--yes")
        assert refused.code != 0
        assert ".journal" not in refused.out
        command = shlex.split(held.out.partition("To end it: ")[2])
        released = ackwell(*command[1:])
        assert (released.code, Path("j").exists()) == (0, False), released.err
        done = ackwell("rescue", "unload", TOPIC, "--admin", broker.admin_url, "--yes")
        assert (done.code, done.out) == (0, f"{TOPIC} is unloaded; no subscription needed protection\n"), (
            done.err
        )


def test_a_run_that_died_after_its_unload_is_ended_though_no_consumer_came(there: Cluster) -> None:
    positions = there.fill()
    with_type(there)
    taken = ackwell("rescue", "snapshot", TOPIC, NAME, "--admin", there.url, "-o", "j.snapshot.json")
    assert taken.code == 0
    there.unload()
    done = ackwell("rescue", "unload", TOPIC, NAME, "--admin", there.url, "--journal", "j", "--yes")
    assert (done.code, done.err) == (0, "")
    assert there.acked() == set(positions[1::2])


def test_a_journal_is_written_before_the_hold_and_is_enough_to_release(there: Cluster) -> None:
    there.fill()
    with_type(there)
    arguments = ("--admin", there.url, "--journal", "j", "--yes")
    assert ackwell("rescue", "hold", TOPIC, NAME, *arguments).code == 0
    (rate,) = there.rates.values()
    assert rate["ratePeriodInSecond"] == 3600
    # A second run keeps the journal and the snapshot of the first.
    assert ackwell("rescue", "hold", TOPIC, NAME, *arguments).code == 0
    other = ("--admin", there.url, "--journal", "other", "--yes")
    assert "refused (held-already)" in ackwell("rescue", "hold", TOPIC, NAME, *other).err
    assert ackwell("rescue", "release", *arguments).code == 0
    assert there.rates == {}
    assert not Path("j").exists()


def test_the_journal_of_another_subscription_is_not_released(there: Cluster) -> None:
    there.fill()
    with_type(there)
    arguments = ("--admin", there.url, "--journal", "j", "--yes")
    assert ackwell("rescue", "hold", TOPIC, NAME, *arguments).code == 0
    journal = json.loads(Path("j").read_text())
    del journal["sha256"]
    Path("j").write_text(json.dumps(with_sha256(journal | {"subscription": "other"})))
    done = ackwell("rescue", "unload", TOPIC, NAME, *arguments)
    assert (done.code, "refused (other-journal)" in done.err) == (3, True)
    short = TOPIC.removeprefix("persistent://")
    for names, code in (((short, NAME), 3), ((f"{short}-2",), 3), ((short,), 0), ((TOPIC, "other"), 0)):
        done = ackwell("rescue", "release", *names, *arguments[:-1])
        assert (done.code, "refused (other-journal)" in done.err) == (code, code == 3), names
    assert len(there.rates) == 1
    assert Path("j").exists()


def test_a_rate_that_was_set_meanwhile_is_left(there: Cluster) -> None:
    there.fill()
    with_type(there)
    arguments = ("--admin", there.url, "--journal", "j", "--yes")
    assert ackwell("rescue", "hold", TOPIC, NAME, *arguments).code == 0
    (path,) = there.rates
    there.rates[path] = {"dispatchThrottlingRateInMsg": 9}
    assert "another rate was set" in ackwell("rescue", "release", *arguments).out
    assert there.rates == {path: {"dispatchThrottlingRateInMsg": 9}}


def test_a_copy_has_the_same_acknowledgments(there: Cluster) -> None:
    positions = there.fill()
    done = ackwell("rescue", "copy", TOPIC, NAME, "new", "--admin", there.url, "--yes")
    assert done.code == 0, done.err
    state = there.broker._broker.state
    copied = there.broker.call(lambda: state.topics[TOPIC].subscriptions["new"].cursor.acknowledged())
    assert set(copied.positions()) == set(positions[1::2])
    done = ackwell("rescue", "copy", TOPIC, NAME, "new", "--admin", there.url, "--yes")
    assert (done.code, "refused (exists)" in done.err) == (3, True)


def test_one_poison_message_is_acknowledged_and_what_is_no_entry_is_refused(there: Cluster) -> None:
    positions = there.fill()
    with_type(there)
    first = str(positions[0])
    done = ackwell("rescue", "ack", TOPIC, NAME, first, "--admin", there.url, "--yes")
    assert (done.code, there.acked()) == (0, {positions[0], *positions[1::2]})
    done = ackwell("rescue", "ack", TOPIC, NAME, "0:99", "--admin", there.url, "--yes")
    assert (done.code, "refused (no-such-entry)" in done.err) == (3, True)


def test_the_seat_of_an_exclusive_subscription_is_not_taken_from_its_consumer(there: Cluster) -> None:
    positions = there.fill(kind=SubscriptionType.EXCLUSIVE)
    with RawClient(there.broker) as client:
        client.subscribe(TOPIC, permits=0, subscription=NAME, subType=0)
        done = ackwell("rescue", "ack", TOPIC, NAME, str(positions[0]), "--admin", there.url, "--yes")
    assert (done.code, "refused (exclusive-consumer)" in done.err) == (3, True)


def test_a_partitioned_topic_is_asked_for_a_partition(there: Cluster) -> None:
    there.connection().admin.change("PUT", "persistent/public/default/wide/partitions", 3)
    done = ackwell("rescue", "unload", "wide", NAME, "--admin", there.url, "--yes")
    assert (done.code, "refused (partitioned)" in done.err) == (3, True)
    assert "wide-partition-0" in done.err


@pytest.mark.parametrize(
    ("code", "admin", "url"),
    [
        ("not-encrypted", "https://127.0.0.1:1", "pulsar://127.0.0.1:6650"),
        ("unlisted-host", "http://127.0.0.1:1", "pulsar://10.1.2.3:6650"),
        ("no-address", "https://127.0.0.1:1", ""),
        ("no-address", "http://127.0.0.1:1", ""),
    ],
)
def test_the_credentials_go_nowhere_but_where_they_may(
    code: str, admin: str, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = Admin(Endpoint(url=admin, credentials=Token("secret"), timeout_seconds=0.1))
    found = {"brokerUrlTls": url, "brokerUrl": url}
    monkeypatch.setattr(client, "ask", lambda _: found)
    monkeypatch.setattr(client, "_cluster_hosts", lambda: frozenset({"10.9.9.9"}))
    with pytest.raises(RefusedError) as caught:
        Connection(client).open(TOPIC)
    assert caught.value.code == code
    assert "secret" not in str(caught.value)


def test_the_doctor_names_the_commands_and_they_rescue(there: Cluster) -> None:
    positions = there.fill()
    snapshot(there)
    done = ackwell("doctor", "--admin", there.url, "--format", "json", "--restart", "graceful", TOPIC)
    (judged,) = json.loads(done.out)["subscriptions"]
    (text,) = (each["text"] for each in judged["remedies"] if "ackwell rescue" in each["text"])
    Path("before.json").unlink()
    lines = re.findall(r"`(ackwell rescue [^`]*)`", text)
    assert [line.split()[2] for line in lines] == ["hold", "snapshot", "plan", "apply", "release"]
    for line in lines:
        done = ackwell(*shlex.split(line)[1:], "--admin", there.url)
        assert done.code == 0, f"{line}: {done.err}"
        if "snapshot" in line:
            there.unload()
    assert there.acked() == set(positions[1::2])
    assert there.rates == {}


def test_a_folder_goes_on_past_what_is_refused(there: Cluster) -> None:
    there.fill()
    with_type(there)
    there.do(lambda each: each.content)
    done = ackwell("collect", "--admin", there.url, "-o", "stats", "public/default")
    assert done.code == 0, done.err
    there.unload()
    done = ackwell("rescue", "plan", "stats", "--admin", there.url)
    assert done.code == 0, done.err
    assert "1 planned (16 entries), 0 refused" in done.out
    there.do(lambda each: each.seek(each.content.first_position))
    done = ackwell("rescue", "plan", "stats", "--admin", there.url)
    assert (done.code, "0 planned (0 entries), 1 refused" in done.out) == (3, True)
    assert "use --restart crash" in done.err


@pytest.mark.slow
def test_every_example_of_the_help_runs(there: Cluster) -> None:
    prepared(there)
    with_type(there)
    shutil.copy("before.json", "cursor.json")
    Path("stats").mkdir()
    shutil.copy("before.json", "stats/a.json")
    first = str(min(there.acked()))
    run = 0
    for name in COMMANDS_WITH_EXAMPLES:
        for line in examples(name):
            words = [TOPIC if word == "TOPIC" else word for word in shlex.split(line)]
            words = [there.url if word == "http://broker:8080" else word for word in words]
            words = [{"cursor.bin": "cursor.json", "3:17": first}.get(word, word) for word in words]
            if name == "snapshot":
                Path("before.json").rename("of-before.json")
            done = ackwell(*words[1:])
            assert done.code == 0, f"{line}: {done.err}"
            if name == "snapshot":
                Path("of-before.json").replace("before.json")
            run += 1
    assert run > 10


@contextmanager
def at_step(
    at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int = LIMIT
) -> Iterator[tuple[Cluster, str]]:
    """Make a folder, a cluster, and a proxy that counts its steps."""
    folder = tmp_path / str(at)
    folder.mkdir()
    monkeypatch.chdir(folder)
    with cluster(limit) as there, counted_wire(there) as wire:
        yield there, wire


def crashes(there: Cluster, at: int, truth: set[Position], *command: str) -> bool:
    """Run a command and kill the broker at a step; return whether the command reached that step."""
    there.steps, there.crash_at, there.counting = 0, at, True
    done = ackwell(*command)
    there.counting = False
    assert done.code in (0, 1, 3, 4), done.err
    assert there.acked() <= truth, f"killed at step {at}"
    return there.steps > at


@pytest.mark.faults
@pytest.mark.parametrize("kind", [SubscriptionType.SHARED, SubscriptionType.KEY_SHARED])
def test_our_death_at_any_step_of_an_unload_is_mended_by_the_next_run(
    kind: SubscriptionType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    died, at = 0, 0
    while True:
        with at_step(at, tmp_path, monkeypatch) as (there, wire):
            positions = there.fill(kind=kind)
            with_type(there)
            arguments = ["rescue", "unload", TOPIC, NAME, "--admin", there.url, "--broker", wire, "--yes"]
            with subprocess.Popen(
                [sys.executable, "-m", "ackwell", *arguments],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
            ) as process:
                there.steps, there.kill_at, there.pid = 0, at, process.pid
                _, words = process.communicate()
                code = process.returncode
                there.pid = None
            if not code:
                break
            assert code == -9, words
            died += 1
            done = ackwell(*arguments)
            assert done.code == 0, f"killed at step {at}: {done.err}"
            assert there.acked() == set(positions[1::2]), f"killed at step {at}"
            assert there.rates == {}, f"killed at step {at}"
            assert [path.name for path in Path().iterdir() if "journal" in path.name] == []
        at += 1
    assert died > 20


@pytest.mark.faults
def test_our_death_at_any_step_of_apply_is_mended_by_the_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    died, at = 0, 0
    while True:
        with at_step(at, tmp_path, monkeypatch) as (there, wire):
            prepared(there)
            arguments = ["rescue", "apply", "plan.json", "--admin", there.url, "--broker", wire, "--yes"]
            with subprocess.Popen(
                [sys.executable, "-m", "ackwell", *arguments], stdout=subprocess.DEVNULL
            ) as process:
                there.steps, there.kill_at, there.pid = 0, at, process.pid
                code = process.wait()
                there.pid = None
            if not code:
                break
            assert code == -9
            died += 1
            assert ackwell(*arguments).code == 0
            assert len(there.acked()) == 20, f"killed at step {at}"
        at += 1
    assert died > 8


@pytest.mark.faults
@pytest.mark.parametrize("kind", [SubscriptionType.SHARED, SubscriptionType.KEY_SHARED])
def test_a_broker_that_is_killed_at_any_step_of_apply_gets_nothing_wrong_and_the_next_runs_end_it(
    kind: SubscriptionType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = crashed = 0
    while at == crashed:
        with at_step(at, tmp_path, monkeypatch) as (there, wire):
            truth = set(there.fill(kind=kind)[1::2])
            snapshot(there)
            there.unload()
            admin = ("--admin", there.url)
            assert ackwell("rescue", "plan", "before.json", *admin).code == 0
            apply = ("rescue", "apply", "plan.json", *admin, "--broker", wire, "--yes")
            crashed += crashes(there, at, truth, *apply)
            # A reported success is true, except for acknowledgments that a crash lost after the last request.
            again = ackwell(*apply)
            if again.code:
                assert "refused (lost-since-the-plan)" in again.err, f"killed at step {at}: {again.err}"
                planned = ackwell("rescue", "plan", "before.json", "--restart", "crash", *admin)
                assert planned.code == 0, f"killed at step {at}: {planned.err}"
                assert ackwell(*apply).code == 0
            assert there.acked() == truth, f"killed at step {at}"
        at += 1
    assert crashed > 8


@pytest.mark.faults
@pytest.mark.parametrize("kind", [SubscriptionType.SHARED, SubscriptionType.KEY_SHARED])
def test_a_broker_that_is_killed_at_any_step_of_an_unload_keeps_no_hold_without_a_journal(
    kind: SubscriptionType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = crashed = 0
    while at == crashed:
        with at_step(at, tmp_path, monkeypatch) as (there, wire):
            truth = set(there.fill(kind=kind)[1::2])
            snapshot(there)
            admin = ("--admin", there.url)
            unload = ("rescue", "unload", TOPIC, NAME, *admin, "--broker", wire, "--yes")
            crashed += crashes(there, at, truth, *unload)
            # A hold remains if the broker lost acknowledgments between the restore and the release.
            assert len(there.rates) == len(list(Path().glob("*.journal"))), f"killed at step {at}"
            if there.rates:
                ackwell(*unload)
            assert there.rates == {}, f"killed at step {at}"
            with_type(there)
            # The earlier snapshot has the acknowledgments that the crash lost before the run's snapshot.
            planned = ackwell("rescue", "plan", "before.json", "--restart", "crash", *admin)
            assert planned.code == 0, f"killed at step {at}: {planned.err}"
            done = ackwell("rescue", "apply", "plan.json", *admin, "--yes")
            assert done.code == 0, f"killed at step {at}: {done.err}"
            assert there.acked() == truth, f"killed at step {at}"
        at += 1
    assert crashed > 20


@pytest.mark.slow
def test_a_flipped_bit_in_a_file_is_never_an_acknowledgment(there: Cluster) -> None:
    prepared(there)
    before = there.acked()
    admin = ("--admin", there.url)
    chance = random.Random(1)
    for name, arguments in (
        ("before.json", ("rescue", "plan", "before.json", *admin, "-o", "other.json")),
        ("plan.json", ("rescue", "apply", "plan.json", *admin, "--yes")),
    ):
        whole = Path(name).read_bytes()
        for _ in range(40):
            broken = bytearray(whole)
            broken[chance.randrange(len(broken))] ^= 1 << chance.randrange(8)
            Path(name).write_bytes(broken)
            assert ackwell(*arguments).code in (1, 5), broken
        Path(name).write_bytes(whole)
    assert there.acked() == before


def test_two_runs_of_apply_at_once_end_as_one(there: Cluster) -> None:
    positions = there.fill()
    with_type(there)
    with there.connection() as first, there.connection() as second:
        before = first.read_live(TOPIC, NAME)
        there.unload()
        made = plan(before, first.read_live(TOPIC, NAME))
        with ThreadPoolExecutor(2) as pool:
            reports = list(pool.map(lambda each: apply(made, each), (first, second)))
        assert [each.missing for each in reports] == [0, 0]
    assert there.acked() == set(positions[1::2])


def test_acknowledgments_that_the_broker_drops_are_still_missing_whatever_it_answers(there: Cluster) -> None:
    class Dropping(Connection):
        def acknowledge(self, *_: object) -> None:
            """Answer success, and do nothing."""

    there.fill()
    with_type(there)
    with Dropping(there.connection().admin) as connection:
        before = connection.read_live(TOPIC, NAME)
        there.unload()
        report = apply(plan(before, connection.read_live(TOPIC, NAME)), connection)
        assert (report.sent, report.missing) == (16, 16)
        assert "16 are still missing" in str(report)


def test_a_connection_that_breaks_between_acknowledgments_is_an_error_and_the_next_run_ends_it(
    there: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    positions = there.fill()
    with_type(there)
    monkeypatch.setattr("ackwell.rescue.planning.IDS_A_COMMAND", 5)
    with there.connection() as connection:
        before = connection.read_live(TOPIC, NAME)
        there.unload()
        made = plan(before, connection.read_live(TOPIC, NAME))
        write, acks = connection._write, []

        def breaking(data: bytes) -> None:
            acks.append(data)
            if len(acks) == 6:
                connection.close()
            write(data)

        monkeypatch.setattr(connection, "_write", breaking)
        with pytest.raises(BrokerError, match="closed"):
            apply(made, connection)
        monkeypatch.setattr(connection, "_write", write)
        assert there.acked() <= set(positions[1::2])
        assert apply(made, connection).missing == 0
    assert there.acked() == set(positions[1::2])


@pytest.mark.skipif(sys.platform == "win32", reason="a limit of the size of files is POSIX")
def test_a_journal_that_the_disk_does_not_take_holds_nothing(there: Cluster) -> None:
    there.fill()
    with_type(there)
    arguments = ["rescue", "hold", TOPIC, NAME, "--admin", there.url, "--journal", "j", "--yes"]
    code = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10)); from ackwell.cli import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert {method for method, _ in there.asked} == {"GET"}
    assert (there.rates, Path("j").exists()) == ({}, False)


@pytest.mark.parametrize(
    "name", ["a/b", "..", "%2F", "ü\u202e", "x\n\x1b[31mred", "a b?c#d&e=f", "{}", "[red]"]
)
def test_hostile_names_of_subscriptions_are_names(there: Cluster, name: str) -> None:
    there.fill()
    with_type(there)
    done = ackwell("rescue", "copy", TOPIC, NAME, name, "--admin", there.url, "--yes")
    if done.code == 0:
        state = there.broker._broker.state
        copied = there.broker.call(lambda: state.topics[TOPIC].subscriptions[name].cursor.acknowledged())
        assert set(copied.positions()) == there.acked()
    else:
        assert done.code in (1, 2, 3), done.err
        assert "Traceback" not in done.err
    assert "\x1b" not in done.out + done.err
    assert len(there.broker.call(lambda: list(there.broker._broker.state.topics))) == 1
