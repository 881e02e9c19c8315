"""A fake admin API of a Pulsar cluster, with faults on demand, on 127.0.0.1."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import unquote

from tests.broker.answers import answer, holes

Fault = Callable[["FakeBroker"], None]
"""Answers a request in a custom way."""


class Server(ThreadingHTTPServer):
    """An HTTP server with a queue for the connections of all threads of a client.

    In the default queue of five, the sixth connection is dropped and repeated by the client's kernel a second
    later.
    """

    request_queue_size = 128


class FakeBroker(BaseHTTPRequestHandler):
    """The part of the admin API that the commands use."""

    asked: ClassVar[list[tuple[str, str, str | None]]] = []
    answers: ClassVar[dict[str, Any]] = {}
    """By path: JSON, bytes as they are, a code, an address to redirect to, or a `Fault`."""

    def do_GET(self) -> None:
        self.asked.append((self.command, self.path, self.headers.get("Authorization")))
        self.answer(self.answers.get(self.path))

    def answer(self, value: Any) -> None:
        """Send the answer that a value describes."""
        if callable(value):
            value(self)
        elif isinstance(value, str) and value.startswith("http"):
            self.send_response(307)
            self.send_header("Location", value)
            self.end_headers()
        elif isinstance(value, int):
            self.reply(value, b'{"reason":"as the test wants it"}')
        elif value is None:
            self.reply(404, b'{"reason":"Topic not found"}')
        else:
            self.reply(200, value if isinstance(value, bytes) else json.dumps(value).encode())

    do_POST = do_PUT = do_DELETE = do_GET  # noqa: N815

    def reply(self, code: int, body: bytes) -> None:
        """Send a whole answer."""
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


def guarded(answers: dict[str, Any], accepts: Callable[[str | None], bool]) -> dict[str, Any]:
    """Return the answers of a broker that refuses other credentials with 401."""

    def guard(value: Any) -> Fault:
        def fault(handler: FakeBroker) -> None:
            accepted = accepts(handler.headers.get("Authorization"))
            handler.answer(value) if accepted else handler.reply(401, b'{"reason":"Unauthorized"}')

        return fault

    return {path: guard(value) for path, value in answers.items()}


@contextmanager
def broker(
    answers: dict[str, Any], certificate: Path | None = None, host: str = "127.0.0.1"
) -> Iterator[tuple[str, list[tuple[str, str, str | None]]]]:
    """Serve these answers; yield the address and the list of requests (method, path, credentials)."""
    handler = type("Handler", (FakeBroker,), {"asked": [], "answers": answers})
    server = Server((host, 0), handler)
    scheme = "http"
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        scheme = "https"
    # A short poll interval makes closing fast.
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"{scheme}://{host}:{server.server_port}", handler.asked  # type: ignore[attr-defined]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def served(*topics: str) -> dict[str, Any]:
    """Return the answers of a cluster that has these topics (quoted) in shop/eu, each with 12,000 holes."""
    topics = topics or ("orders",)
    told = answer(holes(12_000))
    answers: dict[str, Any] = {
        "/admin/v2/tenants": ["shop"],
        "/admin/v2/namespaces/shop": ["shop/eu"],
        "/admin/v2/persistent/shop/eu": [f"persistent://shop/eu/{unquote(topic)}" for topic in topics],
        "/admin/v2/clusters": ["standalone"],
        "/admin/v2/brokers/standalone": ["127.0.0.1:8080"],
        "/admin/v2/brokers/version": b"4.2.4",
        "/admin/v2/brokers/configuration/runtime": {
            "managedLedgerMaxUnackedRangesToPersist": "10000",
            "brokerName": "b",
        },
        "/admin/v2/brokers/configuration/values": {},
    }
    for topic in topics:
        base = f"/admin/v2/persistent/shop/eu/{topic}"
        answers |= {f"{base}/internalStats": told["internalStats"], f"{base}/stats": told["stats"]}
    return answers
