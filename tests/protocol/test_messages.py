"""The messages: built from our table in a separate pool, with the encoding of other libraries."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ackwell.errors import FrameError
from ackwell.protocol import messages
from ackwell.subscription import AckType, CommandAck, MessageId, TransactionId


def test_an_acknowledgment_is_the_same_bytes_as_our_own_writer_makes() -> None:
    ours = CommandAck(
        consumer_id=7,
        ack_type=AckType.INDIVIDUAL,
        message_ids=(MessageId(3, 5, ack_set=(-1, 6), batch_size=80), MessageId(4, 0, partition=2)),
        properties=(("name", 2**63),),
        transaction=TransactionId(1, 2),
        request_id=9,
    ).encode()
    read = messages.parse("CommandAck", ours)
    assert [list(each.ack_set) for each in read.message_id] == [[-1, 6], []]
    assert read.SerializeToString() == ours


def test_a_number_that_a_newer_peer_uses_survives() -> None:
    data = messages.CommandError(request_id=1, error=9999, message="m").SerializeToString()
    assert messages.CommandError.FromString(data).error == 9999


def test_no_message_clashes_with_those_of_the_default_pool() -> None:
    from google.protobuf import descriptor_pool

    assert messages.CommandAck.DESCRIPTOR.file.pool is not descriptor_pool.Default()


def test_every_row_of_the_table_is_a_message() -> None:
    rows = dict(messages.table())
    assert len(rows) > 70
    for name, fields in rows.items():
        assert len(messages.message(name).DESCRIPTOR.fields) == len(fields)


def test_a_message_is_one_class_however_often_it_is_asked_for() -> None:
    assert messages.message("CommandAck") is messages.message("CommandAck") is messages.CommandAck
    assert isinstance(messages.parse("CommandPing", b""), messages.CommandPing)


@pytest.mark.parametrize(
    ("name", "field", "value"),
    [
        ("CommandSend", "num_messages", 1),
        ("CommandSubscribe", "durable", True),
        ("CommandSubscribe", "force_topic_creation", True),
        ("CommandProducerSuccess", "last_sequence_id", -1),
        ("MessageIdData", "partition", -1),
        ("MessageIdData", "batch_index", -1),
        ("CommandAck", "request_id", 0),
    ],
)
def test_a_field_that_is_not_there_has_the_protocol_s_default(name: str, field: str, value: object) -> None:
    assert getattr(messages.message(name)(), field) == value
    assert not messages.message(name)().HasField(field)


def test_required_fields_are_checked_and_optional_ones_are_not() -> None:
    with pytest.raises(FrameError, match=r"^0 bytes that are not a CommandAck: without consumer_id$"):
        messages.parse("CommandAck", b"")
    with pytest.raises(FrameError, match=r"^2 bytes that are not a CommandAck: without ack_type$"):
        messages.parse("CommandAck", b"\x08\x01")
    read = messages.parse("CommandAck", b"\x08\x01\x10\x00")
    assert (read.consumer_id, read.ack_type, len(read.message_id)) == (1, 0, 0)
    with pytest.raises(FrameError, match=r"^1 bytes that are not a CommandAck: "):
        messages.parse("CommandAck", b"\xff")
    with pytest.raises(KeyError):
        messages.message("Nothing")


def test_a_name_in_small_letters_is_an_attribute_of_nothing() -> None:
    for name in ("nothing", "_private", "commandAck"):
        with pytest.raises(AttributeError, match=f"has no attribute '{name}'"):
            getattr(messages, name)


def test_an_unknown_message_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no message 'Nothing'"):
        _ = messages.Nothing


def test_importing_the_protocol_does_not_import_protobuf() -> None:
    code = "import sys, ackwell.protocol.batches; print('google.protobuf' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_threads_that_use_the_first_message_at_once_have_the_same_classes() -> None:
    code = """
import threading, time
from ackwell.protocol import messages
table = messages.table
def slow():
    time.sleep(0.1)
    return table()
messages.table = slow
found = []
threads = [threading.Thread(target=lambda: found.append(messages.message("KeySharedMeta"))) for _ in range(4)]
for each in threads: each.start()
for each in threads: each.join()
print(len(found), len(set(found)), len({each.DESCRIPTOR.file.pool for each in found}))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "4 1 1\n"


def test_a_text_that_is_not_utf_8_is_an_invalid_frame() -> None:
    made = messages.CommandProducer(topic="orders", producer_id=1, request_id=2)
    data = made.SerializeToString()
    with pytest.raises(FrameError, match="topic is not UTF-8"):
        messages.parse("CommandProducer", data.replace(b"orders", b"ord\xffrs"))
    assert messages.parse("CommandProducer", data).topic == "orders"
