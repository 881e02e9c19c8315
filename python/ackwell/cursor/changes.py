"""Track the changes since the last save: `TrackedDict` records its changed keys in a `ChangedPositions`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from ackwell.position import Position

if TYPE_CHECKING:
    from collections.abc import Iterable

#: The maximum number of tracked changes. If there are more changes, a full save is cheaper than a save of the
#: changes, so tracking stops.
CHANGES_MAX = 1 << 16


class ChangedPositions:
    """The positions whose value was set or removed since the last save; unknown before the first save."""

    __slots__ = ("_since", "positions")

    def __init__(self) -> None:
        self.positions: set[Position] | None = None
        """The positions that changed since the last successful save; None if they are unknown: before the
        first save, or after more than `CHANGES_MAX` changes."""
        self._since: set[Position] | None = None
        """The positions that changed since the last save began; None if unknown. When this save succeeds,
        they replace `positions`."""

    def begin(self) -> set[Position] | None:
        """Begin a save. Return the positions that changed since the last one; None if they are unknown."""
        self._since = set()
        return None if self.positions is None else self.positions.copy()

    def end_save(self) -> None:
        """End a successful save: forget the positions that changed before the save began."""
        self.positions = self._since

    @property
    def remembers(self) -> bool:
        """Whether changes are recorded. They are recorded from the beginning of the first save."""
        return self.positions is not None or self._since is not None

    @property
    def moved(self) -> bool:
        """Whether anything changed since the last save began."""
        return self._since is None or bool(self._since)

    def add(self, position: Position) -> None:
        """Record a changed position.

        Another thread may begin or end a save at the same time, which replaces the sets of changed positions.
        The method then records the position in the new sets, too.
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
        """Record many changed positions. O(positions), or O(1) if changes are not recorded."""
        if self.remembers:
            for position in positions:
                self.add(position)


class TrackedDict(dict[Position, int]):
    """A dictionary by position. Its attribute `changed` records the keys that were set or removed."""

    changed: ChangedPositions

    # `changed` is created here and not in `__init__`, because copying and unpickling set items without a call
    # of `__init__`.
    def __new__(cls) -> Self:
        """Return an empty dictionary."""
        created = super().__new__(cls)
        created.changed = ChangedPositions()
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
        """Remove a key and return its value; return `default` if the key is missing."""
        value = super().pop(position, default)
        self.changed.add(position)
        return value

    def popitem(self) -> tuple[Position, int]:
        """Remove and return the most recently added item."""
        position, value = super().popitem()
        self.changed.add(position)
        return position, value

    def setdefault(self, position: Position, default: int = 0) -> int:
        """Return the value of a key. If the key is missing, first set its value to `default`."""
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
