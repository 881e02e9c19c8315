"""`ackwell collect`: dated dumps that are whole, resumed after a cut, and read by `doctor`."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime
from errno import ENOSPC
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from ackwell.broker.stats import read_stats
from ackwell.cluster.admin import Admin
from ackwell.cluster.collect import MANIFEST, collect, collected_facts, hold_lock, manifests_of
from ackwell.cluster.endpoint import Endpoint
from ackwell.errors import StoreError
from ackwell.rescue.snapshot import Snapshot, read_snapshots
from tests.cluster.fake_admin import broker, served
from tests.commands import command

NOON_MS = 1_795_262_400_000


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*.json.gz"))


def test_a_run_writes_a_dated_folder_that_doctor_reads_with_version_and_settings(tmp_path: Path) -> None:
    with broker(served("orders", "a%2Fb")) as (url, _):
        code, output = command("collect", "--admin", url, "-o", str(tmp_path))
    assert (code, "2 topics collected" in output) == (0, True)
    (run,) = [path for path in tmp_path.iterdir() if path.is_dir()]
    assert (run / MANIFEST).is_file()
    found = list(read_stats(tmp_path))
    assert {each.subscription for each in found} == {"sub"}
    assert {each.topic for each in found} == {"persistent://shop/eu/orders", "persistent://shop/eu/a/b"}
    assert all(each.time_ms for each in found)
    _, judged = command("doctor", "--format", "json", str(tmp_path))
    assert json.loads(judged)["broker"]["version"] == "4.2.4"
    assert json.loads(judged)["totals"]["subscriptions"] == 2


def test_a_topic_that_cannot_be_read_is_reported_and_the_others_are_collected(tmp_path: Path) -> None:
    told = served("orders", "gone")
    del told["/admin/v2/persistent/shop/eu/gone/stats"]
    with broker(told) as (url, _):
        code, _ = command("collect", "--admin", url, "-o", str(tmp_path))
    assert code == 5
    assert len(names(tmp_path)) == 1
    (manifest,) = tmp_path.rglob(MANIFEST)
    assert json.loads(manifest.read_text())["unread"][0]["topic"] == "persistent://shop/eu/gone"


def test_topics_after_one_that_cannot_be_read_are_collected_too(tmp_path: Path) -> None:
    told = served("a", "b", "c")
    del told["/admin/v2/persistent/shop/eu/a/stats"]
    with broker(told) as (url, _):
        steps = list(collect(Admin(Endpoint(url=url)), tmp_path, (), time_ms=NOON_MS))
    assert [each.topic for each in steps] == [f"persistent://shop/eu/{name}" for name in "abc"]
    assert [(each.written is None, each.unread is None) for each in steps] == [
        (True, False),
        (False, True),
        (False, True),
    ]
    (manifest,) = tmp_path.rglob(MANIFEST)
    found = json.loads(manifest.read_text())
    assert (manifest.parent.name, found["date"]) == ("2026-11-21T12-00-00Z", "2026-11-21T12:00:00+00:00")
    assert {key: found[key] for key in ("schemaVersion", "source", "version", "topics", "assumed")} == {
        "schemaVersion": 1,
        "source": url,
        "version": "4.2.4",
        "topics": 2,
        "assumed": [],
    }
    assert [each["topic"] for each in found["unread"]] == ["persistent://shop/eu/a"]
    assert collected_facts(manifests_of([str(tmp_path)])) is not None


def test_a_run_that_was_cut_off_is_resumed_and_asks_only_for_what_is_missing(tmp_path: Path) -> None:
    topics = [f"t{n}" for n in range(30)]
    with broker(served(*topics)) as (url, asked):
        steps = collect(Admin(Endpoint(url=url), requests_at_once=1), tmp_path, (), time_ms=NOON_MS)
        assert len(list(islice(steps, 10))) == 10
        steps.close()  # type: ignore[attr-defined]
        there = names(tmp_path)
        assert len(there) == 10
        assert not list(tmp_path.rglob(MANIFEST))
        asked.clear()
        later = collect(Admin(Endpoint(url=url)), tmp_path, (), time_ms=NOON_MS + 1)
        assert sum(step.written is not None for step in later) == 20
    assert len(names(tmp_path)) == 30
    assert len(list(tmp_path.rglob(MANIFEST))) == 1
    assert sum(path.endswith("/internalStats") for _, path, _ in asked) == 20


def test_the_manifest_of_a_resumed_run_has_the_owners_of_every_dump(tmp_path: Path) -> None:
    with broker(served("a", "b")) as (owner, _):
        redirected = {
            path: f"{owner}{path}" for path in served("a") if path.endswith(("internalStats", "stats"))
        }
        asked = served("a", "b") | redirected
        asked["/admin/v2/brokers/standalone"] = [owner.removeprefix("http://"), "127.0.0.1:8080"]
        with broker(asked) as (url, _):
            steps = collect(Admin(Endpoint(url=url), requests_at_once=1), tmp_path, (), time_ms=NOON_MS)
            assert next(steps).topic == "persistent://shop/eu/a"
            steps.close()  # type: ignore[attr-defined]
            (step,) = collect(Admin(Endpoint(url=url)), tmp_path, (), time_ms=NOON_MS)
    assert step.topic == "persistent://shop/eu/b"
    (manifest,) = tmp_path.rglob(MANIFEST)
    owners = {each.removeprefix("http://") for each in (owner, url)}
    assert json.loads(manifest.read_text())["brokers"].keys() == owners


def test_two_runs_never_share_a_folder(tmp_path: Path) -> None:
    tmp_path.joinpath(".collect.lock").touch()
    with (
        broker(served()) as (url, asked),
        hold_lock(tmp_path / ".collect.lock", "ackwell collect"),
        pytest.raises(StoreError, match="another run"),
    ):
        list(collect(Admin(Endpoint(url=url)), tmp_path, (), time_ms=NOON_MS))
    assert not asked
    assert names(tmp_path) == []


def test_a_run_at_the_second_of_a_finished_run_has_its_own_folder(tmp_path: Path) -> None:
    with broker(served("orders")) as (url, _):
        for _ in range(3):
            (step,) = collect(Admin(Endpoint(url=url)), tmp_path, (), time_ms=NOON_MS)
            assert step.written is not None
    runs = sorted(path.name for path in tmp_path.iterdir() if path.is_dir())
    assert runs == [f"2026-11-21T12-00-0{second}Z" for second in range(3)]
    dates = {json.loads((tmp_path / run / MANIFEST).read_text())["date"] for run in runs}
    assert dates == {"2026-11-21T12:00:00+00:00"}


def test_no_name_leads_out_of_the_folder_or_to_the_file_of_another(tmp_path: Path) -> None:
    hostile = ["..%2F..%2Fetc", "x" * 400, "x" * 401, "..."]
    with broker(served(*hostile)) as (url, _):
        code, _ = command("collect", "--admin", url, "-o", str(tmp_path / "stats"))
    assert code == 0
    assert len(names(tmp_path / "stats")) == len(hostile)
    assert {path.name for path in tmp_path.iterdir()} == {"stats"}
    for file in (tmp_path / "stats").rglob("*.json.gz"):
        assert json.loads(gzip.decompress(file.read_bytes()))["topic"].startswith("persistent://")


@pytest.mark.parametrize(
    "newest",
    [
        "",
        "{",
        "[]",
        "{}",
        "[" * 100_000,
        '{"version": "4.2.4", "settings": null}',
        '{"version": 5, "settings": null, "assumed": []}',
        '{"version": "4.2.4", "settings": ["a"], "assumed": []}',
        '{"version": "4.2.4", "settings": {"a": 1}, "assumed": []}',
    ],
)
def test_a_manifest_that_is_none_is_passed_over(tmp_path: Path, newest: str) -> None:
    whole = {"version": "4.0.7", "settings": None, "assumed": ["no settings"]}
    for run, text in (("2026-01-01T00-00-00Z", json.dumps(whole)), ("2026-01-02T00-00-00Z", newest)):
        (tmp_path / run).mkdir()
        (tmp_path / run / MANIFEST).write_text(text)
    found = collected_facts(manifests_of([str(tmp_path)]))
    assert found is not None
    assert (found.version, found.assumed) == ("4.0.7", ("no settings",))
    assert manifests_of(["-"]) == []


def test_only_the_newest_run_is_resumed(tmp_path: Path) -> None:
    """An older interrupted run stays incomplete, because new dumps would be of another day."""
    older, newer = tmp_path / "2026-01-01T00-00-00Z", tmp_path / "2026-01-02T00-00-00Z"
    for run in (older, newer):
        run.mkdir()
    (newer / MANIFEST).write_text("{}")
    with broker(served()) as (url, _):
        list(collect(Admin(Endpoint(url=url)), tmp_path, (), time_ms=NOON_MS))
    assert not list(older.iterdir())
    assert [path.name for path in newer.iterdir()] == [MANIFEST]
    assert len(names(tmp_path)) == 1


def test_a_newest_run_that_was_cut_off_is_resumed_behind_one_that_is_whole(tmp_path: Path) -> None:
    older, newer = tmp_path / "2026-01-01T00-00-00Z", tmp_path / "2026-01-02T00-00-00Z"
    for run in (older, newer):
        run.mkdir()
    (older / MANIFEST).write_text("{}")
    with broker(served()) as (url, _):
        list(collect(Admin(Endpoint(url=url)), tmp_path, (), time_ms=NOON_MS))
    assert [path.name for path in older.iterdir()] == [MANIFEST]
    assert sorted(path.suffix for path in newer.iterdir()) == [".gz", ".manifest"]
    assert not (tmp_path / "2026-01-03T00-00-00Z").exists()


def test_the_manifest_counts_the_topics_that_are_there(tmp_path: Path) -> None:
    told = served("orders", "payments", "gone")
    del told["/admin/v2/persistent/shop/eu/gone/stats"]
    with broker(told) as (url, _):
        list(collect(Admin(Endpoint(url=url)), tmp_path, (), time_ms=NOON_MS))
    (manifest,) = tmp_path.rglob(MANIFEST)
    assert json.loads(manifest.read_text())["topics"] == 2


def test_a_file_that_could_not_be_written_whole_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(ENOSPC, "no space left")

    with broker(served()) as (url, _):
        admin = Admin(Endpoint(url=url))
        with monkeypatch.context() as patched:
            patched.setattr("ackwell.cluster.collect.os.fsync", full)
            with pytest.raises(OSError, match="no space left"):
                list(collect(admin, tmp_path, (), time_ms=NOON_MS))
        assert names(tmp_path) == []
        (progress,) = collect(admin, tmp_path, (), time_ms=NOON_MS)
    assert progress.written is not None
    assert [path.name for path in Path(str(progress.written)).parent.glob(".*")] == []


def test_the_newest_manifest_counts_in_whatever_folder_it_is(tmp_path: Path) -> None:
    for folder, day, version in (("a", 2, "4.2.4"), ("b", 1, "4.0.7")):
        run = tmp_path / folder / f"2026-01-0{day}T00-00-00Z"
        run.mkdir(parents=True)
        (run / MANIFEST).write_text(json.dumps({"version": version, "settings": None, "assumed": []}))
    sources = [str(tmp_path / folder) for folder in ("a", "b")]
    for given in (sources, sources[::-1]):
        found = collected_facts(manifests_of(given))
        assert found is not None
        assert found.version == "4.2.4"


def test_no_dump_is_a_hidden_file_whatever_the_broker_calls_a_topic(tmp_path: Path) -> None:
    told = served()
    told["/admin/v2/persistent/shop/eu"] = [".odd://shop/eu/orders"]
    for part in ("internalStats", "stats"):
        told[f"/admin/v2/.odd/shop/eu/orders/{part}"] = told[f"/admin/v2/persistent/shop/eu/orders/{part}"]
    with broker(told) as (url, _):
        (progress,) = collect(Admin(Endpoint(url=url)), tmp_path, (), time_ms=NOON_MS)
    assert progress.written is not None
    assert not progress.written.name.startswith(".")


def test_no_symbolic_link_in_a_run_is_followed(tmp_path: Path) -> None:
    run, elsewhere = tmp_path / "run", tmp_path / "elsewhere"
    run.mkdir()
    elsewhere.mkdir()
    kept = elsewhere / "kept"
    kept.write_text("as it is")
    with broker(served()) as (url, _):
        (run / "2026-11-20T10-00-00Z").symlink_to(elsewhere, target_is_directory=True)
        time_ms = NOON_MS
        first = list(collect(Admin(Endpoint(url=url)), run, ["shop/eu"], time_ms=time_ms))
        file = Path(str(next(each.written for each in first if each.written is not None)))
        assert not file.is_relative_to(elsewhere)
        assert not file.parent.is_symlink()
        assert [each.name for each in elsewhere.iterdir()] == ["kept"]
        (file.parent / MANIFEST).unlink()
        file.unlink()
        (file.parent / f".{file.name}.tmp").symlink_to(kept)
        list(collect(Admin(Endpoint(url=url)), run, ["shop/eu"], time_ms=time_ms))
    assert (kept.read_text(), file.exists()) == ("as it is", True)


@pytest.mark.parametrize("place", [".collect.lock", "2026-11-20T10-00-00Z"])
def test_a_symbolic_link_in_the_place_of_a_run_or_its_lock_is_refused(place: str, tmp_path: Path) -> None:
    target = tmp_path / "target"
    run = tmp_path / "run"
    run.mkdir()
    if place.startswith("."):
        target.write_text("as it is")
    else:
        target.mkdir()
    (run / place).symlink_to(target)
    time_ms = int(datetime(2026, 11, 20, 10, tzinfo=UTC).timestamp() * 1000)
    with broker(served()) as (url, _), pytest.raises(StoreError, match="symbolic link"):
        list(collect(Admin(Endpoint(url=url)), run, ["shop/eu"], time_ms=time_ms))
    assert target.is_dir() or target.read_text() == "as it is"


def test_a_dump_is_judged_by_the_broker_that_owned_its_topic(tmp_path: Path) -> None:
    """The owner keeps 10,001 ranges, and the queried broker 8: the loss is that of the owner."""
    limit = "managedLedgerMaxUnackedRangesToPersist"
    few = {"managedLedgerPersistIndividualAckAsLongArray": "false"}
    settings = "/admin/v2/brokers/configuration/runtime"
    with broker(served() | {settings: few | {limit: "10000"}}) as (owner, _):
        redirected = {
            path: f"{owner}{path}" for path in served() if path.endswith(("internalStats", "stats"))
        }
        asked = served() | redirected
        asked[settings] = few | {limit: "7"}
        asked["/admin/v2/brokers/standalone"] = [owner.removeprefix("http://"), "127.0.0.1:8080"]
        with broker(asked) as (url, _):
            assert list(collect(Admin(Endpoint(url=url)), tmp_path, [], time_ms=NOON_MS))
            live = doctor("--admin", url)
    dumped = doctor(str(tmp_path))
    for found in (live, dumped):
        (judged,) = found["subscriptions"]
        assert judged["owner"] == owner.removeprefix("http://")
        assert judged["ackedMessagesLostOnRestart"]["min"] == 12_000 - 10_001
        assert found["owners"][judged["owner"]]["settings"][limit] == 10_000
        assert found["broker"]["settings"][limit] == 7
    (snapshot,) = read_snapshots([tmp_path])
    assert isinstance(snapshot, Snapshot)
    assert snapshot.settings is not None
    assert snapshot.settings.max_unacked_ranges_to_persist == 10_000


def doctor(*arguments: str) -> Any:
    code, output = command(
        "doctor", *arguments, "--format", "json", "--fail-on", "never", "--restart", "graceful"
    )
    assert code == 0
    return json.loads(output)
