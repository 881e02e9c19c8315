"""Both engines decode a `CommandAck` equally and reject the same bytes at the same offset."""

from __future__ import annotations

import tracemalloc
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackwell import CorruptStateError, LimitError, _native
from ackwell.cursor import ack_sets
from ackwell.subscription import AckColumns, CommandAck, MessageId
from ackwell.wire import bytes_field, int_field
from tests import reference
from tests.differential.pair import plain
from tests.protocol.test_command_ack import commands

if TYPE_CHECKING:
    from ackwell.engine import Engine

ENGINES = pytest.mark.parametrize("engine", [_native, reference], ids=["native", "reference"])


def read(engine: Engine, data: bytes) -> object:
    """Return the decoded fields, or the offset and reason of the error."""
    try:
        return plain(engine.decode_command_ack(data))
    except CorruptStateError as refusal:
        return "corrupt", refusal.offset
    except LimitError:
        return "too large"


@given(commands, st.data())
def test_both_engines_read_any_change_of_bytes_alike(command: CommandAck, data: st.DataObject) -> None:
    mutated = bytearray(command.encode())
    for _ in range(data.draw(st.integers(0, 3))):
        index = data.draw(st.integers(0, len(mutated) - 1))
        mutated[index] = data.draw(st.integers(0, 255))
    assert read(_native, bytes(mutated)) == read(reference, bytes(mutated))


@given(st.binary(max_size=60))
def test_both_engines_read_any_bytes_alike(data: bytes) -> None:
    framed = b"\x08\x01\x10\x00" + data
    assert read(_native, framed) == read(reference, framed)


@ENGINES
@given(command=commands)
def test_the_columns_hold_the_message_ids(engine: Engine, command: CommandAck) -> None:
    columns = AckColumns.decode(command.encode(), engine=engine)
    assert columns.message_ids() == command.message_ids
    assert columns.ledger_ids.tolist() == [message.ledger_id for message in command.message_ids]
    assert [columns.ack_set(row) for row in range(len(columns.entry_ids))] == [
        message.ack_set for message in command.message_ids
    ]
    assert columns.whole_entries == all(
        message == MessageId(*message.position) for message in command.message_ids
    )


@ENGINES
@pytest.mark.parametrize("packed", [False, True])
def test_an_ack_set_of_a_batch_that_cannot_exist_is_refused(engine: Engine, *, packed: bool) -> None:
    """200 kB of words took 9 s."""
    words = bytes(bytes_field(5, b"\x01" * 200_000) if packed else int_field(5, 1) * 100_000)
    data = int_field(1, 1) + int_field(2, 0) + bytes_field(3, int_field(1, 3) + int_field(2, 5) + words)
    with pytest.raises(LimitError):
        AckColumns.decode(data, engine=engine)
    sized = MessageId(3, 5, batch_size=ack_sets.BATCH_SIZE_MAX + 1)
    with pytest.raises(LimitError):
        AckColumns.decode(CommandAck(1, message_ids=(sized,)).encode(), engine=engine)


@pytest.mark.slow
@ENGINES
def test_the_largest_command_takes_memory_in_proportion_to_its_bytes(engine: Engine) -> None:
    data = b"\x08\x01\x10\x00" + b"\x1a\x04\x08\x03\x10\x05" * 100_000
    tracemalloc.start()
    try:
        columns = AckColumns.decode(data, engine=engine)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(columns.ledger_ids) == 100_000
    assert peak_bytes < 200 * len(data)
