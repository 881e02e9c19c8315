"""What changed since the last save: positions, and dictionaries that remember which keys changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from ackwell.position import Position

if TYPE_CHECKING:
    from collections.abc import Iterable

#: More changes than these are not remembered: the next save is a full one, as it then should be.
CHANGES_MAX = 1 << 16


class Changed:
    """The positions whose value was set or removed since the last save; unknown before the first one."""

    __slots__ = ("_since", "positions")

    def __init__(self) -> None:
        self.positions: set[Position] | None = None
        """None if they are not known, also after too many."""
        self._since: set[Position] | None = None
        """Those since the save that began last: what is left of the others once that has succeeded."""

    def begin(self) -> set[Position] | None:
        """Begin a save; return the positions that changed since the one before."""
        self._since = set()
        return None if self.positions is None else self.positions.copy()

    def saved(self) -> None:
        """Forget the positions that changed before the save began."""
        self.positions = self._since

    @property
    def remembers(self) -> bool:
        """Whether changes are remembered."""
        return self.positions is not None or self._since is not None

    @property
    def moved(self) -> bool:
        """Whether anything changed since the save that began last."""
        return self._since is None or bool(self._since)

    def add(self, position: Position) -> None:
        """Remember one that changed.

        Where another thread begins or ends a save meanwhile, once more: it is in what is remembered then.
        """
        while True:
            positions, since = self.positions, self._since
            if positions is not None:
                positions.add(position)
            if since is not None and since is not positions:
                since.add(position)
            if positions is self.positions and since is self._since:
                break
        if positions is not None and len(positions) > CHANGES_MAX:
            self.positions = None
        if since is not None and len(since) > CHANGES_MAX:
            self._since = None

    def update(self, positions: Iterable[Position]) -> None:
        """Remember many that changed; O(1) if none are remembered."""
        if self.remembers:
            for position in positions:
                self.add(position)


class TrackedDict(dict[Position, int]):
    """A dictionary that remembers in `changed` which keys were set or removed."""

    changed: Changed

    # Not in `__init__`: copying and pickling set items without calling that.
    def __new__(cls) -> Self:
        """Return an empty dictionary."""
        created = super().__new__(cls)
        created.changed = Changed()
        return created

    def __setitem__(self, position: Position, value: int) -> None:
        super().__setitem__(position, value)
        self.changed.add(position)

    def __delitem__(self, position: Position) -> None:
        super().__delitem__(position)
        self.changed.add(position)

    def __ior__(self, other: Any) -> Self:  # type: ignore[misc, override]
        self.update(other)
        return self

    def pop(self, position: Position, default: Any = None) -> Any:
        """Remove a key and return its value; `default` without it."""
        value = super().pop(position, default)
        self.changed.add(position)
        return value

    def popitem(self) -> tuple[Position, int]:
        """Remove and return the newest item."""
        position, value = super().popitem()
        self.changed.add(position)
        return position, value

    def setdefault(self, position: Position, default: int = 0) -> int:
        """Return the value of a key, which is set if it is missing."""
        if position not in self:
            self[position] = default
        return self[position]

    def update(self, *others: Any, **_: Any) -> None:
        """Set many items."""
        for position, value in dict(*others).items():
            self[position] = value

    def clear(self) -> None:
        """Remove every key."""
        removed = list(self)
        super().clear()
        self.changed.update(removed)
