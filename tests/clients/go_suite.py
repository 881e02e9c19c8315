"""The official Go client's own test suite against the dev broker: `make lab-test-go SUITE=…`.

    python -m tests.clients.go_suite SUITE [go test arguments]

SUITE is a writable copy of the module `github.com/apache/pulsar-client-go`. The suite connects to the default
ports 6650, 6651, 8080 and 8443 of this machine, so no other broker may use them. Tests that start containers
never run. The last lines name the tests that failed and count all tests.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ackwell.devbroker import Broker, DevBrokerSettings

NEVER = (
    "TestConsumerKeepReconnectingAndThenCallClose",
    "TestReconnectConsumer",
    "TestReconnectedBrokerSendPermits",
    "TestProducerKeepReconnectingAndThenCallClose",
    "TestSendAsyncCouldTimeoutWhileReconnecting",
)
"""Tests that start containers."""

SETTINGS = DevBrokerSettings(
    namespaces=("public/default", "private/auth"),
    max_message_bytes=1 << 20,
    key_shared_consistent_hashing=False,
)


def authenticate(method: str, data: bytes) -> str | None:
    """Return a role for the credentials of the suite."""
    if method == "basic" and data != b"admin:123456":
        raise PermissionError("Authentication failed: wrong user or password")
    if method == "token" and data.count(b".") != 2:
        raise PermissionError("Authentication failed: not a token")
    return method if method in ("basic", "token", "tls") else None


def authorize(role: str | None, namespace: str) -> bool:
    """Return whether a role may use a namespace; `private/auth` requires a role."""
    return namespace != "private/auth" or role is not None


async def _forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Forward one direction of a connection."""
    try:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


async def _decrypt(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Connect a connection with TLS to the admin API, which has none."""
    admin = await asyncio.open_connection("127.0.0.1", 8080)
    await asyncio.gather(_forward(reader, admin[1]), _forward(admin[0], writer))


@contextmanager
def https(broker: Broker, tls: ssl.SSLContext) -> Iterator[None]:
    """Listen with TLS for the admin API."""
    server = broker.wait(asyncio.start_server(_decrypt, "127.0.0.1", 8443, ssl=tls))
    yield
    broker.call(server.close)


def run(suite: Path, arguments: list[str]) -> int:
    """Run the suite, print the counts, and return the number of failed tests."""
    certs = suite / "integration-tests" / "certs"
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certs / "broker-cert.pem", certs / "broker-key.pem")
    command = ["go", "test", "-json", "-count=1", f"-skip=^({'|'.join(NEVER)})$", "-timeout=40m"]
    results: dict[str, str] = {}
    with (
        Broker(
            port=6650,
            admin_port=8080,
            tls=tls,
            tls_port=6651,
            advertised_host="localhost",
            authenticate=authenticate,
            authorize=authorize,
            settings=SETTINGS,
        ) as broker,
        https(broker, tls),
        subprocess.Popen(
            [*command, *(arguments or ["./pulsar"])], cwd=suite, stdout=subprocess.PIPE, text=True
        ) as process,
    ):
        assert process.stdout is not None
        for line in process.stdout:
            event = json.loads(line) if line.startswith("{") else {}
            if event.get("Action") in ("pass", "fail", "skip") and event.get("Test"):
                results[event["Test"]] = event["Action"]
            elif event.get("Action") == "output":
                sys.stderr.write(event["Output"])
    failed = sorted(name for name, result in results.items() if result == "fail")
    print(*failed, sep="\n")
    print(f"{len(results)} tests: {dict(Counter(results.values()))}")
    return len(failed)


if __name__ == "__main__":
    if not any(sys.argv[1:]) or not Path(sys.argv[1], "go.mod").exists():
        print("skipped: no suite; pass a copy of the module github.com/apache/pulsar-client-go")
        sys.exit(0)
    sys.exit(min(run(Path(sys.argv[1]), sys.argv[2:]), 1))
