"""The check of commit subjects, which pre-commit runs."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.checkout
ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / ".ci/commit_subject.py"


@pytest.mark.parametrize(
    "subject",
    [
        "doctor: judge subscriptions without a cursor ledger",
        "spark, replay: share one table of column types",
        "tests/spark: compress fixtures",
        "store: pass errors of the client on",
        "ci: embed the lock",
        'Revert "doctor: judge subscriptions"',
        "fixup! doctor: judge subscriptions",
    ],
)
def test_an_area_and_an_imperative_are_accepted(subject: str) -> None:
    assert runpy.run_path(str(SCRIPT))["fault_of"](subject) is None


@pytest.mark.parametrize(
    ("subject", "fault"),
    [
        ("stores: what nothing tells apart is said" * 3, "characters"),
        ("Read once more", "area: imperative"),
        ("doctor: Judge subscriptions", "area: imperative"),
        ("doctor: judged subscriptions", "another form"),
        ("doctor: judging subscriptions", "another form"),
        ("doctor: judges subscriptions", "another form"),
        ("doctor: judge subscriptions.", "full stop"),
        ("", "area: imperative"),
    ],
)
def test_any_other_subject_is_refused_with_its_fault(subject: str, fault: str) -> None:
    assert fault in runpy.run_path(str(SCRIPT))["fault_of"](subject)


@pytest.mark.parametrize(("subject", "code"), [("ci: cache the build", 0), ("Cache the build", 1)])
def test_the_hook_reads_the_first_line_of_a_message(subject: str, code: int, tmp_path: Path) -> None:
    message = tmp_path / "COMMIT_EDITMSG"
    message.write_text(f"{subject}\n\nBecause: It was slow.\n")
    assert subprocess.run([sys.executable, SCRIPT, message], capture_output=True).returncode == code
