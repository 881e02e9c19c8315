"""The protocol of a tracker of delayed messages; `ackwell.delayed` implements it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class DelayedMessages(Protocol):
    """A set of positions, each with a delivery time."""

    def add(self, deliver_at_ms: int, ledger_id: int, entry_id: int, now_ms: int) -> bool:
        """Track a message and return true. If it is already due, return false and do not track it."""

    def contains(self, ledger_id: int, entry_id: int) -> bool:
        """Return whether a position is tracked."""

    def has_due(self, now_ms: int) -> bool:
        """Return whether a message is due."""

    def pop_due(
        self,
        now_ms: int,
        max: int,  # noqa: A002
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Remove due messages; return their times, ledger ids and entry ids."""

    @property
    def waits_for_fixed_delay(self) -> bool:
        """Whether all delays are equal. Entries that are read later are then also due later."""

    def note_undelayed(self) -> None:
        """Record that a message was not tracked, because it has no delay or is already due."""

    def next_wakeup_ms(self) -> int | None:
        """Return the time at which the next message is due, or `None`."""

    def clear(self) -> None:
        """Remove all messages."""

    def __len__(self) -> int: ...

    @property
    def nbytes(self) -> int:
        """The heap bytes."""
