"""The doctor: verdicts, numbers, remedies that were tried out, JSON, exit codes and the live API."""

from __future__ import annotations

import json
import shutil
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
from typer.testing import CliRunner

from ackwell import Position, PositionRangeSet
from ackwell.broker.admin import Admin
from ackwell.broker.restart import BrokerSettings, Count, Restart
from ackwell.broker.stats import SubscriptionStats, parse_stats
from ackwell.cli import app
from ackwell.diagnosis.doctor import Verdict, diagnose, examine
from ackwell.errors import StatsError
from tests.broker.test_stats import internal, stats


def holes(count: int) -> str:
    return "[" + ",".join(f"(3:{2 * n}..3:{2 * n + 1}]" for n in range(count)) + "]"


def answer(ranges: str, *, entries: int = 100_000, **memory: Any) -> dict[str, Any]:
    told = internal(
        entriesAddedCounter=entries,
        numberOfEntries=entries,
        lastConfirmedEntry=f"4:{entries - 1}",
        ledgers=[{"ledgerId": 3, "entries": entries, "size": 0}, {"ledgerId": 4, "entries": 0, "size": 0}],
    )
    told["cursors"]["sub"] |= {"markDeletePosition": "3:-1", "individuallyDeletedMessages": ranges}
    return {"internalStats": told, "stats": stats(entries)} | ({"cursor": memory} if memory else {})


def subscription(ranges: str, **memory: Any) -> SubscriptionStats:
    (found,) = parse_stats(json.dumps(answer(ranges, **memory)).encode(), "answer.json")
    return found


RANGES_FORM = BrokerSettings.of("4.0")
GRACEFUL: tuple[Restart, ...] = ("graceful",)


def test_a_small_state_is_fine() -> None:
    found = diagnose(subscription(holes(5)), restarts=GRACEFUL)
    assert (found.verdict, found.messages_lost, found.reasons, found.remedies) == (
        Verdict.FINE,
        Count(0, 0),
        (),
        (),
    )


def test_a_crash_before_the_last_acks_are_written_is_a_risk_of_the_same_bound_everywhere() -> None:
    found = diagnose(subscription(holes(5)))
    assert found.verdict is Verdict.AT_RISK
    crash = found.to_json()["restarts"]["crash"]
    assert crash["ackedMessagesLostBeforeFlush"] == {"min": 0, "max": 5}
    assert found.messages_lost == Count(0, 5)


def batches(messages: int, **changes: Any) -> SubscriptionStats:
    """100 entries of `messages` in all, and no word of which messages inside them are acknowledged."""
    told = answer("[]", entries=100)
    told["stats"] = stats(messages) | changes
    (found,) = parse_stats(json.dumps(told).encode(), "answer.json")
    return found


def test_hidden_acks_inside_batches_are_a_risk_with_an_interval() -> None:
    found = diagnose(batches(1_000), restarts=GRACEFUL)
    assert (found.verdict, found.messages_lost) == (Verdict.AT_RISK, Count(0, 900))
    assert [reason.code for reason in found.reasons] == ["batch-index-hidden"]
    unproven = diagnose(batches(0), restarts=GRACEFUL)
    assert (unproven.verdict, unproven.messages_lost) == (Verdict.AT_RISK, Count(0, None))


def test_nothing_is_hidden_where_each_entry_is_one_message_or_batch_indexes_are_off() -> None:
    assert diagnose(batches(100), restarts=GRACEFUL).verdict is Verdict.FINE
    assert diagnose(batches(1_000), RANGES_FORM, restarts=GRACEFUL).verdict is Verdict.FINE


def test_a_mean_of_messages_in_an_entry_never_makes_a_number_exact() -> None:
    told = answer(holes(12_000))
    told["stats"] = stats(1_000_000, average=10)
    (found,) = parse_stats(json.dumps(told).encode(), "answer.json")
    lost = diagnose(found, RANGES_FORM, restarts=GRACEFUL).messages_lost
    assert lost == Count(1_999, 1_000_000 - 100_000 + 1_999)


def test_ack_sets_at_or_below_the_mark_delete_position_are_not_lost() -> None:
    memory = {"name": "sub", "batchDeletedIndexes": {"3:0": [1], "3:6": [1]}}
    told = subscription("[(3:5..3:6]]", **memory)
    found = diagnose(replace(told, mark_delete_position=Position(3, 2)), restarts=GRACEFUL)
    assert found.messages_lost == Count(0, 0)


def test_a_broker_of_5_0_keeps_exactly_the_limit() -> None:
    ranges_form = ("managedLedgerPersistIndividualAckAsLongArray=false",)
    lost = [
        diagnose(
            subscription(holes(10_001)),
            BrokerSettings.of(version).with_values(ranges_form),
            restarts=GRACEFUL,
        ).messages_lost
        for version in ("4.2", "5.0")
    ]
    assert lost == [Count(0, 0), Count(1, 1)]


def test_past_the_limit_it_loses_and_names_settings_that_mend_it() -> None:
    found = diagnose(subscription(holes(12_000)), RANGES_FORM, restarts=GRACEFUL)
    assert (found.verdict, found.messages_lost.exact) == (Verdict.LOSING, 1_999)
    assert found.reasons[0].issues == ("apache/pulsar#25540", "apache/pulsar#25548")
    mended = RANGES_FORM.with_values(found.remedies[0].settings)
    assert diagnose(found.stats, mended, restarts=GRACEFUL).messages_lost == Count(0, 0)


def test_near_the_limit_it_is_at_risk() -> None:
    assert diagnose(subscription(holes(7_000)), RANGES_FORM, restarts=GRACEFUL).verdict is Verdict.FINE
    assert diagnose(subscription(holes(9_000)), RANGES_FORM, restarts=GRACEFUL).verdict is Verdict.AT_RISK


def test_the_worse_of_both_restarts_counts() -> None:
    two_ledgers = "[(3:0..3:20000],(4:-1..4:4999]]"
    found = diagnose(subscription(two_ledgers))
    assert {loss.restart: loss.messages.exact for loss in found.restarts} == {"graceful": 0, "crash": 5_000}
    assert found.messages_lost == Count(5_000, 25_000)
    assert diagnose(subscription(two_ledgers), restarts=("graceful",)).messages_lost.exact == 0


def test_batch_indexes_are_counted_where_the_source_has_them() -> None:
    memory = {"name": "sub", "batchDeletedIndexes": {"3:0": [33], "3:1": [33]}}
    told = subscription("[(3:5..3:6]]", **memory)
    found = diagnose(replace(told, batch_sizes=replace(told.batch_sizes, each=10)))
    assert found.messages_lost.exact == 16
    assert {reason.code for reason in found.reasons} == {"batch-index-not-read-back"}
    assert found.remedies[0].settings == ("managedLedgerMaxUnackedRangesToPersistInMetadataStore=0",)


def test_an_unknown_batch_size_gives_an_interval_and_says_why() -> None:
    told = subscription(holes(12_000))
    found = diagnose(replace(told, batch_sizes=replace(told.batch_sizes, each=None)), RANGES_FORM)
    assert found.to_json()["ackedMessagesLostOnRestart"] == {"min": 1_999, "max": None}
    assert "interval" in found.notes[0]


def test_a_reader_keeps_its_own_place() -> None:
    found = diagnose(replace(subscription(holes(12_000)), durable=False), RANGES_FORM)
    assert (found.verdict, found.messages_lost) == (Verdict.FINE, Count(0, 0))


def run(*arguments: str, stdin: bytes | None = None) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["doctor", *arguments], input=stdin)
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.output


@pytest.fixture
def losing(tmp_path: Path) -> str:
    path = tmp_path / "losing.json"
    path.write_text(json.dumps(answer(holes(12_000))))
    return str(path)


@pytest.fixture
def fine(tmp_path: Path) -> str:
    path = tmp_path / "fine.json"
    path.write_text(json.dumps(answer(holes(5))))
    return str(path)


def test_json_has_an_object_for_each_subscription(losing: str, fine: str) -> None:
    code, output = run("--json", "--broker-version", "4.0", "--restart", "graceful", losing, fine)
    first, second = json.loads(output)
    assert code == 4
    assert first["topic"] == "losing.json"
    assert first["subscription"] == "sub"
    assert first["verdict"] == "losing"
    assert first["ackedMessagesLostOnRestart"] == 1_999
    assert "apache/pulsar#25540" in first["reasons"][0]["issues"]
    assert (second["verdict"], second["ackedMessagesLostOnRestart"], second["reasons"]) == ("fine", 0, [])


def test_exit_codes_tell_the_verdict(losing: str, fine: str, tmp_path: Path) -> None:
    near = tmp_path / "near.json"
    near.write_text(json.dumps(answer(holes(9_000))))
    old = ("--broker-version", "4.0", "--restart", "graceful")
    assert run(*old, fine)[0] == 0
    assert run(*old, str(near))[0] == 3
    assert run(*old, "--fail-on", "losing", str(near))[0] == 0
    assert run(*old, "--fail-on", "losing", losing)[0] == 4
    assert run(*old, "--fail-on", "never", losing)[0] == 0
    assert run(*old, "--broker-setting", "managedLedgerMaxUnackedRangesToPersist=50000", losing)[0] == 0
    assert run("--broker-setting", "noSuchSetting=1", fine)[0] == 2
    assert run("--broker-version", "2.8", fine)[0] == 2
    assert run()[0] == 2


def test_the_screen_names_the_loss_the_reason_and_the_remedy(losing: str) -> None:
    _, output = run("--broker-version", "4.0", losing)
    assert "1,999" in output
    assert "apache/pulsar#25540" in output
    assert "managedLedgerMaxUnackedRangesToPersist=50000" in output


def test_standard_input_is_read() -> None:
    assert run("--restart", "graceful", "-", stdin=json.dumps(answer(holes(5))).encode())[0] == 0


def test_a_wrong_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    page = tmp_path / "page.json"
    page.write_text("<html><title>Login</title>")
    with pytest.raises(StatsError, match=r"page\.json: an HTML page titled 'Login'"):
        run(str(page))
    with pytest.raises(StatsError, match=r"gone\.json: cannot be read"):
        list(examine([tmp_path / "gone.json"]))


class _Broker(BaseHTTPRequestHandler):
    """As much of the admin API as the doctor asks for."""

    asked: ClassVar[list[tuple[str, str, str | None]]] = []
    answers: ClassVar[dict[str, Any]] = {}

    def do_GET(self) -> None:
        self.asked.append((self.command, self.path, self.headers.get("Authorization")))
        value = self.answers.get(self.path)
        if isinstance(value, str) and value.startswith("http"):
            self.send_response(307)
            self.send_header("Location", value)
            self.end_headers()
            return
        code, body = (404, b'{"reason":"Topic not found"}') if value is None else (200, value)
        if not isinstance(body, bytes):
            body = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


@contextmanager
def broker(
    answers: dict[str, Any], certificate: Path | None = None
) -> Iterator[tuple[str, list[tuple[str, str, str | None]]]]:
    handler = type("Handler", (_Broker,), {"asked": [], "answers": answers})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    scheme = "http"
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        scheme = "https"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"{scheme}://127.0.0.1:{server.server_port}", handler.asked  # type: ignore[attr-defined]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def served(topic: str = "orders") -> dict[str, Any]:
    told = answer(holes(12_000))
    base = f"/admin/v2/persistent/shop/eu/{topic}"
    return {
        "/admin/v2/tenants": ["shop"],
        "/admin/v2/namespaces/shop": ["shop/eu"],
        "/admin/v2/persistent/shop/eu": ["persistent://shop/eu/orders"],
        f"{base}/internalStats": told["internalStats"],
        f"{base}/stats": told["stats"],
    }


def test_a_live_broker_is_asked_by_get_alone_and_with_the_token() -> None:
    with broker(served()) as (url, asked):
        for wanted in ((), ("shop",), ("shop/eu",), ("persistent://shop/eu/orders",)):
            (found,) = Admin(url=url, token="secret").read(wanted)
            assert (found.topic, found.subscription) == ("persistent://shop/eu/orders", "sub")
            assert len(found.individually_deleted) == 12_000
            assert found.batch_sizes.each == 1
    assert asked
    assert {(method, token) for method, _, token in asked} == {("GET", "Bearer secret")}


def test_the_command_asks_a_live_broker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("secret\n")
    with broker(served()) as (url, asked):
        options = ("--token-file", str(token), "--broker-version", "4.0", "--restart", "graceful")
        code, output = run("--admin", url, *options, "--json")
    (found,) = json.loads(output)
    assert (code, found["ackedMessagesLostOnRestart"]) == (4, 1_999)
    assert asked[0][2] == "Bearer secret"


def test_a_name_with_a_slash_or_a_blank_is_quoted() -> None:
    with broker(served("a%2Fb%20c")) as (url, _):
        (found,) = Admin(url=url).read(["persistent://shop/eu/a/b c"])
    assert found.topic == "persistent://shop/eu/a/b c"


def test_a_redirect_to_the_owner_is_followed_with_the_token() -> None:
    with broker(served()) as (owner, asked):
        there = {path: f"{owner}{path}" for path in served() if path.endswith(("internalStats", "stats"))}
        with broker(there) as (url, _):
            (found,) = Admin(url=url, token="secret").read(["persistent://shop/eu/orders"])
    assert found.topic == "persistent://shop/eu/orders"
    assert {token for _, _, token in asked} == {"Bearer secret"}


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A self-signed certificate for 127.0.0.1, with its key."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("no openssl here to make a certificate with")
    path = tmp_path / "broker.pem"
    options = (
        "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1"
    )
    command = [
        openssl,
        *options.split(),
        "-keyout",
        str(tmp_path / "key.pem"),
        "-out",
        str(tmp_path / "cert.pem"),
    ]
    subprocess.run(command, check=True, capture_output=True)
    path.write_text((tmp_path / "key.pem").read_text() + (tmp_path / "cert.pem").read_text())
    return path


def test_a_certificate_is_trusted_only_when_it_is_named_or_all_are(certificate: Path) -> None:
    topic = "persistent://shop/eu/orders"
    with broker(served(), certificate) as (url, asked):
        with pytest.raises(StatsError, match=r"no connection: .*certificate"):
            list(Admin(url=url, token="secret").read([topic]))
        assert not asked
        for admin in (
            Admin(url=url, tls_trust_certificates=certificate),
            Admin(url=url, tls_allow_insecure=True),
        ):
            (found,) = admin.read([topic])
            assert found.topic == topic


def test_the_token_never_leaves_an_encrypted_connection_for_an_open_one(certificate: Path) -> None:
    with broker(served()) as (owner, asked):
        there = {path: f"{owner}{path}" for path in served()}
        with (
            broker(there, certificate) as (url, _),
            pytest.raises(StatsError, match="the token is not sent there"),
        ):
            list(Admin(url=url, token="secret", tls_trust_certificates=certificate).read())
    assert not asked


def test_what_goes_wrong_on_the_way_names_the_address() -> None:
    page = {"/admin/v2/tenants": b"<html><title>Sign in</title></html>"}
    with broker(page) as (url, _):
        with pytest.raises(StatsError, match=r"/admin/v2/tenants: an HTML page titled 'Sign in'"):
            list(Admin(url=url).read())
        with pytest.raises(StatsError, match=r"HTTP 404: Topic not found"):
            list(Admin(url=url).read(["persistent://shop/eu/none"]))
    with pytest.raises(StatsError, match="no connection"):
        list(Admin(url=url, timeout_seconds=2).read())
    with pytest.raises(ValueError, match="not an admin address: 'broker:8080'"):
        Admin(url="broker:8080")


def test_the_oldest_unacknowledged_entry_is_the_one_after_the_mark_delete_position() -> None:
    from ackwell.diagnosis.doctor import oldest_unacked

    assert oldest_unacked(subscription(holes(3))) == Position(3, 0)
    everything = replace(
        subscription("[]"), mark_delete_position=Position(4, 99_999), individually_deleted=PositionRangeSet()
    )
    assert oldest_unacked(everything) is None
