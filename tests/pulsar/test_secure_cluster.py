"""Redirects of two brokers with TLS and tokens; a partitioned topic on both, in a namespace with policies."""

from __future__ import annotations

import base64
import json
import urllib.request
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from ackwell import Position
from tests.certificates import self_signed
from tests.commands import ackwell
from tests.pulsar import kit
from tests.pulsar.cluster import Cluster
from tests.pulsar.json_web_token import json_web_token
from tests.pulsar.rolling import SETTINGS

if TYPE_CHECKING:
    from pathlib import Path

pulsar = pytest.importorskip("pulsar")

KEY = bytes(range(32))
NAMESPACE = "team/secure"
TOPIC, NAME = f"persistent://{NAMESPACE}/orders", "billing"
PARTITIONS, ENTRIES = 8, 60
HOSTS = ("127.0.0.1", "localhost")
"""The host that each broker advertises. A token for 127.0.0.1 needs permission for the other one."""
RATE = {"dispatchThrottlingRateInMsg": 50_000, "dispatchThrottlingRateInByte": -1, "ratePeriodInSecond": 1}
POLICIES: dict[str, Any] = {
    "subscriptionDispatchRate": RATE,
    "retention": {"retentionTimeInMinutes": 60, "retentionSizeInMB": 100},
    "messageTTL": 3600,
}


class Secured:
    """Two brokers with TLS and tokens."""

    def __init__(self, folder: Path) -> None:
        self.cluster = Cluster(folder, "4.2.4")
        key, self.cert = self_signed(folder, "IP:127.0.0.1,DNS:localhost")
        self.token = json_web_token(KEY, "admin")
        for role in ("admin", "app"):
            (folder / role).write_text(json_web_token(KEY, role))
        self._folder = folder
        self.tls = [kit.Ports.free() for _ in HOSTS]
        self._settings = SETTINGS | {
            "tlsCertificateFilePath": str(self.cert),
            "tlsKeyFilePath": str(key),
            "tlsTrustCertsFilePath": str(self.cert),
            "authenticationEnabled": "true",
            "authenticationProviders": "org.apache.pulsar.broker.authentication.AuthenticationProviderToken",
            "tokenSecretKey": "data:;base64," + base64.b64encode(KEY).decode(),
            "authorizationEnabled": "true",
            "superUserRoles": "admin",
            "brokerClientAuthenticationPlugin": "org.apache.pulsar.client.impl.auth.AuthenticationToken",
            "brokerClientAuthenticationParameters": f"token:{self.token}",
        }

    def start(self, number: int) -> None:
        broker, tls, host = self.cluster.brokers[number], self.tls[number], HOSTS[number]
        urls = f"internal:pulsar://{host}:{broker.ports.binary},internal:pulsar+ssl://{host}:{tls.binary}"
        broker.start(
            **self._settings,
            brokerServicePortTls=str(tls.binary),
            webServicePortTls=str(tls.admin),
            advertisedAddress=host,
            advertisedListeners=urls,
        )

    def put(self, path: str, body: Any, method: str = "PUT") -> None:
        url = f"http://127.0.0.1:{self.cluster.brokers[0].ports.admin}/admin/v2/{path}"
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self.token}"}
        request = urllib.request.Request(url, json.dumps(body).encode(), headers, method=method)
        urllib.request.urlopen(request, timeout=60).close()

    def options(self, role: str, asked: int = 0) -> tuple[str, ...]:
        """Return the options of a command that asks the broker `asked` first."""
        url = f"https://{HOSTS[asked]}:{self.tls[asked].admin}"
        return ("--admin", url, "--tls-trust-certs", str(self.cert), "--token-file", str(self._folder / role))


def test_redirects_with_tls_a_token_and_policies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("PULSAR_TOKEN", "PULSAR_CLIENT_CONF"):
        monkeypatch.delenv(name, raising=False)
    made = Secured(tmp_path)
    with ExitStack() as stack:
        made.cluster.start_store()
        stack.callback(made.cluster.stop)
        for number in range(len(HOSTS)):
            made.start(number)
        made.put("tenants/team", {"adminRoles": ["app"], "allowedClusters": ["standalone"]})
        made.put(f"namespaces/{NAMESPACE}", {"bundles": {"numBundles": 8}})
        for name, value in POLICIES.items():
            made.put(f"namespaces/{NAMESPACE}/{name}", value, "POST")
        made.put(f"persistent/{NAMESPACE}/orders/partitions", PARTITIONS)
        hosts = ",".join(f"{host}:{ports.binary}" for host, ports in zip(HOSTS, made.tls, strict=True))
        client = pulsar.Client(
            f"pulsar+ssl://{hosts}",
            authentication=pulsar.AuthenticationToken(made.token),
            tls_trust_certs_file_path=str(made.cert),
            logger=pulsar.FileLogger(pulsar.LoggerLevel.Error, "/dev/null"),
        )
        stack.callback(client.close)
        consumer = client.subscribe(TOPIC, NAME, pulsar.ConsumerType.Shared)
        producer = client.create_producer(TOPIC, batching_enabled=False)
        for _ in range(PARTITIONS * ENTRIES):
            producer.send(b"m")
        acked = {each for each in _received(consumer, PARTITIONS * ENTRIES) if each[2] % 2}

        # A tenant's token may not list the brokers, so the other host needs permission.
        foreign = _foreign(made)
        assert 0 < len(foreign) < PARTITIONS
        found = _doctor(made)
        assert len(found["subscriptions"]) == PARTITIONS - len(foreign)
        assert all(f"--trust-host {HOSTS[1]}" in each["reason"] for each in found["unread"]), found["unread"]
        trusted = (*made.options("app"), "--trust-host", HOSTS[1])
        found = _doctor(made, "--trust-host", HOSTS[1])
        assert (len(found["subscriptions"]), found["unread"]) == (PARTITIONS, [])
        held = (foreign[0], NAME)
        assert ackwell("rescue", "hold", *held, *made.options("app"), "--journal", "j", "--yes").code != 0
        first = Position(min(ledger_id for name, ledger_id, _ in acked if name == foreign[0]), 0)
        for words in (
            ("hold", *held, "--journal", "j"),
            ("ack", *held, str(first)),
            ("release", "--journal", "j"),
        ):
            answer = ackwell("rescue", *words, *trusted, "--yes")
            assert answer.code == 0, (words, answer)
        acked.add((foreign[0], *first))

        # The token of a superuser reaches every broker that the cluster lists.
        options = made.options("admin")
        for number, broker in enumerate(made.cluster.brokers):
            window = str(tmp_path / f"window{number}")
            answer = ackwell("rescue", "begin", NAMESPACE, "-o", window, *options, "--yes")
            assert (answer.code, f"{PARTITIONS} subscriptions are held" in answer.out) == (0, True), answer
            broker.stop()
            made.start(number)
            answer = ackwell("rescue", "end", window, *options, "--yes")
            assert (answer.code, "0 are still missing" in answer.out) == (0, True), answer
        again = set(_received(consumer, PARTITIONS * ENTRIES - len(acked)))
        assert again & acked == set()


def _received(consumer: Any, count: int) -> list[tuple[str, int, int]]:
    """Receive entries until there are `count` different ones, and acknowledge every second entry."""
    found: dict[tuple[str, int, int], None] = {}
    while len(found) < count:
        message = consumer.receive(60_000)
        of = message.message_id()
        entry = message.topic_name(), of.ledger_id(), of.entry_id()
        if entry not in found and of.entry_id() % 2:
            consumer.acknowledge(message)
        found[entry] = None
    return list(found)


def _doctor(made: Secured, *more: str) -> dict[str, Any]:
    words = ("doctor", NAMESPACE, *made.options("app"), *more, "--format", "json", "--fail-on", "never")
    found: dict[str, Any] = json.loads(ackwell(*words, "--every-topic").out)
    return found


def _foreign(made: Secured) -> list[str]:
    """Return the partitions that the second broker owns."""
    found = []
    for number in range(PARTITIONS):
        topic = f"{TOPIC}-partition-{number}"
        broker = made.cluster.brokers[0]
        url = f"{broker.admin_url}/lookup/v2/topic/{topic.replace('://', '/')}"
        request = urllib.request.Request(url, headers={"Authorization": f"Bearer {made.token}"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            if HOSTS[1] in json.loads(answer.read())["brokerUrl"]:
                found.append(topic)
    return found
