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
    """The positions whose value was set or removed since `start`; nothing before that, nor after too many."""

    __slots__ = ("positions",)

    def __init__(self) -> None:
        self.positions: set[Position] | None = None
        """None if they are not known."""

    def start(self) -> None:
        """Remember the positions that change from now on."""
        self.positions = set()

    def add(self, position: Position) -> None:
        """Remember one that changed."""
        if self.positions is not None:
            self.positions.add(position)
            if len(self.positions) > CHANGES_MAX:
                self.positions = None

    def update(self, positions: Iterable[Position]) -> None:
        """Remember many that changed; O(1) if none are remembered."""
        if self.positions is not None:
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
        self.changed.add(position)
        super().__setitem__(position, value)

    def __delitem__(self, position: Position) -> None:
        self.changed.add(position)
        super().__delitem__(position)

    def __ior__(self, other: Any) -> Self:  # type: ignore[misc, override]
        self.update(other)
        return self

    def pop(self, position: Position, default: Any = None) -> Any:
        """Remove a key and return its value; `default` without it."""
        self.changed.add(position)
        return super().pop(position, default)

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
        self.changed.update(self)
        super().clear()


class Baseline(NamedTuple):
    """What was saved of a tracked state, the dictionaries apart."""

    mark_delete: Position
    acked: PositionRangeSet
    properties: Mapping[str, int]
    idle_since: int | None
    unknown_fields: bytes


class Tracked(NamedTuple):
    """The state of a cursor, and of the subscription around it."""

    engine: Engine
    now: Baseline
    ack_sets: TrackedDict
    changed_counts: Changed
    """The entries whose redelivery count was set or removed."""
    count_of: Callable[[Position], int | None]
    """Returns the redelivery count of an entry, None for none."""
    state: Callable[[], PositionInfo]

    def whole(self) -> PositionInfo:
        """Return the whole state."""
        return self.state()

    def baseline(self) -> Baseline:
        """Return a copy of what is compared, and start to track what changes."""
        self.ack_sets.changed.start()
        self.changed_counts.start()
        now = self.now
        return now._replace(acked=now.acked.copy(), properties=dict(now.properties))

    def change_since(self, baseline: Baseline | PositionInfo) -> Change | None:
        """Return what was tracked since; the difference if the state was just loaded."""
        if not isinstance(baseline, Baseline):
            return difference(baseline, self.state())
        now, mark_delete = self.now, self.now.mark_delete
        kept = baseline.acked.copy()
        kept.remove_up_to(*mark_delete)
        new = now.acked - kept
        # All that was acknowledged still is, if the new ones are all there is more.
        taken_back = kept.cardinality + new.cardinality != now.acked.cardinality
        if taken_back or mark_delete < baseline.mark_delete:
            return None
        bits = self._values(self.ack_sets.changed, self.ack_sets.get)
        counts = self._values(self.changed_counts, self.count_of)
        if bits is None or counts is None:
            return None
        properties = now.properties != baseline.properties
        others = now[3:] != baseline[3:]
        changes = self.engine.PositionInfo(
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
        self, changed: Changed, value_of: Callable[[Position], int | None]
    ) -> dict[Position, int] | None:
        """Return the changed values; None if they are not known, or one is gone that no ack covers."""
        mark_delete, acked = self.now.mark_delete, self.now.acked
        if changed.positions is None:
            return None
        values = {}
        for position in changed.positions:
            if position > mark_delete and position not in acked:
                value = value_of(position)
                if value is None:
                    return None
                values[position] = value
        return values
