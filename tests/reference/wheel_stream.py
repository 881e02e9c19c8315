"""The compressed stream of a saved `TimeWheel` slot, decoded as `docs/formats.md` specifies it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.reference.integers import INT64_MAX

if TYPE_CHECKING:
    from tests.reference.delayed import Triple

ESCAPE_ONES = 12
FAR, LEDGER, RUN = range(3)
VALUE_MAX = 1 << 40
MEAN_OVER = 32


class NotStreamError(ValueError):
    """Bits that a writer never produces."""


@dataclass(slots=True)
class Mean:
    """A running mean in units of 1/32, and its Rice parameter."""

    value: int = 0

    def rice_bits(self) -> int:
        """Return log2 of 0.6875 of the mean."""
        return max((self.value * 11 // 512).bit_length() - 1, 0)

    def see(self, value: int) -> None:
        """Add a value to the mean."""
        self.value += min(value, VALUE_MAX) - self.value // MEAN_OVER


@dataclass(slots=True)
class Bits:
    """Reads bits from the lowest on; past the end they are 0."""

    bits: int
    length: int
    at: int = 0

    def take(self, count: int) -> int:
        """Return the next bits."""
        self.at += count
        return self.bits >> (self.at - count) & ((1 << count) - 1)

    def number(self) -> int:
        """Read six bits with a length, and a number of this length."""
        return self.take(self.take(6) + 1)

    def ones(self) -> int:
        """Return the number of following ones, up to that of an escape, without reading them."""
        rest = self.bits >> self.at
        return next(
            count for count in range(ESCAPE_ONES + 1) if count == ESCAPE_ONES or not rest >> count & 1
        )

    def escape(self) -> int | None:
        """Read an escape and return its kind; read nothing and return None if there is none."""
        if self.ones() < ESCAPE_ONES:
            return None
        self.at += ESCAPE_ONES
        return self.take(2)

    def rice(self, parameter: int) -> int:
        """Read a Rice code."""
        high = self.ones()
        self.at += high + 1
        return high << parameter | self.take(parameter)


def messages_of(bits: int, length: int, slot_bits: int, announced: int) -> list[Triple]:
    """Return the messages of a stream as (tick, ledger id, entry id); as many as `announced`."""
    reader = Bits(bits, length)
    gaps, ticks = Mean(), Mean()
    ledger_id, entry_id, last_tick = -1, -1, 0
    messages: list[Triple] = []
    while reader.at < length:
        kind = reader.escape()
        is_run = kind == RUN
        if is_run:
            kind = reader.escape()
        if kind is None or kind == FAR:
            if ledger_id < 0:
                raise NotStreamError("an entry before the first ledger")
            gap = reader.rice(gaps.rice_bits()) if kind is None else reader.number()
            entry_id += gap + 1
            gaps.see(gap)
        elif kind == LEDGER:
            step = reader.number()
            ledger_id, entry_id = ledger_id + step, reader.number()
            if step == 0:
                raise NotStreamError("a ledger twice")
        else:
            raise NotStreamError(f"escape {kind}")
        tick = _tick(reader, ticks, last_tick, slot_bits)
        if not 0 <= tick < 1 << slot_bits or max(ledger_id, entry_id) > INT64_MAX:
            raise NotStreamError("a message outside the slot or int64")
        ticks.see(_zigzag(tick - last_tick))
        entries, last_tick = [(tick, ledger_id, entry_id)], tick
        if is_run:
            entries = _run(reader, entries[0], slot_bits, announced)
            last_tick, _, entry_id = entries[-1]
        messages += entries
    if reader.at > length or len(messages) != announced:
        raise NotStreamError(f"{announced} messages announced, {len(messages)} found")
    return messages


def _tick(reader: Bits, ticks: Mean, last_tick: int, slot_bits: int) -> int:
    parameter = ticks.rice_bits()
    if parameter + 2 >= slot_bits:
        return reader.take(slot_bits)
    if reader.ones() == ESCAPE_ONES:
        reader.at += ESCAPE_ONES
        return reader.take(slot_bits)
    code = reader.rice(parameter)
    return last_tick + (code >> 1 if code % 2 == 0 else -(code >> 1) - 1)


def _zigzag(value: int) -> int:
    return 2 * value if value >= 0 else -2 * value - 1


def _run(reader: Bits, head: Triple, slot_bits: int, announced: int) -> list[Triple]:
    """Return the messages of a run: `first` at the tick of the head, then `per` at every `step`-th tick."""
    tick, ledger_id, entry_id = head
    count = reader.number() + 1
    first, per, step = reader.number(), reader.number(), reader.number()
    climbs = count > first
    if not 0 < first <= count or per == 0 or count > announced or climbs != (step > 0):
        raise NotStreamError("a run that cannot be")
    last_tick = tick + (step * (1 + (count - 1 - first) // per) if climbs else 0)
    if last_tick >> slot_bits or entry_id + count - 1 > INT64_MAX:
        raise NotStreamError("a run outside the slot or int64")
    return [
        (tick if index < first else tick + step * (1 + (index - first) // per), ledger_id, entry_id + index)
        for index in range(count)
    ]
