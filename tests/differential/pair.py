"""One structure in both engines: every call runs on both, and the results must be equal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ackwell import AckwellError

ATOMS = {int, bool, str, bytes, float, type(None)}
REFUSALS = (AckwellError, ValueError, TypeError, KeyError, IndexError)


def plain(value: object) -> object:
    """Convert a result to ints, tuples, lists and dicts, which compare across engines."""
    if type(value) in ATOMS:
        return value
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, Mapping):
        return {plain(key): plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        items = list(map(plain, value))
        return items if type(value) is list else tuple(items)
    if hasattr(value, "validate") and hasattr(value, "__iter__"):
        return [plain(item) for item in value]
    return value


def outcome(call: Callable[[], object]) -> tuple[str, object]:
    """Return the result of a call, or the type of its error."""
    try:
        return "returned", plain(call())
    except REFUSALS as error:
        return "raised", type(error)


class Pair:
    """The native structure and its reference; `pair.call("add", 3, 5)` runs both and compares."""

    def __init__(self, native: Any, reference: Any) -> None:
        self.native = native
        self.reference = reference

    def __iter__(self) -> Iterator[Any]:
        return iter((self.native, self.reference))

    def call(self, name: str, *args: Any, **kwargs: Any) -> object:
        """Call method `name` on both; return the common result, or the common error type."""
        ours = outcome(lambda: getattr(self.native, name)(*args, **kwargs))
        theirs = outcome(lambda: getattr(self.reference, name)(*args, **kwargs))
        assert ours == theirs, f"{name}{args}: native {ours}, reference {theirs}"
        self.check()
        return ours[1]

    def check(self) -> None:
        """Check the invariants of both and that their content is equal."""
        self.native.validate()
        self.reference.validate()
        assert plain(self.native) == plain(self.reference)
