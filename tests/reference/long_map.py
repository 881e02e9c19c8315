"""`LongMap` as a dict."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from ackwell.arrays import as_int64, same_length
from tests.reference.integers import int64, is_int64, pair

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

Entries: TypeAlias = Mapping[int, int] | Iterable[tuple[int, int]]
Default = TypeVar("Default")


def checked_pairs(entries: Entries) -> list[tuple[int, int]]:
    """Return the pairs of a mapping or an iterable, all of them int64."""
    pairs = entries.items() if isinstance(entries, Mapping) else entries
    return [pair(each) for each in pairs]


class LongMap(MutableMapping[int, int]):
    """A map from int64 to int64; the iteration order is undefined."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, entries: Entries | None = None, /) -> None:
        self._values: dict[int, int] = dict(checked_pairs(() if entries is None else entries))

    @classmethod
    def from_arrays(cls, keys: ArrayLike, values: ArrayLike) -> LongMap:
        """Build a map of two int64 arrays of one length."""
        built = cls()
        built.put_many(keys, values)
        return built

    def __getitem__(self, key: int, /) -> int:
        return self._values[int64(key)]

    def __setitem__(self, key: int, value: int, /) -> None:
        self._values[int64(key)] = int64(value)

    def __delitem__(self, key: int, /) -> None:
        del self._values[int64(key)]

    def __iter__(self) -> Iterator[int]:
        return iter(list(self._values))

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, key: object, /) -> bool:
        return is_int64(key) and key in self._values

    def contains(self, key: int, /) -> bool:
        """Return whether the map has `key`."""
        return int64(key) in self._values

    def get(self, key: int, default: Any = None, /) -> Any:
        """Return the value of `key`, or `default`."""
        return self._values.get(int64(key), default)

    def update(self, entries: Entries, /) -> None:  # type: ignore[override]
        """Set the values of a mapping or of pairs; nothing changes if one is refused."""
        self._values.update(checked_pairs(entries))

    def pop(self, key: int, /, *default: Default) -> int | Default:
        """Remove `key` and return its value, or `default` if one is given; `KeyError` otherwise."""
        return self._values.pop(int64(key), *default)

    def popitem(self) -> tuple[int, int]:
        """Remove any entry and return its key and value; `KeyError` if there is none."""
        return self._values.popitem()

    def setdefault(self, key: int, default: int, /) -> int:
        """Return the value of `key`; set it to `default` if the key is missing."""
        return self._values.setdefault(int64(key), int64(default))

    def clear(self) -> None:
        """Remove every entry."""
        self._values.clear()

    def put(self, key: int, value: int, /) -> int | None:
        """Set the value of `key`; return the one before, or None."""
        before = self._values.get(int64(key))
        self._values[key] = int64(value)
        return before

    def put_if_absent(self, key: int, value: int, /) -> int | None:
        """Set the value of `key` unless it has one, which is returned; None if it was set."""
        before = self._values.get(int64(key))
        self._values.setdefault(key, int64(value))
        return before

    def add_to(self, key: int, delta: int, /) -> int | None:
        """Add to the value of `key` and return the sum; None if the key is missing."""
        key, delta = int64(key), int64(delta)
        if key not in self._values:
            return None
        self._values[key] = int64(self._values[key] + delta)
        return self._values[key]

    def remove(self, key: int, /) -> int | None:
        """Remove `key`; return its value, or None."""
        return self._values.pop(int64(key), None)

    def remove_if_value(self, key: int, value: int, /) -> bool:
        """Remove `key` if its value is `value`; return whether it was."""
        key, value = int64(key), int64(value)
        if self._values.get(key) != value:
            return False
        del self._values[key]
        return True

    def put_many(self, keys: ArrayLike, values: ArrayLike) -> int:
        """Set the values of many keys; return how many keys were new."""
        keys, values = as_int64(keys), as_int64(values)
        same_length(keys, values)
        before = len(self)
        self._values.update(zip(keys.tolist(), values.tolist(), strict=True))
        return len(self) - before

    def get_many(self, keys: ArrayLike, default: int = 0) -> NDArray[np.int64]:
        """Return the values of many keys, with `default` for missing ones."""
        default = int64(default)
        return as_int64([self._values.get(key, default) for key in as_int64(keys).tolist()])

    def contains_many(self, keys: ArrayLike) -> NDArray[np.bool_]:
        """Return a boolean for each key."""
        import numpy as np

        return np.array([key in self._values for key in as_int64(keys).tolist()], dtype=np.bool_)

    def remove_many(self, keys: ArrayLike) -> int:
        """Remove many keys; return the number of removed ones."""
        return sum(self.remove(key) is not None for key in as_int64(keys).tolist())

    def to_arrays(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return all keys and their values."""
        return as_int64(list(self._values)), as_int64(list(self._values.values()))

    def reserve(self, additional: int, /) -> None:
        """Check that the size is addressable; a dict needs no reserve."""
        if not 0 <= int64(additional) < 2**40:
            raise ValueError("expected 0 to 2**40 entries")

    def shrink_to_fit(self) -> None:
        """Do nothing, because a dict has no spare capacity to release."""

    @property
    def capacity(self) -> int:
        """The number of entries, because a dict's capacity is not visible."""
        return len(self)

    @property
    def nbytes(self) -> int:
        """The bytes of the dict, without its integers."""
        return self._values.__sizeof__()

    def validate(self) -> None:
        """Check the invariant: every key and value is an int64."""
        assert all(int64(key) == key for key in self._values)
        assert all(int64(value) == value for value in self._values.values())

    def __repr__(self) -> str:
        return f"<LongMap {len(self)} entries>"

    def copy(self) -> LongMap:
        """Return a map of the same entries."""
        return LongMap(self._values)

    __copy__ = copy
