"""Errors for missing packages and files: one sentence with the remedy, never a traceback."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ackwell.extras import EXTRAS, require
from tests.commands import ackwell, held

TRACES = Path(__file__).parents[2] / "examples" / "traces"


def without(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    """Make an installed package appear missing."""
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)


def error_of(*arguments: object) -> str:
    answer = held(ackwell(*map(str, arguments)))
    assert answer.code == 1, answer
    return answer.err.removeprefix("error: ").strip()


@pytest.mark.parametrize(
    ("package", "arguments", "purpose"),
    [
        ("google", ["dev-broker", "--port", "0", "--admin-port", "0"], "the dev broker"),
        ("google", ["record", "--broker", "pulsar://localhost:1", "-o", "out"], "recording"),
        ("pyspark", ["spark", "replay", "-i", "in", "-o", "out"], "ackwell spark"),
        ("pyspark", ["replay", "--spark", str(TRACES)], "ackwell.spark"),
        ("bokeh", ["doctor", "--html", "-", str(TRACES)], "the HTML report"),
    ],
)
def test_a_command_without_its_extra_says_what_to_install(
    package: str,
    arguments: list[str],
    purpose: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    without(monkeypatch, package)
    shown = "protobuf" if package == "google" else package
    extra = EXTRAS[package]
    assert error_of(*arguments) == f"{purpose} needs {shown}; pip install 'ackwell[{extra}]'"
    assert list(tmp_path.iterdir()) == []


def test_a_package_of_no_extra_is_named_by_itself() -> None:
    with pytest.raises(
        ModuleNotFoundError, match=r"^this needs nothing_of_ours; pip install nothing_of_ours$"
    ):
        require("nothing_of_ours.inner", "this")


def test_a_file_that_is_not_there_and_a_folder_in_its_place_are_named(tmp_path: Path) -> None:
    missing = tmp_path / "none.json"
    assert error_of("diff", missing, missing) == f"{missing}: No such file or directory"
    assert error_of("inspect", tmp_path) == f"{tmp_path}: Is a directory"
