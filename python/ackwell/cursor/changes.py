"""Track the changes since the last save: a set of positions, and a dictionary that records changed keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from ackwell.position import Position

if TYPE_CHECKING:
    from collections.abc import Iterable

#: The maximum number of tracked changes. With more changes a full save is cheaper, so tracking stops.
CHANGES_MAX = 1 << 16


class Changed:
    """The positions whose value was set or removed since the last save; unknown before the first save."""

    __slots__ = ("_since", "positions")

    def __init__(self) -> None:
        self.positions: set[Position] | None = None
        """The positions that changed since the last successful save; None if they are unknown, for example
        after more than `CHANGES_MAX` changes."""
        self._since: set[Position] | None = None
        """The positions that changed since the last save began. They replace `positions` when this save
        succeeds."""

    def begin(self) -> set[Position] | None:
        """Begin a save; return the positions that changed since the previous save."""
        self._since = set()
        return None if self.positions is None else self.positions.copy()

    def saved(self) -> None:
        """End a successful save: forget the positions that changed before the save began."""
        self.positions = self._since

    @property
    def remembers(self) -> bool:
        """Whether changes are recorded: True after the first save began."""
        return self.positions is not None or self._since is not None

    @property
    def moved(self) -> bool:
        """Whether anything changed since the last save began."""
        return self._since is None or bool(self._since)

    def add(self, position: Position) -> None:
        """Record a changed position.

        If another thread begins or ends a save at the same time, the method records the position again in the
        new set.
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
        """Record many changed positions. O(1) if changes are not tracked."""
        if self.remembers:
            for position in positions:
                self.add(position)


class TrackedDict(dict[Position, int]):
    """A dictionary that records in `changed` which keys were set or removed."""

    changed: Changed

    # Not in `__init__`: copying and unpickling set items without calling it.
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
        """Remove a key and return its value; `default` if it is missing."""
        value = super().pop(position, default)
        self.changed.add(position)
        return value

    def popitem(self) -> tuple[Position, int]:
        """Remove and return the most recently added item."""
        position, value = super().popitem()
        self.changed.add(position)
        return position, value

    def setdefault(self, position: Position, default: int = 0) -> int:
        """Return the value of a key; set it to `default` if it is missing."""
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
