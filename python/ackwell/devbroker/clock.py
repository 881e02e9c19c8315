"""The broker's clock, and the timers that run by it.

The time of the clock is the machine's time plus an offset. The time of a frozen clock does not change. The
broker takes every time from this clock, so `advance` triggers delayed messages, transaction time-outs and
cursor writes without waiting. Clients do not use this clock. Their timers follow the machine's time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from heapq import heappop, heappush
from itertools import count
from typing import Final

from ackwell.broker.dates import clock_ms

TIME_MAX_MS: Final = 253_402_300_799_999
"""The end of the year 9999 in milliseconds since 1970. Later times cannot be converted to a date."""


class Clock:
    """The clock of a broker, in milliseconds since 1970. Use it only in the broker's event loop."""

    def __init__(self) -> None:
        self._offset_ms = 0
        self._frozen_ms: int | None = None
        self.moved_ms = 0
        """The sum of all moves since the last `resume`, plus the offset to the machine's time at that
        `resume`. Publish times of clients are moved by this value."""
        self._timers: list[tuple[int, int, Callable[[], None]]] = []
        self._order = count()
        self._waking: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.on_jump: Callable[[], None] = lambda: None
        """Called after `advance` moved the time."""
        self.on_change: Callable[[], None] = lambda: None
        """Called after any change of the clock: its time was moved, or it was frozen, resumed or reset."""

    def now_ms(self) -> int:
        """Return the broker's time in milliseconds since 1970."""
        if self._frozen_ms is not None:
            return self._frozen_ms
        return clock_ms() + self._offset_ms

    def advance(
        self, ms: int = 0, *, seconds: float = 0, minutes: float = 0, hours: float = 0, days: float = 0
    ) -> None:
        """Move the time forward, and run the timers that become due, in order of their times.

        The duration is the sum of all arguments. Raises `ValueError` for a negative duration.
        """
        ms += round(1000 * (seconds + 60 * (minutes + 60 * (hours + 24 * days))))
        if not 0 <= ms <= TIME_MAX_MS - self.now_ms():
            raise ValueError(
                f"advance by {ms} ms; expected at least 0, and a time of at most {TIME_MAX_MS} ms since 1970"
            )
        if self._frozen_ms is not None:
            self._frozen_ms += ms
        else:
            self._offset_ms += ms
        self.moved_ms += ms
        self.on_change()
        self._run_due()
        self.on_jump()

    def freeze(self) -> None:
        """Stop the clock. `advance` can still move its time."""
        self._frozen_ms = self.now_ms()
        self.on_change()

    def resume(self) -> None:
        """Unfreeze the clock. It continues from the time at which it was frozen."""
        if self._frozen_ms is not None:
            self._offset_ms = self._frozen_ms - clock_ms()
            self._frozen_ms = None
            self.moved_ms = self._offset_ms
            self.on_change()
            self._run_due()

    def reset(self) -> None:
        """Set the clock to the machine's time, and cancel all timers."""
        self._offset_ms, self._frozen_ms, self.moved_ms = 0, None, 0
        self._timers.clear()
        self.on_change()
        self._wait()

    def saved(self) -> dict[str, int | None]:
        """Return the state of the clock, to be saved in the broker's file."""
        return {"offset_ms": self._offset_ms, "frozen_ms": self._frozen_ms, "moved_ms": self.moved_ms}

    def restore(self, saved: Mapping[str, int | None]) -> None:
        """Restore a saved state.

        A frozen clock gets its saved time, and a running clock gets its saved offset.
        """
        self._offset_ms, self.moved_ms = saved["offset_ms"] or 0, saved["moved_ms"] or 0
        self._frozen_ms = saved["frozen_ms"]

    @property
    def frozen(self) -> bool:
        """Whether the clock is frozen."""
        return self._frozen_ms is not None

    def call_at(self, at_ms: int, call: Callable[[], None]) -> None:
        """Call a function once, when this clock reaches the time `at_ms`."""
        heappush(self._timers, (at_ms, next(self._order), call))
        if self._timers[0][0] == at_ms:
            self._wait()

    def start(self) -> None:
        """Start to run timers in the running event loop."""
        self._loop = asyncio.get_running_loop()
        self._wait()

    def stop(self) -> None:
        """Cancel all timers."""
        self._timers.clear()
        self._wait()

    def _run_due(self) -> None:
        while self._timers and self._timers[0][0] <= self.now_ms():
            heappop(self._timers)[2]()
        self._wait()

    def _wait(self) -> None:
        if self._waking is not None:
            self._waking.cancel()
            self._waking = None
        if self._timers and self._frozen_ms is None and self._loop is not None:
            seconds = max(self._timers[0][0] - self.now_ms(), 0) / 1000
            self._waking = self._loop.call_later(seconds, self._run_due)
