"""A local S3 server: moto stores the objects, and a guard checks credentials and regions and makes faults."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="needs the extra [parquet]")
pytest.importorskip("moto", reason="needs the group of dependencies `object-store`")

from moto.moto_server.werkzeug_app import create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server

KEY, SECRET, REGION, BUCKET = "AKIDEXAMPLE", "sEcReT-KeY", "eu-west-1", "events"

Environ = dict[str, Any]
Fault = Callable[[Environ], bool]
"""Called before a request is answered; it returns whether the answer is 400."""


class Server:
    """A running server."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str]] = []
        self.fault: Fault = lambda _: False
        self._app = create_backend_app("s3")

    def __call__(self, environ: Environ, start_response: Any) -> Iterable[bytes]:
        self.requests.append((environ["REQUEST_METHOD"], environ["PATH_INFO"]))
        error = self._refusal(environ.get("HTTP_AUTHORIZATION", ""))
        if self.fault(environ):
            error = "400 Bad Request", "InvalidArgument"
        if error is not None:
            status, code = error
            body = (
                f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{code}</Message></Error>".encode()
            )
            start_response(status, [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))])
            return [] if environ["REQUEST_METHOD"] == "HEAD" else [body]
        answer: Iterable[bytes] = self._app(environ, start_response)
        return answer

    def _refusal(self, authorization: str) -> tuple[str, str] | None:
        """Return the answer of S3 to a wrong key, a wrong region or a missing permission."""
        scope = re.search(r"Credential=([^/]*)/\d+/([^/]*)/s3/", authorization)
        key, region = scope.groups() if scope else ("", "")
        if key == "DENIED":
            return "403 Forbidden", "AccessDenied"
        if key == "WRONGSECRET":
            return "403 Forbidden", "SignatureDoesNotMatch"
        if key != KEY:
            return "403 Forbidden", "InvalidAccessKeyId"
        if region != REGION:
            return "400 Bad Request", "AuthorizationHeaderMalformed"
        return None


class _Quiet(WSGIRequestHandler):
    def log_request(self, code: object = "-", size: object = "-") -> None:
        pass


@contextmanager
def serving() -> Iterator[tuple[Server, str]]:
    """Serve the bucket `events`, and yield the server and its address."""
    from moto.s3.models import s3_backends

    made = Server()
    server = make_server("127.0.0.1", 0, made, threaded=True, request_handler=_Quiet)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    s3_backends["123456789012"]["global"].create_bucket(BUCKET, REGION)
    try:
        yield made, f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
        s3_backends.reset()
