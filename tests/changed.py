"""Check the files that changed since a branch: `make check-changed`.

`tests/mutants/judges.py` lists the tests of each module, those that find most faults first; the first few of
each list run. A data file has the tests of the modules that name it. `make check` runs all fast tests.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.mutants.judges import judges

ROOT = Path(__file__).parents[1]
FEW = 3
GUARDS = [
    "tests/test_rooms.py",
    "tests/test_spine.py",
    "tests/test_mutants.py",
    "tests/test_docs.py::test_the_pages_and_figures_that_are_written_are_the_newest",
    "tests/test_docs.py::test_every_setting_and_every_option_says_what_it_means",
]
"""Quick tests that fail if a new module, command or setting is incomplete."""

TOOLS = (
    *("Makefile", "pyproject.toml", "requirements/", ".ci/", ".github/", ".pre-commit-config.yaml"),
    *("tests/mutants/", "tests/changed.py"),
)
CRATES = ("rust/", "tests/rust/", "Cargo.")
"""The files for which the Rust tests run."""


def changed_since(base: str) -> list[str]:
    """Return the files that differ from the fork point of `base`, uncommitted and new files included."""
    fork = _git("merge-base", base, "HEAD")
    files = {*_git("diff", "--name-only", *fork), *_git("ls-files", "--others", "--exclude-standard")}
    return sorted(path for path in files if (ROOT / path).is_file())


def checks_of(path: str) -> list[str]:
    """Return the tests of a file, an empty list for a file without tests.

    >>> checks_of("docs/tutorial.md")
    ['tests/test_docs.py']
    >>> checks_of("python/ackwell/drawing/ledger_map.py")[:2]
    ['python/ackwell/drawing/ledger_map.py', 'tests/drawing/test_drawing.py']
    >>> checks_of("rust/core/src/time_wheel/stream.rs")
    ['tests/differential/test_time_wheel.py', 'tests/test_stubs.py']
    """
    file = Path(path)
    if path.endswith(".md") or path.startswith("docs/"):
        return [*dict.fromkeys(["tests/test_docs.py", *_tests_naming(file.name, "tests")])]
    if path.startswith("examples/"):
        return ["tests/test_docs.py", "tests/examples"]
    if path.startswith(TOOLS):
        return [
            "tests/test_make.py",
            "tests/test_changed.py",
            "tests/test_commits.py",
            "tests/test_mutants.py",
        ]
    if path.startswith(("rust/core/src/", "rust/python/src/")):
        structure = file.relative_to(Path(*file.parts[:3])).parts[0].removesuffix(".rs")
        compared = f"tests/differential/test_{structure}.py"
        return [*[compared][: (ROOT / compared).is_file()], "tests/test_stubs.py"]
    if path.startswith("python/"):
        if path.endswith(".py"):
            module, *tests = judges(path)
            return [module, *tests[:FEW]]
        if path.endswith(".pyi"):
            return ["tests/test_stubs.py"]
        return [
            *_tests_naming(file.name, "tests"),
            *(test for module in _naming(file.name, "python/ackwell") for test in checks_of(module)),
        ]
    if _is_test(path):
        return [path]
    folder = str(file.parent)
    if file.name == "conftest.py":
        return [folder] if folder not in ("tests", "tests/pulsar") else []
    # A module of helpers, vectors or answers.
    return _tests_naming(_name_in_sources(path), folder)


def _is_test(path: str) -> bool:
    """Return whether a file is a test that runs without a broker."""
    return (
        path.startswith("tests/")
        and not path.startswith("tests/pulsar/")
        and path.endswith(".py")
        and Path(path).name.startswith("test_")
    )


def _name_in_sources(path: str) -> str:
    """Return the text by which sources name a file: the name of the module, or that of the file."""
    if path.endswith(".py"):
        return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return Path(path).name


def _tests_naming(text: str, folder: str) -> list[str]:
    """Return the first few tests that contain a text, or else tests of the modules that contain it.

    The test of the same name comes first, and then those of the folder.
    """
    naming = _naming(text, "tests")
    tests = {path for path in naming if _is_test(path)}
    if not tests:
        tests = {
            path for each in naming for path in _naming(_name_in_sources(each), "tests") if _is_test(path)
        }
    stem = text.rpartition(".")[2]
    return sorted(tests, key=lambda test: (stem not in test, not test.startswith(folder), test))[:FEW]


def _naming(text: str, folder: str) -> list[str]:
    """Return the Python files of a folder that contain a text, also as `from package import module`."""
    package, _, module = text.rpartition(".")
    imported = re.compile(rf"from {re.escape(package)} import .*\b{re.escape(module)}\b")
    found = []
    for path in sorted((ROOT / folder).rglob("*.py")):
        source = path.read_text()
        if text in source or (package and imported.search(source)):
            found.append(str(path.relative_to(ROOT)))
    # The tests of this module contain names of any files.
    return [path for path in found if path not in ("tests/changed.py", "tests/test_changed.py")]


def main(base: str, marked: str) -> int:
    """Run the checks one after the other; return the first exit code that is not 0."""
    files = changed_since(base)
    if not files:
        print(f"nothing changed since {base}")
        return 0
    commands = [["ruff", "format", "--check", "--quiet", "."], ["ruff", "check", "--quiet", "."], ["mypy"]]
    if any(path.startswith(CRATES) for path in files):
        rust = [["cargo", "fmt", "--all", "--check"], ["cargo", "test", "--quiet", "-p", "ackwell-core"]]
        commands = [*rust, ["make", "install"], *commands]
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
