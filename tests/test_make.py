"""The Makefile: six verbs of daily work, all others with the prefix `lab-`; texts name no other verb."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.checkout
ROOT = Path(__file__).parents[1]
DAILY = ["demo", "check-changed", "check", "test", "proof", "format"]
SUFFIXES = (".md", ".py", ".pyi", ".rs", ".toml", ".yml", ".yaml")
NAMED = re.compile(r"(?:`|run: |^    )make ([a-z]+(?:-[a-z]+)*)", re.MULTILINE)


def verbs() -> set[str]:
    return set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))


def test_the_verbs_of_daily_work_are_six() -> None:
    listed = re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    assert [verb for verb in listed if not verb.startswith("lab") and verb != "help"] == DAILY
    assert {verb for verb in verbs() if not verb.startswith("lab-")} == {*DAILY, "help", "lab", "install"}


def test_every_verb_that_a_text_names_exists() -> None:
    files = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    known = verbs()
    named: dict[str, str] = {}
    for name in files.splitlines():
        if (
            Path(name).suffix in (".md", ".py", ".pyi", ".rs", ".toml", ".yml", ".yaml")
            and (ROOT / name).is_file()
        ):
            for verb in NAMED.findall((ROOT / name).read_text()):
                named.setdefault(verb, name)
    assert len(named) > 20
    assert {verb: name for verb, name in named.items() if verb not in known} == {}
