"""Mutation testing: `make lab-mutants FILE=python/ackwell/cursor/cursor.py SAMPLE=40 SEED=1`.

A mutant is the program with one small fault. A mutant that no test detects shows that a test is missing. Each
room has its sample, distributed over its modules by size. Without files, all rooms run.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from tests.mutants import python, rust
from tests.mutants.judges import room_of
from tests.mutants.verdicts import Verdicts

ROOT = Path(__file__).parents[2]
CORE, PACKAGES = "rust/core/src/", "python/"


def main() -> int:
    """Run the samples of the rooms; return the exit code."""
    parser = argparse.ArgumentParser(prog="make lab-mutants")
    parser.add_argument("files", nargs="*", help="modules, or folders of them")
    parser.add_argument("--sample", type=int, default=40, help="how many mutants of each room")
    parser.add_argument("--seed", default="1")
    arguments = parser.parse_args()
    modules = listed(arguments.files or [PACKAGES, CORE])
    verdicts = Verdicts()
    for room in sorted(set(map(room_of, modules))):
        mine = [module for module in modules if room_of(module) == room]
        tool = rust if room == "core" else python
        tool.run(mine, arguments.sample, arguments.seed, verdicts)
    return verdicts.close()


def listed(names: list[str]) -> list[str]:
    """Return the modules of files and folders."""
    found = subprocess.run(
        ["git", "ls-files", "--", *names], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.split()
    if not found:
        sys.exit(f"{' '.join(names)}: no such module")
    return sorted({name for name in found if name.endswith((".py", ".rs"))})


if __name__ == "__main__":
    sys.exit(main())
