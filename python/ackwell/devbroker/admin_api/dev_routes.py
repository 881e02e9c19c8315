"""Requests by which a test in any language controls the dev broker.

They move the clock, inject faults, crash the broker, and list the messages of topics. Each request calls one
Python method. The query or a JSON object in the body contains the arguments of the method, by name.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from ackwell.devbroker import faults
from ackwell.devbroker.admin_api.requests import HttpError

if TYPE_CHECKING:
    from ackwell.devbroker.admin_api.requests import Request
    from ackwell.devbroker.async_broker import AsyncBroker
    from ackwell.devbroker.tester import Message


def route(request: Request) -> Any:
    """Answer a request to a path below `/dev/`.

    Answers 404 for an unknown path, and for an unknown topic, subscription or consumer. Answers 400 for
    arguments that the method does not accept.
    """
    given = request.object()
    broker = request.broker
    name = request.method, request.path.removeprefix("/dev/").rstrip("/")
    found = _ROUTES.get(name)
    if found is None:
        known = ", ".join(f"{method} /dev/{path}" for method, path in sorted(_ROUTES))
        raise HttpError(HTTPStatus.NOT_FOUND, f"unknown request {name[0]} /dev/{name[1]}; known are {known}")
    try:
        return found(broker, **request.query, **given)
    except KeyError as error:
        raise HttpError(HTTPStatus.NOT_FOUND, str(error.args[0])) from None
    except (TypeError, ValueError) as error:
        raise HttpError(HTTPStatus.BAD_REQUEST, str(error)) from None


def _clock(broker: AsyncBroker) -> Any:
    return {"now_ms": broker.clock.now_ms(), "frozen": broker.clock.frozen}


async def _restart(broker: AsyncBroker, as_: str | None = None) -> Any:
    try:
        done = await broker.restart(as_)
    except ValueError as error:
        raise HttpError(HTTPStatus.BAD_REQUEST, str(error)) from None
    return {"how": done.how, "as": done.as_, "messages": done.messages}


async def _settle(broker: AsyncBroker, timeout_s: float = 10.0, **given: float) -> None:
    try:
        await broker.settle(timeout_s, **given)
    except TimeoutError as error:
        raise HttpError(HTTPStatus.GATEWAY_TIMEOUT, str(error)) from None


def _as_json(message: Message) -> dict[str, Any]:
    return message._asdict() | {"data": b64encode(message.data).decode()}


def _events(broker: AsyncBroker) -> Any:
    fields = (event._asdict().items() for event in broker.events)
    return [{name: value for name, value in each if value is not None} for each in fields]


_ROUTES: Final[dict[tuple[str, str], Callable[..., Awaitable[Any] | Any]]] = {
    ("GET", "clock"): _clock,
    ("POST", "clock/advance"): lambda broker, **given: broker.clock.advance(**given),
    ("POST", "clock/freeze"): lambda broker: broker.clock.freeze(),
    ("POST", "clock/resume"): lambda broker: broker.clock.resume(),
    ("DELETE", "faults"): lambda broker: broker.faults.clear(),
    ("POST", "faults/seed"): lambda broker, seed: broker.faults.seed(seed),
    **{
        ("POST", f"faults/{name}"): lambda broker, _name=name, **given: getattr(broker.faults, _name)(**given)
        for name in faults.NAMES
    },
    ("POST", "crash"): lambda broker: broker.crash(),
    ("POST", "restart"): _restart,
    ("POST", "reset"): lambda broker: broker.reset(),
    ("POST", "settle"): _settle,
    ("POST", "take_back"): lambda broker, **given: broker.take_back(**given),
    ("GET", "messages"): lambda broker, topic: [_as_json(each) for each in broker.messages(topic)],
    ("GET", "backlog"): lambda broker, topic, subscription: [
        _as_json(each) for each in broker.backlog(topic, subscription)
    ],
    ("GET", "events"): _events,
}
"""Maps an HTTP method and a path below `/dev/` to the function that answers the request."""
