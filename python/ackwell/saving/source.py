"""States that a journal can save.

A `Source` computes the change of its state since the last save. `Given` is a source that holds a value and
compares it in O(ranges + ack sets + counts). The source of a cursor is `ackwell.cursor.tracked`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ackwell.saving.delta import Change, difference

if TYPE_CHECKING:
    from ackwell._native import PositionInfo


class Source(Protocol):
    """A state that a journal can save."""

    def whole(self) -> PositionInfo:
        """Return the whole state."""

    def baseline(self) -> object:
        """Return the value that `change_since` needs at the next save.

        It is called when this state is saved.
        """

    def change_since(self, baseline: Any) -> Change | None:
        """Return the change since the save of a baseline; None if a `Change` cannot express it."""


class Given(NamedTuple):
    """A source that holds a state. Its baseline is the state itself."""

    state: PositionInfo

    def whole(self) -> PositionInfo:
        """Return the state."""
        return self.state

    def baseline(self) -> PositionInfo:
        """Return the state."""
        return self.state

    def change_since(self, baseline: object) -> Change | None:
        """Return the change from the state `baseline` to this state."""
        # A source of another kind may have left a baseline that is not a state.
        return difference(baseline, self.state) if isinstance(baseline, type(self.state)) else None
