"""`ackwell collect`: dated dumps that are whole, resumed after a cut, and read by `doctor`."""

from __future__ import annotations

import gzip
import json
from itertools import islice
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ackwell.broker.admin import Admin
from ackwell.broker.collect import MANIFEST, _locked, collect, collected_facts
from ackwell.broker.endpoint import Endpoint
from ackwell.broker.stats import read_stats
from ackwell.cli import app
from ackwell.errors import StoreError
from tests.operator.fake_admin import broker, served

NOON_MS = 1_795_262_400_000


def command(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, list(arguments))
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout


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


def test_two_runs_never_share_a_folder(tmp_path: Path) -> None:
    tmp_path.joinpath(".collect.lock").touch()
    with (
        broker(served()) as (url, asked),
        _locked(tmp_path / ".collect.lock"),
        pytest.raises(StoreError, match="another run"),
    ):
        list(collect(Admin(Endpoint(url=url)), tmp_path, (), time_ms=NOON_MS))
    assert not asked
    assert names(tmp_path) == []


def test_no_name_leads_out_of_the_folder_or_to_the_file_of_another(tmp_path: Path) -> None:
    hostile = ["..%2F..%2Fetc", "x" * 400, "x" * 401, "..."]
    with broker(served(*hostile)) as (url, _):
        code, _ = command("collect", "--admin", url, "-o", str(tmp_path / "stats"))
    assert code == 0
    assert len(names(tmp_path / "stats")) == len(hostile)
    assert {path.name for path in tmp_path.iterdir()} == {"stats"}
    for file in (tmp_path / "stats").rglob("*.json.gz"):
        assert json.loads(gzip.decompress(file.read_bytes()))["topic"].startswith("persistent://")


@pytest.mark.parametrize("newest", ["", "{", "[]", "{}", '{"version": "4.2.4", "settings": null}'])
def test_a_manifest_that_is_none_is_passed_over(tmp_path: Path, newest: str) -> None:
    whole = {"version": "4.0.7", "settings": None, "assumed": ["no settings"]}
    for run, text in (("2026-01-01T00-00-00Z", json.dumps(whole)), ("2026-01-02T00-00-00Z", newest)):
        (tmp_path / run).mkdir()
        (tmp_path / run / MANIFEST).write_text(text)
    found = collected_facts([str(tmp_path)])
    assert found is not None
    assert (found.version, found.assumed) == ("4.0.7", ("no settings",))
    assert collected_facts(["-"]) is None
