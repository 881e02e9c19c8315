"""One structure in both engines: every call goes to both, and both must answer alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ackwell import AckwellError

REFUSALS = (AckwellError, ValueError, TypeError, KeyError, IndexError)


def plain(value: object) -> object:
    """Reduce a result to what can be compared across engines: ints, tuples, lists and dicts."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, Mapping):
        return {plain(key): plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return (
            type(value)(plain(item) for item in value)
            if type(value) in (tuple, list)
            else tuple(plain(item) for item in value)
        )
    if hasattr(value, "validate") and hasattr(value, "__iter__"):
        return [plain(item) for item in value]
    return value


def outcome(call: Callable[[], object]) -> tuple[str, object]:
    """What a call did: its result, or the type of its refusal."""
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
        """Hold both to their invariants and to the same content."""
        self.native.validate()
        self.reference.validate()
        assert plain(self.native) == plain(self.reference)
