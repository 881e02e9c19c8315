"""What a subscription asks of the tracker of delayed messages; `ackwell.delayed` has one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Int64s = NDArray[np.int64]


class DelayedMessages(Protocol):
    """Positions with a time; each counts once."""

    def add(self, deliver_at_ms: int, ledger_id: int, entry_id: int, now_ms: int) -> bool:
        """Take a message in; `False`, and nothing is taken, when it is due already."""

    def has_due(self, now_ms: int) -> bool:
        """Return whether a message is due."""

    def pop_due(self, now_ms: int, max: int) -> tuple[Int64s, Int64s, Int64s]:  # noqa: A002
        """Take due messages out: times, ledger ids, entry ids."""

    def next_wakeup(self) -> int | None:
        """Return when the next message is due."""

    def clear(self) -> None:
        """Let go of every message."""

    def __len__(self) -> int: ...

    @property
    def nbytes(self) -> int:
        """The heap bytes."""
