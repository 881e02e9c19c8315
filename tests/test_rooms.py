"""The rooms of `docs/architecture.md` match the package, and each imports only rooms above it."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

import ackwell

pytestmark = pytest.mark.checkout

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "python/ackwell"
TABLE = (ROOT / "docs/architecture.md").read_text().partition("## The rooms")[2].partition("\n## ")[0]
ROOMS = [
    name
    for cell in re.findall(r"^\| (`[^|]*) \|", TABLE, re.MULTILINE)
    for name in re.findall(r"`(\w+)`", cell)
]
PURE = ROOMS[: ROOMS.index("subscription") + 1]
"""Rooms without clocks, files and threads, except `store` and `regular_files`."""
IMPURE = {"asyncio", "concurrent", "datetime", "http", "io", "logging", "multiprocessing", "os", "pathlib"}
IMPURE |= {
    "random",
    "secrets",
    "selectors",
    "shutil",
    "socket",
    "subprocess",
    "tempfile",
    "threading",
    "time",
}


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].partition(".")[0]


POSITIONAL_MAX = 8


class Statements(NamedTuple):
    """The parts of a file that the tests check, also those inside functions."""

    imports: list[ast.AST]
    """The imports at run time."""
    typing_imports: list[ast.AST]
    """The imports only for types."""
    classes: list[str]
    positional: list[str]
    """The calls and functions with more than `POSITIONAL_MAX` positional arguments."""


def positional(nodes: Iterable[ast.AST]) -> list[str]:
    """Return the lines of calls and functions with more than `POSITIONAL_MAX` positional arguments.

    `self` and `cls` do not count. The fields of a dataclass count, unless it takes them by keyword only.
    """
    found = []
    for node in nodes:
        if not isinstance(node, ast.expr | ast.stmt):
            continue
        names: list[str | None] = []
        if isinstance(node, ast.Call):
            names = [None for _ in node.args]
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            names = [each.arg for each in (*node.args.posonlyargs, *node.args.args)]
        elif isinstance(node, ast.ClassDef) and any(
            "dataclass" in (text := ast.unparse(each)) and "kw_only=True" not in text
            for each in node.decorator_list
        ):
            fields = [ast.unparse(each.annotation) for each in node.body if isinstance(each, ast.AnnAssign)]
            names = [*fields[: fields.index("KW_ONLY")]] if "KW_ONLY" in fields else [*fields]
        if len(names) - (names[:1] in (["self"], ["cls"])) > POSITIONAL_MAX:
            found.append(f"line {node.lineno}")
    return found


@cache
def statements(path: Path) -> Statements:
    nodes = list(ast.walk(ast.parse(path.read_text())))
    blocks = [
        node
        for node in nodes
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    ]
    for_types = {id(node) for block in blocks for node in ast.walk(block)}
    imports = [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]
    return Statements(
        [node for node in imports if id(node) not in for_types],
        [node for node in imports if id(node) in for_types],
        [node.name for node in nodes if isinstance(node, ast.ClassDef)],
        positional(nodes),
    )


def imported(path: Path, *, typing: bool = False) -> Iterator[str]:
    """Return the imports of a file at run time, or with `typing` those only for types."""
    found = statements(path)
    for node in found.typing_imports if typing else found.imports:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module == "ackwell":
            # A name of the package counts as an import of its room.
            for alias in node.names:
                home = getattr(getattr(ackwell, alias.name, None), "__module__", f"ackwell.{alias.name}")
                yield "ackwell._native" if home == "ackwell" else home
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert not node.level, f"{path}: a relative import"
            yield node.module


def files() -> list[Path]:
    """Return the files of the rooms, without the package's `__init__`, which imports from all rooms."""
    return [path for path in sorted(PACKAGE.rglob("*.py")) if path != PACKAGE / "__init__.py"]


def test_the_rooms_of_the_page_are_those_of_the_package() -> None:
    found = {
        path.name.partition(".")[0]
        for path in PACKAGE.iterdir()
        if (path.is_dir() and any(path.glob("*.py"))) or path.suffix in (".py", ".pyi")
    }
    found -= {"__init__"}
    lacking, gone = sorted(found - {*ROOMS}), sorted({*ROOMS} - found)
    assert lacking == [], f"give {lacking} a line in docs/architecture.md, in the order of imports"
    assert gone == [], f"remove {gone} from the table of docs/architecture.md"
    assert len(ROOMS) == len(found)


@pytest.mark.parametrize("typing", [False, True], ids=["at run time", "for types"])
def test_a_room_imports_only_what_is_above_it(typing: bool) -> None:
    # An error may have an attribute whose type belongs to a later room.
    named = {("errors", "loss"), ("errors", "position")} if typing else set()
    seen, up = 0, []
    for path in files():
        room = room_of(path)
        for module in imported(path, typing=typing):
            if not module.startswith("ackwell."):
                continue
            other = module.split(".")[1]
            seen += 1
            if ROOMS.index(other) > ROOMS.index(room) and (room, other) not in named:
                up.append(f"{path.relative_to(PACKAGE)} imports {other}")
    assert up == [], (
        "import only what is above in the table of docs/architecture.md, or pass it as an argument"
    )
    assert seen > 100


def test_each_class_and_each_module_has_its_own_name() -> None:
    modules = Counter(path.stem for path in files() if not path.stem.startswith("__"))
    assert [name for name, count in modules.items() if count > 1] == []
    classes = Counter(name for path in files() for name in statements(path).classes)
    assert [name for name, count in classes.items() if count > 1] == []


def test_no_call_has_more_than_eight_positional_arguments() -> None:
    paths = [*files(), PACKAGE / "_native.pyi"]
    found = [f"{path.relative_to(PACKAGE)}: {line}" for path in paths for line in statements(path).positional]
    assert found == [], (
        "pass them by keyword, after `*` in the definition, or group those that belong together"
    )


@pytest.mark.parametrize(
    "code",
    [
        "f(0, 1, 2, 3, 4, 5, 6, 7, *others)",
        "def f(a, b, c, d, e, /, f, g, h, i=0): ...",
        "class A:\n    def f(self, a, b, c, d, e, f, g, h, i): ...",
        "@dataclass(frozen=True)\nclass A:\n    " + "; ".join(f"a{number}: int" for number in range(9)),
    ],
)
def test_nine_positional_arguments_are_found(code: str) -> None:
    def count(code: str) -> int:
        return len(positional(ast.walk(ast.parse(code))))

    assert count(code) == 1
    for by_name in (
        code.replace("7, *others", "*others, i=8"),
        code.replace("h, i", "h, *, i"),
        code.replace("frozen", "kw_only"),
        code.replace("a8:", "_: KW_ONLY; a8:"),
    ):
        assert count(by_name) == (by_name == code)


def test_up_to_the_subscription_there_is_no_clock_no_file_and_no_thread() -> None:
    found = {
        f"{path.relative_to(PACKAGE)} imports {module}"
        for path in files()
        if room_of(path) in PURE and room_of(path) not in ("store", "regular_files", "object_paths")
        for module in imported(path)
        if module.partition(".")[0] in IMPURE
    }
    assert found == set(), "pass the time as now_ms; what reads a clock or a file belongs to a later room"
