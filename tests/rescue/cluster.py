"""A cluster to rescue: a dev broker that loses acknowledgments, and an HTTP server that records requests.

The HTTP server answers the requests that the dev broker does not support: its version, its settings, and the
dispatch rate of a subscription, which is stored without an effect. It can kill the client before or after a
request.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any

from ackwell import Position
from ackwell.cluster.admin import Admin
from ackwell.cluster.endpoint import Endpoint
from ackwell.devbroker import Broker
from ackwell.protocol.constants import CommandType, SubscriptionType
from ackwell.rescue import Connection
from tests.cluster.fake_admin import Server
from tests.devbroker.raw import RawClient
from tests.rescue.histories import Settings
from tests.rescue.listening import listening

LIMIT = 3
TOPIC = "persistent://public/default/orders"
NAME = "billing"
OWN: dict[str, int | bool] = {
    "managedLedgerMaxUnackedRangesToPersist": LIMIT,
    "managedLedgerPersistIndividualAckAsLongArray": False,
    "acknowledgmentAtBatchIndexLevelEnabled": True,
}


class Cluster:
    """A dev broker with one subscription that has acknowledged every second entry."""

    def __init__(self, broker: Broker, url: str, asked: list[tuple[str, str]]) -> None:
        self.broker = broker
        self.url = url
        self.asked = asked
        """Method and path of each request, in order."""
        self.own = OWN
        """The settings that the broker reports."""
        self.version = "4.2.4"
        """The version that the broker reports."""
        self.rates: dict[str, Any] = {}
        self.pid: int | None = None
        self.kill_at = -1
        """The half step at which the client `pid` is killed: 2n is before request n, 2n + 1 after it."""
        self.steps = 0
        self.counting = False
        self.crash_at = -1
        """The half step before which the broker is killed and started again."""

    def connection(self, **options: Any) -> Connection:
        return Connection(Admin(Endpoint(url=self.url)), **options)

    def step(self) -> None:
        """Count half a request; kill the client or the broker at its half step."""
        if self.pid is not None or self.counting:
            number, self.steps = self.steps, self.steps + 1
            if number == self.crash_at:
                self.crash()
            if self.pid is not None and number == self.kill_at:
                os.kill(self.pid, signal.SIGKILL)

    def fill(self, entries: int = 40, kind: SubscriptionType = SubscriptionType.SHARED) -> list[Position]:
        """Publish entries; a consumer acknowledges every second one and closes."""
        with RawClient(self.broker) as client:
            client.subscribe(TOPIC, permits=0, subscription=NAME, subType=kind.number)
            client.produce(TOPIC)
            sent = [client.publish(number, b"m").message_id for number in range(entries)]
            positions = [Position(each.ledgerId, each.entryId) for each in sent]
            self.ack(client, positions[1::2])
        return positions

    def ack(self, client: RawClient, positions: list[Position]) -> None:
        from ackwell.protocol.message_ids import message_id_of

        ids = [message_id_of(each) for each in positions]
        client.send(CommandType.ACK, consumer_id=1, ack_type=0, message_id=ids, request_id=9)
        client.until(CommandType.ACK_RESPONSE)

    def acked(self) -> set[Position]:
        def look() -> set[Position]:
            state = self.broker._broker.state
            return set(state.topics[TOPIC].subscriptions[NAME].cursor.acknowledged().positions())

        return self.broker.call(look)

    def do(self, what: Callable[[Any], object]) -> None:
        """Call a function with the subscription, in the broker's thread."""
        state = self.broker._broker.state
        self.broker.call(lambda: what(state.topics[TOPIC].subscriptions[NAME]))

    def crash(self) -> None:
        """Kill the broker: it loses the unwritten state, and all connections break."""
        broker = self.broker._broker
        self.broker.call(broker._abort_connections)
        self.broker.call(lambda: broker.state.reload("crash", "pulsar"))

    def unload(self) -> None:
        state = self.broker._broker.state
        self.broker.call(lambda: state.unload(state.topics[TOPIC]))


@contextmanager
def cluster(limit: int = LIMIT, **settings: int) -> Iterator[Cluster]:
    """Run a cluster for the length of a `with` block."""
    own = OWN | {"managedLedgerMaxUnackedRangesToPersist": limit} | settings
    with Broker(settings=Settings(own=own)) as broker:
        made = Cluster(broker, "", [])
        made.own = own
        handler = type("Handler", (_Recorder,), {"cluster": made})
        server = Server(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        made.url = f"http://127.0.0.1:{server.server_port}"
        try:
            yield made
        finally:
            server.shutdown()
            server.server_close()


class _Recorder(BaseHTTPRequestHandler):
    cluster: Cluster

    def _do(self) -> None:
        made = self.cluster
        made.asked.append((self.command, self.path))
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        made.step()
        own = {
            "/admin/v2/brokers/version": made.version,
            "/admin/v2/brokers/configuration/runtime": {k: str(v).lower() for k, v in made.own.items()},
            "/admin/v2/brokers/configuration/values": {},
            "/admin/v2/brokers/standalone": [made.url.removeprefix("http://")],
        }
        code, answer = 200, b""
        path = self.path.partition("?")[0]
        if path in own:
            answer = json.dumps(own[path]).encode()
        elif path.endswith("/dispatchRate"):
            if self.command == "POST":
                made.rates[path] = json.loads(body)
            elif self.command == "DELETE":
                made.rates.pop(path, None)
            elif path in made.rates:
                answer = json.dumps(made.rates[path]).encode()
            code = 200 if self.command == "GET" else 204
        else:
            request = urllib.request.Request(
                made.broker.admin_url + self.path,
                data=body or None,
                method=self.command,
                headers={"Content-Type": "application/json"},
            )
            try:
                with urllib.request.urlopen(request, timeout=60) as found:
                    code, answer = found.status, found.read()
            except urllib.error.HTTPError as error:
                code, answer = error.code, error.read()
        made.step()
        self.send_response(code)
        if code != 204:
            self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        if code != 204:
            self.wfile.write(answer)

    do_GET = do_PUT = do_POST = do_DELETE = _do  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


@contextmanager
def counted_wire(made: Cluster) -> Iterator[str]:
    """Run a proxy of the broker's binary port that counts the client's frames; yield its address."""
    host, port = made.broker.url.removeprefix("pulsar://").split(":")

    def pump(source: socket.socket, target: socket.socket, *, counts: bool) -> None:
        try:
            while data := source.recv(1 << 16):
                if counts:
                    made.step()
                target.sendall(data)
        except OSError:
            pass
        for each in (source, target):
            each.close()

    def talk(client: socket.socket) -> None:
        there = socket.create_connection((host, int(port)))
        threading.Thread(target=pump, args=(there, client), kwargs={"counts": False}, daemon=True).start()
        pump(client, there, counts=True)

    with listening(talk) as address:
        yield address
