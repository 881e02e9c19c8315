"""Random arguments give a usage message or a message of one line, and every command ends."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.commands import ackwell, held

QUICK, LONG = 40, 20_000
FIXTURES = list(HealthCheck)
TRACES = Path(__file__).parents[2] / "examples" / "traces"

NUMBERS = [
    "0",
    "1",
    "-1",
    "7",
    "1.5",
    "nan",
    "inf",
    "-inf",
    "1e999",
    "9" * 30,
    "9" * 5_000,
    str(2**63),
    str(-(2**63) - 1),
]
TIMES = ["1s", "0", "0ms", "1.5d", "9999999999999d", "9" * 400 + "d", "-1s", "s", "1y", "٣s"]
TEXTS = [
    "",
    " ",
    "-",
    "--",
    "a",
    "\udcff",
    "\n",
    "\x1b[31m",
    "*",
    "a" * 5_000,
    "[red]",
    "[/]",
    "{}",
    "%s",
    "/dev/null",
]
SETTINGS = [
    "managedLedgerMaxUnackedRangesToPersist=0",
    "a=b",
    "=",
    "managedLedgerMaxUnackedRangesToPersist=x",
    f"managedLedgerMaxUnackedRangesToPersist={2**70}",
]
FILES = ["trace.jsonl", "stats.json", "state", "store", "folder", "missing"]

OPTIONS = {
    "replay": ["--format", "--save", "--replace", "--at", "--start-from", "--keep-going"],
    "inspect": [
        "--format",
        "--compression",
        "--ledger",
        "--subscription",
        "--broker-version",
        "--broker-setting",
    ],
    "doctor": [
        "--broker-version",
        "--broker-setting",
        "--restart",
        "--messages-per-entry",
        "--format",
        "--html",
        "--fail-on",
        "--watch",
        "--explain",
    ],
    "holes": ["--format"],
    "what-if": ["--to", "--entries", "--verify", "--broker-version", "--format"],
    "diff": ["--format", "--subscription", "--compression", "--ledger"],
    "convert": ["--to", "--max-ranges", "--max-bytes", "--lossy", "--subscription", "--compression"],
    "collect": ["--out"],
    "record": ["--listen"],
    "dev-broker": ["--port"],
    "nonsense": ["--nonsense"],
}
"""The options of each command. Commands that would serve or connect get only arguments that they refuse."""
SERVE = {"collect", "record", "dev-broker"}
WORDS = [
    "compact",
    "pulsar-ranges",
    "pulsar-auto",
    "json",
    "table",
    "prometheus",
    "crash",
    "close",
    "never",
    "4.0",
    "3.0.0",
    "5",
    "LZ4",
    "ZSTD",
    "NONE",
    "sub",
    "seek",
    "skip",
    "4:2",
]


@st.composite
def command_lines(draw: st.DrawFn) -> list[str]:
    """Draw a command, some of its options, and values of every kind, in any number."""
    command = draw(st.sampled_from(list(OPTIONS)))
    values = st.sampled_from(NUMBERS + TIMES + TEXTS + SETTINGS + WORDS) | st.sampled_from(FILES)
    if command in SERVE:
        return [command, "--no-such-option", *draw(st.lists(values, max_size=2))]
    arguments = draw(st.lists(st.sampled_from(FILES), max_size=2))
    for option in draw(st.lists(st.sampled_from(OPTIONS[command]), max_size=3)):
        arguments.append(option)
        if draw(st.booleans()):
            arguments.append(draw(values))
    if draw(st.booleans()):
        arguments.insert(draw(st.integers(0, len(arguments))), draw(values))
    return [command, *arguments]


@pytest.fixture(scope="module")
def held_files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Return the content of each file that an argument can name."""
    folder = tmp_path_factory.mktemp("files")
    trace, stats = TRACES / "shared_small_holes.jsonl", TRACES / "shared_small_holes.live.stats.json"
    assert not ackwell("convert", "--to", "compact", str(stats), str(folder / "state")).code
    assert not ackwell("replay", "--save", str(folder / "store"), str(trace)).code
    made = {name: (folder / name).read_bytes() for name in ("state", "store")}
    return {"trace.jsonl": trace.read_bytes(), "stats.json": stats.read_bytes()} | made


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to a temporary folder, because a command can write to any path in its arguments."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    return tmp_path


def check(here: Path, held_files: dict[str, bytes], arguments: list[str]) -> None:
    for name, content in held_files.items():
        (here / name).write_bytes(content)
    held(ackwell(*arguments))


@given(command_lines())
@settings(max_examples=QUICK, suppress_health_check=FIXTURES)
def test_any_arguments_give_a_result_or_one_line(
    here: Path, held_files: dict[str, bytes], arguments: list[str]
) -> None:
    check(here, held_files, arguments)


@pytest.mark.proof
@given(command_lines())
@settings(max_examples=LONG, suppress_health_check=FIXTURES)
def test_many_arguments_give_a_result_or_one_line(
    here: Path, held_files: dict[str, bytes], arguments: list[str]
) -> None:
    check(here, held_files, arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        ["replay", "trace.jsonl"],
        ["inspect", "state"],
        ["inspect", "store"],
        ["convert", "--to", "compact", "stats.json", "-"],
        ["doctor", "--fail-on", "never", "stats.json"],
    ],
)
def test_the_files_are_what_the_commands_read(
    here: Path, held_files: dict[str, bytes], arguments: list[str]
) -> None:
    check(here, held_files, arguments)
    assert not held(ackwell(*arguments)).code


@pytest.mark.parametrize(
    ("arguments", "name", "message"),
    [
        (["doctor", "--fail-on", "never", "--html", "page.html"], "stats.json", ""),
        (["replay"], "trace.jsonl", ""),
        (["replay", "--save", "saved"], "trace.jsonl", ""),
        (["events", "check"], "trace.jsonl", ""),
        (["history"], "trace.jsonl", ""),
        (["replay"], "events.parquet", "not UTF-8"),
    ],
)
def test_the_name_of_a_file_may_have_bytes_that_are_not_utf_8(
    here: Path, held_files: dict[str, bytes], arguments: list[str], name: str, message: str
) -> None:
    file = here / f"\udcff{name}"
    file.write_bytes(held_files.get(name, b"PAR1"))
    done = held(ackwell(*arguments, str(file)))
    assert bool(done.code) == bool(message)
    assert message in done.err
