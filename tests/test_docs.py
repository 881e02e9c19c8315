"""The documentation is correct: examples run, commands exist, and the map matches the tree."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import ackwell
import ackwell._native as native
from ackwell import Position, errors
from ackwell.cli import COMMANDS, program

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
PAGES = [page for page in PAGES if page.name != "THIRD-PARTY.md" and "_build" not in page.parts]
REPOSITORY = re.compile(
    r"https://(?:github\.com/ackwell/ackwell/(?:blob|tree)|raw\.githubusercontent\.com/ackwell/ackwell)/main/"
)

GROUPS = ("spark", "rescue", "events")
"""Commands with subcommands."""

PARAMETERS = re.compile(r"^Parameters\n-+\n(.*?)(?=^\w[\w ]*\n-+\n|\Z)", re.DOTALL | re.MULTILINE)


def blocks(page: Path) -> list[str]:
    """Return the Python blocks of a page that are programs; those with prompts are doctests."""
    found = re.findall(r"^```python\n(.*?)^```", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    return [block for block in found if not block.startswith(">>>")]


def test_the_lines_of_a_page_have_at_most_120_characters() -> None:
    """Tables, code and the image of the README are not wrapped."""
    for page in PAGES:
        prose = re.sub(r"(?ms)^```.*?^```$", lambda code: "\n" * code[0].count("\n"), page.read_text())
        for number, line in enumerate(prose.splitlines(), 1):
            is_prose = not line.startswith(("    ", "|", "!["))
            assert len(line) <= 120 or not is_prose, f"{page.name}:{number}"


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=lambda page: page.name)
def test_every_block_of_a_page_runs_after_the_one_before(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__page__"}
    for block in blocks(page):
        exec(compile(block, str(page), "exec"), names)


def generators() -> tuple[Any, Any]:
    """Return `docs/figures.py` and `docs/pages.py`, next to the configuration of the site."""
    pytest.importorskip("sphinx")
    folder = str(ROOT / "docs")
    sys.path.insert(0, folder)
    try:
        return importlib.import_module("figures"), importlib.import_module("pages")
    finally:
        sys.path.remove(folder)


@pytest.mark.checkout
def test_the_pages_and_figures_that_are_written_are_the_newest(tmp_path: Path) -> None:
    figures, pages = generators()
    figures.write_figures(ROOT / "benches/record", tmp_path)
    figures.write_page(ROOT / "benches/record", tmp_path)
    pages.write_pages(tmp_path)
    homes = {"svg": ROOT / "docs/images", "md": ROOT / "docs"}
    stale = [
        path.name
        for path in tmp_path.iterdir()
        if path.read_text() != (homes[path.suffix[1:]] / path.name).read_text()
    ]
    assert stale == [], ".venv/bin/python docs/pages.py and docs/figures.py write these files; commit them"
    assert len(list(tmp_path.iterdir())) >= 7


@pytest.mark.checkout
def test_every_setting_and_every_option_says_what_it_means() -> None:
    generators()
    for page in ("settings.md", "commands.md"):
        rows = [
            line.removesuffix(" |").split(" | ")
            for line in (ROOT / "docs" / page).read_text().splitlines()
            if line.startswith("| `")
        ]
        # The meaning of a setting is the last cell, that of an option the second.
        silent = [row[0] for row in rows if not (row[-1] if page == "settings.md" else row[1]).strip(" .")]
        assert silent == [], f"{page}: give each a docstring or a help text"
        assert len(rows) > 60


@pytest.mark.checkout
def test_a_command_has_the_name_of_its_function_or_a_row_that_names_it() -> None:
    table = (ROOT / "docs/api/index.md").read_text().partition("## Commands and functions")[2]
    rows = [re.findall(r"`([^`]+)`", row) for row in table.splitlines() if row.startswith("| `")]
    names = [name for row in rows for name in row]
    functions = [name for name in names if name.startswith("ackwell.")]
    assert len(functions) > 10
    commands = re.findall(r"^## ackwell (.+)$", (ROOT / "docs/commands.md").read_text(), re.MULTILINE)
    assert set(names) - set(functions) <= set(commands)
    # `status` and `watch` work on folders, and have classes in Python.
    listed = {*names, "rescue status", "rescue watch"}
    functions += [
        f"ackwell.{name}"
        for name in commands
        if name.startswith(("rescue ", "spark ")) and name not in listed
    ]
    for name in functions:
        assert callable(pkgutil.resolve_name(name.replace(" ", ".").replace("-", "_"))), name


@pytest.mark.checkout
def test_every_setting_has_a_test() -> None:
    """A test names the setting, or Pulsar's name of it."""
    tests = "".join(path.read_text(encoding="utf-8") for path in ROOT.glob("tests/**/*.py"))
    words = set(re.findall(r"\w+", tests))
    table = (ROOT / "docs/settings.md").read_text().partition("## Where releases differ")[0]
    rows = [row[2:].split(" | ")[:2] for row in table.splitlines() if row.startswith("| `")]
    assert len(rows) > 80
    missing = [
        row[0] for row in rows if not words & {each.strip("` ").rpartition(".")[2] for each in row} - {""}
    ]
    assert not missing, f"write a test of each value of these settings: {missing}"


@pytest.mark.checkout
def test_every_error_and_exit_code_is_on_the_page_of_troubles() -> None:
    page = (ROOT / "docs/troubleshooting.md").read_text()
    classes = {
        name
        for name, found in vars(errors).items()
        if isinstance(found, type) and issubclass(found, errors.AckwellError)
    }
    listed = set(re.findall(r"^\| `(\w+Error)` \|", page, flags=re.MULTILINE))
    assert listed == classes, "give each error of ackwell.errors a row in docs/troubleshooting.md"


@pytest.mark.checkout
def test_every_page_is_in_the_list_for_language_models() -> None:
    listed = set(re.findall(r"\]\(([\w/-]+)\.html\)", (ROOT / "docs/llms.txt").read_text()))
    pages = {path.stem for path in (ROOT / "docs").glob("*.md")} - {"index"} | {"api/index"}
    assert listed == pages, "give each page a line in docs/llms.txt"


@pytest.mark.checkout
def test_the_extras_in_pages_and_examples_exist() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    files = [*PAGES, *(path for path in (ROOT / "examples").rglob("*") if path.suffix in ("", ".py", ".yml"))]
    texts = [path.read_text() for path in files if path.is_file()]
    named = {
        extra
        for text in texts
        for given in re.findall(r"ackwell\[([\w,]+)\]", text)
        for extra in given.split(",")
    }
    assert "devbroker" in named
    assert named <= extras.keys()


@pytest.mark.checkout
def test_every_dependency_has_its_reason() -> None:
    """docs/design.md gives the reason for every dependency."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"].values()
    wanted = [*project["project"]["dependencies"], *(each for extra in extras for each in extra)]
    wanted += [each for each in project["dependency-groups"]["docs"] if isinstance(each, str)]
    for manifest in ("rust/core/Cargo.toml", "rust/python/Cargo.toml"):
        crates = tomllib.loads((ROOT / manifest).read_text())
        wanted += [*crates["dependencies"], *crates.get("dev-dependencies", ())]
        wanted += crates.get("build-dependencies", ())
    names = {re.split(r"[\[<>=; ]", each)[0].lower() for each in wanted} - {"ackwell", "ackwell-core"}
    text = (ROOT / "docs/design.md").read_text().lower()
    silent = sorted(name for name in names if name not in text)
    assert silent == [], "say in docs/design.md why each of these was chosen"


def must_exist(page: Path, line: str) -> None:
    """Raise if a page names a command, a command of a group, or an option that does not exist."""
    words = line.split()
    assert words[0] in COMMANDS, f"{page.name} names the command ackwell {words[0]}, which does not exist"
    has_own = words[0] in GROUPS and len(words) > 1 and re.fullmatch("[a-z][a-z-]*", words[1])
    command = words[: 2 if has_own else 1]
    known = options_of(*command)
    assert known, f"{page.name} names the command ackwell {' '.join(command)}, which does not exist"
    missing = set(re.findall(r"(?<=\s)--[a-z][a-z-]*", line)) - known
    assert not missing, f"{page.name}: ackwell {line}: {missing}; `ackwell {' '.join(command)} --help`"


def test_every_command_that_a_page_names_exists() -> None:
    seen = 0
    for page in PAGES:
        for line in re.findall(r"`ackwell ([a-z][^`]*)`", page.read_text()):
            must_exist(page, line)
            seen += 1
    assert seen > 50


def test_the_tutorials_are_among_the_pages_that_run() -> None:
    assert {"tutorial.md", "stores.md"} <= {page.name for page in PAGES if blocks(page)}


def test_the_readme_example_runs() -> None:
    result = doctest.testfile(str(ROOT / "README.md"), module_relative=False)
    assert result.attempted > 5
    assert result.failed == 0


@cache
def options_of(*words: str) -> set[str]:
    """Return the options in the help of a command or of its subcommands."""
    runner = CliRunner()
    # A program of one command has no name for it; a group of one command has.
    for asked in (words,) if words[0] in GROUPS else (words, words[1:]):
        shown = runner.invoke(program([words[0]]), [*asked, "--help"], terminal_width=200, color=False)
        if not shown.exit_code:
            return set(re.findall(r"--[a-z][a-z-]*", re.sub(r"\x1b\[[0-9;]*m", "", shown.output)))
    return set()


def test_every_command_of_the_documentation_exists_with_its_options() -> None:
    seen = 0
    for page in PAGES:
        for line in re.findall(r"^(?:    |\$ )ackwell ([a-z][^#\n|]*)", page.read_text(), flags=re.MULTILINE):
            must_exist(page, line)
            seen += 1
    assert seen > 10


@pytest.mark.checkout
def test_links_to_files_of_the_repository_lead_to_files() -> None:
    seen = 0
    for page in PAGES:
        for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
            path = ROOT / REPOSITORY.sub("", target) if REPOSITORY.match(target) else page.parent / target
            if not target.startswith(("http", "#")) or REPOSITORY.match(target):
                assert Path(str(path).partition("#")[0]).exists(), f"{page.name}: {target}"
                seen += 1
    assert seen > 20


def test_the_readme_reads_on_pypi_where_relative_links_lead_nowhere() -> None:
    targets = re.findall(r"\]\(([^)]+)\)", (ROOT / "README.md").read_text())
    assert targets
    assert [target for target in targets if not target.startswith("https://")] == []


def test_every_extra_is_in_the_readme() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    listed = re.findall(r"^\| `(\w+)` \|", (ROOT / "README.md").read_text(), flags=re.MULTILINE)
    assert set(listed) == set(project["optional-dependencies"])


@pytest.mark.checkout
def test_every_name_of_the_api_pages_exists() -> None:
    seen = 0
    for page in (ROOT / "docs/api").glob("*.md"):
        for kind, name in re.findall(r"^\.\. auto(\w+):: (\S+)", page.read_text(), flags=re.MULTILINE):
            if kind != "module":
                home, _, name = name.rpartition(".")
                if home == "ackwell.store.pulsar":
                    continue  # an extra
                assert hasattr(importlib.import_module(home), name), f"{page.name}: {home}.{name}"
            else:
                importlib.import_module(name)
            seen += 1
    assert seen > 30


def documented() -> Iterator[tuple[str, str]]:
    """Return every class, function and method of the package with its docstring."""
    names = [module.name for module in pkgutil.walk_packages(ackwell.__path__, "ackwell.")]
    for name in names:
        if name in ("ackwell.__main__", "ackwell.store.pulsar") or name.startswith("ackwell.cli"):
            continue
        module = importlib.import_module(name)
        for key, found in vars(module).items():
            if getattr(found, "__module__", None) != name and module is not native:
                continue
            members = vars(found).items() if isinstance(found, type) else ()
            for path, member in [(key, found), *((f"{key}.{inner}", member) for inner, member in members)]:
                text = getattr(member, "__doc__", None)
                if isinstance(text, str):
                    yield f"{name}.{path}", inspect.cleandoc(text)


@pytest.mark.checkout
def test_a_section_of_parameters_holds_parameters_alone() -> None:
    """Text after the parameters needs a heading, or the reference shows it as a parameter."""
    seen, wrong = 0, []
    for name, text in documented():
        found = re.search(
            r"^Parameters\n-+\n(.*?)(?=^\w[\w ]*\n-+\n|\Z)", text, flags=re.DOTALL | re.MULTILINE
        )
        for line in found[1].splitlines() if found else ():
            seen += 1
            if line and not line.startswith(" ") and not re.fullmatch(r"\*{0,2}\w+(, \w+)*( ?: .*)?", line):
                wrong.append(f"{name}: {line}")
    assert seen > 50
    assert wrong == []


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


@pytest.mark.checkout
@pytest.mark.slow
def test_an_api_page_has_a_table_of_members_and_the_source_and_takes_no_text_for_a_type(
    tmp_path: Path,
) -> None:
    generators()
    (tmp_path / "index.md").write_text(
        "# A page\n\n```{eval-rst}\n.. autoclass:: ackwell.Cursor\n   :members:\n   :inherited-members:\n"
        "```\n"
    )
    command = [sys.executable, "-m", "sphinx", "-q", "-c", str(ROOT / "docs"), "-b", "html", str(tmp_path)]
    subprocess.run([*command, str(tmp_path / "site")], check=True, capture_output=True, text=True)
    page = (tmp_path / "site/index.html").read_text()
    text = re.sub(r"\s+", " ", re.sub("<[^>]+>", " ", page))
    assert (
        "The acknowledged positions beyond the mark-delete position. Do not change it; it is not a copy."
        in text
    )
    assert not re.search(r"\bTYPE\s*:", text)
    members = re.search(r"Methods\s*</p>.*?<table.*?</table>", page, flags=re.DOTALL)
    assert members is not None
    assert "Save the state in a store" in members[0]
    assert ">ack_cumulative<" in re.sub(r"</?(code|span|strong|p)[^>]*>", "", members[0]), (
        "a member of a base class"
    )
    assert "_modules/ackwell/cursor/cursor.html" in page
