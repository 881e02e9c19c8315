"""Names of topics, ids of messages, and the parts of frames and entries at their boundaries."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("google.protobuf")

from ackwell.errors import FrameError
from ackwell.position import Position
from ackwell.protocol import messages
from ackwell.protocol.address import address_of
from ackwell.protocol.batches import read_batch, write_batch
from ackwell.protocol.command_ack import TransactionId
from ackwell.protocol.constants import CommandType
from ackwell.protocol.frames import Frame, FrameReader, decode, encode, frame, split
from ackwell.protocol.message_ids import message_id_of, position_of
from ackwell.protocol.payload import Payload, read_payload, uncompressed, write_payload
from ackwell.protocol.topic_name import TopicName, full_name

# Names


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("pulsar://a:1", ("a", 1, False)),
        ("pulsar://a", ("a", 6650, False)),
        ("pulsar://[::1]:5", ("::1", 5, False)),
        ("pulsar+ssl://a", ("a", 6651, True)),
    ],
)
def test_the_address_of_a_broker_has_a_port_or_the_usual_one(url: str, expected: tuple[Any, ...]) -> None:
    assert tuple(address_of(url)) == expected


@pytest.mark.parametrize(
    "url",
    [
        "http://a",
        "a:1",
        "",
        "pulsar://",
        "pulsar://:6650",
        "pulsar://[::1/",
        "pulsar://a:65536",
        "pulsar://a:b",
        "pulsar://a..b",
        "pulsar://" + 64 * "a",
        "pulsar://a\0b",
        "pulsar://a\n:1",
    ],
)
def test_an_invalid_broker_address_is_refused(url: str) -> None:
    with pytest.raises(
        ValueError, match=r"is not a broker address; expected pulsar://host:6650 or pulsar\+ssl://"
    ):
        address_of(url)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("orders", ("persistent", "public", "default", "orders")),
        ("a/b/orders", ("persistent", "a", "b", "orders")),
        ("persistent://a/b/c", ("persistent", "a", "b", "c")),
        ("non-persistent://a/b/c", ("non-persistent", "a", "b", "c")),
        ("persistent://a/b/c/d", ("persistent", "a", "b", "c/d")),
    ],
)
def test_a_name_has_four_parts(text: str, parts: tuple[str, ...]) -> None:
    name = TopicName.parse(text)
    assert name == parts
    assert str(name) == full_name(text) == f"{parts[0]}://{'/'.join(parts[1:])}"
    assert (name.persistent, name.in_namespace) == (parts[0] == "persistent", "/".join(parts[1:3]))
    assert (name.partition, name.partitioned) == (-1, name)


@pytest.mark.parametrize(
    "text", ["", "a/b", "persistent://orders", "persistent://a/b", "x://a/b/c", "a//c", "/a/b"]
)
def test_an_invalid_name_is_refused_and_full_name_keeps_it(text: str) -> None:
    with pytest.raises(ValueError, match=r"invalid topic name.*expected domain://tenant/namespace/topic"):
        TopicName.parse(text)
    assert full_name(text) == text


@pytest.mark.parametrize(
    ("local", "partition", "whole"),
    [
        ("a-partition-0", 0, "a"), ("a-partition-12", 12, "a"), ("a-partition-999999999", 999_999_999, "a"),
        ("a-partition-1234567890", -1, "a-partition-1234567890"), ("a-partition-", -1, "a-partition-"),
        ("a-partition-x", -1, "a-partition-x"), ("a-partition-1-partition-2", 2, "a-partition-1"),
        ("a\n-partition-3", 3, "a\n"), ("a-partition-1b", -1, "a-partition-1b"),
    ],
)  # fmt: skip
def test_a_partition_is_named_after_its_topic(local: str, partition: int, whole: str) -> None:
    name = TopicName("persistent", "public", "default", local)
    assert (name.partition, name.partitioned.local) == (partition, whole)
    assert name.of_partition(7).local == f"{local}-partition-7"


@pytest.mark.parametrize("position", [(0, 0), (3, -1), (-1, -1), (2**63 - 1, 2**63 - 1), (-(2**63), 5)])
def test_an_id_is_its_position(position: tuple[int, int]) -> None:
    assert position_of(message_id_of(position)) == Position(*position)
    assert message_id_of(position).partition == -1
    assert not message_id_of(position).HasField("partition")
    for partition in (0, 5):
        assert message_id_of(position, partition=partition).partition == partition


def test_a_transaction_is_its_two_halves() -> None:
    txn = TransactionId(2**64 - 1, 0)
    assert TransactionId.parse(str(txn)) == txn
    command = messages.CommandEndTxn(request_id=1, txnid_most_bits=5, txnid_least_bits=6)
    assert TransactionId.of(command) == (5, 6)
    for wrong in ("", "1", "1:", "a:b"):
        with pytest.raises(ValueError, match="invalid literal"):
            TransactionId.parse(wrong)


# Frames


def read(command: bytes, payload: bytes = b"") -> Frame:
    (found,) = FrameReader().feed(frame(command, payload))
    return found


@pytest.mark.parametrize(
    ("command", "found"),
    [
        (b"\x08\x12", 18), (b"\x08\x7f", 127), (b"\x08\x00", 0), (b"\x08\x80\x01", 0), (b"\x08", 0), (b"", 0),
        (b"\x10\x12", 0), (b"\x92\x01\x00\x08\x12", 0),
    ],
)  # fmt: skip
def test_the_type_of_a_frame_is_its_first_field(command: bytes, found: int) -> None:
    given = read(command, b"payload")
    assert (given.command_type, given.command, given.payload) == (found, command, b"payload")
    assert given.raw == frame(command, b"payload")


@pytest.mark.parametrize("limit", [4, 5, 100])
def test_a_frame_may_be_as_large_as_the_limit(limit: int) -> None:
    reader = FrameReader(max_frame_bytes=limit)
    whole = frame(b"", bytes(limit - 4))
    assert [each.raw for each in reader.feed(whole)] == [whole]
    assert reader.unfinished_bytes == 0
    assert list(reader.feed(whole[:-1])) == []
    assert reader.unfinished_bytes == len(whole) - 1
    assert len(list(reader.feed(whole[-1:] + whole))) == 2
    with pytest.raises(FrameError, match=f"a frame of {limit + 1} bytes; expected 4 to {limit}"):
        list(FrameReader(limit).feed(frame(b"", bytes(limit - 3))))


@pytest.mark.parametrize("size", [0, 1, 10, 122, 123, 127, 128, 129, 16_383, 16_384, 70_000])
@pytest.mark.parametrize(
    "kind", [CommandType.SUCCESS, CommandType.PRODUCER_SUCCESS, CommandType.END_TXN_RESPONSE]
)
def test_a_command_of_any_size_is_read_as_it_was_written(kind: CommandType, size: int) -> None:
    name = "Command" + kind.name.title().replace("_", "")
    fields: dict[str, Any] = {"request_id": 1}
    if kind == CommandType.PRODUCER_SUCCESS:
        fields["producer_name"] = "x" * size
    elif kind == CommandType.END_TXN_RESPONSE:
        fields["message"] = "x" * size
    message = messages.message(name)(**fields)
    command = encode(kind, message)
    assert decode(command) == (kind, message)
    body = message.SerializeToString()
    # `split` reads sizes of two bytes; `decode` reads larger ones.
    assert split(command) == ((kind, body) if len(body) < 1 << 14 else (0, b""))
    for wrong in (command[:-1], command + b"\x00"):
        assert split(wrong) == (0, b"")


@pytest.mark.parametrize("number", range(1, 128))
def test_the_field_of_a_command_is_that_of_its_type(number: int) -> None:
    tag = number << 3 | 2
    written = bytes([tag]) if tag < 128 else bytes([tag & 0x7F | 0x80, tag >> 7])
    command = bytes([8, number]) + written
    assert split(command + b"\x01x") == (number, b"x")
    assert split(command + b"\x00") == (number, b"")
    for odd in (bytes([8, number]) + bytes([written[0] ^ 8]) + written[1:], bytes([16]) + command[1:]):
        assert split(odd + b"\x01x") == (0, b"")
    # A size that is missing, unterminated, too large or too small.
    for rest in (b"", b"\x80", b"\x80\x80", b"\x02x", b"\x01xx", b"\x81\x00xx"):
        assert split(command + rest) == (0, b"")
    assert split(command + b"\x81\x00x") == (number, b"x")


def test_a_type_of_two_bytes_is_left_to_decode() -> None:
    assert split(b"\x08\x80\x01\x82\x08\x00") == (0, b"")
    assert split(b"\x08\x80") == split(b"\x08") == split(b"") == (0, b"")


def test_a_frame_s_sizes_are_exact() -> None:
    assert frame(b"ab", b"cde") == b"\x00\x00\x00\x09\x00\x00\x00\x02abcde"
    whole = read(b"ab", b"cde")
    assert (whole.start, whole.behind_command, whole.end) == (0, 10, 13)
    # The command may fill its frame but not exceed it.
    assert [each.command for each in FrameReader().feed(bytes.fromhex("00000006 00000002 0102"))] == [b"\1\2"]
    with pytest.raises(FrameError, match="a command of 3 bytes in a frame of 6"):
        list(FrameReader().feed(bytes.fromhex("00000006 00000003 0102")))
    # The size is checked as soon as it is complete.
    reader = FrameReader(8)
    assert list(reader.feed(b"\x00\x00\x00")) == []
    with pytest.raises(FrameError, match="a frame of 9 bytes; expected 4 to 8"):
        list(reader.feed(b"\x09"))


# Entries


METADATA = messages.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1)


def test_an_entry_may_begin_with_broker_entry_metadata() -> None:
    broker_entry = messages.BrokerEntryMetadata(broker_timestamp=5, index=6).SerializeToString()
    entry = write_payload(METADATA, b"body")
    given = read_payload(b"\x0e\x02" + len(broker_entry).to_bytes(4) + broker_entry + entry)
    assert (given.body, given.checksum_holds, given.metadata) == (b"body", True, METADATA)
    added: Any = given.broker_entry
    assert (added.broker_timestamp, added.index) == (5, 6)
    plain = read_payload(entry)
    assert (plain.broker_entry, plain.body) == (None, b"body")
    unchecked = read_payload(entry[6:])
    assert (unchecked.checksum_holds, unchecked.body) == (True, b"body")
    wrong = read_payload(entry[:2] + bytes(4) + entry[6:])
    assert (wrong.checksum_holds, wrong.body) == (False, b"body")


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "an entry of 0 bytes ends inside its metadata"), (bytes(3), "an entry of 3 bytes ends inside"),
        (b"\x0e\x01\x00\x00\x00", "an entry of 5 bytes ends inside its checksum"),
        (b"\x0e\x02\x00\x00\x00\x05abcd", "ends inside its metadata"), (b"\x00\x00\x00\x09xx", "ends inside"),
    ],
)  # fmt: skip
def test_a_truncated_entry_is_refused_with_its_part(data: bytes, why: str) -> None:
    with pytest.raises(FrameError, match=why):
        read_payload(data)


@pytest.mark.parametrize("kind", [-1, 5, 100])
def test_a_compression_that_is_none_is_refused(kind: int) -> None:
    given = Payload(messages.MessageMetadata(compression=kind), b"x", checksum_holds=True)
    with pytest.raises(FrameError, match=f"compression type {kind}; expected 0 to 4"):
        uncompressed(given)
    assert uncompressed(given._replace(metadata=messages.MessageMetadata())) == b"x"
    with pytest.raises(FrameError, match="a body that is not valid LZ4"):
        uncompressed(given._replace(metadata=messages.MessageMetadata(compression=1, uncompressed_size=9)))


def test_a_batch_with_a_wrong_number_of_messages_is_refused() -> None:
    single = messages.SingleMessageMetadata(payload_size=99)
    body = write_batch([(single, b"a"), (single, b""), (single, b"ccc")])
    whole = messages.MessageMetadata(num_messages_in_batch=3)
    assert [data for _, data in read_batch(whole, body)] == [b"a", b"", b"ccc"]
    assert [each.payload_size for each, _ in read_batch(whole, body)] == [1, 0, 3]
    assert read_batch(messages.MessageMetadata(), body) == []
    assert len(read_batch(messages.MessageMetadata(num_messages_in_batch=2), body)) == 2
    with pytest.raises(FrameError, match="a batch ends inside message 3 of 4"):
        read_batch(messages.MessageMetadata(num_messages_in_batch=4), body)
    with pytest.raises(FrameError, match="message 2 of a batch has 3 bytes"):
        read_batch(whole, body[:-1])
    negative = messages.SingleMessageMetadata(payload_size=-1).SerializeToString()
    with pytest.raises(FrameError, match="message 0 of a batch has -1 bytes"):
        read_batch(whole, len(negative).to_bytes(4) + negative + b"x")
