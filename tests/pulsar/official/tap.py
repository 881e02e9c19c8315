"""A tap between clients and a broker: passes frames on, and lists them in the order in which it saw them."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import NamedTuple

from ackwell.protocol.constants import CommandType
from ackwell.protocol.frames import DecodedCommand, Frame, FrameReader, decode, encode, frame


class Seen(NamedTuple):
    """A frame that passed."""

    from_client: bool
    command: DecodedCommand
    payload: bytes


class Tap:
    """A tap on a free port.

    A frame is listed before it is forwarded, so an answer is listed after its request.
    """

    def __init__(self, broker_port: int) -> None:
        self._broker_port = broker_port
        self._seen: list[Seen] = []
        self._order = threading.Lock()
        self._sockets: list[socket.socket] = []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"pulsar://127.0.0.1:{self._listening.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def taken(self) -> list[Seen]:
        """Return the frames since the previous call."""
        with self._order:
            seen, self._seen = self._seen, []
        return seen

    def close(self) -> None:
        """Close every connection and stop listening."""
        for each in (self._listening, *self._sockets):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                broker = socket.create_connection(("127.0.0.1", self._broker_port))
                self._sockets += [client, broker]
                for source, target in ((client, broker), (broker, client)):
                    source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    arguments = source, target, source is client
                    threading.Thread(target=self._pass_on, args=arguments, daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket, from_client: bool) -> None:
        reader = FrameReader()
        with suppress(OSError):
            while data := source.recv(1 << 16):
                for each in reader.feed(data):
                    target.sendall(self._looked_at(each, from_client))
        for each_side in (source, target):
            with suppress(OSError):
                each_side.shutdown(socket.SHUT_RDWR)

    def _looked_at(self, given: Frame, from_client: bool) -> bytes:
        command = decode(given.command)
        if command.type == CommandType.LOOKUP_RESPONSE:
            # The client is to come here with the topic, too.
            command.message.brokerServiceUrl = self.url
            return frame(encode(command.type, command.message), given.payload)
        with self._order:
            self._seen.append(Seen(from_client, command, given.payload))
        return given.raw
