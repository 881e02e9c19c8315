"""The small commands: their output, their files, and their exit codes."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ackwell import Cursor, Ledgers, PositionInfo
from ackwell.cli import console, what_if_command
from ackwell.diagnosis.inspection import inspect
from ackwell.replay.checking import LINES, check_events
from tests.broker.answers import answer, holes
from tests.commands import ackwell, held
from tests.rescue.scripted import FakeAdmin

STATE = PositionInfo(3, 5, [(3, 7, 8), (3, 10, 12)])


@pytest.fixture
def state(tmp_path: Path) -> str:
    (tmp_path / "cursor.bin").write_bytes(STATE.encode("pulsar-ranges"))
    return str(tmp_path / "cursor.bin")


def refused(*arguments: str) -> str:
    """Return the message for a wrong command line, without its frame and its line breaks."""
    done = ackwell(*arguments)
    assert (done.code, done.out) == (2, "")
    return " ".join(done.err.replace("│", " ").split())


# convert


@pytest.mark.parametrize("form", ["pulsar-ranges", "pulsar-long-array", "pulsar-auto", "compact"])
def test_a_state_is_converted_to_every_form(state: str, tmp_path: Path, form: str) -> None:
    done = ackwell("convert", "--to", form, state, str(tmp_path / "out"))
    written = (tmp_path / "out").read_bytes()
    assert (done.code, done.out, done.err) == (0, "", f"{len(written):,} bytes, {form}\n")
    assert written == STATE.encode(form)


def test_a_state_that_exceeds_a_limit_is_cut_only_if_that_was_said(state: str, tmp_path: Path) -> None:
    target = tmp_path / "out"
    line = ["convert", "--to", "pulsar-ranges", state, str(target)]
    for limit in (["--max-ranges", "1"], ["--max-bytes", "10"]):
        done = ackwell(*line, *limit)
        assert (done.code, target.exists()) == (1, False)
        assert done.err.startswith(f"error: {state}: ")
        assert "; --lossy writes it without them" in done.err
    done = ackwell(*line, "--max-ranges", "1", "--lossy")
    _, report = STATE.encode_with_report("pulsar-ranges", max_ranges=1)
    assert (done.code, done.err.splitlines()[0]) == (0, f"lost: {report}")
    assert PositionInfo.decode(target.read_bytes()) == PositionInfo(3, 5, [(3, 7, 8)])
    done = ackwell(*line, "--max-ranges", "2", "--lossy")
    assert (done.code, done.err) == (0, f"{len(STATE.encode('pulsar-ranges'))} bytes, pulsar-ranges\n")


def test_a_form_that_does_not_exist_is_named_beside_those_that_do(state: str) -> None:
    said = refused("convert", "--to", "other", state, "-")
    assert "unknown format 'other'; known are pulsar-ranges, pulsar-long-array" in said
    assert "--to" in said


# diff


def test_a_difference_is_shown_both_ways_and_in_the_exit_code(state: str, tmp_path: Path) -> None:
    later = tmp_path / "later.bin"
    later.write_bytes(PositionInfo(3, 8, [(3, 11, 12)]).encode("pulsar-ranges"))
    done = ackwell("diff", state, str(later))
    assert (done.code, done.err) == (3, "")
    assert done.out.splitlines() == [
        "acknowledged since: 2 entries [(3:5..3:7]]",
        "no longer acknowledged: 1 entries [(3:10..3:11]]",
        "ack sets that differ: 0",
        "the bytes do not show where ledgers end: taken to be at the greatest entry named",
    ]
    done = ackwell("diff", state, state)
    assert (done.code, done.out.splitlines()[:2]) == (
        0,
        ["acknowledged since: 0 entries ", "no longer acknowledged: 0 entries "],
    )
    done = ackwell("diff", "--format", "json", state, str(later))
    found = json.loads(done.out)
    assert (done.code, found["acked"]) == (3, "[(3:5..3:7]]")


@pytest.mark.parametrize(("ranges", "cut"), [(100, False), (400, True)])
def test_a_long_list_of_ranges_is_cut_on_the_screen_alone(
    state: str, tmp_path: Path, ranges: int, cut: bool
) -> None:
    later = tmp_path / "later.bin"
    later.write_bytes(
        PositionInfo(3, 5, [(3, 2 * n, 2 * n + 1) for n in range(10, 10 + ranges)]).encode("pulsar-ranges")
    )
    done = ackwell("diff", state, str(later))
    line = done.out.splitlines()[0]
    assert ("… (--format json has all)" in line) == cut
    if cut:
        _, _, text = line.partition(" entries ")
        assert len(text.removesuffix("… (--format json has all)")) == 2_000
    assert "…" not in ackwell("diff", "--format", "json", state, str(later)).out


# events and history


def test_events_that_cannot_be_replayed_are_named_with_the_remedy(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.jsonl", tmp_path / "bad.jsonl"
    line = {"kind": "publish", "topic": "t", "ledger_id": 3, "entry_id": 0}
    good.write_text(json.dumps(line) + "\n")
    bad.write_text(json.dumps(line | {"kind": "nonsense"}) + "\n")
    assert ackwell("events", "check", str(good)) == (0, "everything can be replayed\n", "")
    assert ackwell("events", "check", "--format", "json", str(good)) == (0, "[]\n", "")
    done = ackwell("events", "check", "--format", "json", str(bad))
    (problem,) = json.loads(done.out)
    assert done.code == 3
    assert problem["source"] == f"{bad}, line 1"
    assert str(bad) not in problem["problem"]
    assert problem["remedy"]
    shown = ackwell("events", "check", str(bad))
    where = ": ".join(part for part in (problem["source"], problem["column"]) if part)
    assert shown.out == f"{where}{': ' if where else ''}{problem['problem']}\n    {problem['remedy']}\n"
    assert shown.code == 3


def test_every_line_that_is_not_an_event_is_listed_up_to_a_limit(tmp_path: Path) -> None:
    good = json.dumps({"kind": "publish", "topic": "t", "ledger_id": 3, "entry_id": 0}).encode()
    first, many = tmp_path / "a.jsonl", tmp_path / "b.jsonl.gz"
    first.write_bytes(b"\n".join([good, b"x", b"", good, b"\xff", b'{"kind":"none"}', good, b'{"a":']))
    many.write_bytes(gzip.compress(b"\n".join([good] + [b"x"] * (LINES + 2_000) + [good])))
    done = ackwell("events", "check", str(tmp_path), "--format", "json")
    found = {each["source"]: each["problem"] for each in json.loads(done.out)}
    assert done.code == 3
    assert [*found] == [
        *(f"{first}, line {line}" for line in (2, 5, 6, 8)),
        *(f"{many}, line {line}" for line in range(2, LINES + 2)),
        str(many),
    ]
    assert found[f"{first}, line 5"].startswith("unreadable: ")
    assert found[f"{first}, line 8"].endswith("; the file ends here: was its last line torn?")
    assert found[str(many)] == "2,000 more lines are not events"
    # A damaged file is named in addition to the lines of the others.
    many.write_bytes(many.read_bytes()[:-4])
    done = ackwell("events", "check", str(tmp_path))
    assert (done.code, len(done.out.splitlines())) == (3, 10)
    assert f"{many}, line 1: unreadable: Compressed file ended before" in done.out
    assert ackwell("replay", str(first), "--keep-going").code == 1


@pytest.mark.parametrize(
    "line",
    [
        {"kind": "%s"},
        {"kind": "ack", "ledger_id": "%s"},
        {"topic": ["%s"]},
        {"kind": "ack", "ack_set": ["%s"]},
    ],
)
def test_the_problem_of_a_line_does_not_repeat_a_long_value(line: dict[str, Any], tmp_path: Path) -> None:
    """A line has up to 16 MiB, and 20 lines of a file are listed."""
    names = {"topic": "t", "subscription": "s", "kind": "ack", "entry_id": 1}
    file = tmp_path / "long.jsonl"
    file.write_text(json.dumps(names | line).replace("%s", 100_000 * "a") + "\n")
    (problem,) = json.loads(ackwell("events", "check", "--format", "json", str(file)).out)
    assert "aaa" in problem["problem"]
    assert len(problem["problem"]) < 1_100


def test_the_memory_of_a_check_does_not_grow_with_the_invalid_lines(tmp_path: Path) -> None:
    file = tmp_path / "long.jsonl"
    line = json.dumps({"topic": "t", "subscription": "s", "kind": 1_000_000 * "a"}) + "\n"
    peaks = []
    for lines in (4, LINES):
        file.write_text(lines * line)
        tracemalloc.start()
        try:
            assert len(check_events([file])) == lines
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    assert peaks[1] < peaks[0] + 2 * len(line)


def test_a_saved_cursor_is_converted_and_compared(tmp_path: Path) -> None:
    from ackwell.store import SqliteStore

    cursor = Cursor(Ledgers({3: 20}))
    cursor.ack(3, 5)
    with SqliteStore(tmp_path / "a.db", "one") as store:
        cursor.save(store)
    with SqliteStore(tmp_path / "a.db", "two") as store:
        cursor.ack(3, 7)
        cursor.save(store)
    done = ackwell("diff", "--ledger", "one", str(tmp_path / "a.db"), str(tmp_path / "a.db"))
    assert done.code == 0
    done = ackwell("diff", str(tmp_path / "a.db"), str(tmp_path / "a.db"))
    assert (done.code, "--ledger" in done.err) == (1, True)


# The console's output, and the messages of a rescue


@pytest.mark.parametrize("rows", [[], [{"a": 1}], [{"a": [1, 2]}, {"b": {}}, 3]])
def test_json_is_printed_as_a_whole_however_many_rows_come_one_by_one(
    rows: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    console.print_json({"x": {"y": 1}}, "rows", iter(rows))
    shown = capsys.readouterr().out
    assert json.loads(shown) == {"x": {"y": 1}, "rows": rows}
    head, tail = ["{", '  "x": {', '    "y": 1', "  },"], ["}", ""]
    lines = [f"    {json.dumps(row)}{',' * (row is not rows[-1])}" for row in rows]
    of_rows = ['  "rows": [', *lines, "  ]"] if rows else ['  "rows": []']
    assert shown.split("\n") == [*head, *of_rows, *tail]
    console.print_json(rows)
    assert capsys.readouterr().out == json.dumps(rows, indent=2) + "\n"


def test_a_name_is_shown_without_what_could_control_a_terminal() -> None:
    assert console.shown_name("persistent://a/b/c") == "a/b/c"
    assert console.shown_name("a\nb\x1b[1m\x7f\x85\u202e") == "a␊b␛[1m␡\ufffd\ufffd"
    assert console.visible("a\nb") == "a\nb"
    assert [console.shown_name("0123456789", room) for room in (10, 9, 4)] == [
        "0123456789",
        "012…56789",
        "0…89",
    ]
    assert console.utc(1_795_460_400_999) == "2026-11-23 19:00:00 UTC"


def test_an_error_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        console.fail("first [bold]\nsecond")
    assert (caught.value.code, capsys.readouterr().err) == (1, "error: first [bold] second\n")


@pytest.mark.parametrize("line", ["holes", "doctor", "collect"])
def test_a_command_without_a_source_says_what_to_give(line: str) -> None:
    said = refused(*line.split())
    assert "--admin" in said


@pytest.mark.parametrize(
    "line", ["snapshot t s", "plan x", "apply x", "unload t s", "copy t s n", "ack t s 3:1"]
)
def test_a_rescue_without_a_broker_says_what_to_give(line: str) -> None:
    assert "give --admin URL, the address of a broker" in refused("rescue", *line.split())


def test_what_is_not_a_position_is_a_wrong_command_line() -> None:
    assert "3-17" in refused("rescue", "ack", "t", "s", "3-17", "--admin", "http://127.0.0.1:1")
    said = refused("rescue", "plan", "x", "--restart", "both", "--admin", "http://127.0.0.1:1")
    assert "name the restart: --restart graceful or --restart crash" in said


@pytest.mark.parametrize("line", ["inspect x", "spark restart-audit --input x --output y"])
def test_an_unknown_broker_version_or_setting_is_a_wrong_command_line(line: str) -> None:
    if line.startswith("spark"):
        pytest.importorskip("pyspark", reason="needs the extra [spark]")
    assert "'9.9' are not known" in refused(*line.split(), "--broker-version", "9.9")
    assert "no broker setting is called 'nope'" in refused(*line.split(), "--broker-setting", "nope=1")


@pytest.mark.parametrize("text", ["", "{}", "[]", "3", '{"version": 1}', '{"plans": []}'])
def test_what_is_not_a_plan_is_named(text: str, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(text)
    done = ackwell("rescue", "apply", str(plan), "--admin", "http://127.0.0.1:1")
    assert (done.code, "not a plan of `ackwell rescue plan`" in done.err) == (1, True)
    plan.write_text('{"version": 2, "plans": []}')
    done = ackwell("rescue", "apply", str(plan), "--admin", "http://127.0.0.1:1")
    assert "of version 2; this ackwell reads version 1" in done.err
    plan.write_text('{"version": 1, "plans": []}')
    done = ackwell("rescue", "apply", str(plan), "--admin", "http://127.0.0.1:1")
    assert (done.code, "its SHA-256 does not match" in done.err) == (1, True)


def test_a_report_of_a_rescue_says_what_came_wrongly_and_ends_in_a_code(
    capsys: pytest.CaptureFixture[str],
) -> None:
    from ackwell.cli.rescue_command import _print_report
    from ackwell.rescue import Report

    def said(missing: int, received: int, errors: int) -> tuple[int, list[str]]:
        report = Report(topic="t", subscription="s", sent=1, missing=missing, ack_sets=0)
        answered = [f"no {number}" for number in range(errors)]
        code = _print_report(report, SimpleNamespace(received=received, errors=answered))  # type: ignore[arg-type]
        out, err = capsys.readouterr()
        assert out == f"{report}\n"
        return code, err.splitlines()

    assert said(0, 0, 0) == (0, [])
    assert said(1, 0, 0) == (4, [])
    assert said(0, 2, 0) == (0, ["the helper received 2 messages, which are redelivered"])
    assert said(0, 0, 9) == (0, [f"the broker answered: no {number}" for number in range(5)])


def test_a_line_of_the_audit_is_on_the_disk_before_the_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ackwell.rescue import AuditFile, Connection

    file, seen = tmp_path / "audit.jsonl", list[str]()
    monkeypatch.setattr("os.fsync", lambda _: seen.append(file.read_text()))
    made = Connection(FakeAdmin(), audit=AuditFile(file))  # type: ignore[arg-type]
    made.change("hold", "POST", "persistent://a/b/c", "s", "x", {})
    made._audit("acknowledge", "t", "s", positions=3, digest="d")
    first, second = map(json.loads, file.read_text().splitlines())
    assert first == {
        "timeMs": first["timeMs"],
        "what": "hold",
        "topic": "persistent://a/b/c",
        "subscription": "s",
    }
    assert (second["positions"], second["sha256"]) == (3, "d")
    assert [text.count("\n") for text in seen] == [1, 2]


def test_an_inspected_state_shows_eight_ranges_and_all_in_json(tmp_path: Path) -> None:
    for ranges in (8, 9):
        state = PositionInfo(3, 5, [(3, 2 * n, 2 * n + 1) for n in range(10, 10 + ranges)])
        (tmp_path / "cursor.bin").write_bytes(state.encode("pulsar-ranges"))
        shown = ackwell("inspect", str(tmp_path / "cursor.bin")).out
        assert ("(3:34..3:35]" in shown, "(3:36..3:37]" in shown) == (True, False)
        for form, size in inspect(state.encode("pulsar-ranges")).sizes().items():
            (line,) = [
                line for line in shown.splitlines() if form in line and "bytes" in line and "%" in line
            ]
            assert f"{size:,}" in line
            assert f"{(size or 0) / (5 << 20):.2%}" in line


def test_a_prediction_that_is_not_json_is_named(tmp_path: Path) -> None:
    (tmp_path / "predicted.json").write_text("{")
    told = tmp_path / "told.json"
    told.write_text(json.dumps(answer(holes(3))))
    line = ["what-if", "skip", str(told), "sub", "--entries", "1"]
    done = ackwell(*line, "--verify", str(tmp_path / "predicted.json"))
    assert done.code == 1
    assert done.err.startswith(
        f"error: {tmp_path / 'predicted.json'}: other JSON, not the JSON of `ackwell what-if` ("
    )
    assert done.err.count("\n") == 1
    assert ackwell(*line).code == 0
    assert "seek needs --to" in refused("what-if", "seek", str(told), "sub")


@pytest.mark.parametrize(
    ("text", "age"), [("90s", 90), ("30m", 1_800), ("1h", 3_600), ("7D", 604_800), ("2w", 1_209_600)]
)
def test_a_duration_is_a_time_before_now(text: str, age: int) -> None:
    before = datetime.now(UTC)
    found = what_if_command._time(text)
    assert before <= found + timedelta(seconds=age) <= datetime.now(UTC)


@pytest.mark.parametrize("text", ["1x", "h", "1.5h", "-1h", "100", "9999y"])
def test_other_durations_are_refused(text: str, tmp_path: Path) -> None:
    told = tmp_path / "told.json"
    told.write_text(json.dumps(answer(holes(3))))
    assert repr(text) in refused("what-if", "seek", f"--to={text}", str(told), "sub")


def test_an_error_of_spark_is_the_line_that_says_it() -> None:
    from ackwell.cli.spark_command import _sentence

    trace = (
        "job aborted\n\nTask: Traceback (most recent call last):\n  File x\n    y\nEventError: line 3\nmore"
    )
    assert _sentence(trace) == "EventError: line 3"
    assert _sentence("\n first \n second").strip() == "first"
    assert _sentence("a\nTraceback (most recent call last):\n  File x") == "a"
    of_py4j = (
        "An error occurred while calling o1.parquet.\n: aborted\n\tat x\nCaused by: a.B: 1.5 is wrong\n\tat y"
    )
    assert _sentence(of_py4j) == "a.B: 1.5 is wrong"
    assert _sentence(f"{of_py4j}\nCaused by: z: {trace}\nCaused by: e\n\t... 9 more") == "EventError: line 3"


def test_a_folder_to_compare_that_is_not_there_is_named(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    missing = tmp_path / "none"
    answer = held(ackwell("diff", str(missing), str(tmp_path / "there")))
    assert (answer.code, answer.err.rstrip()) == (
        1,
        f"error: {missing}: cannot be read: No such file or directory",
    )


def test_no_hole_is_denied_if_something_was_not_read(tmp_path: Path) -> None:
    answer = ackwell("holes", str(tmp_path / "none.json"))
    assert (answer.code, answer.out) == (5, "nothing is blocked in what was read\n")
