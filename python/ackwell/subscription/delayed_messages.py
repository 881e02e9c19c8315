"""What a subscription asks of the tracker of delayed messages; `ackwell.delayed` has one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class DelayedMessages(Protocol):
    """Positions with a time of delivery; each counts once."""

    def add(self, deliver_at_ms: int, ledger_id: int, entry_id: int, now_ms: int) -> bool:
        """Track a message; `False`, and nothing is tracked, when it is due already."""

    def contains(self, ledger_id: int, entry_id: int) -> bool:
        """Return whether a position waits here."""

    def has_due(self, now_ms: int) -> bool:
        """Return whether a message is due."""

    def pop_due(
        self,
        now_ms: int,
        max: int,  # noqa: A002
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Take due messages out: times, ledger ids, entry ids."""

    @property
    def waits_for_fixed_delay(self) -> bool:
        """Whether it is useless to read on: what is read later is due later."""

    def note_undelayed(self) -> None:
        """Note a message without a delay, or one already due, that was not added."""

    def next_wakeup_ms(self) -> int | None:
        """Return when the next message is due."""

    def clear(self) -> None:
        """Forget every message."""

    def __len__(self) -> int: ...

    @property
    def nbytes(self) -> int:
        """The heap bytes."""
