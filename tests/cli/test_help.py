"""Every command has help in the same form, with examples that run when copied."""

from __future__ import annotations

import gzip
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from typer.core import TyperGroup
from typer.main import get_command

from ackwell import Cursor, Ledgers, PositionInfo, PositionRangeSet
from ackwell.cli import program
from ackwell.cli.command import Command
from ackwell.saving.chunks import compress
from ackwell.store import SqliteStore
from tests.commands import ackwell

TRACES = Path(__file__).parents[2] / "examples" / "traces"
WIDTH_MAX = 76
"""The longest line for a terminal of 80 columns, with room for a prompt or a frame."""

NEEDS_A_CLUSTER = ("--admin", "record", "pulsar-admin")


def commands() -> Iterator[tuple[str, Command]]:
    """Yield every command with its name, subcommands too."""
    group = get_command(program())
    assert isinstance(group, TyperGroup)
    for name, command in group.commands.items():
        if isinstance(command, TyperGroup):
            for inner, subcommand in command.commands.items():
                assert isinstance(subcommand, Command)
                yield f"{name} {inner}", subcommand
        else:
            assert isinstance(command, Command)
            yield name, command


COMMANDS = dict(commands())


def test_no_command_accepts_an_empty_argument() -> None:
    """For `pathlib`, an empty path is the current folder. A script passes it if a variable is not set."""
    checked = 0
    for name, command in COMMANDS.items():
        command.make_context(name, [""], resilient_parsing=True)  # as for the completion of a command line
        for parameter in command.params:
            if getattr(parameter, "is_flag", False) or parameter.name == "help":
                continue
            is_option = parameter.param_type_name == "option"
            with pytest.raises(typer.BadParameter, match=r"^the text is empty$"):
                command.make_context(name, [*parameter.opts[-1:], ""] if is_option else ["", "x", "x", "x"])
            checked += 1
    assert checked > len(COMMANDS)


def test_an_empty_argument_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for arguments in (["collect", "--admin", "http://127.0.0.1:1", "-o", ""], ["doctor", "x", "--html="]):
        done = ackwell(*arguments)
        assert (done.code, done.out) == (2, "")
        assert "the text is empty" in done.err
    assert list(tmp_path.iterdir()) == []


def examples(name: str) -> list[str]:
    return re.findall(r"^    (\S.*)$", COMMANDS[name].examples, re.MULTILINE)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_is_whole_lines(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = ackwell(*name.split(), "--help").out
    assert "\\b" not in shown
    options = shown.partition("─ Options ─")[2]
    assert options, shown
    assert re.findall(r"<(?:int|float|str|text)(?: range)?>", options) == []
    _, found, after = shown.partition("\nExamples:\n\n")
    assert found, "no examples"
    assert [line for line in after.splitlines() if len(line) > WIDTH_MAX] == []
    assert [line for line in examples(name) if line not in after] == []
    assert examples(name)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with the files of the examples."""
    monkeypatch.chdir(tmp_path)
    trace, stats = TRACES / "delayed.jsonl.gz", TRACES / "shared_small_holes.live.stats.json"
    shutil.copytree(TRACES, "examples/traces")
    for target in ("trace.jsonl.gz", "events/events.jsonl.gz"):
        Path(target).parent.mkdir(exist_ok=True)
        shutil.copy(trace, target)
    for target in (
        "stats-internal.json",
        "before.stats.json",
        "after.stats.json",
        "dumps/a.json",
        "stats/a.json",
        "monday/a.json",
        "tuesday/a.json",
    ):
        Path(target).parent.mkdir(exist_ok=True)
        shutil.copy(stats, target)
    Path("before.stats.json.gz").write_bytes(gzip.compress(stats.read_bytes()))
    Path("broker.conf").write_text("managedLedgerMaxUnackedRangesToPersist=10000\n")
    info = PositionInfo(3, -1, PositionRangeSet((3, 2 * n, 2 * n + 1) for n in range(20)))
    for target in ("cursor.bin", "a.bin", "cursor-ledger-entry.bin"):
        Path(target).write_bytes(info.encode())
    Path("entry.bin").write_bytes(compress(info.encode(), "LZ4"))
    with SqliteStore("cursors.db", "topic subscription") as store:
        Cursor(Ledgers([(3, 50)])).save(store)
    return tmp_path


def runs_here(line: str) -> bool:
    return not any(word in line for word in NEEDS_A_CLUSTER) and "*" not in line


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow) if name == "dev-broker" else name
        for name in COMMANDS
        if name not in ("collect", "record")
    ],
)
def test_an_example_of_each_command_runs(name: str, folder: Path) -> None:
    if name.startswith(("spark ", "rescue ")):
        pytest.skip("the tests of Spark and of rescue run them")
    run = [line for line in examples(name) if runs_here(line)]
    assert run
    for line in run:
        command, _, target = line.partition(" > ")
        command, _, source = command.partition(" < ")
        words = shlex.split(command)
        assert words[0] == "ackwell", line
        if "--spark" in words:
            continue
        given = Path(source).read_bytes() if source else b""
        if words[1] == "dev-broker":
            ends_by_a_signal([sys.executable, "-m", *words])
            continue
        done = ackwell(*words[1:], stdin=given)
        # 3 and 4 are verdicts.
        assert done.code in (0, 3, 4), f"{line}: {done.err}"
        if target:
            assert done.out
    assert folder.is_dir()


def ends_by_a_signal(process: list[str]) -> None:
    if "--port" not in process:
        process = [*process, "--port", "0", "--admin-port", "0"]
    with subprocess.Popen(process, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert running.stdout.readline().startswith("broker ")
        running.send_signal(signal.SIGTERM)
        assert running.wait() == 0
