"""A dev broker without sockets and threads: tests pass bytes to connections and read their output."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from ackwell.devbroker.admin_api.requests import HttpError, RawAnswer, Request
from ackwell.devbroker.admin_api.server import dispatch
from ackwell.devbroker.async_broker import AsyncBroker
from ackwell.devbroker.client_connection import ClientConnection
from ackwell.devbroker.devbroker_settings import DevBrokerSettings
from ackwell.devbroker.handlers import HANDLERS
from ackwell.devbroker.refused_commands import CommandRefusedError
from ackwell.protocol import messages
from ackwell.protocol.constants import CommandType
from ackwell.protocol.frames import DecodedCommand, FrameReader, decode, encode, frame
from ackwell.protocol.payload import write_payload

if TYPE_CHECKING:
    from pathlib import Path

    from ackwell.replay.events import Event

ORDERS = "persistent://public/default/orders"
NAMES = {CommandType.LOOKUP: "LookupTopic", CommandType.PARTITIONED_METADATA: "PartitionedTopicMetadata"}
"""The messages whose name differs from their command."""
BEGUN_MS = 1_700_000_000_000

Result = TypeVar("Result")


class Wire(asyncio.Transport):
    """A transport that stores the output of a connection and the calls to the transport."""

    def __init__(self, peer: tuple[str, int]) -> None:
        super().__init__({"peername": peer})
        self.written = b""
        self.closed = self.aborted = self.paused = False
        self.high_water: int | None = None

    def write(self, data: Any) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = self.aborted = True

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self.high_water = high


class Offline:
    """The broker: its state, its clients and its admin API."""

    def __init__(self, path: Path | None = None, **settings: Any) -> None:
        self._loop = asyncio.new_event_loop()
        self.broker = AsyncBroker(settings=DevBrokerSettings(**settings), path=path)
        self.clock, self.state, self.service = self.broker.clock, self.broker.state, self.broker.service
        self.clock._frozen_ms = BEGUN_MS
        self.service.url, self.service.admin_url = "pulsar://here:6650", "http://here:8080"

    def close(self) -> None:
        self.state.validate()
        self._loop.close()

    def run(self, work: Callable[[], Result]) -> Result:
        """Call a function in the broker's event loop."""

        async def work_() -> Result:
            return work()

        return self._loop.run_until_complete(work_())

    def connect(self, *, greet: bool = True, **fields: Any) -> Client:
        return Client(self, greet=greet, **fields)

    def events(self) -> list[Event]:
        """Return the events since the last call."""
        recorder = self.state.shared.recorder
        found = recorder.events()
        seen, self._seen = getattr(self, "_seen", 0), len(found)
        return found[seen:]

    def admin(self, method: str, path: str, body: Any = None, **query: str) -> Any:
        """Send a request; return its answer, or the status and the reason of a refusal."""
        path, _, asked = path.partition("?")
        query |= dict(each.split("=", 1) for each in asked.split("&") if each)
        data = b"" if body is None else json.dumps(body).encode()
        request = Request(self.broker, method, f"/{path}", query, data)

        def answer() -> Any:
            try:
                return dispatch(request)
            except HttpError as error:
                return int(error.status), str(error)
            except CommandRefusedError as error:
                return error.code.name, str(error)
            finally:
                self.state.shared.run_woken()

        found = self.run(answer)
        return (found.body, found.headers) if isinstance(found, RawAnswer) else found

    def topics(self, method: str, path: str, body: Any = None, **query: str) -> Any:
        """Send a request for the topic `orders` or for a path below it."""
        return self.admin(method, f"admin/v2/persistent/public/default/{path}", body, **query)


class Client:
    """One connection; `ask` sends a command and returns all that the broker wrote since."""

    numbers = 0

    def __init__(self, broker: Offline, *, greet: bool, **fields: Any) -> None:
        Client.numbers += 1
        self.broker = broker
        self.wire = Wire(("10.0.0.1", 5_000))
        self.connection = ClientConnection(broker.state, broker.service, HANDLERS)
        self._reader = FrameReader()
        self.payloads: list[bytes] = []
        broker.run(lambda: self.connection.connection_made(self.wire))
        if greet:
            given: dict[str, Any] = {"client_version": "test", "protocol_version": 21} | fields
            (answer,) = self.ask(CommandType.CONNECT, **given)
            assert answer.type == CommandType.CONNECTED

    def write(self, data: bytes) -> list[DecodedCommand]:
        """Pass bytes to the broker."""
        self.broker.run(lambda: self.connection.data_received(data))
        return self.read()

    def read(self) -> list[DecodedCommand]:
        """Return the commands that the broker wrote since the last call."""
        data, self.wire.written = self.wire.written, b""
        frames = list(self._reader.feed(data))
        self.payloads = [each.payload for each in frames]
        return [decode(each.command) for each in frames]

    def ask(self, command_type: CommandType, payload: bytes = b"", **fields: Any) -> list[DecodedCommand]:
        name = NAMES.get(command_type, command_type.name.title().replace("_", ""))
        return self.write(frame(encode(command_type, messages.message(f"Command{name}")(**fields)), payload))

    def one(self, command_type: CommandType, payload: bytes = b"", **fields: Any) -> Any:
        """Send a command, and return the message of its only answer."""
        (answer,) = self.ask(command_type, payload, **fields)
        return answer.message

    def hang_up(self) -> None:
        self.broker.run(lambda: self.connection.connection_lost(None))

    # The usual commands

    def produce(self, topic: str = "orders", producer_id: int = 1, **fields: Any) -> Any:
        return self.one(CommandType.PRODUCER, topic=topic, producer_id=producer_id, request_id=1, **fields)

    def publish(
        self, body: bytes = b"x", sequence_id: int = 0, producer_id: int = 1, *, num_messages: int = 1,
        **metadata: Any,
    ) -> list[DecodedCommand]:  # fmt: skip
        transaction = {name: value for name, value in metadata.items() if name.startswith("txnid_")}
        given = {"producer_name": "p", "sequence_id": sequence_id, "publish_time": self.now_ms()}
        described = messages.MessageMetadata(**given | metadata)
        return self.ask(
            CommandType.SEND, write_payload(described, body), producer_id=producer_id,
            sequence_id=sequence_id, num_messages=num_messages, **transaction,
        )  # fmt: skip

    def now_ms(self) -> int:
        """Return the client's time, which does not follow the broker's clock."""
        return self.broker.clock.now_ms() - self.broker.clock.moved_ms

    def subscribe(
        self, subscription: str = "s", consumer_id: int = 1, permits: int = 100, **fields: Any
    ) -> Any:
        """Subscribe; return the first answer. Deliveries are answers to the permits."""
        asked: dict[str, Any] = {"topic": "orders", "subType": 1, "initialPosition": 1, "request_id": 7}
        asked |= {"consumer_name": f"c{consumer_id}"} | fields
        (answer, *_) = self.ask(
            CommandType.SUBSCRIBE, subscription=subscription, consumer_id=consumer_id, **asked
        )
        if permits and answer.type == CommandType.SUCCESS:
            self.delivered = self.ask(CommandType.FLOW, consumer_id=consumer_id, messagePermits=permits)
        return answer

    def ack(self, *positions: tuple[int, ...], consumer_id: int = 1, **fields: Any) -> list[DecodedCommand]:
        """Acknowledge entries, each with its ack set."""
        ids = [
            {"ledgerId": ledger_id, "entryId": entry_id, "ack_set": ack_set}
            for ledger_id, entry_id, *ack_set in positions
        ]
        asked: dict[str, Any] = {"ack_type": 0} | fields
        return self.ask(CommandType.ACK, consumer_id=consumer_id, message_id=ids, **asked)


def delivered(commands: list[DecodedCommand]) -> list[tuple[int, int]]:
    """Return the positions of the messages among commands."""
    return [
        (each.message.message_id.ledgerId, each.message.message_id.entryId)
        for each in commands
        if each.type == CommandType.MESSAGE
    ]
