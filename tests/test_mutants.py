"""Mutation testing itself: what is chosen, by whom it is judged, and that its table is whole."""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path

import pytest

from tests.mutants.judges import CORE_JUDGES, JUDGES, judges
from tests.mutants.sampling import choose, deal
from tests.mutants.verdicts import Verdicts, core_of, equivalents

pytestmark = pytest.mark.checkout
ROOT = Path(__file__).parents[1]
DIFF = "--- a.py\n+++ a.py\n@@ -1,2 +1,2 @@\n here\n-x = 1\n+x = 2\n"


def test_every_module_and_every_judge_is_a_file() -> None:
    for entry, tests in JUDGES.items():
        assert (ROOT / entry).exists()
        assert all((ROOT / test).is_file() for test in tests)
        assert len(set(tests)) == len(tests)
    assert all((ROOT / test).exists() for test in CORE_JUDGES)
    assert judges("python/ackwell/saving/delta.py")[0] == "python/ackwell/saving/delta.py"
    with pytest.raises(SystemExit, match="does not say which tests judge it"):
        judges("python/ackwell/wire.py")


def test_a_sample_is_dealt_by_size_and_every_file_gets_one() -> None:
    dealt = deal({"a": 900, "b": 90, "c": 1, "d": 0}, 100)
    assert dealt == {"a": 90, "b": 9, "c": 1}
    assert sum(deal({str(n): n for n in range(1, 50)}, 400).values()) == 400


def test_a_larger_sample_holds_the_smaller_one_and_every_place_comes_before_a_second_mutant_of_one() -> None:
    mutants: dict[Hashable, list[str]] = {
        place: [f"{place}{n}" for n in range(place)] for place in range(1, 12)
    }
    chosen = choose(mutants, 40, "seed")
    assert chosen[:15] == choose(mutants, 15, "seed") != choose(mutants, 15, "other")
    assert len(set(chosen)) == 40
    assert len(choose(mutants, 1_000, "seed")) == sum(range(12))
    first = choose(mutants, 11, "seed")
    assert [sum(mutant in mutants[place] for mutant in first) for place in mutants] == [1] * 11


def test_survivors_count_unless_their_diff_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    verdicts = Verdicts({core_of(DIFF)})
    for number in range(18):
        verdicts.add("a.py", "killed", str(number), "")
    verdicts.add("a.py", "survived", "listed", DIFF.replace("@@ -1,2 +1,2 @@", "@@ -7,2 +7,2 @@"))
    verdicts.add("b.py", "unviable", "no program", "")
    assert verdicts.close() == 0
    verdicts.add("b.py", "survived", "new", DIFF.replace("x = 2", "x = 3"))
    assert verdicts.close() == 1
    assert (
        " 94.7% of 20 mutants: 18 killed, 1 survived, 1 equivalent, 1 unviable  in all"
        in capsys.readouterr().out
    )


def test_every_survivor_that_is_called_equivalent_has_its_diff_and_a_reason() -> None:
    text = (ROOT / "tests/mutants/equivalent.md").read_text()
    assert len(equivalents()) == text.count("```diff\n") == text.count("**Why:**")
