"""The mutation tests: the sample, the tests of each module, and the completeness of the table."""

from __future__ import annotations

import warnings
from collections.abc import Hashable
from pathlib import Path

import pytest

from tests.mutants.judges import CORE_JUDGES, JUDGES, entry_of, judges, room_of
from tests.mutants.sampling import choose, compiles, deal
from tests.mutants.verdicts import Change, Verdicts, equivalents

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
        judges("benches/bars.py")


def test_every_module_of_the_wheel_has_judges_and_a_room() -> None:
    modules = [str(path.relative_to(ROOT)) for path in (ROOT / "python").rglob("*.py")]
    assert len(modules) > 150
    assert all(judges(module) for module in modules)
    folders = {path.name for path in (ROOT / "python/ackwell").iterdir() if path.is_dir()} - {"__pycache__"}
    assert set(map(room_of, modules)) == folders | {"words", "delayed"}
    # The default entry is for the root modules only, because a new room needs its own entry.
    whole = [module for module in modules if entry_of(module) == "python/ackwell/"]
    unjudged = set(map(room_of, whole)) - {"words"}
    assert unjudged == set(), "say in tests/mutants/judges.py which tests judge these rooms"


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


def test_a_mutant_that_does_not_compile_is_replaced_by_another_one() -> None:
    source = "match place:\n    case int() {} None:\n        pass\n"
    mutants: dict[Hashable, list[str]] = {
        line: [f"# {line}\n{source.format(sign)}" for sign in "&|^"] for line in range(9)
    }
    assert [compiles(mutant) for mutant in mutants[0]] == [False, True, False]
    chosen = choose(mutants, 6, "seed", compiles)
    assert len(set(chosen)) == 6
    assert all("int() | None" in mutant for mutant in chosen)
    # Without enough viable mutants, the sample is smaller.
    assert sorted(choose(mutants, 40, "seed", compiles)) == sorted(each[1] for each in mutants.values())


def test_a_mutant_compiles_by_the_rules_of_its_module_without_a_warning() -> None:
    with warnings.catch_warnings(action="error"):
        assert compiles("x: 1() = 2 is 2\n")
    assert not compiles("from __future__ import barry\n")


def test_survivors_count_in_their_room_unless_their_diff_is_listed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    verdicts = Verdicts({("python/ackwell/cli/a.py", Change.of(DIFF))})
    for number in range(18):
        verdicts.add("python/ackwell/cli/a.py", "killed", str(number), "")
    listed = DIFF.replace("@@ -1,2 +1,2 @@", "@@ -7,2 +7,2 @@")
    verdicts.add("python/ackwell/cli/a.py", "survived", "listed", listed)
    verdicts.add("python/ackwell/cli/b.py", "unviable", "no program", "")
    assert verdicts.close() == 0
    for name, share in (("new", "94.7% of 20"), ("newer", "90.0% of 21"), ("one too many", "85.7% of 22")):
        assert verdicts.close() == 0
        verdicts.add("python/ackwell/cli/b.py", "survived", name, DIFF.replace("x = 2", f"x = {name}"))
        capsys.readouterr()
        verdicts.close()
        assert f"{share} mutants: 18 killed" in capsys.readouterr().out
    assert verdicts.close() == 1
    # A mutant that another room's tests kill does not count.
    for number in range(100):
        verdicts.add("python/ackwell/spark/a.py", "killed", str(number), "")
    assert verdicts.close() == 1


def test_every_equivalent_mutant_changes_one_place_of_today_and_has_a_reason() -> None:
    """An entry whose lines were changed since is checked again or removed."""
    listed = equivalents()
    assert len(listed) > 20
    for (file, change), reason in listed.items():
        assert reason.endswith(".")
        lines = [" ".join(line.split()) for line in (ROOT / file).read_text().splitlines()]
        count = len(change.before)
        places = [
            lines[at : at + count] for at in range(len(lines)) if lines[at : at + count] == [*change.before]
        ]
        assert len(places) == 1, f"equivalent.toml: update or remove {change.before} of {file}"
        assert change.before != change.after


def test_a_change_is_known_by_its_lines_without_their_place_and_white_space() -> None:
    moved = DIFF.replace("@@ -1,2 +1,2 @@", "@@ -7,2 +7,2 @@ def f():").replace("x = ", "    x  = ")
    assert Change.of(moved) == Change.of(DIFF) == Change(("x = 1",), ("x = 2",))
    rust = "--- a.rs\n+++ replace - with +\n@@ -1 +1 @@\n-a - b\n+a + /* ~ changed by cargo-mutants ~ */ b\n"
    assert Change.of(rust) == Change(("a - b",), ("a + b",))
    removed = "--- a.py\n+++ a.py\n@@ -1,3 +1,2 @@\n-@cache\n def f():\n     pass\n"
    assert Change.of(removed) == Change(("@cache", "def f():"), ("def f():",))
