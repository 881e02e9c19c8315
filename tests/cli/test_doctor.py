"""`ackwell doctor`: every format has the same numbers, exit codes, and one bad source ends no run."""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.broker.answers import answer, holes
from tests.cluster.fake_admin import broker, served
from tests.commands import ackwell, command

SCHEMA = json.loads(files("ackwell.diagnosis").joinpath("doctor.schema.json").read_text())
DEFAULTS = ("--broker-setting", "defaults")
OLD = ("--broker-version", "4.0", *DEFAULTS, "--restart", "graceful")


def run_json(*arguments: str) -> tuple[int, dict[str, Any]]:
    code, output = command("doctor", "--format", "json", *arguments)
    found = json.loads(output)
    jsonschema.validate(found, SCHEMA)
    return code, found


def dump(folder: Path, name: str, ranges: int, **others: Any) -> str:
    path = folder / f"{name}.json"
    path.write_text(json.dumps(answer(holes(ranges)) | others))
    return str(path)


@pytest.fixture
def losing(tmp_path: Path) -> str:
    return dump(tmp_path, "losing", 12_000)


@pytest.fixture
def fine(tmp_path: Path) -> str:
    return dump(tmp_path, "fine", 5)


def test_json_has_totals_and_an_object_for_each_subscription(losing: str, fine: str) -> None:
    code, found = run_json(*OLD, losing, fine)
    first, second = found["subscriptions"]
    assert code == 4
    assert found["schemaVersion"] == 1
    assert found["broker"]["version"] == "4.0"
    assert found["totals"]["verdicts"] == {
        "unwritable": 0,
        "losing": 1,
        "at risk": 0,
        "unproven": 0,
        "fine": 1,
    }
    assert found["totals"]["ackedMessagesLost"]["graceful"] == {"min": 1_999, "max": 1_999, "exact": True}
    assert (first["topic"], first["subscription"], first["verdict"]) == ("losing.json", "sub", "losing")
    assert first["ackedMessagesLostOnRestart"] == {"min": 1_999, "max": 1_999, "exact": True}
    assert "apache/pulsar#25540" in first["reasons"][0]["issues"]
    assert (second["verdict"], second["reasons"], second["history"]) == ("fine", [], [])


def test_a_number_has_one_shape_whether_it_is_exact_an_interval_or_unbounded(tmp_path: Path) -> None:
    path = tmp_path / "batches.json"
    told = answer(holes(5))
    path.write_text(json.dumps({"internalStats": told["internalStats"]}))
    _, found = run_json(str(path))
    (subscription,) = found["subscriptions"]
    assert subscription["ackedMessagesLostOnRestart"] == {"min": 0, "max": None, "exact": False}


def test_json_lines_hold_a_subscription_each(losing: str, fine: str) -> None:
    _, output = command("doctor", "--format", "jsonl", *OLD, losing, fine)
    found = [json.loads(line) for line in output.splitlines()]
    for each in found:
        jsonschema.validate(each, {**SCHEMA["$defs"]["subscription"], "$defs": SCHEMA["$defs"]})
    assert [each["topic"] for each in found] == ["losing.json", "fine.json"]


def test_prometheus_reads_the_text_and_finds_the_same_numbers(losing: str, fine: str) -> None:
    _, output = command(
        "doctor", "--format", "prometheus", "--broker-version", "4.0", *DEFAULTS, losing, fine
    )
    families = {family.name: family for family in text_string_to_metric_families(output)}
    lost = families["ackwell_subscription_acked_messages_lost_min"].samples
    values = {(sample.labels["topic"], sample.labels["restart"]): sample.value for sample in lost}
    assert values["losing.json", "graceful"] == 1_999
    assert values["fine.json", "graceful"] == 0
    counts = {s.labels["verdict"]: s.value for s in families["ackwell_subscriptions"].samples}
    assert counts == {"unwritable": 0, "losing": 1, "at risk": 0, "unproven": 1, "fine": 0}
    assert families["ackwell_sources_unread"].samples[0].value == 0
    assert all(family.documentation and family.type == "gauge" for family in families.values())


def test_a_hostile_name_is_one_label_of_the_prometheus_text(tmp_path: Path) -> None:
    name = 'a"b\\c\nackwell_sources_unread 99'
    path = tmp_path / "hostile.json"
    path.write_text(json.dumps({f"persistent://t/n/{name}": answer(holes(1))["internalStats"]}))
    _, output = command("doctor", "--format", "prometheus", str(path))
    families = {family.name: family for family in text_string_to_metric_families(output)}
    assert families["ackwell_sources_unread"].samples[0].value == 0
    (sample,) = families["ackwell_subscription_severity"].samples
    assert sample.labels["topic"] == f"persistent://t/n/{name}"


def test_names_and_messages_cannot_control_the_terminal(tmp_path: Path) -> None:
    path = tmp_path / "hostile.json"
    name = "\x1b[2J\x1b]0;owned\x07‮evil\nfine"
    path.write_text(json.dumps({f"persistent://t/n/{name}": answer(holes(1))["internalStats"]}))
    _, output = command("doctor", str(path))
    assert "evil" in output
    assert not set("\x1b\x07‮") & set(output)


def test_exit_codes_tell_the_verdict(losing: str, fine: str, tmp_path: Path) -> None:
    near = dump(tmp_path, "near", 9_000)
    assert command("doctor", *OLD, fine)[0] == 0
    assert command("doctor", *OLD, near)[0] == 3
    assert command("doctor", *OLD, "--fail-on", "losing", near)[0] == 0
    assert command("doctor", *OLD, "--fail-on", "losing", losing)[0] == 4
    assert command("doctor", *OLD, "--fail-on", "never", losing)[0] == 0
    assert (
        command("doctor", *OLD, "--broker-setting", "managedLedgerMaxUnackedRangesToPersist=50000", losing)[0]
        == 0
    )
    assert command("doctor", "--broker-setting", "noSuchSetting=1", fine)[0] == 2
    assert command("doctor", "--broker-version", "2.8", fine)[0] == 2
    assert command("doctor")[0] == 2


def test_one_bad_source_is_reported_and_counted_and_the_rest_is_judged(losing: str, fine: str) -> None:
    folder = Path(losing).parent
    (folder / "empty.json").write_text("")
    (folder / "page.json").write_text("<html><title>Login</title>")
    (folder / "bomb.json.gz").write_bytes(gzip.compress(b"[" + b" " * 10_000_000, 9)[:-4])
    code, found = run_json(*OLD, str(folder), str(folder / "gone.json"))
    assert code == 4
    assert found["totals"]["subscriptions"] == 2
    reasons = {Path(each["source"]).name: each["reason"] for each in found["unread"]}
    assert set(reasons) == {"empty.json", "page.json", "bomb.json.gz", "gone.json"}
    assert "an HTML page titled 'Login'" in reasons["page.json"]
    (folder / "losing.json").unlink()
    assert command("doctor", *OLD, str(folder))[0] == 5
    code, output = command("doctor", *OLD, str(folder))
    assert "empty.json: an empty file, not the answer of" in output.replace("\n", " ")


def test_a_gzip_bomb_is_refused_before_it_fills_the_memory(tmp_path: Path) -> None:
    path = tmp_path / "bomb.json.gz"
    path.write_bytes(gzip.compress(b" " * (8 << 20)))
    refused = ackwell("--max-input-mib", "1", "doctor", str(path))
    assert refused.code == 5
    assert "decompressed more than 1 MiB; raise the limit with `ackwell --max-input-mib N" in refused.out
    # The next command has the default limit again.
    assert "decompressed" not in ackwell("doctor", str(path)).out


def test_utf_16_as_power_shell_writes_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "dump.json"
    path.write_text(json.dumps(answer(holes(5))), encoding="utf-16")
    assert command("doctor", *OLD, str(path))[0] == 0


@pytest.mark.slow
@pytest.mark.parametrize("wanted", [[], ["--html", "-"], ["--format", "json"], ["--format", "prometheus"]])
def test_a_console_of_an_old_code_page_shows_every_name(
    losing: str, tmp_path: Path, wanted: list[str]
) -> None:
    (tmp_path / "cities.json").write_text(
        json.dumps({"persistent://t/n/東京": answer(holes(5))["internalStats"]})
    )
    command = [sys.executable, "-m", "ackwell", "doctor", *OLD, *wanted, losing, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, env=os.environ | {"PYTHONIOENCODING": "cp1252"})
    assert done.returncode == 4, done.stderr
    assert not done.stderr
    assert ("東京".encode() in done.stdout) is ("-" in wanted or "prometheus" in wanted)
    assert b"t/n/" in done.stdout


def test_a_broker_conf_is_taken_as_settings(losing: str, tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("# a comment\n\nzookeeperServers=\nmanagedLedgerMaxUnackedRangesToPersist=50000\n")
    code, found = run_json(*OLD, "--broker-setting", str(conf), losing)
    assert code == 0
    assert found["broker"]["settings"]["managedLedgerMaxUnackedRangesToPersist"] == 50_000
    assert command("doctor", *OLD, "--broker-setting", str(tmp_path / "none.conf"), losing)[0] == 2


def test_a_broker_conf_is_read_as_java_properties(losing: str, tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("! a comment = 1\nmanagedLedgerMaxUnackedRangesToPersist : \\\n  50000\n")
    done = ackwell("doctor", *OLD, "--format", "json", "--broker-setting", str(conf), losing)
    assert (done.code, done.err) == (0, "")
    settings = json.loads(done.out)["broker"]["settings"]
    assert settings["managedLedgerMaxUnackedRangesToPersist"] == 50_000


def test_an_unknown_name_in_a_file_is_a_warning_and_on_the_command_line_an_error(
    losing: str, tmp_path: Path
) -> None:
    conf = tmp_path / "broker.conf"
    name, near = "managedLedgerMaxUnackedRangesToPersit", "managedLedgerMaxUnackedRangesToPersist"
    conf.write_text(f"{name}=5\n{near}=50000\nscalableTopicMaxSegments=8\n")
    done = ackwell("doctor", *OLD, "--broker-setting", str(conf), losing)
    assert done.code == 0, done
    assert f"ignored the unknown setting '{name}'; did you mean '{near}'?" in " ".join(done.err.split())
    assert "scalableTopicMaxSegments" not in done.err
    done = ackwell("doctor", *OLD, "--broker-setting", f"{name}=5", losing)
    assert done.code == 2
    assert near in re.sub(r"[\s│]", "", done.err)


def test_several_dumps_of_one_subscription_are_its_history(tmp_path: Path) -> None:
    sources = [dump(tmp_path, f"t{t}", n, topic="persistent://t/n/a", t=t) for t, n in ((2, 9), (1, 5))]
    named = [json.loads(Path(source).read_text()) for source in sources]
    for source, value in zip(sources, named, strict=True):
        Path(source).write_text(json.dumps({"persistent://t/n/a": value}))
    _, found = run_json(*OLD, *sources)
    (subscription,) = found["subscriptions"]
    assert subscription["ranges"] == 9
    assert [each["ranges"] for each in subscription["history"]] == [5, 9]
    assert found["totals"]["subscriptions"] == 1


def test_the_screen_names_the_loss_the_reason_and_the_remedy(losing: str) -> None:
    _, output = command("doctor", "--broker-version", "4.0", *DEFAULTS, losing)
    assert "1,999" in output
    assert "apache/pulsar#25540" in output
    assert "managedLedgerMaxUnackedRangesToPersist=50000" in output
    assert "1 subscription:" in output
    assert "graceful restart, unload or move: acknowledged messages that are redelivered: 1,999" in output


def test_standard_input_is_read() -> None:
    assert (
        command("doctor", "--restart", "graceful", "-", stdin=json.dumps(answer(holes(5))).encode())[0] == 0
    )


def test_the_page_goes_to_standard_output_too(fine: str) -> None:
    pytest.importorskip("bokeh", reason="needs the extra [report]")
    assert command("doctor", "--html", "-", fine)[1].startswith("<!DOCTYPE html>")


def test_a_live_broker_says_its_version_and_settings(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("secret\n")
    told = served() | {
        "/admin/v2/brokers/configuration/runtime": {
            "managedLedgerPersistIndividualAckAsLongArray": "false",
            "somethingNew": "x",
        },
        "/admin/v2/brokers/configuration/values": {"managedLedgerMaxUnackedRangesToPersist": "10001"},
    }
    with broker(told) as (url, asked):
        code, found = run_json("--admin", url, "--token-file", str(token), "--restart", "graceful")
    assert found["broker"]["version"] == "4.2.4"
    assert found["broker"]["settingsFrom"] == "the broker"
    assert found["broker"]["settings"]["managedLedgerPersistIndividualAckAsLongArray"] is False
    assert found["broker"]["assumed"] == []
    (subscription,) = found["subscriptions"]
    assert (code, subscription["ackedMessagesLostOnRestart"]["min"]) == (4, 12_000 - 10_002)
    assert {credentials for _, _, credentials in asked} == {"Bearer secret"}


def test_what_a_broker_does_not_say_is_an_assumption_that_is_shown() -> None:
    told = served()
    told["/admin/v2/brokers/configuration/runtime"] = 403
    told["/admin/v2/brokers/version"] = b"4.9.1"
    with broker(told) as (url, _):
        _, found = run_json("--admin", url)
        _, screen = command("doctor", "--admin", url)
    version, settings = sorted(found["broker"]["assumed"], reverse=True)
    assert "version 4.9.1 was never compared with a real restart" in version
    assert settings.startswith("the broker's settings: HTTP 403")
    assert "never compared" in screen


def test_the_worst_is_first_and_of_equals_the_one_that_is_nearest_to_its_limit(tmp_path: Path) -> None:
    for name, ranges in (("a", 100), ("b", 3_000), ("c", 12_000)):
        dump(tmp_path, name, ranges)
    _, found = run_json(str(tmp_path))
    assert [each["topic"] for each in found["subscriptions"]] == ["c.json", "b.json", "a.json"]


def test_the_messages_of_an_entry_count_only_if_the_source_does_not_show_them(tmp_path: Path) -> None:
    def lost(folder: str, document: dict[str, Any], *options: str) -> Any:
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / "a.json").write_text(json.dumps(document))
        _, found = run_json(*OLD, *options, str(tmp_path / folder))
        return found["subscriptions"][0]["ackedMessagesLostOnRestart"]

    told = answer(holes(12_000))
    bare = {"internalStats": told["internalStats"]}
    assert lost("bare", bare, "--restart", "graceful") == {"min": 1_999, "max": None, "exact": False}
    for options in ([], ["--messages-per-entry", "10"]):
        # Here the counters of the broker prove one message an entry.
        assert lost("whole", told, "--restart", "graceful", *options)["max"] == 1_999
    narrowed = lost("bare", bare, "--restart", "graceful", "--messages-per-entry", "10")
    assert narrowed == {"min": 19_990, "max": 19_990, "exact": True}


def test_what_an_answer_of_stats_alone_does_not_show_is_unknown_and_not_0(tmp_path: Path) -> None:
    path = tmp_path / "stats.json"
    path.write_text(json.dumps({"subscriptions": {"sub": {"msgBacklog": 5, "type": "Shared"}}}))
    code, text = command("doctor", str(path))
    assert code == 0
    assert "redelivered: 0" not in text
    assert text.count("unknown") >= 4
    _, found = run_json(str(path))
    assert found["totals"]["ackedMessagesLost"]["graceful"]["max"] is None


def waiting(folder: Path, name: str, *, permits: int | None) -> str:
    """Write a dump of a healthy cursor whose consumer has no permits, or without a consumer."""
    told = answer(holes(3), entries=10)
    consumer = {"consumerName": "a", "availablePermits": permits, "unackedMessages": 0}
    told["stats"]["subscriptions"]["sub"] = {
        "type": "Shared",
        "msgBacklog": 17,
        "oldestBacklogMessageAgeSeconds": 90,
        "consumers": [] if permits is None else [consumer],
    }
    told["internalStats"]["cursors"]["sub"]["readPosition"] = "3:0"
    path = folder / f"{name}.json"
    path.write_text(json.dumps(told))
    return str(path)


def test_what_is_stuck_comes_first_with_its_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nine subscriptions, and the three that were stuck were not among the five explained ones."""
    monkeypatch.delenv("COLUMNS", raising=False)
    for number in range(6):
        told = {"internalStats": answer(holes(12_000))["internalStats"]}
        (tmp_path / f"losing-{number}.json").write_text(json.dumps(told))
    waiting(tmp_path, "stuck", permits=0)
    waiting(tmp_path, "alone", permits=None)
    _, text = command("doctor", *OLD, str(tmp_path))
    rows = [line.split() for line in text.splitlines() if re.match(r"\S+\.json +sub ", line)]
    assert [row[0] for row in rows[:2]] == ["alone.json", "stuck.json"]
    assert ["no-consumer" in rows[0], "no-permits" in rows[1]] == [True, True]
    explained = re.findall(r"(?m)^(\S+) · sub: ", text)
    assert explained[:2] == ["alone.json", "stuck.json"]
    assert len(explained) == 5
    assert "\n3 more are explained if you name the topic" in text
    _, found = run_json(*OLD, str(tmp_path))
    assert [each["topic"] for each in found["subscriptions"][:2]] == ["alone.json", "stuck.json"]


def test_a_stuck_subscription_can_fail_the_run(tmp_path: Path) -> None:
    bare = tmp_path / "bare.json"
    bare.write_text(json.dumps({"internalStats": answer("[]")["internalStats"]}))
    stuck = waiting(tmp_path, "stuck", permits=0)
    assert command("doctor", *OLD, stuck)[0] == 0
    assert command("doctor", *OLD, "--fail-on", "stuck", stuck)[0] == 3
    assert command("doctor", *OLD, "--fail-on", "stuck", str(bare))[0] == 0
    assert command("doctor", *OLD, "--fail-on", "losing", stuck)[0] == 0


def test_a_piped_table_has_a_line_for_each_subscription(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`grep waiting` must find the names."""
    monkeypatch.delenv("COLUMNS", raising=False)
    name = f"persistent://tenant/namespace/{'long-' * 30}name"
    path = tmp_path / "many.json"
    path.write_text(json.dumps({name: answer(holes(2))["internalStats"]}))
    _, text = command("doctor", *OLD, str(path))
    line = next(line for line in text.splitlines() if "no-stats" in line)
    assert name.removeprefix("persistent://") in line


def test_the_metrics_have_the_age_of_the_backlog_and_the_health_of_the_cursor(tmp_path: Path) -> None:
    waiting(tmp_path, "stuck", permits=0)
    told = json.loads((tmp_path / "stuck.json").read_text())
    told["internalStats"]["cursors"]["sub"] |= {"state": "Closed", "cursorLedger": -1}
    (tmp_path / "closed.json").write_text(json.dumps(told))
    _, output = command("doctor", "--format", "prometheus", *OLD, str(tmp_path))
    families = {family.name: family.samples for family in text_string_to_metric_families(output)}
    assert {sample.value for sample in families["ackwell_subscription_oldest_message_age_seconds"]} == {90}
    health = {
        sample.labels["topic"]: (sample.labels["state"], sample.value)
        for sample in families["ackwell_subscription_cursor_healthy"]
    }
    assert health == {"stuck.json": ("Open", 1), "closed.json": ("Closed", 0)}
