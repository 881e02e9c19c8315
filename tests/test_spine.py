"""The spine: each structure has a file in every tree, and both engines have the same signatures."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ackwell import _native
from ackwell.engine import Engine
from tests import reference

pytestmark = pytest.mark.checkout

ROOT = Path(__file__).parents[1]
SPINE = re.findall(
    r"^\| `(\w+)` \| (`[^|]*`) \|",
    (ROOT / "docs" / "architecture.md").read_text().partition("## Structures")[2].partition("\n## ")[0],
    re.MULTILINE,
)
STRUCTURES = [module for module, _ in SPINE if module != "position"]
NAMES = [name for _, names in SPINE for name in re.findall(r"`(\w+)`", names) if name != "Position"]

TREES = {
    "rust/core/src": "{}.rs",
    "rust/python/src": "{}.rs",
    "tests/reference": "{}.py",
    "tests/rust": "{}.rs",
    "tests/differential": "test_{}.py",
    "benches/rust": "{}.rs",
}
# A crate implements the algorithm of `crc32c`, so the core has nothing to test or measure.
WITHOUT = {("tests/rust", "crc32c"), ("benches/rust", "crc32c")}
# An independent oracle replaces the reference: RFC 3720, protobuf, a dictionary, the standard library.
NATIVE_ONLY = {"crc32c", "decode_command_ack", "Names", "TraceReader"}
WITHOUT |= {("tests/reference", structure) for structure in ("crc32c", "command_ack", "names", "trace")}
WITHOUT |= {("tests/differential", "command_ack")}

# The modules of a tree that are not structures.
HELPERS = {
    "rust/core/src": {"lib", "error", "position", "delayed", "frame", "nbytes", "radix", "varint"},
    "rust/python/src": {"lib", "arrays", "convert", "delayed", "forks", "methods", "positions", "shared"},
    "tests/reference": {
        "__init__",
        "integers",
        "delayed",
        "frame",
        "roaring",
        "wheel_stream",
        "chunks",
    },
}


def exists(tree: str, pattern: str) -> bool:
    """Return whether a file exists, or for a Python module the package of this name."""
    path = ROOT / tree / pattern
    return path.is_file() or (path.suffix == ".py" and (path.with_suffix("") / "__init__.py").is_file())


@pytest.mark.parametrize("tree", TREES)
@pytest.mark.parametrize("structure", STRUCTURES)
def test_every_structure_has_its_file_in_every_tree(structure: str, tree: str) -> None:
    expected = (tree, structure) not in WITHOUT
    assert expected == exists(tree, TREES[tree].format(structure))


@pytest.mark.parametrize("tree", HELPERS)
def test_a_tree_has_nothing_beside_the_structures_and_its_helpers(tree: str) -> None:
    suffix = Path(TREES[tree]).suffix
    found = {path.stem for path in (ROOT / tree).iterdir() if path.suffix == suffix}
    found |= {path.parent.name for path in (ROOT / tree).glob("*/__init__.py")}
    assert found == {each for each in STRUCTURES if (tree, each) not in WITHOUT} | HELPERS[tree]
    # A module with several files is `x.rs` and the folder `x`.
    assert not list((ROOT / tree).rglob("mod.rs"))


@pytest.mark.parametrize("crate", ["rust/core/src", "rust/python/src", "tests/rust", "benches/rust"])
def test_modules_stand_in_the_order_of_the_spine(crate: str) -> None:
    root = ROOT / crate / ("lib.rs" if crate.startswith("rust") else "main.rs")
    declared = re.findall(r"^(?:pub )?mod (\w+);", root.read_text(), re.MULTILINE)
    assert [name for name in declared if name in STRUCTURES] == [
        name for name in STRUCTURES if name in declared
    ]


def test_every_class_is_measured_through_the_binding() -> None:
    benches = (ROOT / "benches" / "python" / "test_structures.py").read_text()
    assert [name for name in NAMES if not re.search(rf"\b{name}\b", benches)] == []


@pytest.mark.parametrize("engine", [_native, reference])
def test_an_engine_has_the_names_of_the_spine(engine: ModuleType) -> None:
    shared = sorted(set(NAMES) - NATIVE_ONLY)
    assert sorted(engine.__all__) == (sorted(NAMES) if engine is _native else shared)
    protocol = [name for name in (*inspect.get_annotations(Engine), *vars(Engine)) if name[0] != "_"]
    assert sorted(protocol) == shared


def described(owner: Any, name: str) -> object:
    """Return the parameters of a method, or that the attribute is a property."""
    attribute = getattr(owner, name)
    if not callable(attribute):
        return "property"
    parameters = list(inspect.signature(attribute).parameters.values())
    is_bound = isinstance(
        inspect.getattr_static(owner, name), staticmethod | classmethod
    ) or inspect.isbuiltin(attribute)
    if not is_bound and isinstance(owner, type):
        parameters = parameters[1:]
    return [(parameter.name, parameter.kind.description, parameter.default) for parameter in parameters]


def public(cls: type) -> list[str]:
    return sorted(name for name in dir(cls) if not name.startswith("_"))


@pytest.mark.parametrize("name", [name for name in NAMES if name not in NATIVE_ONLY])
def test_both_engines_have_the_same_methods_and_signatures(name: str) -> None:
    native, twin = getattr(_native, name), getattr(reference, name)
    if not isinstance(native, type):
        assert described(_native, name) == described(reference, name)
        return
    assert public(native) == public(twin)
    differences = {
        method: (described(native, method), described(twin, method))
        for method in public(native)
        if described(native, method) != described(twin, method)
    }
    assert differences == {}
    own = [inspect.signature(cls).parameters for cls in (native, twin)]
    assert [(p.name, p.kind, p.default) for p in own[0].values()] == [
        (p.name, p.kind, p.default) for p in own[1].values()
    ]


# The protocols of every mutable structure, by CONTRIBUTING.md.
MUTABLE = [
    "Ledgers",
    "LongMap",
    "BitSet",
    "PendingAcks",
    "PositionRangeSet",
    "AckSets",
    "TripleLongHeap",
    "TimeBuckets",
    "TimeWheel",
]
PROTOCOLS = [
    "__len__",
    "__contains__",
    "__iter__",
    "__eq__",
    "__repr__",
    "__copy__",
    "copy",
    "nbytes",
    "validate",
]


@pytest.mark.parametrize("engine", [_native, reference])
@pytest.mark.parametrize("name", MUTABLE)
def test_structures_keep_the_protocols_of_python(engine: ModuleType, name: str) -> None:
    cls = getattr(engine, name)
    assert [protocol for protocol in PROTOCOLS if not hasattr(cls, protocol)] == []
    assert cls.__hash__ is None
