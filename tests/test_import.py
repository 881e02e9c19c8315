"""Importing ackwell is cheap: it pulls in nothing heavy."""

import subprocess
import sys
from pathlib import Path

from ackwell import PositionInfo, PositionRangeSet

HEAVY = ("numpy", "pandas", "pyarrow", "pyspark", "pulsar", "typer", "click", "rich")


def modules_after(script: str, *arguments: str) -> set[str]:
    """Run a script in a process of its own; give the names of the modules it has loaded at its end."""
    ending = "\nimport sys\nprint('\\n'.join(sys.modules), file=sys.stderr)"
    command = [sys.executable, "-c", script + ending, *arguments]
    return set(subprocess.run(command, check=True, capture_output=True, text=True).stderr.split())


def test_importing_ackwell_loads_nothing_heavy() -> None:
    loaded = modules_after("import ackwell")
    assert "ackwell" in loaded
    assert not set(HEAVY) & loaded


def test_a_command_loads_nothing_of_the_others_nor_what_draws_tables() -> None:
    loaded = modules_after("from ackwell.cli import program\nprogram(['inspect'])")
    assert "ackwell.cli.inspect" in loaded
    assert not {"rich.console", "ackwell.cli.doctor", "ackwell.cli.spark", "numpy"} & loaded


def test_inspecting_and_predicting_a_restart_loads_neither_numpy_nor_what_draws_tables(
    tmp_path: Path,
) -> None:
    file = tmp_path / "cursor.bin"
    every_second = PositionRangeSet((3, 2 * n, 2 * n + 1) for n in range(20_000))
    file.write_bytes(PositionInfo(3, -1, every_second).encode())
    loaded = modules_after(
        "from ackwell.cli import program\nprogram(['inspect'])(standalone_mode=False)", "inspect", str(file)
    )
    assert "ackwell.broker.restart" in loaded
    assert not {"rich.console", "numpy"} & loaded
