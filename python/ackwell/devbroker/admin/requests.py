"""Requests to the admin API, their answers, and what they are answered from."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from ackwell.devbroker.auth import Service
    from ackwell.devbroker.broker import AsyncBroker
    from ackwell.devbroker.broker_state import BrokerState


class Backend(NamedTuple):
    """What requests are answered from."""

    state: BrokerState
    service: Service
    broker: AsyncBroker


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
