"""The broker's clock: the time of the machine and an offset, running or frozen, and what waits for a time.

Everything that the broker does at a time asks this clock, so `advance` brings forward delayed messages,
time-outs of transactions and the writes of cursors, and nothing has to be waited for. The timers of a client
run on the machine's time and do not see it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from typing import Final

TIME_MAX_MS: Final = 253_402_300_799_999
"""The end of the year 9999, as far as a date can be written."""


class Clock:
    """Milliseconds since the epoch; used from the broker's event loop alone."""

    def __init__(self) -> None:
        self._offset_ms = 0
        self._frozen_ms: int | None = None
        self._timers: list[tuple[int, int, Callable[[], None]]] = []
        self._order = count()
        self._waking: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.on_jump: Callable[[], None] = lambda: None
        """Called when time did not pass but jumped."""

    def now_ms(self) -> int:
        """Return the broker's time."""
        if self._frozen_ms is not None:
            return self._frozen_ms
        return time.time_ns() // 1_000_000 + self._offset_ms

    def advance(
        self, ms: int = 0, *, seconds: float = 0, minutes: float = 0, hours: float = 0, days: float = 0
    ) -> None:
        """Let so much time pass at once, and do what is due in its order; `ValueError` below 0."""
        ms += round(1000 * (seconds + 60 * (minutes + 60 * (hours + 24 * days))))
        if not 0 <= ms <= TIME_MAX_MS - self.now_ms():
            raise ValueError(
                f"advance by {ms} ms; time does not go back, and ends {TIME_MAX_MS} ms after 1970"
            )
        if self._frozen_ms is not None:
            self._frozen_ms += ms
        else:
            self._offset_ms += ms
        self._run_due()
        self.on_jump()

    def freeze(self) -> None:
        """Stop the clock where it is; `advance` still moves it."""
        self._frozen_ms = self.now_ms()

    def resume(self) -> None:
        """Let a frozen clock run on from its time."""
        if self._frozen_ms is not None:
            self._offset_ms = self._frozen_ms - time.time_ns() // 1_000_000
            self._frozen_ms = None
            self._run_due()

    def reset(self) -> None:
        """Show the time of the machine, and forget what waits."""
        self._offset_ms, self._frozen_ms = 0, None
        self._timers.clear()
        self._wait()

    @property
    def frozen(self) -> bool:
        """Whether the clock is stopped."""
        return self._frozen_ms is not None

    def call_at(self, at_ms: int, call: Callable[[], None]) -> None:
        """Call a function at a time, once."""
        heappush(self._timers, (at_ms, next(self._order), call))
        if self._timers[0][0] == at_ms:
            self._wait()

    def start(self) -> None:
        """Wait for what is due, in the running event loop."""
        self._loop = asyncio.get_running_loop()
        self._wait()

    def stop(self) -> None:
        """Forget what waits."""
        self._timers.clear()
        if self._waking is not None:
            self._waking.cancel()
            self._waking = None

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
