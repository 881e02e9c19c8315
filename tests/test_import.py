"""Importing ackwell is cheap: it pulls in nothing heavy."""

import subprocess
import sys

HEAVY = ("numpy", "pandas", "pyarrow", "pyspark", "pulsar", "typer", "click", "rich")


def test_importing_ackwell_loads_nothing_heavy() -> None:
    script = "import ackwell, sys; print('\\n'.join(sys.modules))"
    loaded = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    ).stdout.split()
    assert "ackwell" in loaded
    assert not set(HEAVY) & set(loaded)


def test_a_command_loads_nothing_of_the_others_nor_what_draws_tables() -> None:
    script = (
        "import sys\nfrom ackwell.cli import program\nprogram(['inspect'])\nprint('\\n'.join(sys.modules))"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    ).stdout.split()
    assert "ackwell.cli.inspect" in loaded
    assert not {"rich.console", "ackwell.cli.doctor", "ackwell.cli.spark", "numpy"} & set(loaded)
