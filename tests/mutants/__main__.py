"""Mutation testing: `make mutants FILE=python/ackwell/cursor.py SAMPLE=40 SEED=1`.

A mutant is the program with one small fault. Those that no test notices show which tests are missing. With
no file named, the sample is dealt to all modules in scope, of both languages, by their sizes.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from tests.mutants import python, rust
from tests.mutants.judges import JUDGES
from tests.mutants.verdicts import Verdicts

ROOT = Path(__file__).parents[2]
CORE = "rust/core/src/"


def main() -> int:
    """Judge a sample of each language."""
    parser = argparse.ArgumentParser(prog="make mutants")
    parser.add_argument("files", nargs="*", help="modules, or folders of them")
    parser.add_argument("--sample", type=int, default=400, help="how many mutants in all")
    parser.add_argument("--seed", default="1")
    arguments = parser.parse_args()
    modules = listed(arguments.files or [*JUDGES, CORE])
    lines = {module: (ROOT / module).read_text().count("\n") for module in modules}
    verdicts = Verdicts()
    for suffix, tool in ((".py", python), (".rs", rust)):
        mine = [module for module in modules if module.endswith(suffix)]
        if mine:
            count = round(arguments.sample * sum(lines[module] for module in mine) / sum(lines.values()))
            tool.run(mine, max(1, count), arguments.seed, verdicts)
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
