"""`PositionInfo`: the persisted cursor as a value, and its forms."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from ackwell.errors import CorruptStateError, LimitError, StateTooLargeError
from ackwell.position import Position
from tests.reference.ack_sets import AckSets, unlimited
from tests.reference.position_info import compact, pulsar
from tests.reference.position_info.limits import BROKER_ENTRY_BYTES_MAX, Limits, encode_within
from tests.reference.position_info.messages import trimmed
from tests.reference.position_info.state import State
from tests.reference.range_set import PositionRangeSet

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ackwell.loss import LossReport

RESULT_BYTES_MAX = 64 << 20
COMPACT = "compact"
FORMS = (pulsar.RANGES, pulsar.LONG_ARRAY, COMPACT)
AUTO = "pulsar-auto"
FIELDS = (
    "ledger_id",
    "entry_id",
    "individually_deleted",
    "batch_deleted",
    "properties",
    "redelivery_counts",
    "idle_since",
    "spanning_ranges",
    "unknown_fields",
)


class PositionInfo:
    """The mark-delete position and everything acknowledged beyond it; a value."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(
        self,
        ledger_id: int,
        entry_id: int,
        individually_deleted: PositionRangeSet | Iterable[tuple[int, int, int]] | None = None,
        batch_deleted: Mapping[tuple[int, int], Sequence[int]] | None = None,
        properties: Mapping[str, int] | None = None,
        *,
        redelivery_counts: Mapping[tuple[int, int], int] | None = None,
        idle_since: int | None = None,
        spanning_ranges: Iterable[tuple[tuple[int, int], tuple[int, int]]] | None = None,
        unknown_fields: bytes | None = None,
    ) -> None:
        self._original: tuple[bytes, str] | None = None
        self._state = State(mark_delete=position(ledger_id, entry_id, -1))
        if isinstance(individually_deleted, PositionRangeSet):
            self._state.individually_deleted = individually_deleted.copy()
        elif individually_deleted is not None:
            self._state.individually_deleted = PositionRangeSet(individually_deleted)
        for key, words in (batch_deleted or {}).items():
            self._state.batch_deleted[position(*key, 0)] = trimmed(int64(word) for word in words)
        for name, value in (properties or {}).items():
            if not isinstance(name, str):
                raise TypeError(f"property name {name!r}")
            self._state.properties[name] = int64(value)
        for key, count in (redelivery_counts or {}).items():
            if int64(count) < 0:
                raise ValueError(f"redelivery count {count} is negative")
            self._state.redelivery_counts[position(*key, 0)] = count
        self._state.idle_since = None if idle_since is None else int64(idle_since)
        for lower, upper in spanning_ranges or ():
            self._add_spanning_range(position(*lower, -1), position(*upper, -1))
        self._state.unknown_fields = checked_unknown(unknown_fields or b"")
        in_order(self._state)

    @classmethod
    def _of(cls, state: State, original: tuple[bytes, str] | None) -> Self:
        """Return the value with this content, decoded from these bytes of this form."""
        info = cls.__new__(cls)
        info._state = state
        info._original = original
        in_order(state)
        return info

    def _add_spanning_range(self, lower: Position, upper: Position) -> None:
        if lower.ledger_id >= upper.ledger_id:
            raise ValueError(f"({lower}..{upper}] does not span ledgers")
        self._state.individually_deleted.add_range(upper.ledger_id, -1, upper.entry_id)
        self._state.spanning_ranges += ((lower, upper),)

    @classmethod
    def decode(cls, data: bytes, *, max_bytes: int = RESULT_BYTES_MAX) -> Self:
        """Read a state in any form, recognised by its content.

        The reference does not measure its result; `max_bytes` limits the decompressed bytes.
        """
        state, form = decode_state(data, max_bytes)
        return cls._of(state, (data, form))

    def encode(
        self,
        form: str | None = None,
        *,
        max_ranges: int | None = None,
        max_ledgers: int | None = None,
        max_bytes: int | None = None,
        broker: str = "4.2.4",
    ) -> bytes:
        """Write the whole state."""
        data, report = self.encode_with_report(
            form, max_ranges=max_ranges, max_ledgers=max_ledgers, max_bytes=max_bytes, broker=broker
        )
        if report:
            raise StateTooLargeError(str(report), report)
        return data

    def encode_with_report(
        self,
        form: str | None = None,
        *,
        max_ranges: int | None = None,
        max_ledgers: int | None = None,
        max_bytes: int | None = None,
        broker: str = "4.2.4",
    ) -> tuple[bytes, LossReport]:
        """Write as much of the state as form and limits allow, and return a report of the loss."""
        if form is None:
            form = self.form or pulsar.RANGES
        elif form == AUTO:
            form = self._smaller_pulsar_form(int(broker.split(".")[0]))
            max_bytes = BROKER_ENTRY_BYTES_MAX if max_bytes is None else max_bytes
        elif form not in FORMS:
            raise ValueError(f"form {form!r}: expected one of {', '.join(FORMS)}, {AUTO}")
        limits = Limits(max_ranges, max_ledgers, max_bytes)
        data, report = encode_within(self._state, form, limits, encode_state)
        if self._original and self._original[1] == form:
            original = self._original[0]
            fits = max_bytes is None or len(original) <= max_bytes
            cut = Limits(max_ranges, max_ledgers, None)
            if fits and not encode_within(self._state, form, cut, encode_state)[1]:
                return original, encode_within(self._state, form, Limits(), encode_state)[1]
        return data, report

    def _smaller_pulsar_form(self, broker_major: int) -> str:
        if broker_major < 4:
            return pulsar.RANGES
        try:
            long_array = encode_state(self._state, pulsar.LONG_ARRAY)
        except LimitError:
            return pulsar.RANGES
        smaller = len(long_array) < len(encode_state(self._state, pulsar.RANGES))
        return pulsar.LONG_ARRAY if smaller else pulsar.RANGES

    def replace(self, **changes: Any) -> PositionInfo:
        """Return a changed copy; `changes` are the constructor's arguments."""
        fields: dict[str, Any] = {name: getattr(self, name) for name in FIELDS}
        return PositionInfo(**fields | changes)

    @property
    def ledger_id(self) -> int:
        """The ledger of the mark-delete position."""
        return self._state.mark_delete.ledger_id

    @property
    def entry_id(self) -> int:
        """The entry of the mark-delete position, -1 before the first."""
        return self._state.mark_delete.entry_id

    @property
    def position(self) -> Position:
        """The mark-delete position."""
        return self._state.mark_delete

    @property
    def individually_deleted(self) -> PositionRangeSet:
        """Whole entries acknowledged beyond it; a copy."""
        return self._state.individually_deleted.copy()

    @property
    def batch_deleted(self) -> AckSets:
        """Partly acknowledged entries; a copy."""
        return unlimited(self._state.batch_deleted)

    @property
    def properties(self) -> dict[str, int]:
        """The properties of the client's last cumulative ack; a copy."""
        return dict(self._state.properties)

    @property
    def redelivery_counts(self) -> dict[Position, int]:
        """The redelivery counts of entries; a copy."""
        return dict(self._state.redelivery_counts)

    @property
    def idle_since(self) -> int | None:
        """Since when the cursor is idle, in ms since the epoch, or None."""
        return self._state.idle_since

    @property
    def spanning_ranges(self) -> tuple[tuple[Position, Position], ...]:
        """Ranges over a ledger's end."""
        return self._state.spanning_ranges

    @property
    def unknown_fields(self) -> bytes:
        """The unknown Protocol Buffers fields."""
        return self._state.unknown_fields

    @property
    def form(self) -> str | None:
        """The form it was decoded from, or None."""
        return self._original[1] if self._original else None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PositionInfo):
            return NotImplemented
        return self._state == other._state

    def __repr__(self) -> str:
        ranges, batches = len(self._state.individually_deleted), len(self._state.batch_deleted)
        return f"<PositionInfo {self.position} with {ranges} ranges, {batches} partly acknowledged>"

    def __reduce__(self) -> tuple[Any, tuple[bytes]]:
        # The state comes from this process, so it has no size limit.
        return partial(type(self).decode, max_bytes=sys.maxsize), (self.encode(),)

    def validate(self) -> None:
        """Check the invariants; raise `AssertionError` if one is broken."""
        assert self.ledger_id >= 0
        assert self.entry_id >= -1
        self._state.individually_deleted.validate()
        for lower, upper in self.spanning_ranges:
            assert lower.ledger_id < upper.ledger_id
        for words in self._state.batch_deleted.values():
            assert trimmed(words) == words


def in_order(state: State) -> None:
    """Sort the mappings into their output order."""
    state.batch_deleted = dict(sorted(state.batch_deleted.items()))
    state.properties = dict(sorted(state.properties.items()))
    state.redelivery_counts = dict(sorted(state.redelivery_counts.items()))


def decode_state(data: bytes, max_bytes: int) -> tuple[State, str]:
    """Read a state in any form."""
    if data[:1] == bytes((compact.MAGIC,)):
        return compact.decode(data, max_bytes), COMPACT
    return pulsar.decode(data)


def encode_state(state: State, form: str) -> bytes:
    """Write a state in one form."""
    return compact.encode(state) if form == COMPACT else pulsar.encode(state, form)


def int64(value: int) -> int:
    """Return the number, if an int64 holds it."""
    if not -(1 << 63) <= value < 1 << 63:
        raise ValueError("integer outside int64")
    return value


def position(ledger_id: int, entry_id: int, least_entry: int) -> Position:
    """Return the position, if it can exist."""
    if int64(ledger_id) < 0 or int64(entry_id) < least_entry:
        raise ValueError(f"position {ledger_id}:{entry_id}")
    return Position(ledger_id, entry_id)


def checked_unknown(fields: bytes) -> bytes:
    """Return the unknown fields if they are complete and do not have known numbers."""
    try:
        state, _ = pulsar.decode(bytes((1 << 3, 0, 2 << 3, 0)) + fields)
    except CorruptStateError:
        raise ValueError("unknown_fields: expected whole fields") from None
    if state.unknown_fields != fields:
        raise ValueError("unknown_fields: expected other numbers")
    return fields
