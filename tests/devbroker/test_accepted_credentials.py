"""Users, tokens, client certificates and permissions, and the `broker.conf` that switches them on."""

from __future__ import annotations

import hashlib
import hmac
import json
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from ackwell.cli import app
from ackwell.devbroker import AsyncBroker, Broker, DevBrokerSettings
from ackwell.devbroker.accepted_credentials import AcceptedCredentials, secret_key, subject_of
from ackwell.devbroker.broker_conf import credentials_of, settings_of
from ackwell.errors import ErrorCode
from tests.devbroker.offline import Offline
from tests.recording.test_tls import certificate  # noqa: F401  # a fixture

if TYPE_CHECKING:
    from tests.recording.test_tls import Certificate

pulsar = pytest.importorskip("pulsar")

KEY = b"a secret key of 32 bytes exactly"
YEAR_SECONDS = 365 * 24 * 3_600


def part(value: object) -> str:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def token(claims: object, key: bytes = KEY, algorithm: str = "HS256") -> str:
    signed = f"{part({'alg': algorithm})}.{part(claims)}"
    return f"{signed}.{part(hmac.digest(key, signed.encode(), hashlib.sha256))}"


def test_the_subject_of_a_signed_token_is_the_role() -> None:
    assert subject_of(token({"sub": "writer"}), KEY) == "writer"
    assert subject_of(token({"sub": "writer", "exp": time.time() + YEAR_SECONDS}), KEY) == "writer"
    assert subject_of(token({"sub": "writer", "aud": "pulsar"}), KEY) == "writer"


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (token({"sub": "writer"}, b"another key of 32 bytes exactly."), "Signature verification failed"),
        (token({"sub": "writer"})[:-4], "Signature verification failed"),
        (token({"sub": "writer", "exp": 1}), "Signature has expired"),
        (token({"sub": "writer", "nbf": time.time() + YEAR_SECONDS}), "not yet valid"),
        (token({"sub": 5}), "Subject must be a string"),
        (token({"sub": ""}), "its subject is empty"),
        (token({}), 'missing the "sub" claim'),
        (token({"sub": "writer"}, algorithm="none"), "alg value is not allowed"),
        (token({"sub": "writer"}, algorithm="RS256"), "alg value is not allowed"),
        (token([]), "must be a json object"),
        ("", "Not enough segments"),
        ("a.b", "Not enough segments"),
        ("x" * 100_000, "Not enough segments"),
        (f"{part(b'[' * 100_000)}.{part({})}.x", "recursion depth"),
        ("ä.ö.ü", "Invalid header"),
    ],
    ids=range(15),
)
def test_a_token_that_is_not_signed_with_the_key_is_refused(wrong: str, why: str) -> None:
    with pytest.raises(PermissionError, match=why):
        subject_of(wrong, KEY)


def test_each_method_needs_its_credentials() -> None:
    given = AcceptedCredentials(users={"admin": "123"}, token_key=KEY, anonymous_role="anonymous")
    assert given("basic", b"admin:123") == "admin"
    assert given("token", token({"sub": "writer"}).encode()) == "writer"
    assert given("tls", b"client") == "client"
    assert given("", b"") == given("none", b"") == "anonymous"
    for method, data in (
        ("basic", b"admin:12"),
        ("basic", b"admin:"),
        ("basic", b"other:"),
        ("basic", b"\xff"),
        ("token", b"\xff"),
        ("sasl", b"x"),
    ):
        with pytest.raises(PermissionError):
            given(method, data)
    nothing = AcceptedCredentials()
    for method in ("", "basic", "token", "tls"):
        with pytest.raises(PermissionError, match="no credentials"):
            nothing(method, b"")
    assert "123" not in repr(given)


def test_a_key_is_read_as_a_broker_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_bytes(KEY)
    encoded = b64encode(KEY).decode()
    for source in (str(path), f"file://{path}", f"file:{path}", f"data:;base64,{encoded}", encoded):
        assert secret_key(source) == KEY
    with pytest.raises(FileNotFoundError):
        secret_key(f"file://{path}2")
    with pytest.raises(ValueError, match="base64"):
        secret_key("no such file!")
    path.write_bytes(b"")
    for source in (str(path), f"file:{path}", "data:;base64,", ""):
        with pytest.raises(ValueError, match="the secret key is empty"):
            secret_key(source)


# Settings


def test_settings_of_a_broker_conf_have_an_effect_by_their_own_names() -> None:
    found = settings_of(
        (
            "maxMessageSize=1048576",
            "subscriptionKeySharedUseConsistentHashing=false",
            "backlogQuotaCheckIntervalInSeconds=5",
            "managedLedgerCursorPositionFlushSeconds=7",
            "maxUnackedMessagesPerConsumer=10",
            "maxUnackedMessagesPerConsumer=20",
            "allowAutoTopicCreationType=partitioned",
            "defaultNumPartitions=3",
            "acknowledgmentAtBatchIndexLevelEnabled=true",
        ),
        version="4.0",
        max_message_bytes=77,
    )
    assert (found.version, found.max_message_bytes, found.key_shared_consistent_hashing) == ("4.0", 77, False)
    assert (found.backlog_quota_check_ms, found.cursor_flush_ms) == (5_000, 7_000)
    assert (found.subscription.max_unacked_per_consumer, found.auto_create_partitions) == (20, 3)
    assert found.super_users is None
    strict = settings_of(["authorizationEnabled=True", "superUserRoles=a, b"])
    assert strict.super_users == ("a", "b")
    assert settings_of(["authorizationEnabled=true"]).super_users == ()


@pytest.mark.parametrize(
    ("setting", "why"),
    [
        ("maxMessageSize=big", "maxMessageSize is a whole number"),
        ("maxMessageSize=-5", "maxMessageSize is a whole number"),
        ("brokerDeduplicationEnabled=yes", "brokerDeduplicationEnabled is true or false"),
        ("backlogQuotaCheckIntervalInSeconds=9223372036854776", "InSeconds is a whole number from 0 to"),
        ("authorizationEnabled=yes", "authorizationEnabled is true or false"),
        ("allowAutoTopicCreationType=partitioned defaultNumPartitions=x", "defaultNumPartitions is a whole"),
        ("maxMesageSize=5", "did you mean 'maxMessageSize'"),
    ],
)
def test_a_wrong_setting_of_a_broker_conf_is_refused(setting: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        settings_of(setting.split())


def test_another_value_than_a_list_of_settings_is_refused() -> None:
    settings: Any = DevBrokerSettings
    assert settings(broker_conf=["maxMessageSize=5"], namespaces=["a/b"], super_users=()).release
    for name in ("broker_conf", "namespaces", "super_users"):
        for kind, value in (("str", "a=1"), ("dict", {"a": "1"}), ("int", 5), ("bytes", b"a")):
            with pytest.raises(
                TypeError, match=f"^{name} is a value of type {kind}; expected a list of texts"
            ):
                settings(**{name: value})
    broker: Any = AsyncBroker
    with pytest.raises(TypeError, match="settings is a value of type dict; expected DevBrokerSettings"):
        broker(settings={"version": "4.0"})


def test_credentials_are_required_if_a_setting_or_an_option_asks_for_them() -> None:
    assert credentials_of([], {}, None) is None
    assert credentials_of(["authenticationEnabled=false"], {}, None) is None
    required = credentials_of(["authenticationEnabled=true", "anonymousUserRole=anyone"], {}, None)
    assert required == AcceptedCredentials(anonymous_role="anyone")
    encoded = b64encode(KEY).decode()
    assert credentials_of([], {"a": "b"}, None) == AcceptedCredentials(users={"a": "b"})
    assert credentials_of([], {}, encoded) == AcceptedCredentials(token_key=KEY)
    enabled = ["authenticationEnabled=true", f"tokenSecretKey=data:;base64,{encoded}"]
    assert credentials_of(enabled, {}, None) == AcceptedCredentials(token_key=KEY)


# Permissions


def test_a_role_needs_a_permission_of_the_namespace_or_the_topic_or_the_tenant() -> None:
    broker = Offline(super_users=("admin",))
    broker.service.authenticate_by = lambda _, data: data.decode() or None
    space = "admin/v2/namespaces/public/default"

    def refused(role: str) -> bool:
        client = broker.connect(auth_data=role.encode())
        answer = client.produce()
        client.hang_up()
        return bool(getattr(answer, "error", None) == ErrorCode.AUTHORIZATION_ERROR)

    assert (refused("admin"), refused("writer"), refused("")) == (False, True, True)
    broker.admin("POST", f"{space}/permissions/writer", ["produce"])
    assert (refused("writer"), refused("reader")) == (False, True)
    # A permission is for one action.
    client = broker.connect(auth_data=b"writer")
    assert client.subscribe().message.error == ErrorCode.AUTHORIZATION_ERROR
    client.hang_up()
    broker.admin("DELETE", f"{space}/permissions/writer")
    assert refused("writer")
    broker.state.set_policy(
        "public/default",
        "auth_policies",
        {"destination_auth": {"persistent://public/default/orders": {"writer": ["produce"]}}},
    )
    assert not refused("writer")
    broker.admin(
        "POST", "admin/v2/tenants/public", {"adminRoles": ["boss"], "allowedClusters": ["standalone"]}
    )
    assert not refused("boss")
    broker.close()


# TLS and the command


def get(url: str, tls: ssl.SSLContext | None = None, credentials: str = "") -> int:
    headers = {"Authorization": credentials} if credentials else {}
    request = urllib.request.Request(f"{url}/admin/v2/clusters", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=5, context=tls) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


@contextmanager
def command(*options: str) -> Iterator[list[str]]:
    """Run `ackwell dev-broker` on free ports; yield its addresses."""
    ports = [f"--{name}=0" for name in ("port", "admin-port", "tls-port", "admin-tls-port")]
    run = [sys.executable, "-m", "ackwell", "dev-broker", *ports, *options]
    with subprocess.Popen(run, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield [process.stdout.readline().split()[1] for _ in range(4)]
        finally:
            process.terminate()


def test_the_command_serves_tls_tokens_users_and_client_certificates(
    certificate: Certificate,  # noqa: F811  # the fixture
    tmp_path: Path,
) -> None:
    (tmp_path / "key").write_bytes(KEY)
    (tmp_path / "broker.conf").write_text("maxMessageSize=5000\nanonymousUserRole=\nnoSuchSetting=1\n")
    with command(
        f"--tls-cert={certificate.cert}",
        f"--tls-key={certificate.key}",
        f"--tls-trust={certificate.cert}",
        f"--token-key={tmp_path / 'key'}",
        f"--broker-setting={tmp_path / 'broker.conf'}",
        "--user=admin:123456",
        "--max-message-bytes=6000",
    ) as (url, admin_url, tls_url, admin_tls_url):
        assert tls_url.startswith("pulsar+ssl://127.0.0.1:")
        trust = certificate.trust
        assert get(admin_url) == get(admin_tls_url, trust) == 401
        bearer = f"Bearer {token({'sub': 'writer'})}"
        assert get(admin_url, None, bearer) == get(admin_tls_url, trust, bearer) == 200
        basic = "Basic " + b64encode(b"admin:123456").decode()
        assert get(admin_tls_url, trust, basic) == 200
        trust.load_cert_chain(*certificate)
        assert get(admin_tls_url, trust) == 200
        for address, authentication in (
            (url, pulsar.AuthenticationToken(token({"sub": "writer"}))),
            (url, pulsar.AuthenticationBasic("admin", "123456")),
            (tls_url, pulsar.AuthenticationTLS(str(certificate.cert), str(certificate.key))),
        ):
            client = pulsar.Client(
                address,
                authentication,
                tls_trust_certs_file_path=str(certificate.cert),
                logger=pulsar.FileLogger(pulsar.LoggerLevel.Error, str(tmp_path / "log")),
            )
            producer = client.create_producer("orders", batching_enabled=False)
            producer.send(b"x" * 5_500)
            with pytest.raises(pulsar.PulsarException, match="MessageTooBig"):
                producer.send(b"x" * 6_100)
            client.close()


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--tls-key", "k.pem"], "--tls-key needs --tls-cert"),
        (["--tls-trust", "k.pem"], "--tls-trust needs --tls-cert"),
        (["--tls-cert", "none.pem"], "none.pem"),
        (["--token-key", "file:///none"], "No such file"),
        (["--user", "admin"], "expected NAME:PASSWORD"),
        (["--user", "a:1", "--user", "a:2"], "each name once"),
        (["--broker-setting", "maxMessageSize=x"], "whole number"),
    ],
)
def test_an_option_that_cannot_be_served_is_a_wrong_command_line(options: list[str], why: str) -> None:
    done = CliRunner().invoke(app, ["dev-broker", "--port=0", "--admin-port=0", *options])
    assert done.exit_code == 2
    assert why in " ".join(done.output.replace("│", " ").split())


def test_an_admin_request_over_tls_has_the_role_of_its_certificate(certificate: Certificate) -> None:  # noqa: F811
    asked: list[Any] = []

    def authenticate(method: str, data: bytes) -> str:
        asked.append((method, data))
        return "role"

    tls = certificate.server
    tls.verify_mode = ssl.CERT_OPTIONAL
    tls.load_verify_locations(certificate.cert)
    with Broker(tls=tls, admin_tls_port=0, authenticate=authenticate, settings=DevBrokerSettings()) as broker:
        assert broker.admin_tls_url is not None
        trust = certificate.trust
        assert get(broker.admin_tls_url, trust) == 200
        trust.load_cert_chain(*certificate)
        assert get(broker.admin_tls_url, trust) == 200
    assert asked == [("", b""), ("tls", b"127.0.0.1")]
