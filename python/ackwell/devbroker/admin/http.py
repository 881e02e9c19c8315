"""A small HTTP/1.1 server on asyncio: sequential requests on a connection, answers in JSON.

It uses no library: a dozen lines parse the requests of admin clients, and a web framework would be the dev
broker's only dependency in addition to protobuf. Head and body of a request are limited.
"""

from __future__ import annotations

import asyncio
import json
import logging
from http import HTTPStatus
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

from ackwell.devbroker.admin.requests import Backend, HttpError, Raw, Request
from ackwell.devbroker.admin.routes import route
from ackwell.devbroker.refused_commands import CommandRefusedError
from ackwell.errors import ErrorCode

if TYPE_CHECKING:
    from ackwell.devbroker.broker import AsyncBroker

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
    """Answers admin requests on a port; closing it also closes its connections."""

    def __init__(self, broker: AsyncBroker) -> None:
        self._backend = Backend(broker.state, broker.service, broker)
        self._server: asyncio.Server | None = None
        self._talks: set[asyncio.Task[None]] = set()

    async def start(self, host: str, port: int) -> int:
        """Listen on a port, for 0 on any free port; return the port."""
        self._server = await asyncio.start_server(
            self._talk, host, port, limit=HEAD_MAX_BYTES, reuse_address=True
        )
        taken: int = self._server.sockets[0].getsockname()[1]
        return taken

    async def close(self) -> None:
        """Stop listening, and close every connection."""
        if self._server is not None:
            self._server.close()
        for talk in self._talks:
            talk.cancel()
        await asyncio.gather(*self._talks, return_exceptions=True)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._talks.add(task)
        try:
            while (request := await _read(reader)) is not None:
                _write(writer, *await _answer(self._backend, request), head_only=request.method == "HEAD")
                await writer.drain()
        except HttpError as error:
            _write(writer, error.status, {"reason": str(error)})
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, asyncio.CancelledError, OSError):
            pass
        finally:
            self._talks.discard(task)
            writer.close()


async def _read(reader: asyncio.StreamReader) -> Request | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise HttpError(HTTPStatus.BAD_REQUEST, "this is not an HTTP/1 request")
    headers = {
        name.strip().lower(): value.strip() for name, _, value in (each.partition(":") for each in lines)
    }
    try:
        parts = urlsplit(words[1])
    except ValueError as error:
        raise HttpError(HTTPStatus.BAD_REQUEST, str(error)) from None
    query = {name: values[-1] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
    path = [unquote(part) for part in parts.path.split("/") if part]
    body = await _body(reader, headers)
    return Request(words[0].upper(), path, query, body, headers=headers)


async def _body(reader: asyncio.StreamReader, headers: dict[str, str]) -> bytes:
    if headers.get("transfer-encoding", "").lower() == "chunked":
        body = b""
        while size := _number(await reader.readuntil(b"\r\n"), 16):
            if len(body) + size > BODY_MAX_BYTES:
                raise HttpError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"more than {BODY_MAX_BYTES} bytes")
            body += (await reader.readexactly(size + 2))[:-2]
        await reader.readuntil(b"\r\n")
        return body
    size = _number(headers.get("content-length", "0").encode(), 10)
    if size > BODY_MAX_BYTES:
        raise HttpError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"more than {BODY_MAX_BYTES} bytes")
    return await reader.readexactly(size)


def _number(text: bytes, base: int) -> int:
    try:
        number = int(text.split(b";")[0].strip() or b"0", base)
    except ValueError:
        raise HttpError(HTTPStatus.BAD_REQUEST, f"{text!r} is not a valid size") from None
    if number < 0:
        raise HttpError(HTTPStatus.BAD_REQUEST, f"a size of {number}")
    return number


async def _answer(backend: Backend, request: Request) -> tuple[HTTPStatus, Any]:
    try:
        answer = route(backend, request)
        if isawaitable(answer):
            answer = await answer
    except CommandRefusedError as refusal:
        return _STATUS.get(refusal.code, HTTPStatus.CONFLICT), {"reason": str(refusal)}
    except HttpError as error:
        return error.status, {"reason": str(error)}
    except Exception as error:
        # A bug in the dev broker fails this request only.
        log.exception("%s /%s: an error in the dev broker", request.method, "/".join(request.path))
        return HTTPStatus.INTERNAL_SERVER_ERROR, {"reason": f"an error in the dev broker: {error!r}"}
    finally:
        backend.state.shared.run_woken()
    return (HTTPStatus.NO_CONTENT if answer is None else HTTPStatus.OK), answer


def _write(writer: asyncio.StreamWriter, status: HTTPStatus, answer: Any, *, head_only: bool = False) -> None:
    body = _body_of(answer)
    head = f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: application/json\r\n"
    if isinstance(answer, Raw):
        head += "".join(f"{name}: {value}\r\n" for name, value in answer.headers.items())
    if status is not HTTPStatus.NO_CONTENT:
        head += f"Content-Length: {len(body)}\r\n"
    writer.write((head + "\r\n").encode() + (b"" if head_only else body))


def _body_of(answer: Any) -> bytes:
    match answer:
        case None:
            return b""
        case Raw(body, _):
            return body
        case str():
            return answer.encode()
    return json.dumps(answer).encode()
