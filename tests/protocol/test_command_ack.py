"""`CommandAck` against the protobuf library, and against hostile bytes."""

from __future__ import annotations

import re
import tracemalloc
from collections.abc import Mapping
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet
from hypothesis import example, given
from hypothesis import strategies as st

from ackwell import CorruptStateError, LimitError
from ackwell.cursor.ack_sets import BATCH_SIZE_MAX
from ackwell.protocol.command_ack import (
    AckColumns,
    AckType,
    CommandAck,
    MessageId,
    TransactionId,
    ValidationError,
)
from ackwell.wire import Reader, bytes_field, int_field, signed64, varint

INT32, UINT64, INT64, STRING, MESSAGE, ENUM = 5, 4, 3, 9, 11, 14
OPTIONAL, REQUIRED, REPEATED = 1, 2, 3


def _oracle() -> Any:
    """The messages as Pulsar's `PulsarApi.proto` declares them, built without a compiler."""
    file = descriptor_pb2.FileDescriptorProto(name="oracle.proto", package="oracle", syntax="proto2")

    def declare(name: str, *fields: tuple[str, int, int, int, str]) -> None:
        message = file.message_type.add(name=name)
        for field, number, label, type_, type_name in fields:
            message.field.add(name=field, number=number, label=label, type=type_, type_name=type_name or None)

    declare("KeyLongValue", ("key", 1, REQUIRED, STRING, ""), ("value", 2, REQUIRED, UINT64, ""))
    declare(
        "MessageIdData",
        ("ledgerId", 1, REQUIRED, UINT64, ""),
        ("entryId", 2, REQUIRED, UINT64, ""),
        ("partition", 3, OPTIONAL, INT32, ""),
        ("batch_index", 4, OPTIONAL, INT32, ""),
        ("ack_set", 5, REPEATED, INT64, ""),
        ("batch_size", 6, OPTIONAL, INT32, ""),
        ("first_chunk_message_id", 7, OPTIONAL, MESSAGE, ".oracle.MessageIdData"),
    )
    for enum, names in (("AckType", AckType), ("ValidationError", ValidationError)):
        declared = file.enum_type.add(name=enum)
        for member in names:
            declared.value.add(name=f"{enum}_{member.name}", number=member)
    declare(
        "CommandAck",
        ("consumer_id", 1, REQUIRED, UINT64, ""),
        ("ack_type", 2, REQUIRED, ENUM, ".oracle.AckType"),
        ("message_id", 3, REPEATED, MESSAGE, ".oracle.MessageIdData"),
        ("validation_error", 4, OPTIONAL, ENUM, ".oracle.ValidationError"),
        ("properties", 5, REPEATED, MESSAGE, ".oracle.KeyLongValue"),
        ("txnid_least_bits", 6, OPTIONAL, UINT64, ""),
        ("txnid_most_bits", 7, OPTIONAL, UINT64, ""),
        ("request_id", 8, OPTIONAL, UINT64, ""),
    )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("oracle.CommandAck"))


OracleAck = _oracle()

int64s = st.integers(-(2**63), 2**63 - 1)
int32s = st.integers(-(2**31), 2**31 - 1)
uint64s = st.integers(0, 2**64 - 1)
words = st.just(()) | st.lists(int64s, max_size=3).map(tuple)
batch_sizes = st.none() | st.integers(-(2**31), BATCH_SIZE_MAX)
# A core that omits one of these fields is found only if the others have their defaults.
indexes = st.just(-1) | int32s
plain_ids = st.builds(
    MessageId, int64s, int64s, indexes, indexes, words, batch_sizes, st.none(), st.just(b"")
)
message_ids = st.builds(
    MessageId, int64s, int64s, indexes, indexes, words, batch_sizes, st.none() | plain_ids, st.just(b"")
)
commands = st.builds(
    CommandAck,
    uint64s,
    st.sampled_from(AckType),
    st.lists(message_ids, max_size=3).map(tuple),
    st.none() | st.sampled_from(ValidationError),
    st.lists(st.tuples(st.text(max_size=5), uint64s), max_size=2).map(tuple),
    st.none() | st.builds(TransactionId, uint64s, uint64s),
    st.none() | uint64s,
    st.just(b""),
)


def _from_oracle_id(message: Any) -> MessageId:
    return MessageId(
        signed64(message.ledgerId),
        signed64(message.entryId),
        message.partition if message.HasField("partition") else -1,
        message.batch_index if message.HasField("batch_index") else -1,
        tuple(message.ack_set),
        message.batch_size if message.HasField("batch_size") else None,
        _from_oracle_id(message.first_chunk_message_id)
        if message.HasField("first_chunk_message_id")
        else None,
        _unknown_bytes(message),
    )


def _unknown_bytes(message: Any) -> bytes:
    """Return the bytes that remain if all known fields are cleared."""
    copy = type(message)()
    copy.CopyFrom(message)
    for field, _ in copy.ListFields():
        copy.ClearField(field.name)
    return bytes(copy.SerializePartialToString())


def _from_oracle(message: Any) -> CommandAck:
    transaction = message.HasField("txnid_least_bits") and message.HasField("txnid_most_bits")
    return CommandAck(
        message.consumer_id,
        AckType(message.ack_type),
        tuple(_from_oracle_id(each) for each in message.message_id),
        ValidationError(message.validation_error) if message.HasField("validation_error") else None,
        tuple((pair.key, pair.value) for pair in message.properties),
        TransactionId(message.txnid_most_bits, message.txnid_least_bits) if transaction else None,
        message.request_id if message.HasField("request_id") else None,
        _unknown_bytes(message),
    )


@given(commands)
def test_protobuf_decodes_and_encodes_our_bytes_alike(command: CommandAck) -> None:
    data = command.encode()
    theirs = OracleAck.FromString(data)
    assert command == _from_oracle(theirs)
    assert command == CommandAck.decode(data)
    assert command == CommandAck.decode(theirs.SerializeToString())


@given(commands, st.data())
def test_any_change_of_bytes_is_read_as_protobuf_reads_it_or_refused(
    command: CommandAck, data: st.DataObject
) -> None:
    mutated = bytearray(command.encode())
    for _ in range(data.draw(st.integers(1, 3))):
        index = data.draw(st.integers(0, len(mutated) - 1))
        mutated[index] = data.draw(st.integers(0, 255))
    check_against_protobuf(bytes(mutated))


@given(st.binary(max_size=40))
@example(b"\x08\x01\x10\x00\x1a\x00")
@example(b"\x08\x01\x10\x00\x2a\x06\x0a\x02\x04\x80\x10\x52")  # a name that is not UTF-8
@example(bytes.fromhex("08800110001a0d08ffffffffffffffffff021000"))  # a varint of 65 bits
@example(b"\x08\x01\x10\x02")  # the first type that does not exist
@example(b"\x08\x01\x10\x01\x10\x02")
@example(b"\x08\x01\x10\x00\x20\x00")  # the first, the last and the next validation error
@example(b"\x08\x01\x10\x00\x20\x04")
@example(b"\x08\x01\x10\x00\x20\x05")
@example(b"\x08\x01\x10\x00\x1a\x08\x08\x01\x10\x01\x2a\x02\x05\x06")  # a packed ack set
@example(b"\x08\x01\x10\x00\x1a\x05\x08\x81\x00\x10\x01")  # a varint of more bytes than required
@example(b"\x08\x01\x10\x00\x1a\x04\x08\x03\x10\x80")  # a varint that is longer than its id
@example(b"\x08\x01\x10\x00\x1a\x04\x00\x03\x10\x05")  # field 0 as the ledger, the entry and the ack set
@example(b"\x08\x01\x10\x00\x1a\x04\x08\x03\x00\x05")
@example(b"\x08\x01\x10\x00\x1a\x06\x08\x03\x10\x05\x00\x07")
@example(b"\x08\x01\x10\x81\x80\x80\x80\x10")  # an enum beyond 32 bits: the low 32 bits count
def test_any_bytes_are_read_as_protobuf_reads_them_or_refused(data: bytes) -> None:
    check_against_protobuf(data)


@given(commands, st.data())
def test_input_that_protobuf_accepts_is_never_refused(command: CommandAck, data: st.DataObject) -> None:
    """Fields in any order, repeated, packed, unknown, with varints of any length."""
    fields = data.draw(st.permutations(wire_fields(command) + data.draw(st.lists(odd_fields, max_size=4))))
    encoded = b"".join(fields)
    check_against_protobuf(encoded)
    if not stricter_than_protobuf(encoded):
        assert CommandAck.decode(encoded) == read_by_protobuf(encoded)


varints = st.builds(
    lambda value, more: padded(value, min(10, len(varint(value)) + more)), uint64s, st.integers(0, 2)
)
ids = st.builds(
    lambda first, second, fields: b"".join([first, second, *fields]),
    varints.map(lambda value: b"\x08" + value),
    varints.map(lambda value: b"\x10" + value),
    st.lists(
        st.builds(lambda tag, value: tag + value, st.sampled_from([b"\x18", b"\x20", b"\x28"]), varints)
        | st.lists(varints, max_size=3).map(lambda values: bytes(bytes_field(5, b"".join(values))))
        | st.integers(1, BATCH_SIZE_MAX).map(lambda size: bytes(int_field(6, size)))
        | st.just(bytes(bytes_field(7, b"\x08\x03\x10\x05")))
        | st.binary(max_size=3).map(lambda content: bytes(bytes_field(90, content))),
        max_size=4,
    ),
)
odd_fields = (
    ids.map(lambda content: bytes(bytes_field(3, content)))
    | st.builds(lambda number, value: bytes(int_field(number, value)), st.integers(8, 2**29 - 1), uint64s)
    | st.builds(
        lambda tag, value: tag + value, st.sampled_from([b"\x08", b"\x30", b"\x38", b"\x40"]), varints
    )
    | st.integers(0, 2**64 - 1).map(lambda value: bytes(int_field(4, value)))
    | st.integers(2, 2**32 - 1).map(lambda value: bytes(int_field(2, value)))
    | st.sampled_from([b"\x4b\x08\x01\x4c", b"\x59" + bytes(8), b"\x5d" + bytes(4)])
    | st.builds(
        lambda name, value: bytes(
            bytes_field(5, int_field(2, value) + bytes_field(1, name.encode()) + b"\x18\x05")
        ),
        st.text(max_size=5),
        uint64s,
    )
)
"""Fields of a command that a client may send and `encode` never writes."""


def padded(value: int, length: int) -> bytes:
    """Return a varint of a number of bytes: the shortest one, or a longer one with zero bits in front."""
    out = bytearray(varint(value))
    while len(out) < length:
        out[-1] |= 0x80
        out.append(0)
    return bytes(out)


def wire_fields(command: CommandAck) -> list[bytes]:
    """Return the fields of an encoded command."""
    reader = Reader(command.encode())
    return [reader.raw(field) for field in reader.fields()]


def check_against_protobuf(data: bytes) -> None:
    """Check that our decoder and protobuf give the same content and refuse the same bytes.

    The error of our decoder must have an offset.
    """
    theirs = read_by_protobuf(data)
    offset = 0
    try:
        ours = CommandAck.decode(data)
    except CorruptStateError as refusal:
        ours, offset = None, refusal.offset
    except LimitError:
        ours = None
    assert 0 <= offset <= len(data)
    if ours is None:
        assert theirs is None or stricter_than_protobuf(data), f"we refuse what protobuf reads: {data.hex()}"
        return
    assert CommandAck.decode(ours.encode()) == ours
    assert theirs is not None, f"protobuf refuses what we read: {data.hex()}"
    assert stricter_than_protobuf(data) or ours == theirs


def read_by_protobuf(data: bytes) -> CommandAck | None:
    """Return the command that protobuf reads; None if it refuses it or a name is not UTF-8."""
    try:
        message = OracleAck.FromString(data)
    except DecodeError:
        return None
    # protobuf returns a name that is not UTF-8 as bytes.
    is_text = all(isinstance(pair.key, str) for pair in message.properties)
    return _from_oracle(message) if message.IsInitialized() and is_text else None


COMMAND_TYPES = {1: 0, 2: 0, 3: 2, 4: 0, 5: 2, 6: 0, 7: 0, 8: 0}
ID_TYPES = {1: 0, 2: 0, 3: 0, 4: 0, 5: None, 6: 0, 7: 2}
PROPERTY_TYPES = {1: 2, 2: 0}
"""The wire type of each known field; an ack set has two."""


def stricter_than_protobuf(data: bytes) -> bool:
    """Return whether a command has content that protobuf keeps or merges and we refuse or replace.

    That is a known field of another wire type, a batch or a nesting of chunks above our limits, several first
    chunks in one id, of which the last one counts, or a varint above 64 bits, which protobuf truncates.
    """
    if re.search(rb"[\x80-\xff]{9}[\x02-\x7f]", data):
        return True
    fields = _fields(data)
    contents = {number: [content for each, _, content in fields if each == number] for number in (3, 5)}
    return (
        _mistyped(fields, COMMAND_TYPES)
        or any(_mistyped(_fields(content), PROPERTY_TYPES) for content in contents[5])
        or any(_stricter_id(content, 0) for content in contents[3])
    )


def _stricter_id(data: bytes, depth: int) -> bool:
    fields = _fields(data)
    if depth > 4 or _mistyped(fields, ID_TYPES) or any(f[:2] == (5, 1) or f[:2] == (5, 5) for f in fields):
        return True
    sizes = [content % 2**32 for number, _, content in fields if number == 6]
    chunks = [content for number, _, content in fields if number == 7]
    return (
        any(BATCH_SIZE_MAX < size < 2**31 for size in sizes)
        or len(chunks) > 1
        or any(_stricter_id(content, depth + 1) for content in chunks)
    )


def _fields(data: bytes) -> list[tuple[int, int, Any]]:
    """Return number, wire type and content of each field, read by protobuf as a message without fields."""
    try:
        unknown = UnknownFieldSet(Empty.FromString(data))
    except DecodeError:
        return []
    return [(field.field_number, field.wire_type, field.data) for field in unknown]


def _mistyped(fields: list[tuple[int, int, Any]], types: Mapping[int, int | None]) -> bool:
    return any(types.get(number, wire_type) not in (None, wire_type) for number, wire_type, _ in fields)


def test_unknown_fields_survive_byte_for_byte() -> None:
    known = CommandAck(7, AckType.CUMULATIVE, (MessageId(3, 5, unknown_fields=b"\x7a\x02hi"),)).encode()
    for extra in (b"\x48\x01", b"\x52\x03abc", b"\x59" + bytes(8), b"\x5d" + bytes(4), b"\x63\x08\x01\x64"):
        assert CommandAck.decode(known + extra).unknown_fields == extra
        assert CommandAck.decode(known + extra).encode() == known + extra


def test_an_unknown_validation_error_is_kept_and_not_counted_as_a_known_one() -> None:
    command = CommandAck.decode(CommandAck(1).encode() + b"\x20\x09")
    assert command.validation_error is None
    assert command.unknown_fields == b"\x20\x09"


def test_earliest_and_latest_read_as_negative_ids() -> None:
    latest = MessageId(2**63 - 1, 2**63 - 1)
    earliest = MessageId(-1, -1)
    data = CommandAck(1, message_ids=(latest, earliest)).encode()
    assert b"\x08" + b"\xff" * 9 + b"\x01" + b"\x10" + b"\xff" * 9 + b"\x01" in data
    assert CommandAck.decode(data).message_ids == (latest, earliest)


def test_unset_fields_of_a_message_id_are_not_written() -> None:
    said = b"\x08\x03\x10\x05"
    assert MessageId(3, 5).encode() == said
    data = b"\x08\x01\x10\x00\x1a\x04" + said
    assert CommandAck.decode(data).message_ids == (MessageId(3, 5),)
    assert CommandAck.decode(data).message_ids[0].batch_index == -1


def test_half_a_transaction_id_is_none() -> None:
    assert CommandAck.decode(b"\x08\x01\x10\x00\x30\x05").transaction is None


@pytest.mark.parametrize(
    ("data", "offset", "why"),
    [
        (b"", 0, "without consumer"),
        (b"\x08", 1, "inside a varint"),
        (b"\x08" + b"\xff" * 10 + b"\x01", 1, "more than 64 bits"),
        (b"\x08\x01\x10\x00\x1a\x05\x08\x01", 6, "5 bytes announced, 2 bytes are left"),
        (b"\x08\x01\x10\x00\x1a\x02\x08\x01", 6, "without ledger or entry"),
        (b"\x08\x01\x10\x00\x1a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 15, "are left"),
        (b"\x0a\x00", 0, "field 1: expected a varint"),
        (b"\x00\x00", 0, "field number 0"),
        (b"\x0f", 0, "wire type 7"),
        (b"\x0c", 0, "a group that is not open"),
        (b"\x4b" * 120, 100, "more than 100 groups"),
        (b"\x4b\x54", 1, "a group that is not open"),
        (b"\x08\x01\x10\x00\x2a\x06\x0a\x02\xff\xfe\x10\x01", 8, "not UTF-8"),
        (b"\x08\x01\x10\x00\x2a\x06\x0a\x02a\xfe\x10\x01", 9, "not UTF-8"),
        (b"\x08\x01\x10\x00\x2a\x00", 4, "without name or value"),
    ],
)
def test_hostile_bytes_are_refused_with_their_offset(data: bytes, offset: int, why: str) -> None:
    with pytest.raises(CorruptStateError, match=why) as refusal:
        CommandAck.decode(data)
    assert refusal.value.offset == offset


def test_chunk_ids_nested_without_end_are_refused() -> None:
    message = MessageId(1, 1)
    for depth in range(10):
        message = MessageId(1, 1, first_chunk=message)
        data = CommandAck(1, message_ids=(message,)).encode()
        if depth < 4:
            assert CommandAck.decode(data).message_ids == (message,)
        else:
            with pytest.raises(CorruptStateError, match="nested"):
                CommandAck.decode(data)


@given(commands)
@example(CommandAck(1))
@example(CommandAck(1, message_ids=(MessageId(3, 5), MessageId(3, 6, ack_set=(6, 5)))))
@example(CommandAck(1, message_ids=(MessageId(3, 5, ack_set=(6,)), MessageId(3, 6, ack_set=(5,)))))
def test_the_columns_hold_the_message_ids(command: CommandAck) -> None:
    columns = AckColumns.decode(command.encode())
    assert columns.message_ids() == command.message_ids
    assert columns.ledger_ids.tolist() == [message.ledger_id for message in command.message_ids]
    assert [columns.ack_set(row) for row in range(len(columns.entry_ids))] == [
        message.ack_set for message in command.message_ids
    ]
    assert columns.whole_entries == all(
        message == MessageId(*message.position) for message in command.message_ids
    )
    in_part = [row for row, message in enumerate(command.message_ids) if message.ack_set]
    assert columns.rows_in_part() == in_part
    if command.message_ids:
        assert columns.any_whole_entry == (len(in_part) < len(command.message_ids))
    assert columns.command() == AckColumns.of(command).command() == command
    assert columns.first(1).message_ids() == command.message_ids[:1]


@pytest.mark.parametrize("packed", [False, True])
def test_an_ack_set_of_a_batch_that_cannot_exist_is_refused(*, packed: bool) -> None:
    """200 kB of words took 9 s."""
    words = bytes(bytes_field(5, b"\x01" * 200_000) if packed else int_field(5, 1) * 100_000)
    data = int_field(1, 1) + int_field(2, 0) + bytes_field(3, int_field(1, 3) + int_field(2, 5) + words)
    with pytest.raises(LimitError):
        CommandAck.decode(data)
    sized = MessageId(3, 5, batch_size=BATCH_SIZE_MAX + 1)
    with pytest.raises(LimitError):
        CommandAck.decode(CommandAck(1, message_ids=(sized,)).encode())


@pytest.mark.slow
def test_the_largest_command_takes_memory_in_proportion_to_its_bytes() -> None:
    data = b"\x08\x01\x10\x00" + b"\x1a\x04\x08\x03\x10\x05" * 100_000
    tracemalloc.start()
    try:
        columns = AckColumns.decode(data)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(columns.ledger_ids) == 100_000
    assert peak_bytes < 200 * len(data)


@pytest.mark.parametrize(
    "message",
    [
        MessageId(3, 5, partition=4),
        MessageId(3, 5, batch_index=2),
        MessageId(3, 5, batch_size=8),
        MessageId(3, 5, ack_set=(6,)),
        MessageId(3, 5, first_chunk=MessageId(3, 4)),
        MessageId(3, 5, unknown_fields=b"\x7a\x02hi"),
    ],
)
def test_one_field_of_a_message_id_is_kept(message: MessageId) -> None:
    plain = MessageId(3, 6)
    for ids in ((message,), (plain, message, plain)):
        assert CommandAck.decode(CommandAck(1, message_ids=ids).encode()).message_ids == ids
