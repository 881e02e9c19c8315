"""Rescue restores exactly the acknowledgments that a real broker lost, without effect on other consumers.

`HISTORIES=300 ROUNDS=200 VERSIONS="4.2.4 4.0.7 5.0.0-M1 5.0.1" make lab-test-pulsar` for more than the
default; `SEED` is the first history.
"""

from __future__ import annotations

import base64
import json
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from ackwell.protocol.constants import SubscriptionType
from ackwell.rescue import apply, plan
from tests.certificates import self_signed
from tests.commands import command
from tests.pulsar import kit
from tests.pulsar.json_web_token import json_web_token
from tests.pulsar.rescue import held
from tests.pulsar.rescue.__main__ import SETTINGS
from tests.pulsar.rescue.play import GROUP, NAME, connection, play

HISTORIES = int(os.environ.get("HISTORIES", "50"))
SEED = int(os.environ.get("SEED", "0"))
ROUNDS = int(os.environ.get("ROUNDS", "20"))
"""Of Key_Shared; half as many unloads, and a kill of the broker for each twentieth."""
VERSIONS = os.environ.get("VERSIONS", kit.VERSIONS[0]).split()

LITTLE_KEPT = {
    "managedLedgerMaxUnackedRangesToPersist": "100",
    "managedLedgerPersistIndividualAckAsLongArray": "false",
}

pulsar = pytest.importorskip("pulsar")


@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_acknowledged_in_the_end_is_the_snapshot_and_what_is_live(
    version: str, tmp_path: Path
) -> None:
    counted: Counter[str] = Counter()
    problems: list[str] = []
    with kit.running_broker(tmp_path, version, **SETTINGS) as broker:
        for start in range(SEED, SEED + HISTORIES, GROUP):
            found, wrong = play(broker, range(start, min(start + GROUP, SEED + HISTORIES)))
            counted += found
            problems += wrong
            share = counted["lost"] / counted["histories"]
            print(version, f"{share:.0%} lost something:", dict(counted), *wrong, sep="\n", flush=True)
    assert problems == []
    assert counted["lost"] >= 0.6 * HISTORIES
    assert counted["consumers compared"] > 0.5 * HISTORIES


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("series", "rounds"),
    [(held.unloads, ROUNDS // 2), (held.keys, ROUNDS), (held.crashes, max(ROUNDS // 20, 1))],
)
def test_held_nothing_that_was_acknowledged_reaches_a_consumer(
    version: str,
    series: Callable[[kit.Broker, str, int, Path], Counter[str]],
    rounds: int,
    tmp_path: Path,
) -> None:
    with kit.running_broker(tmp_path, version, **SETTINGS, **LITTLE_KEPT) as broker:
        counted = series(broker, "persistent://public/default/held", rounds, tmp_path)
    assert {name: counted[name] for name in held.BAD if counted[name]} == {}
    # Each round forgets something.
    assert counted["put back"] > 50 * rounds


def test_the_headline_is_rescued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A restart loses 58 % of 30,000 acknowledgments; after a hold and a restore, none is redelivered."""
    monkeypatch.chdir(tmp_path)
    topic = "persistent://public/default/headline"
    with kit.running_broker(tmp_path, **SETTINGS) as broker:
        acked = set(held.make(broker, topic, SubscriptionType.SHARED, 60_000)[1::2])
        assert len(acked) == 30_000
        admin = ("--admin", f"http://127.0.0.1:{broker.ports.admin}")
        with held.Application(broker, topic, SubscriptionType.SHARED) as application:
            application.quiet()
            name = (topic, NAME, *admin)
            assert command("rescue", "hold", *name, "--journal", "j", "--yes")[0] == 0
            assert command("rescue", "snapshot", *name, "-o", "before.json")[0] == 0
            application.take()
            broker.stop()
            broker.start()
            application.connected.wait()
            code, text = command("rescue", "plan", "before.json", *admin)
            assert (code, "to restore   17,500 entries" in text) == (0, True), text
            assert round(100 * 17_500 / 30_000) == 58
            code, text = command("rescue", "apply", "plan.json", *admin, "--yes")
            assert (code, "17,500 acknowledgments restored, 0 are still missing" in text) == (0, True), text
            assert command("rescue", "release", *admin, "--journal", "j", "--yes")[0] == 0
            application.quiet(2.0)
            came = application.take()
            assert len(came) >= 500
            assert [each for each in came if each.position in acked] == []


def test_a_million_positions_are_put_back(tmp_path: Path) -> None:
    import time

    topic, entries = "persistent://public/default/million", int(os.environ.get("ENTRIES", "200000"))
    # A restart keeps the first ledger whole, whatever the limit, so ledgers are small.
    settings = {"managedLedgerMaxEntriesPerLedger": "10000", "managedLedgerMaxUnackedRangesToPersist": "1000"}
    with kit.running_broker(tmp_path, **SETTINGS, **settings) as broker, connection(broker) as at:
        positions = held.make(broker, topic, SubscriptionType.SHARED, entries)
        with held.Application(broker, topic, SubscriptionType.SHARED):
            before = at.read_live(topic, NAME)
        broker.admin("PUT", f"persistent/{topic.removeprefix('persistent://')}/unload")
        at.read_live(topic, NAME)
        started = time.perf_counter()
        made = plan(before, at.read_live(topic, NAME))
        report = apply(made, at)
        seconds = time.perf_counter() - started
        print(f"{report.sent:,} positions in {seconds:.2f} s")
        assert report.missing == 0
        assert report.sent > entries // 2 * 0.9
        assert set(at.read_live(topic, NAME).acked.positions()) == set(positions[1::2])


def test_with_tls_and_a_token_and_never_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PULSAR_TOKEN", raising=False)
    key, cert = self_signed(tmp_path)
    secret = bytes(range(32))
    good = json_web_token(secret, "admin")
    (tmp_path / "good").write_text(good)
    (tmp_path / "bad").write_text(json_web_token(bytes(32), "admin"))
    ports = kit.Ports.free()
    settings = {
        "brokerServicePortTls": str(ports.binary),
        "webServicePortTls": str(ports.admin),
        "tlsCertificateFilePath": str(cert),
        "tlsKeyFilePath": str(key),
        "tlsTrustCertsFilePath": str(cert),
        "authenticationEnabled": "true",
        "authenticationProviders": "org.apache.pulsar.broker.authentication.AuthenticationProviderToken",
        "tokenSecretKey": "data:;base64," + base64.b64encode(secret).decode(),
        "authorizationEnabled": "true",
        "superUserRoles": "admin",
        "brokerClientAuthenticationPlugin": "org.apache.pulsar.client.impl.auth.AuthenticationToken",
        "brokerClientAuthenticationParameters": f"token:{good}",
        "managedLedgerMaxUnackedRangesToPersist": "10",
        "managedLedgerPersistIndividualAckAsLongArray": "false",
    }
    topic = "persistent://public/default/secure"
    admin = ("--admin", f"https://127.0.0.1:{ports.admin}", "--tls-trust-certs", cert)
    with kit.running_broker(tmp_path, **SETTINGS, **settings) as broker:
        client = pulsar.Client(
            f"pulsar+ssl://127.0.0.1:{ports.binary}",
            authentication=pulsar.AuthenticationToken(good),
            tls_trust_certs_file_path=str(cert),
            logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
        )
        consumer = client.subscribe(topic, NAME, pulsar.ConsumerType.Shared)
        producer = client.create_producer(topic)
        for number in range(100):
            producer.send(b"%d" % number)
        for number in range(100):
            message = consumer.receive(30_000)
            if number % 2:
                consumer.acknowledge(message)
        consumer.close()
        consumer = client.subscribe(topic, NAME, pulsar.ConsumerType.Shared)
        ok = (*admin, "--token-file", "good")
        code, text = command("rescue", "unload", topic, NAME, *ok, "--yes", "--journal", "j")
        assert (code, "39 acknowledgments restored, 0 are still missing" in text) == (0, True), text
        assert command("rescue", "snapshot", topic, NAME, *ok, "-o", "before.json")[0] == 0
        assert command("rescue", "plan", "before.json", *ok)[0] == 0
        position = min(json.loads(Path("plan.json").read_text())["plans"][0]["ledgers"])
        plain = ("--broker", broker.service_url)
        ack = ("rescue", "ack", topic, NAME, f"{position}:0", "--yes")
        assert command(*ack, *ok, *plain)[0] == 3
        assert command(*ack, *admin, "--token-file", "bad")[0] == 1
        assert command(*ack, *admin)[0] == 1
        assert command(*ack, *ok)[0] == 0
        client.close()
