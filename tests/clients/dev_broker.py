"""`ackwell dev-broker` as a process, for the suites of clients in other languages."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

ADMIN = "http://127.0.0.1:8080"


@contextmanager
def dev_broker(*options: str) -> Iterator[None]:
    """Run `ackwell dev-broker` with options while the block runs."""
    command = [sys.executable, "-m", "ackwell", "dev-broker", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            if not process.stdout.readline():
                raise RuntimeError(f"{' '.join(command)} did not start")
            yield
        finally:
            process.terminate()


def admin(method: str, path: str, body: Any = None) -> None:
    """Send a request to the admin API of the default port."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{ADMIN}/admin/v2/{path}", data, headers, method=method)
    urllib.request.urlopen(request, timeout=10).close()
