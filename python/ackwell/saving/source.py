"""Sources of states that a journal can save.

A `Source` has a state, and computes the change of this state since the last save. `FixedSource` is a source
for a fixed state. It compares two states in O(ranges + ack sets + counts). `ackwell.cursor.tracked` has the
source for a cursor, whose state changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ackwell.saving.delta import Change, difference

if TYPE_CHECKING:
    from ackwell._native import PositionInfo


class Source(Protocol):
    """The source of a state that a journal can save."""

    def whole(self) -> PositionInfo:
        """Return the whole state."""

    def baseline(self) -> object:
        """Return a value that represents the present state. The next save passes it to `change_since`.

        The journal calls this method when the present state is saved.
        """

    def change_since(self, baseline: Any) -> Change | None:
        """Return the change since the save at which `baseline` was returned.

        Return None if a `Change` cannot express this change.
        """


class FixedSource(NamedTuple):
    """A source for a fixed state. Its baseline is the state itself."""

    state: PositionInfo

    def whole(self) -> PositionInfo:
        """Return the state."""
        return self.state

    def baseline(self) -> PositionInfo:
        """Return the state."""
        return self.state

    def change_since(self, baseline: object) -> Change | None:
        """Return the change from the earlier state `baseline` to this state."""
        # If another kind of source made the last save, its baseline may not be a state.
        return difference(baseline, self.state) if isinstance(baseline, type(self.state)) else None
