"""`TimeBuckets` as a sorted list of messages whose times are rounded to a bucket."""

from __future__ import annotations

from itertools import groupby

from ackwell.errors import CorruptStateError, LimitError
from tests.reference import roaring
from tests.reference.delayed import DelayedList
from tests.reference.frame import RESTORED_MAX, FrameReader, framed, varint, zigzag
from tests.reference.integers import INT64_MAX, INT64_MIN, boolean, int64

BITS_MAX = 62
MAGIC = b"AKTB"
MODES = ("round_down", "round_up", "bucket_end")
RANGE, NARROW, WIDE = range(3)


class TimeBuckets(DelayedList):
    """Buckets of `2**bits` ms, due at a multiple of the width or 1 ms before it."""

    def __init__(self, bits: int, mode: str = "round_down") -> None:
        super().__init__()
        bits = int64(bits)
        if not 0 <= bits <= BITS_MAX:
            raise ValueError(f"bits are 0 to {BITS_MAX}, got {bits}")
        if not isinstance(mode, str):
            raise TypeError(f"mode is {mode!r}; expected one of {MODES}")
        if mode not in MODES:
            raise ValueError(f"mode is one of {MODES}, got {mode!r}")
        self._bits = bits
        self._mode = mode

    @classmethod
    def from_tick(cls, tick_time_ms: int, mode: str = "round_down") -> TimeBuckets:
        """Derive the width from a tick time as the broker does: floor(log2(tick)) bits."""
        tick_time_ms = int64(tick_time_ms)
        if tick_time_ms < 1:
            raise ValueError(f"tick time is at least 1 ms, got {tick_time_ms}")
        return cls(min(tick_time_ms.bit_length() - 1, BITS_MAX), mode)

    @property
    def bits(self) -> int:
        """The number of low bits that rounding removes."""
        return self._bits

    @property
    def mode(self) -> str:
        """When a bucket is due: "round_down", "round_up" or "bucket_end"."""
        return self._mode

    def _rounded(self, deliver_at_ms: int) -> int:
        """Return the due time of a time's bucket; rounding up saturates."""
        width = 1 << self.bits
        start = deliver_at_ms // width * width
        if self.mode == "round_down":
            return start
        if self.mode == "bucket_end":
            return start + width - 1
        return min(-(-deliver_at_ms // width) * width, INT64_MAX)

    def _settings(self) -> str:
        """Return the constructor's arguments."""
        return f"bits={self.bits}, mode={self.mode!r}"

    @property
    def bucket_count(self) -> int:
        """The number of different rounded times."""
        return len({time for time, _, _ in self})

    @property
    def serialized_size(self) -> int:
        """The length of `to_bytes()`."""
        return len(self.to_bytes())

    def to_bytes(self) -> bytes:
        """Save: see `docs/formats.md`. The native engine chooses other containers, and each reads both."""
        buckets = [(time, list(held)) for time, held in groupby(self, lambda message: message[0])]
        body = bytes([self.bits, MODES.index(self.mode)]) + varint(len(buckets))
        before: int | None = None
        for time, held in buckets:
            key = (time >> self.bits) + (self._saturates() and time == INT64_MAX)
            body += zigzag(key) if before is None else varint(key - before)
            before = key
            body += self._ledgers_as_bytes([(ledger_id, entry_id) for _, ledger_id, entry_id in held])
        return framed(MAGIC, body)

    @staticmethod
    def _ledgers_as_bytes(positions: list[tuple[int, int]]) -> bytes:
        ledgers = [
            (ledger_id, [e for _, e in held]) for ledger_id, held in groupby(positions, lambda p: p[0])
        ]
        body, before = varint(len(ledgers)), 0
        for ledger_id, entries in ledgers:
            body += varint(ledger_id - before)
            before = ledger_id
            if entries[-1] - entries[0] + 1 == len(entries):
                body += bytes([RANGE]) + varint(entries[0]) + varint(len(entries) - 1)
            else:
                data, wide = roaring.dump(entries)
                body += bytes([WIDE if wide else NARROW]) + varint(len(data)) + data
        return body

    @classmethod
    def from_bytes(cls, data: bytes) -> TimeBuckets:
        """Restore the index from bytes of `to_bytes` of either engine; `CorruptStateError` for others."""
        reader = FrameReader(data, MAGIC, "TimeBuckets")
        bits, mode = reader.byte(), reader.byte()
        if bits > BITS_MAX or mode >= len(MODES):
            raise reader.refuse(f"bits {bits}, rounding {mode}")
        index = cls(bits, MODES[mode])
        key: int | None = None
        for _ in range(reader.varint()):
            step = reader.zigzag() if key is None else reader.varint()
            if key is not None and step == 0:
                raise reader.refuse("buckets do not ascend")
            key = step if key is None else key + step
            time = index._time_of(key, reader)
            ledger_count = reader.varint()
            if ledger_count == 0:
                raise reader.refuse("a bucket without messages")
            index._read_ledgers(time, ledger_count, reader)
        reader.end()
        return index

    def _saturates(self) -> bool:
        """Return whether the last times are due at the end of time, a bucket after the last multiple."""
        return self.bits > 0 and self.mode == "round_up"

    def _time_of(self, key: int, reader: FrameReader) -> int:
        least, greatest = INT64_MIN >> self.bits, INT64_MAX >> self.bits
        if least <= key <= greatest:
            return self._rounded(key << self.bits)
        if key == greatest + 1 and self._saturates():
            return INT64_MAX
        raise reader.refuse("no such bucket")

    def _read_ledgers(self, time: int, count: int, reader: FrameReader) -> None:
        ledger_id = 0
        for place in range(count):
            step = reader.natural()
            ledger_id += step
            if ledger_id > INT64_MAX or (place > 0 and step == 0):
                raise reader.refuse("ledgers do not ascend")
            entries = self._read_entries(reader)
            if len(self) + len(entries) > RESTORED_MAX:
                raise LimitError(f"more than {RESTORED_MAX} messages in a saved index")
            self._messages += [(time, ledger_id, entry_id) for entry_id in entries]

    @staticmethod
    def _read_entries(reader: FrameReader) -> range | list[int]:
        kind = reader.byte()
        if kind == RANGE:
            first, more = reader.natural(), reader.natural()
            if first + more > INT64_MAX:
                raise reader.refuse("a range past int64")
            return range(first, first + more + 1)
        if kind not in (NARROW, WIDE):
            raise reader.refuse(f"entries of kind {kind}")
        try:
            entries = roaring.load(reader.take(reader.varint()), wide=kind == WIDE)
        except roaring.NotRoaringError as error:
            raise reader.refuse(str(error)) from None
        if not entries or entries[-1] > INT64_MAX:
            raise reader.refuse("no entries, or an entry outside int64")
        return entries

    def to_roaring(self, deliver_at_ms: int, ledger_id: int) -> tuple[bytes, bool] | None:
        """Return the entries of a ledger in a time's bucket as portable roaring, and whether in 64 bits."""
        time, ledger_id = self._rounded(int64(deliver_at_ms)), int64(ledger_id)
        entries = [entry for at, ledger, entry in self if (at, ledger) == (time, ledger_id)]
        return roaring.dump(entries) if entries else None

    def add_roaring(self, deliver_at_ms: int, ledger_id: int, data: bytes, *, wide: bool = False) -> int:
        """Add the entries of a portable roaring bitmap; return how many were new."""
        deliver_at_ms, ledger_id = int64(deliver_at_ms), int64(ledger_id)
        self._accept(ledger_id, 0)
        try:
            entries = roaring.load(data, wide=boolean(wide))
        except roaring.NotRoaringError as error:
            raise CorruptStateError(str(error), 0) from None
        if not entries or entries[-1] > INT64_MAX:
            raise CorruptStateError("not a portable roaring bitmap with entry ids", 0)
        return sum(self.add(deliver_at_ms, ledger_id, entry_id) for entry_id in entries)
