"""Check what changed since a branch, with the tests that judge it: `make check-changed`.

`tests/mutants/judges.py` says which tests judge a module, the sharpest first; of each list the first few run.
`make check` runs all that is fast.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.mutants.judges import judges

ROOT = Path(__file__).parents[1]
FEW = 3
GUARDS = [
    "tests/test_rooms.py",
    "tests/test_mutants.py",
    "tests/test_docs.py::test_the_pages_and_figures_that_are_written_are_the_newest",
    "tests/test_docs.py::test_every_setting_and_every_option_says_what_it_means",
]
"""Quick, and what a new module, command or setting is forgotten in."""


def changed_since(base: str) -> list[str]:
    """Return the files that differ from where the work left `base`, those not committed or new included."""
    fork = _git("merge-base", base, "HEAD")
    files = {*_git("diff", "--name-only", *fork), *_git("ls-files", "--others", "--exclude-standard")}
    return sorted(path for path in files if (ROOT / path).is_file())


def checks_of(path: str) -> list[str]:
    """Return the tests of a file; none for what has none, or is not Python or a page.

    >>> checks_of("docs/tutorial.md")
    ['tests/test_docs.py']
    >>> checks_of("python/ackwell/drawing/ledger_map.py")[:2]
    ['python/ackwell/drawing/ledger_map.py', 'tests/drawing/test_drawing.py']
    """
    if path.endswith(".md") or path.startswith("docs/"):
        return ["tests/test_docs.py"]
    if not path.endswith(".py"):
        return []
    if path.startswith("python/"):
        module, *tests = judges(path)
        return [module, *tests[:FEW]]
    return [path] if Path(path).name.startswith("test_") else []


def main(base: str, marked: str) -> int:
    """Run the checks one after the other; return the first exit code that is not 0."""
    files = changed_since(base)
    if not files:
        print(f"nothing changed since {base}")
        return 0
    commands = [["ruff", "format", "--check", "--quiet", "."], ["ruff", "check", "--quiet", "."], ["mypy"]]
    if any(path.startswith("rust/") for path in files):
        commands = [["cargo", "test", "--quiet", "-p", "ackwell-core"], ["make", "install"], *commands]
    tests = dict.fromkeys([*(test for path in files for test in checks_of(path)), *GUARDS])
    commands.append(["pytest", "-q", "-x", "--hypothesis-profile", "check", "-m", marked, *tests])
    for command in commands:
        print("$", *command, flush=True)
        tool = [sys.executable, "-m", *command] if command[0] in ("ruff", "mypy", "pytest") else command
        if code := subprocess.run(tool, cwd=ROOT, check=False).returncode:
            return code
    seen = any(path.startswith(("python/", "rust/")) for path in files)
    if seen and "CHANGELOG.md" not in files:
        print("If users see the change, add a line to CHANGELOG.md.")
    return 0


def _git(*arguments: str) -> list[str]:
    done = subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True)
    return done.stdout.splitlines()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
