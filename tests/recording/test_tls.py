"""The recorder with TLS on both sides: the same recording; tokens are forwarded and not written."""

from __future__ import annotations

import re
import shutil
import ssl
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from typer.testing import CliRunner

from ackwell.cli import app
from ackwell.devbroker import Broker
from ackwell.protocol import messages
from ackwell.protocol.constants import CommandType
from ackwell.protocol.frames import FrameReader, decode, encode, frame
from ackwell.recording.proxy import ProxiedConnection, Proxy
from ackwell.recording.recording import Recording
from ackwell.replay.files import read_events
from tests.recording.test_proxy import QUIET, broker_s_own, folded

if TYPE_CHECKING:
    from ackwell.replay.events import Event

pulsar = pytest.importorskip("pulsar")

TOKEN = "a-token-that-nobody-else-may-see"


class Certificate(NamedTuple):
    """A self-signed certificate of 127.0.0.1, and its key."""

    cert: Path
    key: Path

    @property
    def server(self) -> ssl.SSLContext:
        made = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        made.load_cert_chain(*self)
        return made

    @property
    def trust(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self.cert)


@pytest.fixture
def certificate(tmp_path: Path) -> Certificate:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    made = Certificate(tmp_path / "cert.pem", tmp_path / "key.pem")
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=127.0.0.1",
    ]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(made.key), "-out", str(made.cert)]
    subprocess.run(command, check=True, capture_output=True)
    return made


def client_of(url: str, certificate: Certificate, **options: Any) -> Any:
    return pulsar.Client(url, logger=QUIET, tls_trust_certs_file_path=str(certificate.cert), **options)


def traffic(client: Any) -> None:
    consumer = client.subscribe("orders", "billing", pulsar.ConsumerType.Shared)
    producer = client.create_producer("orders")
    for number in range(20):
        producer.send_async(b"%d" % number, None)
    producer.flush()
    for number in range(20):
        message = consumer.receive(5000)
        if number % 3:
            consumer.acknowledge(message)
    consumer.redeliver_unacknowledged_messages()
    client.close()


def test_a_recording_with_tls_on_both_sides_leads_to_the_broker_s_own_state(certificate: Certificate) -> None:
    events: list[Event] = []
    with Broker(tls=certificate.server) as broker:
        assert broker.tls_url is not None
        recording = Recording(events.append)
        proxy = Proxy(broker.tls_url, recording, tls=certificate.server, trust=certificate.trust)
        broker.wait(proxy.start())
        assert proxy.url.startswith("pulsar+ssl://")
        traffic(client_of(proxy.url, certificate))
        broker.settle()
        assert folded(events) == broker_s_own(broker)
        broker.wait(proxy.stop())
    assert [str(event.kind) for event in events].count("publish") == 20


@pytest.mark.slow
def test_a_token_passes_untouched_and_is_never_written(certificate: Certificate, tmp_path: Path) -> None:
    seen: list[tuple[str, bytes]] = []

    def authenticate(method: str, data: bytes) -> str:
        seen.append((method, data))
        return "suite"

    folder = tmp_path / "events"
    with Broker(tls=certificate.server, authenticate=authenticate) as broker:
        command = [sys.executable, "-m", "ackwell", "record", "--broker", str(broker.tls_url), "--payloads"]
        command += ["--listen", "127.0.0.1:0", "-o", str(folder), "--tls-cert", str(certificate.cert)]
        command += ["--tls-key", str(certificate.key), "--tls-trust", str(certificate.cert)]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process:
            assert process.stdout is not None
            try:
                url = process.stdout.readline().split()[1]
                traffic(client_of(url, certificate, authentication=pulsar.AuthenticationToken(TOKEN)))
                broker.settle()
            finally:
                process.terminate()
            said = process.stdout.read()
        left = [each.data for each in broker.backlog("orders", "billing")]
    assert set(seen) == {("token", TOKEN.encode())}
    assert TOKEN not in said
    written = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert sorted(written) == ["_payloads-000001.jsonl", "events-000001.jsonl"]
    assert not any(TOKEN.encode() in data for data in written.values())
    assert len(list(read_events([folder]))) > 50
    with Broker() as broker:
        broker.load(folder)
        assert [each.data for each in broker.backlog("orders", "billing")] == left
        assert len(left) == 7


@pytest.mark.slow
def test_a_broker_that_cannot_be_trusted_gets_no_client(certificate: Certificate) -> None:
    with Broker(tls=certificate.server) as broker:
        assert broker.tls_url is not None
        proxy = Proxy(broker.tls_url, Recording(lambda _: None))
        broker.wait(proxy.start())
        client = pulsar.Client(proxy.url, logger=QUIET, operation_timeout_seconds=1)
        with pytest.raises(pulsar.PulsarException):
            client.create_producer("orders")
        client.close()
        broker.wait(proxy.stop())


@pytest.mark.parametrize("is_tls", [False, True])
def test_each_broker_in_an_answer_is_reached_through_the_proxy(
    certificate: Certificate, is_tls: bool
) -> None:
    there = ("pulsar+ssl://127.0.0.1:16651", "pulsar+ssl://127.0.0.1:26651")
    plain = ("pulsar://127.0.0.1:16650", "pulsar://127.0.0.1:26650")
    sent: list[Any] = []

    async def run() -> None:
        tls = certificate.server if is_tls else None
        proxy = Proxy(
            there[0] if is_tls else plain[0], Recording(lambda _: None), tls=tls, trust=certificate.trust
        )
        await proxy.start()
        link = ProxiedConnection(proxy, there[0] if is_tls else plain[0], Recording(lambda _: None))
        for index in (0, 1):
            answer = messages.CommandLookupTopicResponse(
                request_id=index, brokerServiceUrl=plain[index], brokerServiceUrlTls=there[index], response=1
            )
            given = frame(encode(CommandType.LOOKUP_RESPONSE, answer))
            for each in FrameReader().feed(given):
                link.from_broker(each)
            while link._readdressing is not None:
                await link._readdressing
        for data in link._to_client:
            sent.extend(decode(each.command).message for each in FrameReader().feed(data))
        known = [proxy.url_for((there if is_tls else plain)[index]) for index in (0, 1)]
        assert len({*known, *there, *plain}) == 6
        field = "brokerServiceUrlTls" if is_tls else "brokerServiceUrl"
        assert [getattr(each, field) for each in sent] == known
        other = "brokerServiceUrl" if is_tls else "brokerServiceUrlTls"
        assert [getattr(each, other) for each in sent] == ["", ""]
        await proxy.stop()

    with Broker() as loop:
        loop.wait(run())


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--tls-key", "k.pem"], "--tls-key needs --tls-cert"),
        (["--tls-cert", "none.pem"], "none.pem"),
        (["--tls-trust", "none.pem"], "none.pem"),
    ],
)
def test_an_option_of_tls_without_its_file_is_a_wrong_command_line(
    tmp_path: Path, options: list[str], why: str
) -> None:
    done = CliRunner().invoke(app, ["record", "--broker=pulsar://a:1", f"-o={tmp_path}", *options])
    assert done.exit_code == 2
    assert why in " ".join(done.output.replace("│", " ").split())


def test_the_file_of_authorities_is_named_if_it_cannot_be_read(
    certificate: Certificate, tmp_path: Path
) -> None:
    wrong = tmp_path / "w.pem"
    wrong.write_text("no certificate")
    given = [f"--tls-cert={certificate.cert}", f"--tls-key={certificate.key}", f"--tls-trust={wrong}"]
    for command in (["dev-broker"], ["record", "--broker=pulsar://a:1", f"-o={tmp_path}"]):
        done = CliRunner().invoke(app, [*command, *given])
        assert done.exit_code == 2
        output = re.sub(r"[\s│]", "", done.output)
        assert f"{wrong.name}:" in output
        assert "--tls-trust" in output
