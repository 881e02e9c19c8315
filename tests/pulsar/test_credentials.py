"""A real broker accepts the credentials of a `client.conf`, over HTTP and in the binary protocol."""

from __future__ import annotations

import base64
import json
import subprocess
from pathlib import Path

import pytest

from tests.certificates import self_signed
from tests.cluster.fake_issuer import issuer, key_file
from tests.commands import ackwell
from tests.pulsar import kit
from tests.pulsar.json_web_token import json_web_token

KEY = bytes(range(32))
PROVIDER = "org.apache.pulsar.broker.authentication.AuthenticationProvider"
CLIENT = "org.apache.pulsar.client.impl.auth."
TOPIC, NAME = "public/default/secured", "billing"
TOKEN_SECONDS = 4

pulsar = pytest.importorskip("pulsar")


def test_every_kind_of_credentials_reads_and_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("PULSAR_TOKEN", "PULSAR_CLIENT_CONF"):
        monkeypatch.delenv(name, raising=False)
    key, cert = self_signed(tmp_path)
    hashed = subprocess.run(
        ["openssl", "passwd", "-apr1", "p@ss"], check=True, capture_output=True, text=True
    ).stdout.strip()
    (tmp_path / "htpasswd").write_text(f"ops:{hashed}\n")
    admin_token = json_web_token(KEY, "admin")
    ports = kit.Ports.free()
    settings = {
        "brokerServicePortTls": str(ports.binary),
        "webServicePortTls": str(ports.admin),
        "tlsCertificateFilePath": str(cert),
        "tlsKeyFilePath": str(key),
        "tlsTrustCertsFilePath": str(cert),
        "authenticationEnabled": "true",
        "authenticationProviders": ",".join(PROVIDER + each for each in ("Token", "Basic", "Tls")),
        "tokenSecretKey": "data:;base64," + base64.b64encode(KEY).decode(),
        "basicAuthConf": str(tmp_path / "htpasswd"),
        "authorizationEnabled": "true",
        "superUserRoles": "admin,ops,127.0.0.1",
        "brokerClientAuthenticationPlugin": f"{CLIENT}AuthenticationToken",
        "brokerClientAuthenticationParameters": f"token:{admin_token}",
    }

    def conf(plugin: str, parameters: str) -> str:
        Path("client.conf").write_text(
            f"webServiceUrl=https://127.0.0.1:{ports.admin}/\n"
            f"brokerServiceUrl=pulsar+ssl://127.0.0.1:{ports.binary}/\n"
            f"authPlugin={plugin and CLIENT + plugin}\nauthParams={parameters}\n"
            f"tlsTrustCertsFilePath={cert}\ntlsEnableHostnameVerification=false\n"
        )
        return "client.conf"

    with kit.running_broker(tmp_path, **settings), issuer(TOKEN_SECONDS) as made:
        made.make = lambda _: json_web_token(KEY, "admin", TOKEN_SECONDS)
        client = pulsar.Client(
            f"pulsar+ssl://127.0.0.1:{ports.binary}",
            authentication=pulsar.AuthenticationToken(admin_token),
            tls_trust_certs_file_path=str(cert),
            logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
        )
        client.subscribe(TOPIC, NAME, pulsar.ConsumerType.Shared)
        producer = client.create_producer(TOPIC)
        ids = [producer.send(b"") for _ in range(8)]
        positions = [f"{each.ledger_id()}:{each.entry_id()}" for each in ids]
        oauth2 = json.dumps({"issuerUrl": f"{made.url}/realm", "privateKey": key_file(tmp_path).as_uri()})
        for plugin, parameters in (
            ("AuthenticationToken", f"token:{admin_token}"),
            ("AuthenticationBasic", '{"userId":"ops","password":"p@ss"}'),
            ("AuthenticationTls", f"tlsCertFile:{cert},tlsKeyFile:{key}"),
            ("oauth2.AuthenticationOAuth2", oauth2),
        ):
            options = ("--client-conf", conf(plugin, parameters))
            assert ackwell("collect", "-o", plugin, TOPIC, *options)[::2] == (0, ""), plugin
            position = positions.pop()
            answer = ackwell("rescue", "ack", TOPIC, NAME, position, "--yes", *options)
            assert answer.code == 0, (plugin, answer)
        assert Path("ackwell-rescue.audit.jsonl").read_text().count("acknowledge") == 4
        before = len(made.forms)
        answer = ackwell(
            "doctor",
            TOPIC,
            "--watch",
            str(TOKEN_SECONDS + 2),
            "--format",
            "json",
            "--fail-on",
            "never",
            *options,
        )
        found = json.loads(answer.out)
        assert (answer.code, found["unread"], len(found["subscriptions"])) == (0, [], 1)
        assert len(made.forms) > before
        for plugin, parameters in (
            ("", ""),
            ("AuthenticationToken", json_web_token(KEY, "admin", -5)),
            ("AuthenticationBasic", '{"userId":"ops","password":"wrong"}'),
        ):
            options = ("--client-conf", conf(plugin, parameters))
            assert "HTTP 401" in ackwell("collect", "-o", "refused", TOPIC, *options).err, plugin
            assert ackwell("rescue", "ack", TOPIC, NAME, positions[0], "--yes", *options).code == 1, plugin
        client.close()
