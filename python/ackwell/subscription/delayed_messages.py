"""The protocol of a tracker of delayed messages; `ackwell.delayed` implements it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class DelayedMessages(Protocol):
    """The messages that wait for their delivery time. A position has one delivery time."""

    def add(self, deliver_at_ms: int, ledger_id: int, entry_id: int, now_ms: int) -> bool:
        """Track a message, unless it is already due. Return whether it is tracked."""

    def contains(self, ledger_id: int, entry_id: int) -> bool:
        """Return whether the message at a position is tracked."""

    def has_due(self, now_ms: int) -> bool:
        """Return whether a tracked message is due at `now_ms`."""

    def pop_due(
        self,
        now_ms: int,
        max: int,  # noqa: A002
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Remove up to `max` messages that are due; return their delivery times, ledger ids and entry ids."""

    @property
    def waits_for_fixed_delay(self) -> bool:
        """Whether a dispatcher should stop reading, because many messages wait and all have the same delay.

        A message that is read later is then also due later.
        """

    def note_undelayed(self) -> None:
        """Record that a message is not tracked, because it has no delay or is already due."""

    def next_wakeup_ms(self) -> int | None:
        """Return the time at which the first message is due, or `None` if no message is tracked."""

    def clear(self) -> None:
        """Remove all messages."""

    def __len__(self) -> int: ...

    @property
    def nbytes(self) -> int:
        """The heap bytes."""
