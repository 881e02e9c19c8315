"""A cluster of brokers on one ZooKeeper and one bookie, each of which can be started with another release."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import time
import urllib.request
from contextlib import contextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError

from tests.pulsar import kit

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MOVE_S = 60.0
"""How long the move of a topic may take on a busy machine."""
PROXY_CLASSES = "4.0.7"
"""The release of the kit whose classes the proxy uses, next to those of its release."""
WHOLE = "0x00000000_0xffffffff"
"""The bundle of a namespace with one bundle."""


class ClusterBroker(kit.Broker):
    """One broker of a cluster."""

    def __init__(self, folder: Path, version: str, zookeeper: str) -> None:
        super().__init__(folder, version)
        self.folder = folder
        folder.mkdir()
        self._environment["ACKWELL_PULSAR_ZOOKEEPER"] = zookeeper

    @property
    def admin_url(self) -> str:
        """The address of its admin API."""
        return f"http://127.0.0.1:{self.ports.admin}"

    def lookup(self, topic: str) -> str:
        """Return the service address of the broker that serves a topic; the topic may be assigned by this."""
        url = f"{self.admin_url}/lookup/v2/topic/{topic.replace('://', '/')}"
        deadline = time.monotonic() + MOVE_S
        while True:
            try:
                with urllib.request.urlopen(url, timeout=30) as answer:
                    found: str = json.loads(answer.read())["brokerUrl"]
            except HTTPError:
                # While a bundle moves, a lookup may fail.
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.3)
            else:
                return found

    def start(self, **settings: str) -> None:
        """Start it with the listener that a broker of 5.0.1 looks up (docs/upgrade.md)."""
        name, host = "internal", "127.0.0.1"
        addresses = f"{name}:pulsar://{host}:{self.ports.binary},{name}:http://{host}:{self.ports.admin}"
        super().start(**{"advertisedListeners": addresses, "internalListenerName": name, **settings})

    @property
    def restart_command(self) -> str:
        """The shell command that restarts it."""
        given = {name: value for name, value in self._environment.items() if name.startswith("ACKWELL_")}
        settings = [f"{name}={value}" for name, value in self._settings.items()]
        variables = shlex.join(["env", *(f"{name}={value}" for name, value in given.items())])
        return f"{variables} {kit.BIN}/stop.sh; {variables} {shlex.join([f'{kit.BIN}/start.sh', *settings])}"

    def change_release(self, version: str) -> None:
        """Start with another release from the next start on."""
        self.version = version
        self._environment["ACKWELL_PULSAR_VERSION"] = version


class Cluster:
    """Brokers of one cluster."""

    def __init__(self, folder: Path, version: str, count: int = 2) -> None:
        ports = kit.Ports.free()
        self._store_ports = str(ports.binary), str(ports.bookie)
        self._data = folder / "store"
        self._environment = {
            **os.environ,
            "ACKWELL_PULSAR_VERSION": version,
            "ACKWELL_PULSAR_DATA": str(self._data),
        }
        zookeeper = f"127.0.0.1:{ports.binary}"
        self.brokers = [ClusterBroker(folder / f"broker{n}", version, zookeeper) for n in range(count)]

    def start(self, **settings: str) -> None:
        """Start the store and every broker."""
        self.start_store()
        for broker in self.brokers:
            broker.start(**settings)

    def stop(self) -> None:
        """Stop every broker that runs, then the store."""
        for broker in self.brokers:
            if (broker.folder / "broker.pid").exists():
                broker.stop()
        self._store("stop")

    @property
    def _suspend(self) -> Path:
        """While this file exists, the bookie does not answer."""
        return self._data / "suspend"

    @property
    def store_pid(self) -> int:
        """The process of ZooKeeper and the bookie."""
        return int((self._data / "store.pid").read_text())

    def signal_store(self, number: signal.Signals) -> None:
        """Send a signal to ZooKeeper and the bookie."""
        os.kill(self.store_pid, number)

    def suspend_bookie(self) -> None:
        """Let the bookie answer no request until the store is started again; ZooKeeper works on."""
        self._suspend.touch()
        time.sleep(1)

    def start_store(self) -> None:
        """Start ZooKeeper and the bookie on their data."""
        self._suspend.unlink(missing_ok=True)
        self._store("start", *self._store_ports)

    def kill_store(self) -> None:
        """Kill ZooKeeper and the bookie, and start them again on their data."""
        self.signal_store(signal.SIGKILL)
        self.start_store()

    @contextmanager
    def proxy(self) -> Iterator[tuple[str, str, Path]]:
        """Run Pulsar's proxy for the length of a `with` block; yield its two addresses and its log."""
        ports, data = kit.Ports.free(), self._data.with_name("proxy")
        targets = ",".join(str(each.ports.binary) for each in self.brokers)
        environment = {
            **os.environ,
            "ACKWELL_PULSAR_VERSION": PROXY_CLASSES,
            "ACKWELL_PULSAR_DATA": str(data),
        }

        def run(*arguments: str) -> None:
            sink = subprocess.DEVNULL
            command = [str(kit.BIN / "proxy.sh"), *arguments]
            subprocess.run(command, env=environment, stdout=sink, stderr=sink, check=True)

        run("start", str(ports.binary), str(ports.admin), self._store_ports[0], targets)
        try:
            host = "127.0.0.1"
            yield f"pulsar://{host}:{ports.binary}", f"http://{host}:{ports.admin}", data / "proxy.log"
        finally:
            run("stop")

    def owner(self, topic: str, asked: ClusterBroker) -> ClusterBroker:
        """Return the broker that serves a topic; `asked` is a running one."""
        found = asked.lookup(topic)
        return next(each for each in self.brokers if each.service_url == found)

    def move(self, namespace: str, topic: str, target: ClusterBroker) -> None:
        """Move a namespace of one bundle to a broker."""
        deadline = time.monotonic() + MOVE_S
        while (owner := self.owner(topic, target)) is not target:
            # The leader may assign the bundle to another broker before it uses the destination.
            if time.monotonic() > deadline:
                raise TimeoutError(f"{topic} did not move to {target.admin_url} in {MOVE_S} s")
            destination = f"127.0.0.1:{target.ports.admin}"
            path = f"admin/v2/namespaces/{namespace}/{WHOLE}/unload"
            _put(f"{owner.admin_url}/{path}?destinationBroker={destination}")

    def _store(self, *arguments: str) -> None:
        sink = subprocess.DEVNULL
        command = [str(kit.BIN / "store.sh"), *arguments]
        subprocess.run(command, env=self._environment, stdout=sink, stderr=sink, check=True)


def _put(url: str) -> None:
    """Send a PUT request, and follow redirects: to the leader, then to the owner of a bundle."""
    request = urllib.request.Request(url, method="PUT", headers={"Content-Type": "application/json"})
    try:
        urllib.request.urlopen(request, timeout=30).close()
    except HTTPError as error:
        if error.code != HTTPStatus.TEMPORARY_REDIRECT:
            raise
        _put(error.headers["Location"])


@contextmanager
def running_cluster(folder: Path, version: str, count: int = 2, **settings: Any) -> Iterator[Cluster]:
    """Run a cluster of brokers for the length of a `with` block."""
    cluster = Cluster(folder, version, count)
    try:
        cluster.start(**settings)
        yield cluster
    finally:
        cluster.stop()
