"""Arguments that make no sense: a usage message or one line, and no command runs on without end."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.hostile.commands import ackwell, held

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
FILES = ["trace", "stats", "state", "store", "folder", "missing"]

OPTIONS = {
    "replay": ["--json", "--save", "--replace", "--at", "--start-from", "--keep-going"],
    "inspect": [
        "--json",
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
    ],
    "holes": ["--json"],
    "diff": ["--json", "--subscription", "--compression", "--ledger"],
    "convert": ["--to", "--max-ranges", "--max-bytes", "--lossy", "--subscription", "--compression"],
    "delay-advise": ["--tolerance", "--rate", "--share", "--entries-per-ledger", "--json"],
    "collect": ["--out"],
    "record": ["--listen"],
    "dev-broker": ["--port"],
    "nonsense": ["--nonsense"],
}
"""What each command knows. The last ones would serve or dial: they get arguments that they refuse alone."""
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
]


@st.composite
def command_lines(draw: st.DrawFn) -> list[str]:
    """Draw a command, some of its options, and values of every kind, in any number."""
    command = draw(st.sampled_from(list(OPTIONS)))
    delays = [f"{kind}:{time}" for kind in ("fixed", "exponential") for time in TIMES]
    delays += [f"uniform:{low}..{high}" for low in TIMES[:5] for high in TIMES[:6]]
    values = st.sampled_from(NUMBERS + TIMES + TEXTS + SETTINGS + WORDS) | st.sampled_from(FILES)
    if command in SERVE:
        return [command, "--no-such-option", *draw(st.lists(values, max_size=2))]
    arguments = draw(
        st.lists(
            st.sampled_from(FILES + delays) if command == "delay-advise" else st.sampled_from(FILES),
            max_size=2,
        )
    )
    for option in draw(st.lists(st.sampled_from(OPTIONS[command]), max_size=3)):
        arguments.append(option)
        if draw(st.booleans()):
            arguments.append(draw(values))
    if draw(st.booleans()):
        arguments.insert(draw(st.integers(0, len(arguments))), draw(values))
    return [command, *arguments]


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return a file of each kind, by the word that stands for it."""
    folder = tmp_path_factory.mktemp("files")
    (folder / "folder").mkdir()
    trace, stats = TRACES / "shared_small_holes.jsonl", TRACES / "shared_small_holes.live.stats.json"
    assert not ackwell("convert", "--to", "compact", str(stats), str(folder / "state")).code
    assert not ackwell("replay", "--save", str(folder / "store"), str(trace)).code
    kinds = {"trace": trace, "stats": stats}
    return {kind: str(kinds.get(kind, folder / kind)) for kind in FILES}


def check(
    places: dict[str, str], arguments: list[str], monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    # Options that write do so here.
    monkeypatch.chdir(folder)
    held(ackwell(*(places.get(argument, argument) for argument in arguments)))


@given(command_lines())
@settings(max_examples=QUICK, suppress_health_check=FIXTURES)
def test_any_arguments_give_a_result_or_one_line(
    places: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, arguments: list[str]
) -> None:
    check(places, arguments, monkeypatch, tmp_path)


@pytest.mark.soak
@given(command_lines())
@settings(max_examples=LONG, suppress_health_check=FIXTURES)
def test_many_arguments_give_a_result_or_one_line(
    places: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, arguments: list[str]
) -> None:
    check(places, arguments, monkeypatch, tmp_path)


def test_the_files_are_what_the_commands_read(places: dict[str, str]) -> None:
    for command, *arguments in (
        ("replay", "trace"),
        ("inspect", "state"),
        ("inspect", "store"),
        ("convert", "--to", "compact", "stats", "-"),
        ("doctor", "--fail-on", "never", "stats"),
    ):
        assert not held(ackwell(command, *(places.get(each, each) for each in arguments))).code
