"""Proxied connections between test transports: forwarding, order, rewritten addresses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pytest

pytest.importorskip("google.protobuf")

from ackwell.protocol import messages
from ackwell.protocol.constants import CommandType
from ackwell.protocol.frames import DecodedCommand, Frame, FrameReader, decode, encode, frame
from ackwell.protocol.payload import write_payload
from ackwell.recording.proxy import BUFFER_BYTES, BrokerSide, ClientSide, ProxiedConnection, Proxy
from ackwell.recording.recording import Recording
from ackwell.replay.events import Event, Kind

Result = TypeVar("Result")
BROKER = "pulsar://broker:6650"


class Wire(asyncio.Transport):
    """One side's transport."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.closed = self.paused = False
        self.high_water: int | None = None

    def write(self, data: Any) -> None:
        assert not self.closed
        self.written.append(data)

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self.high_water = high

    def read(self) -> list[DecodedCommand]:
        """Return the bytes that were written since the last call."""
        data = b"".join(self.written)
        self.written.clear()
        return [decode(each.command) for each in FrameReader().feed(data)]


class Linked:
    """A proxy with one connection; the test decides when it opens its ports."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.events: list[Event] = []
        self.proxy = Proxy(BROKER, Recording(self.events.append))
        self.opened: list[str] = []
        self.ports = {BROKER: 1}
        self.proxy.listen_for = self._listen_for  # type: ignore[assignment]
        self.connecting = asyncio.Event()
        self.link = ProxiedConnection(self.proxy, BROKER, self.proxy._recording)
        self.link.connect = self._connect  # type: ignore[method-assign]
        self.client, self.broker = ClientSide(self.link), BrokerSide(self.link)
        self.to_client, self.to_broker = Wire(), Wire()
        self.run(lambda: self.client.connection_made(self.to_client))

    async def _connect(self) -> None:
        """Wait until the test connects."""

    async def _listen_for(self, url: str, port: int = 0) -> None:
        self.opened.append(url)
        if "unknown" in url:
            raise OSError("no such host")
        self.proxy._ports[url] = 7_000 + len(self.opened)

    def run(self, work: Callable[[], Result]) -> Result:
        async def work_() -> Result:
            found = work()
            for _ in range(4):
                await asyncio.sleep(0)
            return found

        return self.loop.run_until_complete(work_())

    def connect(self) -> None:
        self.run(lambda: self.broker.connection_made(self.to_broker))

    def from_client(self, *commands: bytes) -> None:
        self.run(lambda: self.client.data_received(b"".join(commands)))

    def from_broker(self, *commands: bytes) -> None:
        self.run(lambda: self.broker.data_received(b"".join(commands)))


@pytest.fixture
def linked() -> Iterator[Linked]:
    made = Linked()
    yield made
    made.loop.close()


def command(command_type: CommandType, message: Any) -> bytes:
    return frame(encode(command_type, message))


PING, PONG = (
    command(CommandType.PING, messages.CommandPing()),
    command(CommandType.PONG, messages.CommandPong()),
)


def lookup(url: str = "pulsar://other:6650", request_id: int = 1) -> bytes:
    answer = messages.CommandLookupTopicResponse(
        request_id=request_id, response=1, brokerServiceUrl=url, brokerServiceUrlTls="pulsar+ssl://other:6651"
    )
    return command(CommandType.LOOKUP_RESPONSE, answer)


def test_an_invalid_broker_address_is_refused() -> None:
    with pytest.raises(ValueError, match=r"'a:1' is not a broker address"):
        Proxy("a:1", Recording(list[Event]().append))


def test_frames_before_the_broker_is_connected_are_sent_after_it(linked: Linked) -> None:
    linked.from_client(PING)
    linked.from_client(PONG)
    assert linked.to_broker.written == []
    linked.connect()
    # One write for all queued frames.
    assert linked.to_broker.written == [PING + PONG]
    assert linked.to_broker.high_water == linked.to_client.high_water == BUFFER_BYTES == 1 << 20
    linked.from_client(PING[:5])
    linked.from_client(PING[5:], PONG)
    assert linked.to_broker.written == [PING + PONG, PING + PONG]
    linked.from_broker(PONG)
    assert linked.to_client.written == [PONG]
    assert linked.proxy.links == {linked.link}


def test_a_broker_address_in_an_answer_becomes_a_port_of_the_proxy(linked: Linked) -> None:
    linked.connect()
    linked.from_broker(lookup(), PONG)
    assert linked.opened == ["pulsar://other:6650"]
    answer, pong = linked.to_client.read()
    assert (answer.type, pong.type) == (CommandType.LOOKUP_RESPONSE, CommandType.PONG)
    assert (answer.message.brokerServiceUrl, answer.message.request_id) == ("pulsar://127.0.0.1:7001", 1)
    assert not answer.message.HasField("brokerServiceUrlTls")
    # It is known from then on.
    linked.from_broker(lookup(request_id=2))
    assert linked.opened == ["pulsar://other:6650"]
    (again,) = linked.to_client.read()
    assert again.message.brokerServiceUrl == "pulsar://127.0.0.1:7001"


def test_addresses_of_brokers_with_a_pulsar_proxy_stay(linked: Linked) -> None:
    """A client connects to the proxy again, and the proxy accepts only the name of a broker."""
    linked.connect()
    answer = messages.CommandLookupTopicResponse(
        request_id=1, response=1, brokerServiceUrl="pulsar://other:6650", proxy_through_service_url=True
    )
    linked.from_broker(command(CommandType.LOOKUP_RESPONSE, answer))
    (found,) = linked.to_client.read()
    assert (found.message.brokerServiceUrl, linked.opened) == ("pulsar://other:6650", [])


@pytest.mark.parametrize("connects_first", [True, False])
def test_a_forwarded_connection_is_one_of_the_named_broker(linked: Linked, *, connects_first: bool) -> None:
    brokers = linked.proxy._recording.brokers
    named = messages.CommandConnect(client_version="c", proxy_to_broker_url="other:6650")
    if connects_first:
        linked.connect()
    linked.from_client(command(CommandType.CONNECT, named))
    if not connects_first:
        linked.connect()
    assert (brokers[BROKER].connections, brokers["other:6650"].connections) == (0, 1)
    # The broker itself names another one; the proxy forwards a connection to it, too.
    closed = messages.CommandCloseProducer(
        producer_id=1, request_id=1, assignedBrokerServiceUrl="pulsar://third:6650"
    )
    linked.from_broker(command(CommandType.CLOSE_PRODUCER, closed))
    (found,) = linked.to_client.read()
    assert (found.message.assignedBrokerServiceUrl, linked.opened) == ("pulsar://third:6650", [])
    linked.run(lambda: linked.broker.connection_lost(None))
    assert brokers["other:6650"].connections == 0


@pytest.mark.parametrize(
    ("command_type", "message", "field"),
    [
        (CommandType.CLOSE_PRODUCER, "CommandCloseProducer", "assignedBrokerServiceUrl"),
        (CommandType.CLOSE_CONSUMER, "CommandCloseConsumer", "assignedBrokerServiceUrl"),
        (CommandType.TOPIC_MIGRATED, "CommandTopicMigrated", "brokerServiceUrl"),
    ],
)
def test_every_command_that_sends_a_client_elsewhere_is_rewritten(
    linked: Linked, command_type: CommandType, message: str, field: str
) -> None:
    linked.connect()
    made = messages.message(message)()
    for each in made.DESCRIPTOR.fields:
        if each.is_required or each.name in ("producer_id", "consumer_id", "request_id"):
            setattr(made, each.name, 1)
    setattr(made, field, "pulsar://other:6650")
    setattr(made, f"{field}Tls", "pulsar+ssl://other:6651")
    linked.from_broker(command(command_type, made))
    (found,) = linked.to_client.read()
    assert getattr(found.message, field) == "pulsar://127.0.0.1:7001"
    assert not found.message.HasField(f"{field}Tls")
    # An answer without an address opens no port.
    made.ClearField(field)
    linked.from_broker(command(command_type, made))
    assert linked.to_client.read()[0].message.SerializeToString() != b""
    assert len(linked.opened) == 1


def test_frames_after_an_unopened_address_wait_for_its_port(linked: Linked) -> None:
    linked.connect()
    gate = asyncio.Event()

    async def slowly(url: str, port: int = 0) -> None:
        await gate.wait()
        linked.proxy._ports[url] = 8_000

    linked.proxy.listen_for = slowly  # type: ignore[assignment,method-assign]
    linked.from_broker(lookup(request_id=1), PONG)
    linked.from_broker(lookup(request_id=2))
    assert linked.to_client.written == []
    linked.run(gate.set)
    found = linked.to_client.read()
    assert [each.type for each in found] == [
        CommandType.LOOKUP_RESPONSE,
        CommandType.PONG,
        CommandType.LOOKUP_RESPONSE,
    ]
    assert [each.message.request_id for each in found[::2]] == [1, 2]
    linked.from_broker(PING)
    assert [each.type for each in linked.to_client.read()] == [CommandType.PING]


def test_a_broker_for_which_no_port_can_be_opened_ends_the_link(
    linked: Linked, caplog: pytest.LogCaptureFixture
) -> None:
    linked.connect()
    linked.from_broker(lookup("pulsar://unknown:1"))
    assert "no port for pulsar://unknown:1: no such host" in caplog.text
    assert (linked.to_client.closed, linked.to_broker.closed) == (True, True)


def test_an_invalid_frame_ends_the_connection_after_the_frames_before_it(
    linked: Linked, caplog: pytest.LogCaptureFixture
) -> None:
    linked.connect()
    linked.from_client(PING, bytes(4))
    assert "a connection closed: a frame of 0 bytes" in caplog.text
    assert linked.to_broker.written == [PING]
    assert (linked.to_client.closed, linked.to_broker.closed, linked.link.closed) == (True, True, True)
    assert linked.proxy.links == set()
    # Frames of up to a gigabyte are forwarded; the broker enforces its limit.
    assert list(linked.client._reader.feed((1 << 30).to_bytes(4))) == []


@pytest.mark.parametrize("first", ["client", "broker"])
def test_the_end_of_one_side_is_that_of_the_other(linked: Linked, first: str) -> None:
    linked.connect()
    linked.run(lambda: getattr(linked, first).connection_lost(None))
    assert (linked.to_client.closed, linked.to_broker.closed) == (True, True)
    assert linked.link.closed
    linked.run(lambda: linked.broker.connection_lost(None))
    linked.run(linked.link.close)


def test_a_proxy_that_stops_closes_its_links(linked: Linked) -> None:
    linked.connect()
    linked.loop.run_until_complete(linked.proxy.stop())
    assert (linked.to_client.closed, linked.to_broker.closed, linked.proxy.links) == (True, True, set())


def test_a_broker_that_comes_when_the_client_is_gone_is_let_go(linked: Linked) -> None:
    linked.run(linked.link.close)
    linked.connect()
    assert linked.to_broker.closed
    assert linked.to_broker.written == []


def open_consumer(linked: Linked) -> None:
    linked.connect()
    subscribe = messages.CommandSubscribe(
        topic="orders", subscription="s", subType=1, consumer_id=1, request_id=2, consumer_name="c"
    )
    linked.from_client(command(CommandType.SUBSCRIBE, subscribe))
    linked.from_broker(command(CommandType.SUCCESS, messages.CommandSuccess(request_id=2)))
    question = linked.to_broker.read()[-1]
    assert question.type == CommandType.GET_LAST_MESSAGE_ID
    assert linked.to_client.read() == []
    answer = messages.CommandGetLastMessageIdResponse(
        request_id=question.message.request_id, last_message_id={"ledgerId": 3, "entryId": 4}
    )
    linked.from_broker(command(CommandType.GET_LAST_MESSAGE_ID_RESPONSE, answer))
    assert [each.type for each in linked.to_client.read()] == [CommandType.SUCCESS]
    linked.events.clear()


def test_a_broker_that_breaks_the_connection_leaves_a_gap_and_its_consumers_close(linked: Linked) -> None:
    open_consumer(linked)
    linked.run(lambda: linked.broker.connection_lost(None))
    assert [event.kind for event in linked.events] == [Kind.GAP, Kind.CONSUMER_CLOSE]


def test_a_client_that_goes_leaves_no_gap(linked: Linked) -> None:
    open_consumer(linked)
    linked.run(lambda: linked.client.connection_lost(None))
    linked.run(lambda: linked.broker.connection_lost(None))
    assert [event.kind for event in linked.events] == [Kind.CONSUMER_CLOSE]


def test_a_side_that_does_not_read_stops_the_other(linked: Linked) -> None:
    linked.run(linked.client.pause_writing)
    linked.connect()
    for side, other in ((linked.client, linked.to_broker), (linked.broker, linked.to_client)):
        linked.run(side.pause_writing)
        assert other.paused
        linked.run(side.resume_writing)
        assert not other.paused
    linked.to_broker.closed = True
    linked.run(linked.client.pause_writing)
    assert not linked.to_broker.paused


def test_bytes_for_a_closing_side_are_dropped(linked: Linked) -> None:
    linked.connect()
    linked.to_client.closed = True
    linked.from_broker(PONG)
    assert linked.to_client.written == []
    linked.to_client.closed = False
    linked.from_broker(PING)
    assert linked.to_client.written == [PING]


def test_a_recording_begins_with_its_gap() -> None:
    events: list[Event] = []
    proxy = Proxy(BROKER, Recording(events.append), host="127.0.0.1")

    async def life() -> tuple[str, str]:
        await proxy.start()
        await proxy.listen_for(BROKER)
        before = proxy.url
        assert proxy.has_port_for(BROKER)
        assert not proxy.has_port_for("pulsar://b:1")
        await proxy.stop()
        return before, proxy.url_for("pulsar://b:1")

    url, unknown = asyncio.run(life())
    assert url.startswith("pulsar://127.0.0.1:")
    assert unknown == "pulsar://b:1"
    (gap,) = events
    assert (gap.kind, gap.topic) == (Kind.GAP, "*")
    assert gap.detail == "clients and operators that do not use this proxy, and ledgers that the broker trims"


def test_a_broker_that_is_not_there_ends_the_link(caplog: pytest.LogCaptureFixture) -> None:
    linked = Linked()
    link = ProxiedConnection(linked.proxy, "pulsar://127.0.0.1:1", linked.proxy._recording)
    link.client = linked.to_client
    linked.loop.run_until_complete(link.connect())
    assert "no connection to pulsar://127.0.0.1:1: " in caplog.text
    assert linked.to_client.closed
    linked.loop.close()


def test_frames_pass_as_they_came(linked: Linked) -> None:
    linked.connect()
    # An unknown field, in an order that our encoder does not write.
    odd = frame(b"\x92\x01\x00\x08\x12")
    linked.from_client(odd)
    linked.from_broker(odd)
    assert (linked.to_broker.written, linked.to_client.written) == ([odd], [odd])
    (given,) = FrameReader().feed(odd)
    assert isinstance(given, Frame)
    assert given.command_type == 0


def test_frames_are_written_before_their_events_are_recorded(linked: Linked) -> None:
    linked.connect()
    linked.from_client(
        command(CommandType.PRODUCER, messages.CommandProducer(topic="t", producer_id=1, request_id=1))
    )
    written: list[tuple[Kind, int]] = []
    linked.proxy._recording._write = lambda event: written.append((event.kind, len(linked.to_client.written)))
    metadata = messages.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1)
    sent = encode(CommandType.SEND, messages.CommandSend(producer_id=1, sequence_id=0))
    linked.from_client(frame(sent, write_payload(metadata, b"x")))
    receipt = messages.CommandSendReceipt(
        producer_id=1, sequence_id=0, message_id={"ledgerId": 1, "entryId": 2}
    )
    linked.from_broker(command(CommandType.SEND_RECEIPT, receipt))
    assert written == [(Kind.PUBLISH, 1)]
