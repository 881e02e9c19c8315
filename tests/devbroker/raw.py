"""A small client that can send commands which official clients do not send."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any, Self

from ackwell.protocol import messages
from ackwell.protocol.constants import CommandType
from ackwell.protocol.frames import DecodedCommand, FrameReader, decode, encode, frame
from ackwell.protocol.payload import write_payload

if TYPE_CHECKING:
    from collections.abc import Callable

    from ackwell.devbroker import Broker


class RawClient:
    """One connection; `with` closes it."""

    def __init__(self, broker: Broker | str, *, connect: bool = True) -> None:
        url = broker if isinstance(broker, str) else broker.url
        host, port = url.removeprefix("pulsar://").split(":")
        self.socket = socket.create_connection((host, int(port)), timeout=60)
        self._reader = FrameReader()
        self._frames: list[Any] = []
        self.payloads: list[bytes] = []
        if connect:
            self.send(CommandType.CONNECT, client_version="test", protocol_version=21)
            assert self.receive().type == CommandType.CONNECTED

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, command_type: CommandType, payload: bytes = b"", **fields: Any) -> None:
        name = "Command" + command_type.name.title().replace("_", "")
        self.socket.sendall(frame(encode(command_type, messages.message(name)(**fields)), payload))

    def receive(self) -> DecodedCommand:
        """Return the next command; `ConnectionError` if the broker closed the connection."""
        given = self._next_frame()
        self.payloads.append(given.payload)
        return decode(given.command)

    def _next_frame(self) -> Any:
        while not self._frames:
            data = self.socket.recv(1 << 16)
            if not data:
                raise ConnectionError("closed")
            self._frames += self._reader.feed(data)
        return self._frames.pop(0)

    def ask(self, command_type: CommandType, **fields: Any) -> Any:
        """Send a command; return the next one that is not a message."""
        self.send(command_type, **fields)
        return self._first(lambda found: found != CommandType.MESSAGE)

    def subscribe(self, topic: str, consumer_id: int = 1, permits: int = 100, **fields: Any) -> None:
        fields = {"subscription": "s", "subType": 1, "initialPosition": 1} | fields
        self.ask(CommandType.SUBSCRIBE, topic=topic, consumer_id=consumer_id, request_id=1, **fields)
        if permits:
            self.send(CommandType.FLOW, consumer_id=consumer_id, messagePermits=permits)

    def produce(self, topic: str, producer_id: int = 1) -> None:
        self.ask(CommandType.PRODUCER, topic=topic, producer_id=producer_id, request_id=2)

    def publish(self, sequence_id: int, body: bytes, producer_id: int = 1, **metadata: Any) -> Any:
        described = messages.MessageMetadata(
            **({"producer_name": "p", "sequence_id": sequence_id, "publish_time": 1} | metadata)
        )
        txn = {name: value for name, value in metadata.items() if name.startswith("txnid")}
        self.send(
            CommandType.SEND,
            payload=write_payload(described, body),
            producer_id=producer_id,
            sequence_id=sequence_id,
            **txn,
        )
        return self.until(CommandType.SEND_RECEIPT, CommandType.SEND_ERROR)

    def until(self, *wanted: CommandType) -> Any:
        """Return the next command of a type. Skip the commands before it, but keep messages.

        How many messages come before a receipt depends on the speed of the machine.
        """
        return self._first(lambda found: found in wanted)

    def _first(self, is_wanted: Callable[[int], bool]) -> Any:
        kept = []
        while not is_wanted(found := decode((given := self._next_frame()).command).type):
            if found == CommandType.MESSAGE:
                kept.append(given)
        self._frames[:0] = [given, *kept]
        return self.receive().message
