"""Run Apache Pulsar's code: the recovery probe and a broker."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import socket
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

BIN = Path(__file__).parent / "kit" / "bin"
VERSIONS = ("4.2.4", "4.0.7", "5.0.0-M1", "5.0.1")
"""The brokers that the kit builds and starts; the probe is of the first alone."""


def missing() -> str | None:
    """Return the program that the kit needs and this machine lacks; None if it has all."""
    for program in ("java", "mvn", "curl", "bash"):
        if shutil.which(program) is None:
            return f"{program} is not installed; the kit needs Java >= 17, Maven and curl"
    version = subprocess.run(["java", "-version"], check=True, capture_output=True, text=True).stderr
    found = re.search(r'version "(\d+)', version)
    if found is None or int(found[1]) < 17:
        return f"Java >= 17 is needed, found {version.splitlines()[0]}"
    return None


class Case(NamedTuple):
    """Bytes for the probe, and their ledgers; `options` as `RecoverProbe` names them."""

    ledgers: Mapping[int, int]
    position: bytes | None = None
    cursor_info: bytes | None = None
    options: Mapping[str, bool] = {}

    def question(self) -> dict[str, Any]:
        """Return the case in the format of the probe."""
        encoded = {"position": self.position, "cursorInfo": self.cursor_info}
        return {
            "ledgers": {str(ledger_id): entries for ledger_id, entries in self.ledgers.items()},
            **{name: base64.b64encode(data).decode() for name, data in encoded.items() if data is not None},
            **self.options,
        }


def probe(cases: Iterable[Case]) -> list[dict[str, Any]]:
    """Recover each case with the broker's code, in one JVM; return the recovered states in order."""
    questions = [json.dumps(case.question()) for case in cases]
    done = subprocess.run(
        [BIN / "probe.sh"], input="\n".join(questions) + "\n", capture_output=True, text=True, check=False
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    if done.returncode or len(answers) != len(questions):
        raise RuntimeError(f"the probe answered {len(answers)} of {len(questions)} cases:\n{done.stderr}")
    return answers


def decoded(text: str) -> bytes:
    """Read the base64 of an answer."""
    return base64.b64decode(text)


class Ports(NamedTuple):
    """The ports of a broker on 127.0.0.1."""

    binary: int
    admin: int
    side_door: int
    bookie: int

    @classmethod
    def free(cls) -> Ports:
        """Return four free ports."""
        with ExitStack() as stack:
            sockets = [stack.enter_context(socket.socket()) for _ in cls._fields]
            for each in sockets:
                each.bind(("127.0.0.1", 0))
            return cls(*(each.getsockname()[1] for each in sockets))


class Broker:
    """A broker for one test: `version` of Apache Pulsar on free ports, with its data in `folder`."""

    def __init__(self, folder: Path, version: str = VERSIONS[0]) -> None:
        self.version = version
        self.ports = Ports.free()
        self.service_url = f"pulsar://127.0.0.1:{self.ports.binary}"
        self._environment = {
            **os.environ,
            "ACKWELL_PULSAR_VERSION": version,
            "ACKWELL_PULSAR_DATA": str(folder),
            "ACKWELL_PULSAR_PORTS": " ".join(map(str, self.ports)),
        }
        self._settings: dict[str, str] = {}
        self._before_changes: dict[str, str] = {}
        """The value that each setting had before `configure` changed it."""

    def start(self, **settings: str) -> None:
        """Start the broker on its earlier data; the settings also hold for later starts."""
        self._settings.update(settings)
        self._before_changes.clear()
        self._run("start.sh", *(f"{key}={value}" for key, value in self._settings.items()))

    def stop(self, *, crash: bool = False) -> None:
        """Stop it gracefully, or with kill -9."""
        self._run("stop.sh", *(["-9"] if crash else []))

    def cursor(self, topic: str, subscription: str) -> dict[str, Any]:
        """Return the cursor in the broker's memory."""
        found: dict[str, Any] = json.loads(self._door("cursor", topic=topic, sub=subscription))
        return found

    def subscription(self, topic: str, subscription: str) -> dict[str, Any]:
        """Return the cursor, the consumers and the dispatcher in the broker's memory."""
        found: dict[str, Any] = json.loads(self._door("subscription", topic=topic, sub=subscription))
        return found

    def configure(self, **settings: object) -> None:
        """Change settings of the running broker for topics that it loads later.

        Settings that an earlier call changed, and that are not given now, get their first value back.
        """
        if settings.keys() - self._before_changes.keys():
            runtime = self.admin("GET", "brokers/configuration/runtime")
            self._before_changes = {name: runtime[name] for name in settings} | self._before_changes
        changes = self._before_changes | {name: str(value).lower() for name, value in settings.items()}
        if changes:
            self._door("conf", **changes)

    def flush(self, topic: str, subscription: str) -> None:
        """Write the cursor."""
        self._door("flush", topic=topic, sub=subscription)

    def forge(self, topic: str, subscription: str, ledger_id: int) -> None:
        """Acknowledge the first five entries of a ledger that does not exist."""
        self._door("forge", topic=topic, sub=subscription, ledger=str(ledger_id))

    def cancel_read(self, topic: str, subscription: str) -> None:
        """Cancel the cursor's waiting read; the dispatcher still expects its end."""
        assert json.loads(self._door("cancel-read", topic=topic, sub=subscription))

    def last_entry(self, ledger_id: int) -> bytes:
        """Read the newest entry of a ledger."""
        return self._door("entry", ledger=str(ledger_id))

    def admin(self, method: str, path: str, body: object = None) -> Any:
        """Send a request to the admin API (`/admin/v2/…`); return its JSON, `None` for an empty answer."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.ports.admin}/admin/v2/{path}",
            data=data,
            method=method,
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def create_namespace(self, name: str) -> None:
        """Create `public/<name>`, in one bundle.

        A broker loads all topics of a bundle at once, under the current settings. Topics with different
        settings need different namespaces.
        """
        bundles = {"boundaries": ["0x00000000", "0xffffffff"], "numBundles": 1}
        self.admin("PUT", f"namespaces/public/{name}", {"bundles": bundles})

    def _run(self, script: str, *arguments: str) -> None:
        # To a file: the broker inherits the output, and a pipe would stay open until the broker ends.
        output = Path(self._environment["ACKWELL_PULSAR_DATA"]) / f"{script}.log"
        with output.open("w") as sink:
            done = subprocess.run(
                [BIN / script, *arguments],
                env=self._environment,
                stdout=sink,
                stderr=subprocess.STDOUT,
                check=False,
            )
        if done.returncode:
            raise RuntimeError(f"{script}: {output.read_text()}")

    def _door(self, path: str, **query: str) -> bytes:
        url = f"http://127.0.0.1:{self.ports.side_door}/{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(url, timeout=30) as answer:
            data: bytes = answer.read()
        return data


@contextmanager
def running_broker(folder: Path, version: str = VERSIONS[0], **settings: str) -> Iterator[Broker]:
    """Run a broker for the length of a `with` block."""
    broker = Broker(folder, version)
    broker.start(**settings)
    try:
        yield broker
    finally:
        broker.stop()
