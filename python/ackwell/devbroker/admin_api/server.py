"""The HTTP server of the admin API. It uses Starlette's requests and uvicorn's HTTP protocol.

The admin API runs in the event loop of the broker and stops together with the broker. This module therefore
opens the port itself. It does not use uvicorn's `Server`, which installs signal handlers and checks regularly
whether it has to stop.
"""

from __future__ import annotations

import asyncio
import json
import logging
from base64 import b64decode
from binascii import Error as Base64Error
from email.utils import formatdate
from http import HTTPStatus
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Final, cast

import uvicorn
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from uvicorn.server import ServerState

from ackwell.devbroker.admin_api import dev_routes, metrics
from ackwell.devbroker.admin_api.requests import HttpError, RawAnswer, Request
from ackwell.devbroker.admin_api.route_table import route
from ackwell.devbroker.auth import common_name
from ackwell.devbroker.ports import Ports
from ackwell.devbroker.refused_commands import CommandRefusedError
from ackwell.errors import ErrorCode

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from ackwell.devbroker.async_broker import AsyncBroker

HEAD_MAX_BYTES: Final = 64 * 1024
BODY_MAX_BYTES: Final = 1024 * 1024

_STATUS: Final = {
    ErrorCode.TOPIC_NOT_FOUND: HTTPStatus.NOT_FOUND,
    ErrorCode.SUBSCRIPTION_NOT_FOUND: HTTPStatus.NOT_FOUND,
    ErrorCode.AUTHENTICATION_ERROR: HTTPStatus.UNAUTHORIZED,
    ErrorCode.AUTHORIZATION_ERROR: HTTPStatus.FORBIDDEN,
    ErrorCode.INVALID_TOPIC_NAME: HTTPStatus.PRECONDITION_FAILED,
    ErrorCode.CONSUMER_BUSY: HTTPStatus.PRECONDITION_FAILED,
}

log = logging.getLogger("ackwell.devbroker")


class AdminServer:
    """The HTTP server of the admin API, with its ports."""

    def __init__(self, broker: AsyncBroker) -> None:
        self._broker = broker
        self._state = ServerState()
        self._config = uvicorn.Config(
            self._app,
            http="h11",
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            h11_max_incomplete_event_size=HEAD_MAX_BYTES,
        )
        self._config.load()
        self.ports = Ports(self._connection)

    def _connection(self) -> asyncio.Protocol:
        protocol: Any = self._config.http_protocol_class
        # Starlette passes this dictionary to every request of the connection. A request thus finds its
        # transport, and in it the client's certificate.
        state: dict[str, Any] = {}
        state["connection"] = made = protocol(config=self._config, server_state=self._state, app_state=state)
        return cast("asyncio.Protocol", made)

    async def close(self) -> None:
        """Stop listening, cancel the running requests, and close every connection."""
        self.ports.close()
        for task in self._state.tasks:
            task.cancel()
        for connection in list(self._state.connections):
            connection.transport.close()
        await asyncio.gather(*self._state.tasks, return_exceptions=True)

    async def _app(self, scope: Scope, receive: Receive, send: Send) -> None:
        http = HttpRequest(scope, receive)
        status, answer, headers = await self._answer(http)
        headers = {"Content-Type": "application/json", "Date": self._date()} | headers
        body = _body_of(answer)
        if isinstance(answer, RawAnswer):
            headers |= answer.headers
        await Response(b"" if http.method == "HEAD" else body, int(status), headers)(scope, receive, send)

    def _date(self) -> str:
        """Return the `Date` header of an answer. The time is that of the broker's clock."""
        return formatdate(self._broker.clock.now_ms() / 1000, usegmt=True)

    async def _answer(self, http: HttpRequest) -> tuple[HTTPStatus, Any, dict[str, str]]:
        path = http.scope["raw_path"].decode("latin-1")
        request = Request(self._broker, http.method, path, http.query_params, headers=http.headers)
        request.transport = http.scope["state"]["connection"].transport
        try:
            request.body = await _body(http)
            answer = dispatch(request)
            if isawaitable(answer):
                answer = await answer
        except CommandRefusedError as refusal:
            return _STATUS.get(refusal.code, HTTPStatus.CONFLICT), {"reason": str(refusal)}, {}
        except HttpError as error:
            return error.status, {"reason": str(error)}, {}
        except Exception as error:
            # A bug in the dev broker fails only this request.
            log.exception("%s %s: an error in the dev broker", request.method, path)
            reason = f"an error in the dev broker: {error!r}"
            return HTTPStatus.INTERNAL_SERVER_ERROR, {"reason": reason}, {}
        finally:
            self._broker.state.shared.run_woken()
        if isinstance(answer, RawAnswer):
            return answer.status, answer, request.notes
        # For a request that reads a missing value, a Pulsar broker answers 200 with an empty body.
        empty = answer is None and request.method != "GET"
        return (HTTPStatus.NO_CONTENT if empty else HTTPStatus.OK), answer, request.notes


def dispatch(request: Request) -> Any:
    """Answer a request. Return the value to write as JSON, or None for an answer without a body."""
    if request.path.startswith("/dev/"):
        return dev_routes.route(request)
    if request.broker.crashed:
        raise HttpError(HTTPStatus.SERVICE_UNAVAILABLE, "the dev broker crashed; POST /dev/restart starts it")
    request.role = _role(request)
    if request.path in ("/metrics", "/metrics/"):
        return metrics.metrics(request)
    return route(request)


async def _body(http: HttpRequest) -> bytes:
    body = b""
    async for chunk in http.stream():
        body += chunk
        if len(body) > BODY_MAX_BYTES:
            raise HttpError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"more than {BODY_MAX_BYTES} bytes")
    return body


def _body_of(answer: Any) -> bytes:
    match answer:
        case None:
            return b""
        case RawAnswer(body):
            return body
    return json.dumps(answer).encode()


def _role(request: Request) -> str | None:
    scheme, _, credentials = request.headers.get("authorization", "").partition(" ")
    method = request.headers.get("x-pulsar-auth-method-name", "")
    if scheme.lower() == "basic":
        try:
            return request.service.authenticate(method or "basic", b64decode(credentials))
        except Base64Error:
            raise HttpError(HTTPStatus.UNAUTHORIZED, "the credentials are not base64") from None
    if scheme.lower() == "bearer":
        return request.service.authenticate(method or "token", credentials.encode())
    if not method and common_name(request.transport):
        method = "tls"
    return request.service.authenticate(method, b"", request.transport)
