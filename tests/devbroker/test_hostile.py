"""Bad frames close one connection with a reason, and never the broker; limits hold."""

from __future__ import annotations

import random
import time

import pytest

from ackwell.devbroker import Broker, DevBrokerSettings
from ackwell.protocol import messages
from ackwell.protocol.codes import CommandType, ServerError
from ackwell.protocol.frames import encode, frame
from ackwell.protocol.payload import write_payload
from tests.devbroker.raw import RawClient


def works(broker: Broker) -> None:
    """Publish and read one message."""
    with RawClient(broker) as client:
        client.produce("still-here")
        assert client.publish(0, b"x").message_id.entryId >= 0


def closed(client: RawClient) -> None:
    """Read to the end of the connection."""
    for _ in range(1000):
        try:
            client.receive()
        except ConnectionError:
            return
    pytest.fail("the connection is still there")


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        bytes.fromhex("7fffffff00000001"),
        bytes.fromhex("00000000"),
        bytes.fromhex("00000008 ffffffff 08060000"),
        frame(b"\x08\x06"),
        frame(b"\xff" * 30),
        frame(encode(CommandType.SEND, messages.CommandSend(producer_id=9, sequence_id=0)), b"x"),
    ],
)
def test_what_is_no_frame_closes_its_connection_and_no_other(broker: Broker, data: bytes) -> None:
    with RawClient(broker) as other, RawClient(broker) as client:
        client.socket.sendall(data)
        closed(client)
        other.send(CommandType.PING)
        assert other.receive().type == CommandType.PONG
    works(broker)


def test_a_command_before_connect_closes_the_connection(broker: Broker) -> None:
    with RawClient(broker, connect=False) as client:
        client.send(CommandType.PING)
        closed(client)


@pytest.mark.parametrize("seed", range(20))
def test_frames_with_bits_flipped_harm_nobody_else(broker: Broker, seed: int) -> None:
    chance = random.Random(seed)
    metadata = messages.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1)
    commands = [
        encode(CommandType.PRODUCER, messages.CommandProducer(topic="t", producer_id=1, request_id=1)),
        encode(
            CommandType.SUBSCRIBE,
            messages.CommandSubscribe(topic="t", subscription="s", subType=1, consumer_id=1, request_id=2),
        ),
        encode(CommandType.FLOW, messages.CommandFlow(consumer_id=1, messagePermits=10)),
        encode(
            CommandType.ACK,
            messages.CommandAck(
                consumer_id=1,
                ack_type=0,
                message_id=[messages.MessageIdData(ledgerId=0, entryId=0, ack_set=[1, 2])],
            ),
        ),
        encode(
            CommandType.SEEK,
            messages.CommandSeek(
                consumer_id=1, request_id=3, message_id=messages.MessageIdData(ledgerId=0, entryId=0)
            ),
        ),
    ]
    for _ in range(20):
        with RawClient(broker) as client:
            for command in chance.sample(commands, len(commands)):
                data = bytearray(
                    frame(command, write_payload(metadata, b"x") if chance.random() < 0.3 else b"")
                )
                if chance.random() < 0.7:
                    bit = chance.randrange(8, len(data) * 8)
                    data[bit // 8] ^= 1 << bit % 8
                try:
                    client.socket.sendall(data)
                except OSError:
                    break
    works(broker)
    broker.validate()


def test_a_message_over_the_limit_is_refused() -> None:
    with Broker(settings=DevBrokerSettings(max_message_bytes=1000)) as broker:
        with RawClient(broker) as client:
            client.produce("t")
            assert client.publish(0, b"x" * 2000).error == ServerError.NOT_ALLOWED_ERROR
        with RawClient(broker) as client:
            client.socket.sendall((1 << 20).to_bytes(4))
            closed(client)
        works(broker)


def test_messages_over_the_memory_limit_are_refused() -> None:
    with Broker(settings=DevBrokerSettings(max_memory_bytes=5000)) as broker, RawClient(broker) as client:
        client.produce("t")
        answers = [client.publish(number, b"x" * 1000) for number in range(6)]
        assert answers[0].message_id.entryId == 0
        assert answers[-1].error == ServerError.PERSISTENCE_ERROR


def test_connections_over_the_limit_are_closed() -> None:
    with (
        Broker(settings=DevBrokerSettings(max_connections=2)) as broker,
        RawClient(broker) as one,
        RawClient(broker),
    ):
        with pytest.raises((ConnectionError, OSError)):
            RawClient(broker)
        one.socket.close()
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline:
            try:
                works(broker)
                return
            except OSError:
                time.sleep(0.01)
        pytest.fail("a connection was closed, and there was no room for another")


def test_a_checksum_that_is_wrong_is_refused(broker: Broker) -> None:
    with RawClient(broker) as client:
        client.produce("t")
        metadata = messages.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1)
        data = write_payload(metadata, b"abc")
        client.send(CommandType.SEND, payload=data[:-1] + b"d", producer_id=1, sequence_id=0)
        assert client.receive().message.error == ServerError.CHECKSUM_ERROR


def test_a_command_that_is_not_supported_is_refused_by_name(broker: Broker) -> None:
    with RawClient(broker) as client:
        answer = client.ask(
            CommandType.END_TXN_ON_PARTITION, request_id=5, txnid_most_bits=0, txnid_least_bits=0
        )
        assert answer.error == ServerError.NOT_ALLOWED_ERROR
        assert "does not support command 58" in answer.message
