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
        ("python/ackwell/_native.pyi", ["tests/test_stubs.py"]),
        ("tests/pulsar/test_seek.py", []),
        ("tests/pulsar/conftest.py", []),
        ("tests/spark/conftest.py", ["tests/spark"]),
        ("examples/queue/jobs.py", ["tests/test_docs.py", "tests/examples"]),
        ("rust/core/src/ledgers.rs", ["tests/differential/test_ledgers.py", "tests/test_stubs.py"]),
        ("rust/python/src/convert.rs", ["tests/test_stubs.py"]),
    ],
)
def test_a_file_has_the_tests_that_look_at_it(path: str, expected: list[str]) -> None:
    assert checks_of(path) == expected


def test_a_module_has_its_examples_and_its_first_judges() -> None:
    module, *tests = checks_of("python/ackwell/subscription/reads.py")
    assert module == "python/ackwell/subscription/reads.py"
    assert 1 <= len(tests) <= FEW
    assert all(Path(ROOT, test).is_file() for test in tests)


@pytest.mark.parametrize(
    ("path", "test"),
    [
        ("python/ackwell/broker/codes.toml", "tests/diagnosis/test_codes.py"),
        ("python/ackwell/broker/settings.tsv", "tests/broker/test_stats.py"),
        ("python/ackwell/diagnosis/doctor.schema.json", "tests/cli/test_doctor.py"),
        ("tests/vectors/reports.json", "tests/diagnosis/test_reports.py"),
        ("tests/replay/oracle.py", "tests/replay/test_kinds.py"),
        ("tests/commands.py", "tests/broker/test_contradictions.py"),
        ("tests/pulsar/live/wrong.py", "tests/subscription/test_broker_transcripts.py"),
        ("tests/reference/bit_set.py", "tests/differential/test_bit_set.py"),
        ("benches/fleet.py", "tests/test_fleet.py"),
        ("docs/operators.md", "tests/cli/test_operators.py"),
        ("docs/events.md", "tests/replay/test_layouts.py"),
        ("requirements/lock.txt", "tests/test_make.py"),
        ("tests/changed.py", "tests/test_changed.py"),
        ("Makefile", "tests/test_make.py"),
    ],
)
def test_a_data_file_or_a_helper_has_the_tests_of_what_names_it(path: str, test: str) -> None:
    assert (ROOT / path).is_file()
    assert test in checks_of(path)


def test_every_data_file_of_the_package_has_tests() -> None:
    data = [
        path
        for path in (ROOT / "python/ackwell").rglob("*.*")
        if path.suffix in (".toml", ".txt", ".json", ".html")
    ]
    assert len(data) >= 5
    for path in data:
        assert checks_of(str(path.relative_to(ROOT))), path


def test_the_guards_that_always_run_exist() -> None:
    assert any("::" in guard for guard in GUARDS)
    for guard in GUARDS:
        path, _, name = guard.partition("::")
        assert f"def {name}(" in Path(ROOT, path).read_text() if name else Path(ROOT, path).is_file()
