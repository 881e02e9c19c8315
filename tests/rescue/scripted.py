"""A broker with scripted answers, for behavior that the dev broker lacks, and a fake admin API."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ackwell.cluster.admin import BrokerFacts
from ackwell.cluster.endpoint import Endpoint
from ackwell.protocol import messages
from ackwell.protocol.constants import CommandType, LookupType
from ackwell.protocol.frames import FrameReader, decode, encode, frame
from tests.rescue.listening import listening

Answer = tuple[CommandType, dict[str, Any]]


class FakeAdmin:
    """The part of `Admin` that `Connection` uses: fixed answers by path, and a list of the changes."""

    cluster = "standalone"

    def __init__(
        self, answers: dict[str, Any] | None = None, trusted: tuple[str, ...] = ("127.0.0.1",)
    ) -> None:
        self.endpoint = Endpoint(url="http://127.0.0.1:1", timeout_seconds=60)
        self.answered = answers or {}
        self.trusted = trusted
        self.asked: list[str] = []
        self.changed: list[tuple[str, str, Any]] = []

    def facts(self, owner: str | None = None) -> Any:
        return BrokerFacts(version="4.2.4", settings=None, assumed=())

    def ask(self, path: str) -> Any:
        self.asked.append(path)
        found = self.answered.get(path)
        return found.pop(0) if isinstance(found, list) else found

    def change(self, method: str, path: str, body: Any = None) -> None:
        self.changed.append((method, path, body))

    def trusts(self, host: str) -> bool:
        return host in self.trusted


class Script:
    """The received commands, and the answers by type: one for each command, the last one repeated."""

    def __init__(self, **answers: list[list[Answer] | None]) -> None:
        self.answers = answers
        self.seen: list[tuple[str, Any]] = []
        self.connections = 0
        self.url = ""

    def of(self, name: str) -> list[Any]:
        """Return the received commands of a type."""
        return [message for kind, message in self.seen if kind == name]

    def answer(self, command: Any) -> list[Answer] | None:
        """Return the answer; None closes the connection."""
        name = CommandType(command.type).name
        self.seen.append((name, command.message))
        if name in self.answers:
            given = self.answers[name]
            found = given.pop(0) if len(given) > 1 else given[0]
        else:
            found = USUAL.get(name, [])
        if found is None:
            return None
        request_id = getattr(command.message, "request_id", 0)
        asks = {CommandType.PONG, CommandType.PING, CommandType.CONNECTED, CommandType.AUTH_CHALLENGE}
        pushed = {CommandType.ACTIVE_CONSUMER_CHANGE, CommandType.MESSAGE}
        return [
            (kind, fields if kind in asks | pushed else {"request_id": request_id, **fields})
            for kind, fields in found
        ]


USUAL: dict[str, list[Answer]] = {
    "CONNECT": [(CommandType.CONNECTED, {"server_version": "scripted"})],
    "LOOKUP": [(CommandType.LOOKUP_RESPONSE, {"response": LookupType.CONNECT, "brokerServiceUrl": ""})],
    "SUBSCRIBE": [(CommandType.SUCCESS, {})],
    "ACK": [(CommandType.ACK_RESPONSE, {"consumer_id": 1})],
    "CLOSE_CONSUMER": [(CommandType.SUCCESS, {})],
}


def command(kind: CommandType, **fields: Any) -> bytes:
    """Return a command as a frame."""
    name = "Command" + kind.name.title().replace("_", "")
    name = {"CommandLookupResponse": "CommandLookupTopicResponse"}.get(name, name)
    return frame(encode(kind, messages.message(name)(**fields)))


@contextmanager
def scripted(script: Script, change: Callable[[Script], None] = lambda _: None) -> Iterator[Script]:
    """Serve a script for the length of a `with` block."""

    def talk(client: socket.socket) -> None:
        script.connections += 1
        reader = FrameReader()
        with client:
            while data := client.recv(1 << 16):
                for each in reader.feed(data):
                    answers = script.answer(decode(each.command))
                    if answers is None:
                        return
                    client.sendall(b"".join(command(kind, **fields) for kind, fields in answers))

    with listening(talk) as script.url:
        change(script)
        yield script
