"""What a journal saves, and what changed in it since the save before.

A `Given` state is compared with the one before: O(ranges + ack sets + counts). A `Tracked` state belongs to a
cursor, whose parts remember which of their entries changed: O(ranges) at the speed of comparing
bits, plus O(changes).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self

from ackwell.ack_sets import to_words
from ackwell.position import Position
from ackwell.saving.delta import Change, difference

if TYPE_CHECKING:
    from ackwell._native import PositionInfo, PositionRangeSet
    from ackwell.engine import Engine


class Source(Protocol):
    """A state that a journal can save."""

    def whole(self) -> PositionInfo:
        """Return the whole state."""

    def baseline(self) -> object:
        """Return what `change_since` needs later, now that this state was saved."""

    def change_since(self, baseline: Any) -> Change | None:
        """Return what changed since a state was saved; None if no change can say it."""


class Given(NamedTuple):
    """A state as a value. It is its own baseline."""

    state: PositionInfo

    def whole(self) -> PositionInfo:
        """Return the state."""
        return self.state

    def baseline(self) -> PositionInfo:
        """Return the state."""
        return self.state

    def change_since(self, baseline: object) -> Change | None:
        """Return the difference of the two states."""
        # A tracked baseline is less than a state.
        return None if isinstance(baseline, Baseline) else difference(baseline, self.state)  # type: ignore[arg-type]


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
        """Remember one that changed."""
        if self.positions is not None:
            self.positions.add(position)
            if len(self.positions) > CHANGES_MAX:
                self.positions = None
        if self._since is not None and self._since is not self.positions:
            self._since.add(position)
            if len(self._since) > CHANGES_MAX:
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


class Baseline(NamedTuple):
    """A tracked state at one moment, the dictionaries apart: what is saved, and compared by the next save."""

    mark_delete: Position
    acked: PositionRangeSet
    """A copy: the cursor changes its own."""
    properties: Mapping[str, int]
    idle_since: int | None
    unknown_fields: bytes


class Tracked:
    """The state of a cursor, and of the subscription around it, at the moment of a save.

    Everything that is large is copied once, here: what is written and what the next save compares are one.
    """

    def __init__(
        self,
        engine: Engine,
        now: Baseline,
        ack_sets: TrackedDict,
        changed_counts: Changed,
        count_of: Callable[[Position], int | None],
        counts: Callable[[], Mapping[Position, int]],
    ) -> None:
        self._engine = engine
        self.now = now
        self._ack_sets = ack_sets
        self._changed = ack_sets.changed, changed_counts
        self._count_of = count_of
        self._counts = counts
        self._changed_sets, self._changed_counts = (changed.begin() for changed in self._changed)

    def whole(self) -> PositionInfo:
        """Return the whole state. O(ranges + ack sets + counts)."""
        now = self.now
        info: PositionInfo = self._engine.PositionInfo(
            *now.mark_delete,
            individually_deleted=now.acked,
            batch_deleted={position: to_words(bits) for position, bits in sorted(self._ack_sets.items())},
            redelivery_counts=self._counts(),
            properties=now.properties,
            idle_since=now.idle_since,
            unknown_fields=now.unknown_fields,
        )
        return info

    def baseline(self) -> Baseline:
        """Return what was saved, and forget the changes before it."""
        for changed in self._changed:
            changed.saved()
        return self.now

    @property
    def moved(self) -> bool:
        """Whether an ack set or a count changed since the save began."""
        sets, counts = self._changed
        return sets.moved or counts.moved

    def change_since(self, baseline: Baseline | PositionInfo) -> Change | None:
        """Return what was tracked since; the difference if the state was just loaded."""
        if not isinstance(baseline, Baseline):
            return difference(baseline, self.whole())
        now, mark_delete = self.now, self.now.mark_delete
        kept = baseline.acked.copy()
        kept.remove_up_to(*mark_delete)
        new = now.acked - kept
        # All that was acknowledged still is, if the new ones are all there is more.
        taken_back = kept.cardinality + new.cardinality != now.acked.cardinality
        if taken_back or mark_delete < baseline.mark_delete:
            return None
        bits = self._values(self._changed_sets, self._ack_sets.get)
        counts = self._values(self._changed_counts, self._count_of)
        if bits is None or counts is None:
            return None
        properties = now.properties != baseline.properties
        others = now[3:] != baseline[3:]
        changes = self._engine.PositionInfo(
            *mark_delete,
            individually_deleted=new,
            batch_deleted={position: to_words(each) for position, each in bits.items()},
            redelivery_counts=counts,
            properties=now.properties if properties else None,
            idle_since=now.idle_since if others else None,
            unknown_fields=now.unknown_fields if others else None,
        )
        return Change(changes, properties, others, mark_delete != baseline.mark_delete)

    def _values(
        self, positions: set[Position] | None, value_of: Callable[[Position], int | None]
    ) -> dict[Position, int] | None:
        """Return the changed values; None if they are not known, or one is gone that no ack covers."""
        if positions is None:
            return None
        mark_delete, acked = self.now.mark_delete, self.now.acked
        found = {}
        for position in positions:
            if position > mark_delete and position not in acked:
                value = value_of(position)
                if value is None:
                    return None
                found[position] = value
        return found
