"""The official Go client's own test suite against the dev broker: `make lab-test-go SUITE=…`.

    python -m tests.clients.go_suite SUITE [--record] [go test arguments]

SUITE is a writable copy of the module `github.com/apache/pulsar-client-go`. The suite connects to the default
ports 6650, 6651, 8080 and 8443 of this machine, so no other broker may use them. Tests that start containers
never run. The last lines name the tests that failed and count all tests. With `--record`, the clients without
TLS connect through `ackwell record`, and the replay is compared with the broker at the end.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from tests.clients.dev_broker import ADMIN, admin, dev_broker
from tests.clients.recorded import recorded

SUITE_PORT: Final = 6650
BROKER_PORT: Final = 16650
"""The port of the broker if its traffic is recorded."""

NEVER = (
    "TestConsumerKeepReconnectingAndThenCallClose",
    "TestReconnectConsumer",
    "TestReconnectedBrokerSendPermits",
    "TestProducerKeepReconnectingAndThenCallClose",
    "TestSendAsyncCouldTimeoutWhileReconnecting",
)
"""Tests that start containers."""


def options(suite: Path) -> list[str]:
    """Return the options that give the dev broker the suite's own configuration, keys and users."""
    folder = suite / "integration-tests"
    return [
        f"--broker-setting={folder / 'conf' / 'standalone.conf'}",
        "--advertised-host=localhost",
        f"--tls-cert={folder / 'certs' / 'broker-cert.pem'}",
        f"--tls-key={folder / 'certs' / 'broker-key.pem'}",
        f"--tls-trust={folder / 'certs' / 'cacert.pem'}",
        f"--token-key={folder / 'tokens' / 'secret.key'}",
        "--user=admin:123456",
    ]


def prepare() -> None:
    """Create the namespaces and permissions, as the suite's `pulsar-test-service-start.sh` does."""
    roles = {"adminRoles": ["anonymous"], "allowedClusters": ["standalone"]}
    admin("POST", "tenants/public", roles)
    admin("POST", "namespaces/public/default/permissions/anonymous", ["produce", "consume"])
    admin("PUT", "tenants/private", {"allowedClusters": ["standalone"]})
    admin("PUT", "namespaces/private/auth")
    admin("POST", "namespaces/private/auth/permissions/token-principal", ["produce", "consume"])


def run(suite: Path, arguments: list[str]) -> int:
    """Run the suite, print the counts, and return the number of failed tests."""
    command = ["go", "test", "-json", "-count=1", f"-skip=^({'|'.join(NEVER)})$", "-timeout=40m"]
    results: dict[str, str] = {}
    given = [each for each in arguments if each != "--record"]
    command += given or ["./pulsar"]
    is_recorded = given != arguments
    port = BROKER_PORT if is_recorded else SUITE_PORT
    with dev_broker(f"--port={port}", *options(suite)), ExitStack() as stack:
        prepare()
        if is_recorded:
            listen = "--listen", f"127.0.0.1:{SUITE_PORT}"
            stack.enter_context(recorded(f"pulsar://127.0.0.1:{port}", ADMIN, *listen))
        with subprocess.Popen(command, cwd=suite, stdout=subprocess.PIPE, text=True) as process:
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
