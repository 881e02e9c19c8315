"""Limits of the messages and bytes per second, such as the policies `dispatchRate` and `publishRate`.

A limit is a number of permits per period of the broker's clock. New permits become available continuously.
Unused permits are kept, up to the number of permits of one period. As in a Pulsar broker, a read or a message
may use more permits than are available. The number of permits is then negative, and the next read or message
waits until the number is positive again.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Any, Final

from ackwell.integers import INT64_MAX

if TYPE_CHECKING:
    from ackwell.devbroker.clock import Clock

_RATES: Final = (
    ("dispatchThrottlingRateInMsg", "dispatchThrottlingRateInByte"),
    ("publishThrottlingRateInMsg", "publishThrottlingRateInByte"),
)
"""The pairs of fields that a policy may have: the rate of messages and the rate of bytes."""


class Throttle:
    """A limit of messages and bytes per period. A rate of 0 or less means no limit."""

    def __init__(self, clock: Clock, rates: tuple[int, int], period_ms: int = 1_000) -> None:
        self._clock = clock
        self._rates = rates
        self._period_ms = period_ms
        self._left = [float(rate) for rate in rates]
        self._at_ms = clock.now_ms()

    @classmethod
    def of(cls, clock: Clock, policy: dict[str, Any] | None) -> Throttle | None:
        """Return the limit that a policy describes. None if the policy has no rate above 0."""
        for fields in _RATES:
            messages, nbytes = ((policy or {}).get(name, -1) for name in fields)
            if messages > 0 or nbytes > 0:
                return cls(
                    clock, (messages, nbytes), 1_000 * max((policy or {}).get("ratePeriodInSecond", 1), 1)
                )
        return None

    def permits(self) -> tuple[int, int]:
        """Return how many messages and how many bytes are permitted now. Both numbers are at least 0."""
        now_ms = self._clock.now_ms()
        grown = max(now_ms - self._at_ms, 0) / self._period_ms
        self._at_ms = now_ms
        self._left = [
            min(left + grown * rate, rate) for left, rate in zip(self._left, self._rates, strict=True)
        ]
        messages, nbytes = (
            INT64_MAX if rate <= 0 else max(int(left), 0)
            for left, rate in zip(self._left, self._rates, strict=True)
        )
        return messages, nbytes

    def use(self, messages: int, nbytes: int) -> None:
        """Subtract permits. The number of permits may become negative."""
        self._left = [self._left[0] - messages, self._left[1] - nbytes]

    def ready_ms(self) -> int:
        """Return the time in milliseconds at which at least one message and one byte are permitted."""
        waits = [
            (1 - left) / rate * self._period_ms
            for left, rate in zip(self._left, self._rates, strict=True)
            if rate > 0
        ]
        return self._at_ms + ceil(max(waits, default=0))
