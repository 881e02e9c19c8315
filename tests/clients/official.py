"""The official Python client's own test suite against the dev broker: `make lab-test-clients SUITE=…/tests`.

    python -m tests.clients.official SUITE [--record] [pytest arguments]

The suite is copied to a temporary folder with its ports replaced, so that it does not collide with a broker
on this machine or with another run. Four tests that connect to an address outside this machine never run,
nor do tests that need containers or an external identity provider. With `--record`, the clients without TLS
connect through `ackwell record`, and the replay is compared with the broker at the end.
"""

from __future__ import annotations

import os
import ssl
import subprocess
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path

from ackwell.devbroker import Broker, DevBrokerSettings
from tests.clients.recorded import recorded

NEVER = (
    "test_connect_timeout",
    "test_auto_cluster_failover_argument_errors",
    "test_auto_cluster_failover_client",
    "test_service_info_provider_client",
)
"""Tests that connect to 192.0.2.x."""

OUT_OF_SCOPE = ("auto_cluster_failover_test.py", "oauth2_test.py")
"""Tests that start containers or ask an identity provider on the internet."""

MODULES = (
    "pulsar_test.py",
    "reader_test.py",
    "table_view_test.py",
    "schema_test.py",
    "asyncio_test.py",
    "custom_logger_test.py",
    "debug_logger_test.py",
    "interrupted_test.py",
)


SETTINGS = DevBrokerSettings(namespaces=("public/default", "public/default-2", "private/auth"))


def authenticate(method: str, data: bytes) -> str | None:
    """Return a role for the credentials of the suite; refuse a wrong password."""
    if method == "basic":
        if data != b"admin:123456":
            raise PermissionError("Authentication failed: wrong user or password")
        return "admin"
    return "suite" if method in ("token", "tls") else None


def authorize(role: str | None, namespace: str) -> bool:
    """Return whether a role may use a namespace; `private/auth` requires a role."""
    return namespace != "private/auth" or role is not None


def copied(suite: Path, folder: Path, ports: dict[str, int]) -> Path:
    """Copy the suite, with other ports and another token."""
    for path in suite.rglob("*"):
        target = folder / path.relative_to(suite)
        if path.is_dir():
            target.mkdir(exist_ok=True)
        elif path.suffix == ".py":
            text = path.read_text(encoding="utf-8")
            for old, new in ports.items():
                text = text.replace(f"localhost:{old}", f"127.0.0.1:{new}")
            target.write_text(text, encoding="utf-8")
        else:
            target.write_bytes(path.read_bytes())
    (folder / ".test-token.txt").write_text("a.token.of.ours")
    return folder


def run(suite: Path, arguments: list[str]) -> int:
    """Run the suite, and return the exit code of its pytest."""
    conf = suite / "test-conf"
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(conf / "broker-cert.pem", conf / "broker-key.pem")
    with (
        tempfile.TemporaryDirectory() as folder,
        Broker(tls=tls, authenticate=authenticate, authorize=authorize, settings=SETTINGS) as broker,
        recorded(broker.url, broker.admin_url) if "--record" in arguments else nullcontext(broker.url) as url,
    ):
        urls = {"6650": url, "6651": broker.tls_url or "", "8080": broker.admin_url}
        ports = {old: int(url.rpartition(":")[2]) for old, url in urls.items()}
        copy = copied(suite, Path(folder), ports)
        # The tests of the suite rely on their order.
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:randomly"]
        for name in NEVER:
            command += ["--deselect", f"pulsar_test.py::PulsarTest::{name}"]
        command += [module for module in MODULES if (copy / module).exists()]
        command += [each for each in arguments if each != "--record"]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        return subprocess.run(command, cwd=copy, env=env, check=False).returncode


if __name__ == "__main__":
    if len(sys.argv) < 2 or not Path(sys.argv[1], "pulsar_test.py").exists():
        print("skipped: no suite; pass the tests folder of a checkout of apache/pulsar-client-python")
        sys.exit(0)
    sys.exit(run(Path(sys.argv[1]), sys.argv[2:]))
