"""Requests to the admin API, their answers, and what they are answered from."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from ackwell.devbroker.auth import Service
    from ackwell.devbroker.broker_state import BrokerState
    from ackwell.devbroker.clock import Clock
    from ackwell.devbroker.faults import Faults
    from ackwell.devbroker.restarts import RestartReport
    from ackwell.devbroker.tester import Message
    from ackwell.replay.events import Event


class Tested(Protocol):
    """What a test asks of the broker itself; `AsyncBroker` has it."""

    state: BrokerState
    service: Service
    clock: Clock
    crashed: bool

    @property
    def faults(self) -> Faults:
        """What goes wrong on purpose."""

    @property
    def events(self) -> list[Event]:
        """What happened."""

    async def settle(self, timeout_s: float = 10.0) -> None:
        """Wait until nothing is on its way."""

    async def take_back(self, consumer: str, messages: Any = None, *, subscription: str | None = None) -> int:
        """Take messages back from a consumer, and deliver them again."""

    def messages(self, topic: str) -> list[Message]:
        """Return what a topic holds."""

    def backlog(self, topic: str, subscription: str) -> list[Message]:
        """Return what a subscription has left."""

    def reset(self) -> None:
        """Forget everything."""

    def crash(self) -> None:
        """End as `kill -9` does."""

    async def restart(self, as_: str | None = None) -> RestartReport:
        """Start again, with what was kept."""


class Backend(NamedTuple):
    """What requests are answered from."""

    state: BrokerState
    service: Service
    broker: Tested


class Raw(NamedTuple):
    """An answer that is bytes, with headers of its own."""

    body: bytes
    headers: dict[str, str]


class HttpError(Exception):
    """An answer with another status than 200."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status


@dataclass(slots=True)
class Request:
    """One request."""

    method: str
    path: list[str]
    """The parts of the path, with their escapes undone."""
    query: dict[str, str]
    body: bytes = b""
    role: str | None = None
    headers: dict[str, str] = field(default_factory=dict)

    def json(self) -> Any:
        """Return the body, None for an empty one; 400 for what is not JSON."""
        try:
            return json.loads(self.body) if self.body.strip() else None
        except ValueError:
            raise HttpError(HTTPStatus.BAD_REQUEST, "the body is not JSON") from None


def number(text: str) -> int:
    """Read a number of a path; 400 for anything else."""
    if not text.isdecimal() or len(text) > 18:
        raise HttpError(HTTPStatus.BAD_REQUEST, f"{text!r} is not a number")
    return int(text)
