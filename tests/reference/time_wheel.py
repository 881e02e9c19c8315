"""`TimeWheel` as a sorted list of messages whose times are rounded up to a tick."""

from __future__ import annotations

from itertools import groupby, pairwise

from ackwell.errors import LimitError
from tests.reference.delayed import DelayedList, Triple
from tests.reference.frame import RESTORED_MAX, FrameReader, framed, varint, zigzag
from tests.reference.integers import INT64_MAX, int64
from tests.reference.wheel_stream import NotStreamError, messages_of

MAGIC = b"AKTW"
SLOT_BITS = 22
"""The bits of ticks in a saved slot; a reader accepts any width up to the next constant."""
SLOT_BITS_MAX = 60


class TimeWheel(DelayedList):
    """Times are rounded up to multiples of `tick_ms`, saturating; 1 is exact."""

    def __init__(self, tick_ms: int) -> None:
        super().__init__()
        self._tick_ms = int64(tick_ms)
        if self._tick_ms < 1:
            raise ValueError(f"tick is at least 1 ms, got {self._tick_ms}")

    @property
    def tick_ms(self) -> int:
        """The width of a tick in milliseconds."""
        return self._tick_ms

    def _rounded(self, deliver_at_ms: int) -> int:
        """Round up to a tick, at most the maximum of int64."""
        return min(-(-deliver_at_ms // self.tick_ms) * self.tick_ms, INT64_MAX)

    def _settings(self) -> str:
        """Return the constructor's argument."""
        return f"tick_ms={self.tick_ms}"

    @property
    def serialized_size(self) -> int:
        """The length of `to_bytes()`."""
        return len(self.to_bytes())

    def to_bytes(self) -> bytes:
        """Save: see `docs/formats.md`. Messages are saved one by one; the native engine writes streams."""
        ticks = [(-(-time // self.tick_ms), ledger_id, entry_id) for time, ledger_id, entry_id in self]
        slots = [
            (start, list(held)) for start, held in groupby(ticks, lambda m: m[0] >> SLOT_BITS << SLOT_BITS)
        ]
        body = varint(self.tick_ms) + varint(len(slots))
        for start, held in slots:
            body += zigzag(start) + bytes([SLOT_BITS]) + varint(0) + varint(0) + varint(len(held))
            for ledger_id, entry_id, tick in sorted((m[1], m[2], m[0] - start) for m in held):
                body += varint(ledger_id) + varint(entry_id) + varint(tick)
        return framed(MAGIC, body)

    @classmethod
    def from_bytes(cls, data: bytes) -> TimeWheel:
        """Restore the index from bytes of `to_bytes` of either engine; `CorruptStateError` for others."""
        reader = FrameReader(data, MAGIC, "TimeWheel")
        tick_ms = reader.natural()
        if tick_ms < 1:
            raise reader.refuse("a tick of 0 ms")
        wheel = cls(tick_ms)
        end: int | None = None
        for _ in range(reader.varint()):
            start, bits = reader.zigzag(), reader.byte()
            if bits > SLOT_BITS_MAX or start % (1 << bits) or (end is not None and end >= start):
                raise reader.refuse(f"a slot at {start} of {bits} bits")
            end = start + (1 << bits) - 1
            messages = _read_slot(reader, bits)
            if len(wheel) + len(messages) > RESTORED_MAX:
                raise LimitError(f"more than {RESTORED_MAX} messages in a saved index")
            wheel._messages += [
                (min((start + tick) * tick_ms, INT64_MAX), ledger_id, entry_id)
                for tick, ledger_id, entry_id in messages
            ]
        reader.end()
        return wheel


def _read_slot(reader: FrameReader, bits: int) -> list[Triple]:
    """Return the messages of a slot as sorted (tick in the slot, ledger id, entry id)."""
    announced, length = reader.varint(), reader.varint()
    words = reader.take(-(-length // 64) * 8)
    try:
        streamed = messages_of(int.from_bytes(words, "little"), length, bits, announced)
    except NotStreamError as error:
        raise reader.refuse(str(error)) from None
    messages = set(streamed)
    late = [(reader.natural(), reader.natural(), reader.varint()) for _ in range(reader.varint())]
    known = any((tick, ledger_id, entry_id) in messages for ledger_id, entry_id, tick in late)
    outside = any(tick >> bits for _, _, tick in late)
    if known or outside or any(before >= after for before, after in pairwise(late)):
        raise reader.refuse("a late message outside its slot, out of order, or there twice")
    messages.update((tick, ledger_id, entry_id) for ledger_id, entry_id, tick in late)
    if not messages:
        raise reader.refuse("a slot without messages")
    return sorted(messages)
