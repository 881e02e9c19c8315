"""`make check-changed` runs only the tests of changed files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.changed import FEW, GUARDS, ROOT, checks_of

pytestmark = pytest.mark.checkout


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("docs/tutorial.md", ["tests/test_docs.py"]),
        ("CHANGELOG.md", ["tests/test_docs.py"]),
        ("tests/cursor/test_cursor.py", ["tests/cursor/test_cursor.py"]),
        ("tests/commands.py", []),
        ("Makefile", []),
        ("rust/core/src/ledgers.rs", []),
    ],
)
def test_a_file_has_the_tests_that_look_at_it(path: str, expected: list[str]) -> None:
    assert checks_of(path) == expected


def test_a_module_has_its_examples_and_its_first_judges() -> None:
    module, *tests = checks_of("python/ackwell/subscription/reads.py")
    assert module == "python/ackwell/subscription/reads.py"
    assert 1 <= len(tests) <= FEW
    assert all(Path(ROOT, test).is_file() for test in tests)


def test_the_guards_that_always_run_exist() -> None:
    assert any("::" in guard for guard in GUARDS)
    for guard in GUARDS:
        path, _, name = guard.partition("::")
        assert f"def {name}(" in Path(ROOT, path).read_text() if name else Path(ROOT, path).is_file()
