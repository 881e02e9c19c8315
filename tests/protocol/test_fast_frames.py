"""The fast encoders write the same frames as the message objects."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackwell.protocol import messages
from ackwell.protocol.constants import CommandType
from ackwell.protocol.fast_frames import message_frame, message_frames, receipt_frame
from ackwell.protocol.frames import FrameReader, decode, encode, frame, split

IDS = st.integers(0, 2**40)
INT64 = st.integers(-(2**63), 2**63 - 1)


@given(
    IDS,
    IDS,
    IDS,
    st.binary(max_size=20),
    st.integers(-1, 300),
    st.integers(0, 2**31),
    st.lists(INT64, max_size=40),
    st.none() | IDS,
)
def test_a_message_s_frame_is_the_one_of_its_object(
    consumer: int,
    ledger: int,
    entry: int,
    payload: bytes,
    partition: int,
    count: int,
    ack_set: list[int],
    epoch: int | None,
) -> None:
    place = messages.MessageIdData(ledgerId=ledger, entryId=entry)
    if partition >= 0:
        place.partition = partition
    wanted = messages.CommandMessage(consumer_id=consumer, message_id=place, ack_set=ack_set)
    if count:
        wanted.redelivery_count = count
    if epoch is not None:
        wanted.consumer_epoch = epoch
    written = message_frame(
        consumer,
        ledger,
        entry,
        payload,
        partition=partition,
        redelivery_count=count,
        ack_set=ack_set,
        epoch=epoch,
    )
    assert written == frame(encode(CommandType.MESSAGE, wanted), payload)


@given(IDS, st.lists(st.tuples(IDS, IDS, st.binary(max_size=20)), max_size=8), st.integers(-1, 300))
def test_many_messages_frames_are_those_of_each(
    consumer: int, rows: list[tuple[int, int, bytes]], partition: int
) -> None:
    ledgers, entries, payloads = ([row[at] for row in rows] for at in range(3))
    wanted = [message_frame(consumer, *row, partition=partition) for row in rows]
    assert list(message_frames(consumer, ledgers, entries, payloads, partition)) == wanted  # type: ignore[arg-type]


@given(IDS, IDS, st.integers(-1, 2**40), st.integers(-1, 2**40), IDS)
def test_a_receipt_s_frame_is_the_one_of_its_object(
    producer: int, sequence: int, ledger: int, entry: int, highest: int
) -> None:
    wanted = messages.CommandSendReceipt(
        producer_id=producer,
        sequence_id=sequence,
        message_id=messages.MessageIdData(ledgerId=ledger % 2**64, entryId=entry % 2**64),
        highest_sequence_id=highest,
    )
    written = receipt_frame(producer, sequence, ledger, entry, highest_sequence_id=highest)
    assert written == frame(encode(CommandType.SEND_RECEIPT, wanted))


@given(st.sampled_from(list(CommandType)), st.binary(max_size=300))
def test_a_command_in_our_encoding_is_split(number: CommandType, body: bytes) -> None:
    class Given:
        def SerializeToString(self) -> bytes:  # noqa: N802
            return body

    assert split(encode(number, Given())) == (number, body)


@given(st.binary(max_size=40))
def test_bytes_at_random_are_split_as_they_are_decoded(data: bytes) -> None:
    number, body = split(data)
    if number == CommandType.FLOW:
        base = messages.BaseCommand.FromString(data)
        assert base.type == number
        assert base.flow == messages.CommandFlow.FromString(body)


def test_a_command_written_in_another_order_is_read_all_the_same() -> None:
    usual = encode(CommandType.FLOW, messages.CommandFlow(consumer_id=1, messagePermits=2))
    other = usual[2:] + usual[:2]
    assert split(other) == (0, b"")
    assert decode(other) == decode(usual)


@pytest.mark.parametrize("count", [0, 1, 127, 128, 16_383, 16_384, 2**31])
@pytest.mark.parametrize("partition", [-1, 0, 5])
@pytest.mark.parametrize("epoch", [None, 0, 300])
def test_a_message_s_frame_has_each_field_that_was_given(
    count: int, partition: int, epoch: int | None
) -> None:
    written = message_frame(
        1, 2, 3, b"x", partition=partition, redelivery_count=count, ack_set=[5, -1], epoch=epoch
    )
    (found,) = FrameReader().feed(written)
    read = decode(found.command).message
    assert (found.payload, read.consumer_id, list(read.ack_set)) == (b"x", 1, [5, -1])
    assert (read.message_id.ledgerId, read.message_id.entryId) == (2, 3)
    assert (read.message_id.partition, read.message_id.HasField("partition")) == (partition, partition >= 0)
    assert (read.redelivery_count, read.HasField("redelivery_count")) == (count, count > 0)
    assert (read.HasField("consumer_epoch"), read.consumer_epoch) == (epoch is not None, epoch or 0)


@pytest.mark.parametrize("number", [-1, 0, 1, 127, 128, 16_383, 16_384, 2**31, 2**63 - 1])
def test_a_number_of_a_receipt_may_have_any_length(number: int) -> None:
    asked = max(number, 0)
    (found,) = FrameReader().feed(receipt_frame(asked, number, asked, number, highest_sequence_id=asked))
    read = decode(found.command).message
    assert (read.producer_id, read.sequence_id) == (asked, number % 2**64)
    assert (read.message_id.ledgerId, read.message_id.entryId) == (asked, number % 2**64)
    assert read.highest_sequence_id == asked


@pytest.mark.parametrize("number", [0, 127, 128, 16_383, 16_384, 2**63 - 1])
def test_many_frames_hold_numbers_of_any_length(number: int) -> None:
    rows = [(number, 0), (0, number), (number, number)]
    frames = message_frames(number, [row[0] for row in rows], [row[1] for row in rows], [b"", b"a", b"bc"])
    read = [decode(each.command).message for each in FrameReader().feed(b"".join(frames))]
    assert [(each.message_id.ledgerId, each.message_id.entryId) for each in read] == rows
    assert {each.consumer_id for each in read} == {number}
