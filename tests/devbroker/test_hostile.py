"""Invalid frames close one connection with a reason, and never the broker; limits hold."""

from __future__ import annotations

import asyncio
import gc
import random
import socket
import time
from contextlib import ExitStack, suppress
from typing import Any

import pytest

from ackwell.devbroker import AsyncBroker, Broker, DevBrokerSettings
from ackwell.devbroker.client_connection import ClientConnection
from ackwell.errors import ErrorCode
from ackwell.protocol import messages
from ackwell.protocol.constants import CommandType
from ackwell.protocol.frames import encode, frame
from ackwell.protocol.payload import write_payload
from ackwell.wire import varint
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
def test_an_invalid_frame_closes_only_its_connection(broker: Broker, data: bytes) -> None:
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
def test_frames_with_flipped_bits_do_not_affect_other_clients(broker: Broker, seed: int) -> None:
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
            assert client.publish(0, b"x" * 2000).error == ErrorCode.NOT_ALLOWED_ERROR
        with RawClient(broker) as client:
            client.socket.sendall((1 << 20).to_bytes(4))
            closed(client)
        works(broker)


def test_messages_over_the_memory_limit_are_refused() -> None:
    with Broker(settings=DevBrokerSettings(max_memory_bytes=5000)) as broker, RawClient(broker) as client:
        client.subscribe("t", permits=0)
        client.produce("t")
        answers = [client.publish(number, b"x" * 1000) for number in range(6)]
        assert answers[0].message_id.entryId == 0
        assert answers[-1].error == ErrorCode.PRODUCER_BLOCKED_QUOTA_EXCEEDED_EXCEPTION
        assert "max_memory_bytes" in answers[-1].message


def test_connections_over_the_limit_are_closed() -> None:
    with (
        Broker(settings=DevBrokerSettings(max_connections=2)) as broker,
        RawClient(broker) as one,
        RawClient(broker),
    ):
        with pytest.raises((AssertionError, OSError)):
            RawClient(broker)
        one.socket.close()
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline:
            try:
                works(broker)
                return
            except (AssertionError, OSError):
                time.sleep(0.01)
        pytest.fail("a connection was closed, and there was no room for another")


def test_a_client_over_the_limit_gets_an_error_that_names_the_setting() -> None:
    with (
        Broker(settings=DevBrokerSettings(max_connections=1)) as broker,
        RawClient(broker),
        RawClient(broker, connect=False) as second,
    ):
        answer = second.receive()
        assert answer.type == CommandType.ERROR
        assert "max_connections" in answer.message.message
        with pytest.raises(ConnectionError):
            second.receive()


@pytest.mark.slow
def test_a_thousand_idle_connections_are_held_and_one_more_is_served() -> None:
    with (
        Broker(settings=DevBrokerSettings(max_connections=2_000, handshake_s=600)) as broker,
        ExitStack() as all_,
    ):
        for _ in range(1_500):
            all_.enter_context(RawClient(broker))
        works(broker)


@pytest.mark.slow
def test_stopping_leaves_no_connection_that_was_accepted_just_before(
    recwarn: pytest.WarningsRecorder,
) -> None:
    async def run() -> None:
        for _ in range(20):
            broker = AsyncBroker(admin_port=None)
            await broker.start()
            port = int(broker.url.rpartition(":")[2])
            sockets = [socket.socket() for _ in range(5)]
            for each in sockets:
                each.setblocking(False)
                each.connect_ex(("127.0.0.1", port))
            # The loop has accepted the sockets and has not created their connections.
            await asyncio.sleep(0)
            await broker.stop()
            for each in sockets:
                each.close()

    # Collect the garbage of earlier tests, whose warnings do not count.
    gc.collect()
    recwarn.clear()
    asyncio.run(run())
    gc.collect()
    assert [str(each.message) for each in recwarn if "unclosed" in str(each.message)] == []


def test_a_checksum_that_is_wrong_is_refused(broker: Broker) -> None:
    with RawClient(broker) as client:
        client.produce("t")
        metadata = messages.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1)
        data = write_payload(metadata, b"abc")
        client.send(CommandType.SEND, payload=data[:-1] + b"d", producer_id=1, sequence_id=0)
        assert client.receive().message.error == ErrorCode.CHECKSUM_ERROR


def test_a_command_that_is_not_supported_is_refused_by_name(broker: Broker) -> None:
    with RawClient(broker) as client:
        answer = client.ask(
            CommandType.END_TXN_ON_PARTITION, request_id=5, txnid_most_bits=0, txnid_least_bits=0
        )
        assert answer.error == ErrorCode.NOT_ALLOWED_ERROR
        assert "does not support command 58" in answer.message


@pytest.mark.slow
def test_a_client_that_does_not_read_is_not_read_either() -> None:
    with (
        Broker(settings=DevBrokerSettings(max_pending_write_bytes=1 << 16)) as broker,
        RawClient(broker) as client,
    ):
        client.socket.settimeout(0.5)
        pings = frame(encode(CommandType.PING, messages.CommandPing())) * 10_000
        with pytest.raises(TimeoutError):
            client.socket.sendall(pings * 1_000)
        assert broker.call(lambda: _unsent(broker)) < 4 << 20
        works(broker)


def _unsent(broker: Broker) -> int:
    connections = [
        each for each in broker._broker.state.shared.connections if isinstance(each, ClientConnection)
    ]
    assert connections
    transports = [each._transport for each in connections]
    return sum(each.get_write_buffer_size() for each in transports if each is not None)


def test_unfinished_frames_stay_within_the_memory_limit() -> None:
    limit = 1 << 20
    with Broker(settings=DevBrokerSettings(max_memory_bytes=limit)) as broker, ExitStack() as stack:
        clients = [stack.enter_context(RawClient(broker)) for _ in range(30)]
        for client in clients:
            client.socket.sendall((4 << 20).to_bytes(4) + b"\0" * 100_000)
        state = broker._broker.state.shared
        deadline = time.monotonic() + 30
        while state.unfinished_bytes < 0.8 * limit and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.1)
        assert 0 < broker.call(lambda: state.unfinished_bytes) <= limit
        assert len(state.connections) == len(clients)
        stack.close()
        deadline = time.monotonic() + 30
        while state.unfinished_bytes and time.monotonic() < deadline:
            time.sleep(0.01)
        assert state.unfinished_bytes == 0


def test_a_silent_connection_is_closed() -> None:
    with (
        Broker(settings=DevBrokerSettings(handshake_s=0.05)) as broker,
        RawClient(broker) as known,
        RawClient(broker, connect=False) as silent,
    ):
        silent.socket.sendall(b"\0\0\0")
        closed(silent)
        known.send(CommandType.PING)
        assert known.receive().type == CommandType.PONG


NUMBERS = (0, 1, 2, 3, 7, 100, 2**31 - 1, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 1)
TEXTS = (
    "t",
    "s",
    "a",
    "",
    "persistent://public/default/t",
    "public/default",
    "x" * 300,
    "\u00e4/",
    "t-partition-1",
    ".*",
)
SENT = [each for each in CommandType if each not in (CommandType.CONNECT, CommandType.AUTH_RESPONSE)]


def at_random(chance: random.Random, made: Any, depth: int = 0) -> Any:
    """Fill a message with numbers and texts of all kinds."""
    for field in made.DESCRIPTOR.fields:
        if not field.is_required and chance.random() < 0.4:
            continue
        values = [
            _value(chance, made, field, depth)
            for _ in range(chance.randrange(1, 4) if field.is_repeated else 1)
        ]
        values = [value for value in values if value is not None]
        with suppress(ValueError, TypeError):
            if field.is_repeated and field.message_type is None:
                getattr(made, field.name).extend(values)
            elif field.message_type is None and values:
                setattr(made, field.name, values[0])
    return made


def _value(chance: random.Random, made: Any, field: Any, depth: int) -> Any:
    if field.message_type is not None:
        if depth < 3:
            part = getattr(made, field.name)
            at_random(chance, part.add() if field.is_repeated else part, depth + 1)
            if not field.is_repeated:
                part.SetInParent()
        return None
    if field.type == field.TYPE_STRING:
        return chance.choice(TEXTS)
    if field.type == field.TYPE_BYTES:
        return chance.randbytes(chance.randrange(20))
    if field.type == field.TYPE_BOOL:
        return chance.random() < 0.5
    number = chance.choice(NUMBERS)
    return number if chance.random() < 0.3 else number % 5


def play_at_random(broker: Broker, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(10):
        with RawClient(broker) as client, suppress(OSError):
            client.produce("t", producer_id=chance.randrange(3))
            client.subscribe("t", consumer_id=chance.randrange(3), subType=chance.randrange(4))
            for _ in range(20):
                client.socket.sendall(command_at_random(chance, chance.choice(SENT)))


def command_at_random(chance: random.Random, command_type: CommandType) -> bytes:
    """Return a frame with a command of any content, and an entry if the command has one."""
    (name,) = {
        row
        for row in dict(messages.table())
        if row.lower() == f"command{command_type.name.lower()}".replace("_", "")
    } or {"CommandPing"}
    body = at_random(chance, messages.message(name)()).SerializePartialToString()
    head = b"\x08" + varint(command_type) + varint(command_type << 3 | 2) + varint(len(body))
    metadata = at_random(chance, messages.MessageMetadata()).SerializePartialToString()
    entry = len(metadata).to_bytes(4) + metadata + b"x"
    has_entry = command_type in (CommandType.SEND, CommandType.MESSAGE)
    return frame(head + body, entry if has_entry else b"")


@pytest.mark.parametrize(
    "seed", [*range(4), *(pytest.param(each, marks=pytest.mark.proof) for each in range(4, 200))]
)
def test_commands_of_any_content_raise_no_internal_error(
    broker: Broker, seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    play_at_random(broker, seed)
    works(broker)
    broker.validate()
    broker.call(broker._broker.state.validate)
    assert "an error in the dev broker" not in caplog.text, caplog.text
