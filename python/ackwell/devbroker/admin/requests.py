"""Requests to the admin API, and their answers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ackwell.devbroker.broker_state import parse_topic_name

if TYPE_CHECKING:
    from asyncio import BaseTransport

    from ackwell.devbroker.auth import Service
    from ackwell.devbroker.broker import AsyncBroker
    from ackwell.devbroker.broker_state import BrokerState
    from ackwell.protocol.topic_name import TopicName


class Raw(NamedTuple):
    """An answer that consists of bytes and extra headers."""

    body: bytes
    headers: dict[str, str]
    status: HTTPStatus = HTTPStatus.OK


OK: Final = Raw(b"", {})
"""The answer 200 without a body, which Pulsar gives to some requests that change something."""

NO_CONTENT: Final = Raw(b"", {}, HTTPStatus.NO_CONTENT)
"""The answer 204, which Pulsar gives to some requests for a missing value."""


STORED_ONLY: Final = {"X-Ackwell-Policy": "stored only"}
"""The header of an answer for a policy or a setting that the dev broker does not apply."""


class HttpError(Exception):
    """An error answer with its HTTP status."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status


@dataclass
class Request:
    """One HTTP request, with the broker that answers it."""

    broker: AsyncBroker
    method: str
    path: str
    """The path with escapes."""
    query: Mapping[str, str]
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    """The parameters of the route."""
    role: str | None = None
    transport: BaseTransport | None = None
    """The connection, which has the client's certificate."""
    notes: dict[str, str] = field(default_factory=dict)
    """Headers of the answer."""

    @property
    def state(self) -> BrokerState:
        """The state of the broker."""
        return self.broker.state

    @property
    def service(self) -> Service:
        """The addresses and access rules of the broker."""
        return self.broker.service

    def json(self) -> Any:
        """Return the decoded JSON body; None if it is empty, 400 if it is not JSON."""
        try:
            return json.loads(self.body) if self.body.strip() else None
        except ValueError:
            raise HttpError(HTTPStatus.BAD_REQUEST, "the body is not JSON") from None

    def object(self) -> dict[str, Any]:
        """Return the JSON object in the body; empty for an empty body, 400 for any other value."""
        given = self.json()
        if given is not None and not isinstance(given, dict):
            raise HttpError(HTTPStatus.BAD_REQUEST, "the body is not a JSON object")
        return given or {}

    def texts(self) -> list[str]:
        """Return the JSON list of texts in the body; empty for an empty body, 400 for any other value."""
        given = self.json() or []
        if not isinstance(given, list) or not all(isinstance(each, str) for each in given):
            raise HttpError(HTTPStatus.BAD_REQUEST, "the body is not a list of texts")
        return given

    def flag(self, name: str, *, default: bool = False) -> bool:
        """Return a boolean parameter of the query."""
        return self.query.get(name, str(default)).lower() == "true"

    @cached_property
    def topic(self) -> TopicName:
        """The topic in the path; the request is refused if the role may not use the topic."""
        names = self.names
        domain = names.get("domain", "persistent")
        found = parse_topic_name(f"{domain}://{self.namespace}/{names['topic']}")
        self.service.authorize(self.role, found)
        return found

    @property
    def namespace(self) -> str:
        """The namespace in the path."""
        return f"{self.names['tenant']}/{self.names['namespace']}"


def message_id(ledger_id: int, entry_id: int, partition: int) -> dict[str, int]:
    """Return a message id in Pulsar's JSON form."""
    return {
        "ledgerId": ledger_id,
        "entryId": entry_id,
        "partitionIndex": partition,
        "batchIndex": -1,
        "batchSize": 0,
    }


def number(text: str) -> int:
    """Parse a number in a path; 400 for any other text."""
    if not text.isdecimal() or len(text) > 18:
        raise HttpError(HTTPStatus.BAD_REQUEST, f"{text!r} is not a number")
    return int(text)
