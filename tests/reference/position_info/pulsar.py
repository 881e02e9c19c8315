"""Pulsar's form of `PositionInfo`: fields 1 to 7, written in the order of their numbers."""

from __future__ import annotations

from ackwell.errors import CorruptStateError, LimitError
from ackwell.position import Position
from ackwell.wire import Reader, bytes_field, int_field, signed64
from tests.reference.position_info.messages import (
    batch,
    long_list,
    long_property,
    message_range,
    position_of,
    put_batches,
    put_long_properties,
    put_range,
    put_words,
)
from tests.reference.position_info.state import State
from tests.reference.range_set import PositionRangeSet

RANGES, LONG_ARRAY = "pulsar-ranges", "pulsar-long-array"


class Acks:
    """The ranges of fields 3 and 6; if both exist, field 3 counts."""

    def __init__(self) -> None:
        self.ranges = PositionRangeSet()
        self.words = PositionRangeSet()
        self.spanning: list[tuple[Position, Position]] = []
        self.saw_ranges = False
        self.saw_words = False

    def add_range(self, lower: Position, upper: Position) -> None:
        """Return a range; of a range over several ledgers, only the part in the upper ledger is known."""
        self.saw_ranges = True
        if lower.ledger_id != upper.ledger_id:
            self.spanning.append((lower, upper))
            lower = upper._replace(entry_id=-1)
        self.ranges.add_range(upper.ledger_id, lower.entry_id, upper.entry_id)

    def add_words(self, ledger_id: int, words: tuple[int, ...]) -> None:
        """Return the words of one ledger."""
        self.saw_words = True
        self.words.add_words(ledger_id, words)

    @property
    def form(self) -> str:
        """The form of the ranges."""
        return LONG_ARRAY if self.saw_words and not self.saw_ranges else RANGES

    def give(self, state: State) -> None:
        """Put the result into `state`."""
        state.individually_deleted = self.ranges if self.saw_ranges else self.words
        state.spanning_ranges = tuple(self.spanning)


def decode(data: bytes) -> tuple[State, str]:
    """Read a `PositionInfo`; return the state and its form."""
    state, acks = State(), Acks()
    ledger_id = entry_id = None
    for field in Reader(data).fields():
        match field.number, field.value:
            case 1, int(value):
                ledger_id = signed64(value)
            case 2, int(value):
                entry_id = signed64(value)
            case 3, Reader() as message:
                acks.add_range(*message_range(message))
            case 4, Reader() as message:
                name, number = long_property(message)
                state.properties[name] = number
            case 5, Reader() as message:
                position, words = batch(message)
                state.batch_deleted[position] = words
            case 6, Reader() as message:
                acks.add_words(*long_list(message))
            case 7, int(value):
                state.idle_since = signed64(value)
            case _:
                state.unknown_fields += data[field.start : field.end]
    if ledger_id is None or entry_id is None:
        raise CorruptStateError("a PositionInfo without ledgerId or entryId", len(data))
    state.mark_delete = position_of(0, ledger_id, entry_id, -1)
    acks.give(state)
    return state, acks.form


def put_ranges(number: int, state: State) -> bytes:
    """Every range as fields `number`."""
    own = (
        (Position(ledger_id, lower), Position(ledger_id, upper))
        for ledger_id, lower, upper in state.individually_deleted.ranges()
    )
    return b"".join(put_range(number, *ends) for ends in (*own, *state.spanning_ranges))


def put_long_lists(state: State) -> bytes:
    """Every ledger's bit set as fields 6."""
    if state.spanning_ranges:
        raise LimitError(f"{LONG_ARRAY} cannot hold ranges over a ledger's end")
    acks = state.individually_deleted
    return b"".join(
        bytes_field(6, int_field(1, ledger_id) + put_words(map(int, acks.words_of(ledger_id))))
        for ledger_id in acks.ledger_ids()
    )


def encode(state: State, form: str) -> bytes:
    """Write a `PositionInfo`."""
    ranges = put_ranges(3, state) if form == RANGES else b""
    words = put_long_lists(state) if form == LONG_ARRAY else b""
    return b"".join(
        (
            int_field(1, state.mark_delete.ledger_id),
            int_field(2, state.mark_delete.entry_id),
            ranges,
            put_long_properties(4, state.properties),
            put_batches(5, state.batch_deleted),
            words,
            b"" if state.idle_since is None else int_field(7, state.idle_since),
            state.unknown_fields,
        )
    )
