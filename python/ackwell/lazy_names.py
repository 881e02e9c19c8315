"""Names of a package that are loaded on first use, so that the import of the package is fast."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(
    package: str,
    homes: Mapping[str, str],
    check: Callable[[str], None] | None = None,
    *,
    names: Iterable[str] = (),
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the functions `__getattr__` and `__dir__` for a package whose names are in other modules.

    `homes` maps each name to its module; `.name` is a module of the package. `__getattr__` loads the module
    at the first use of a name. Without `check`, later uses of the name do not call `__getattr__`. With
    `check`, each use calls `__getattr__`, which first calls `check` with the name; `check` raises an error if
    an extra is missing. `__dir__` lists the names in `homes` and in `names`.

    >>> load, names = lazy_names("ackwell", {"Cursor": ".cursor"})
    >>> load("Cursor").__name__, names()
    ('Cursor', ['Cursor'])
    >>> load("Other")
    Traceback (most recent call last):
    AttributeError: module 'ackwell' has no attribute 'Other'
    """

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if check is not None:
            check(name)
        value = getattr(import_module(homes[name], package), name)
        if check is None:
            setattr(sys.modules[package], name, value)
        return value

    return load, lambda: sorted({*homes, *names})
