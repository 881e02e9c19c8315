"""Requests to the admin API, their answers, and the backend of both."""

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
    """The objects that requests read and change."""

    state: BrokerState
    service: Service
    broker: AsyncBroker


class Raw(NamedTuple):
    """An answer of bytes with extra headers."""

    body: bytes
    headers: dict[str, str]


class HttpError(Exception):
    """An error answer with its HTTP status."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status


@dataclass(slots=True)
class Request:
    """One request."""

    method: str
    path: list[str]
    """The unescaped parts of the path."""
    query: dict[str, str]
    body: bytes = b""
    role: str | None = None
    headers: dict[str, str] = field(default_factory=dict)

    def json(self) -> Any:
        """Return the decoded body, None if it is empty; 400 if it is not JSON."""
        try:
            return json.loads(self.body) if self.body.strip() else None
        except ValueError:
            raise HttpError(HTTPStatus.BAD_REQUEST, "the body is not JSON") from None


def number(text: str) -> int:
    """Parse a number in a path; 400 for any other text."""
    if not text.isdecimal() or len(text) > 18:
        raise HttpError(HTTPStatus.BAD_REQUEST, f"{text!r} is not a number")
    return int(text)
