"""What the documentation shows is true: its examples run, and its map is the tree."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import ackwell._native as native
from ackwell import Position

ROOT = Path(__file__).parents[1]


def test_the_readme_example_runs() -> None:
    result = doctest.testfile(str(ROOT / "README.md"), module_relative=False)
    assert result.attempted > 5
    assert result.failed == 0


def test_the_examples_of_the_native_classes_run() -> None:
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    for name, cls in vars(native).items():
        if not name.startswith("_"):
            for test in doctest.DocTestFinder().find(cls, name, globs=vars(native) | {"Position": Position}):
                runner.run(test)
    assert runner.summarize().failed == 0
    assert runner.tries > 0


def test_every_public_native_method_is_documented() -> None:
    classes = [cls for name, cls in vars(native).items() if isinstance(cls, type)]
    assert classes
    missing = [
        f"{cls.__name__}.{name}"
        for cls in classes
        for name, member in vars(cls).items()
        if not name.startswith("_") and not getattr(member, "__doc__", None)
    ]
    assert missing == []


def test_the_rooms_of_the_package_are_those_of_the_architecture() -> None:
    text = (ROOT / "docs/architecture.md").read_text()
    rows = text.partition("## The rooms")[2].partition("\n## ")[0].splitlines()
    listed = [
        name for row in rows if row.startswith("| `") for name in re.findall(r"`(\w+)`", row.split("|")[1])
    ]
    package = ROOT / "python/ackwell"
    found = {
        path.name.partition(".")[0]
        for path in package.iterdir()
        if (path.is_dir() and any(path.glob("*.py"))) or path.suffix in (".py", ".pyi")
    }
    assert "cursor" in found
    assert sorted(listed) == sorted(found - {"__init__"})
