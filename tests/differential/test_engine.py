"""Both engines are engines: the same names, and on each class the same public methods."""

import inspect

import pytest

from ackwell import _native, reference
from ackwell.engine import Engine

ENGINES: list[Engine] = [_native, reference]
NAMES = [name for name in (*inspect.get_annotations(Engine), *vars(Engine)) if name[0] != "_"]


def public(cls: type) -> set[str]:
    return {name for name in dir(cls) if not name.startswith("_")}


@pytest.mark.parametrize("name", ["Ledgers", "PositionRangeSet"])
def test_both_engines_have_the_same_methods(name: str) -> None:
    native, twin = (getattr(engine, name) for engine in ENGINES)
    assert public(native)
    assert public(native) == public(twin)
    assert native.__hash__ is None
    assert twin.__hash__ is None


def test_the_engine_names_every_class_of_both() -> None:
    assert set(NAMES) == set(_native.__all__)
    assert set(NAMES) == set(reference.__all__)
