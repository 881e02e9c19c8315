"""Requests to the admin API, and their answers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ackwell.devbroker.broker_state import parse_topic_name

if TYPE_CHECKING:
    from asyncio import BaseTransport

    from ackwell.devbroker.async_broker import AsyncBroker
    from ackwell.devbroker.auth import Service
    from ackwell.devbroker.broker_state import BrokerState
    from ackwell.protocol.topic_name import TopicName


class RawAnswer(NamedTuple):
    """An answer whose body is bytes instead of JSON, with extra headers and a status."""

    body: bytes
    headers: dict[str, str]
    status: HTTPStatus = HTTPStatus.OK


OK: Final = RawAnswer(b"", {})
"""The answer 200 with an empty body. Pulsar gives it to some requests that change something."""

NO_CONTENT: Final = RawAnswer(b"", {}, HTTPStatus.NO_CONTENT)
"""The answer 204. Pulsar gives it to some requests for a value that does not exist."""


STORED_ONLY: Final = {"X-Ackwell-Policy": "stored only"}
"""The header that marks an answer if the dev broker stores a policy or setting but does not apply it."""


class HttpError(Exception):
    """An error. The broker answers the request with the HTTP status `status` and the error's message."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status


@dataclass
class Request:
    """One HTTP request, and the broker that answers it."""

    broker: AsyncBroker
    method: str
    path: str
    """The path as the client sent it, with percent escapes."""
    query: Mapping[str, str]
    body: bytes = b""
    _: KW_ONLY
    headers: Mapping[str, str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    """The values of the route's path parameters, by name."""
    role: str | None = None
    transport: BaseTransport | None = None
    """The connection of the request. It provides the client's certificate."""
    notes: dict[str, str] = field(default_factory=dict)
    """Headers to add to the answer."""

    @property
    def state(self) -> BrokerState:
        """The state of the broker."""
        return self.broker.state

    @property
    def service(self) -> Service:
        """The addresses and access rules of the broker."""
        return self.broker.service

    def json(self) -> Any:
        """Return the decoded JSON body. None if the body is empty; 400 if it is not JSON."""
        try:
            return json.loads(self.body) if self.body.strip() else None
        except ValueError:
            raise HttpError(HTTPStatus.BAD_REQUEST, "the body is not JSON") from None

    def object(self) -> dict[str, Any]:
        """Return the body as a JSON object.

        An empty body is an empty object; 400 for any other JSON value.
        """
        given = self.json()
        if given is not None and not isinstance(given, dict):
            raise HttpError(HTTPStatus.BAD_REQUEST, "the body is not a JSON object")
        return given or {}

    def texts(self) -> list[str]:
        """Return the body as a list of strings.

        An empty body is an empty list; 400 for any other JSON value.
        """
        given = self.json() or []
        if not isinstance(given, list) or not all(isinstance(each, str) for each in given):
            raise HttpError(HTTPStatus.BAD_REQUEST, "the body is not a list of texts")
        return given

    def flag(self, name: str, *, default: bool = False) -> bool:
        """Return a boolean query parameter, or `default` if the query does not have it."""
        return self.query.get(name, str(default)).lower() == "true"

    @cached_property
    def topic(self) -> TopicName:
        """The topic in the path. Access raises `CommandRefusedError` if the role may not use the topic."""
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
    """Parse an integer in a path. 400 if the text is not an integer."""
    if not text.isdecimal() or len(text) > 18:
        raise HttpError(HTTPStatus.BAD_REQUEST, f"{text!r} is not a number")
    return int(text)
