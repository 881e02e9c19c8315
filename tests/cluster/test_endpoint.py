"""One request: headers, retries, redirects, and errors."""

from __future__ import annotations

import json
import socket
import time
import urllib.request
from types import SimpleNamespace
from typing import Any

import pytest

from ackwell.cluster import endpoint as module
from ackwell.cluster.admin import Admin
from ackwell.cluster.credentials import Token
from ackwell.cluster.endpoint import Endpoint
from ackwell.errors import StatsError
from tests.cluster.fake_admin import FakeBroker, broker
from tests.pauses import recorded_pauses

PATH = "/admin/v2/brokers/version"


@pytest.fixture(autouse=True)
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the pauses without their random factor."""
    monkeypatch.setattr(
        "ackwell.cluster.endpoint.random", SimpleNamespace(uniform=lambda low, high: (low + high) / 2)
    )
    return recorded_pauses(monkeypatch, "ackwell.cluster.endpoint")


def get(url: str, path: str = PATH, **options: Any) -> bytes:
    return Endpoint(url=url, **options).get(path, frozenset).body


def test_what_may_pass_is_asked_three_times_more_with_a_pause_that_doubles(slept: list[float]) -> None:
    with broker({PATH: 503}) as (url, asked):
        with pytest.raises(StatsError, match="HTTP 503") as caught:
            get(url)
        assert (len(asked), slept) == (4, [0.25, 0.5, 1.0])
        assert (caught.value.source, caught.value.reason) == (
            f"{url}{PATH}",
            "HTTP 503: as the test wants it",
        )


@pytest.mark.parametrize("code", [400, 401, 403, 404, 409, 412, 429, 500, 501, 502, 503, 504])
def test_only_some_codes_may_pass(code: int, slept: list[float]) -> None:
    again = code in (429, 500, 502, 503, 504)
    with broker({PATH: code}) as (url, asked), pytest.raises(StatsError, match=f"HTTP {code}"):
        get(url)
    assert len(asked) == (4 if again else 1)
    assert len(slept) == (3 if again else 0)


@pytest.mark.parametrize(
    ("code", "body", "reason"),
    [
        (409, b'{"reason":"busy"}', "HTTP 409: busy"),
        (409, b"<html>", "HTTP 409: Conflict"),
        (409, b'{"other":1}', "HTTP 409: Conflict"),
        (409, b"[1]", "HTTP 409: Conflict"),
        (409, b'{"reason":"' + 70_000 * b"x" + b'"}', "HTTP 409: Conflict"),
        (
            401,
            b'{"reason":"no"}',
            "HTTP 401: no (the token is missing or not accepted; pass one with --token-file or "
            "--client-conf)",
        ),
        (403, b"", "HTTP 403: the token may not read this; it needs the right to consume or to administer"),
        (404, b"x", "HTTP 404: the topic or namespace does not exist, or the address is not an admin URL"),
    ],
)
def test_the_reason_is_the_brokers_own_with_a_hint(code: int, body: bytes, reason: str) -> None:
    answers = {PATH: lambda handler: handler.reply(code, body)}
    with broker(answers) as (url, _), pytest.raises(StatsError) as caught:
        get(url)
    assert caught.value.reason == reason


def test_nobody_there_may_pass_and_an_unknown_name_does_not(slept: list[float]) -> None:
    with broker({}) as (url, _):
        pass
    with pytest.raises(StatsError, match="no connection: ") as caught:
        get(url)
    assert (len(slept), caught.value.source) == (3, f"{url}{PATH}")
    slept.clear()
    with pytest.raises(StatsError, match="no connection: "):
        get("http://nothing.invalid:1")
    assert slept == []


def test_a_list_of_hosts_is_asked_until_one_answers_without_a_pause(slept: list[float]) -> None:
    with broker({}) as (dead, _):
        pass
    with broker({PATH: b"1"}) as (url, asked):
        first, second = dead.removeprefix("http://"), url.removeprefix("http://")
        endpoint = Endpoint(url=f"http://u:p@{first},nothing.invalid:1,{second}/")
        assert [endpoint.get(PATH, frozenset).body for _ in range(3)] == [b"1"] * 3
        assert (len(asked), slept) == (3, [])
        # The next request goes to the host that answered.
        assert endpoint.address("x") == f"http://{second}/admin/v2/x"
        assert {authorization for _, _, authorization in asked} == {"Basic dTpw"}
    assert endpoint.shown_url == f"http://{first},nothing.invalid:1,{second}"
    assert all(endpoint.trusts(host, frozenset) for host in ("127.0.0.1", "nothing.invalid"))
    with pytest.raises(StatsError, match="no connection: "):
        endpoint.get(PATH, frozenset)


def test_a_host_of_several_that_does_not_accept_costs_little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CONNECT_SECONDS", 0.05)
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full, broker({PATH: b"1"}) as (url, _):
        # The queue of connections is full, so the next connection waits.
        held = [socket.socket() for _ in range(3)]
        for each in held:
            each.setblocking(False)
            each.connect_ex(full.getsockname())
        port = full.getsockname()[1]
        began = time.monotonic()
        assert get(f"http://127.0.0.1:{port},{url.removeprefix('http://')}", timeout_seconds=5.0) == b"1"
        assert time.monotonic() - began < 4.0
        for each in held:
            each.close()


@pytest.mark.parametrize("url", ["http://a:1,", "http://a:1,,b:2", "http://a:1,b:x", "http://,"])
def test_an_invalid_host_in_a_list_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="not an admin address"):
        Endpoint(url=url)


def test_an_answer_that_breaks_off_may_pass(slept: list[float]) -> None:
    def broken(handler: FakeBroker) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "100")
        handler.end_headers()
        handler.wfile.write(b"a")

    with broker({PATH: broken}) as (url, asked), pytest.raises(StatsError, match="the answer broke off: "):
        get(url)
    assert (len(asked), len(slept)) == (4, 3)


def test_an_answer_may_be_as_long_as_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    assert module.BODY_BYTES_MAX == 256 << 20
    monkeypatch.setattr(module, "BODY_BYTES_MAX", 10)
    with broker({PATH: b"0123456789", "/x": b"0123456789a"}) as (url, _):
        assert get(url) == b"0123456789"
        with pytest.raises(StatsError, match="an answer of more than 0 MiB"):
            get(url, "/x")


def test_the_time_is_the_brokers() -> None:
    def dated(date: str | None) -> Any:
        def answer(handler: FakeBroker) -> None:
            handler.send_response_only(200)
            if date is not None:
                handler.send_header("Date", date)
            handler.send_header("Content-Length", "0")
            handler.end_headers()

        return answer

    answers = {
        "/a": dated("Mon, 23 Nov 2026 19:00:00 GMT"),
        "/b": dated("yesterday"),
        "/c": dated(None),
    }
    with broker(answers) as (url, _):
        times = [Endpoint(url=url).get(path, frozenset).time_ms for path in answers]
    assert times == [1_795_460_400_000, None, None]


def test_a_path_is_below_the_admin_api_unless_it_begins_with_a_slash() -> None:
    endpoint = Endpoint(url="http://user:secret@broker:8080/")
    assert endpoint.address("brokers/version") == f"http://broker:8080{PATH}"
    assert endpoint.address("/lookup/v2") == "http://broker:8080/lookup/v2"
    assert (endpoint.host, endpoint.shown_url) == ("broker", "http://broker:8080")
    assert "secret" not in repr(endpoint)
    assert (endpoint.timeout_seconds, endpoint.tls_allow_insecure, endpoint.trusted_hosts) == (
        30.0,
        False,
        (),
    )


def test_the_host_that_was_asked_those_that_are_trusted_and_those_of_the_cluster_get_the_credentials() -> (
    None
):
    endpoint = Endpoint(url="http://a:1", trusted_hosts=("b",))
    hosts = [host for host in "abcd" if endpoint.trusts(host, lambda: frozenset({"c"}))]
    assert hosts == ["a", "b", "c"]


# Requests that change something


class Written:
    """An answer that stores the written bytes."""

    def __init__(self, code: int = 204) -> None:
        self.code = code
        self.got: list[tuple[str, str | None, bytes]] = []

    def __call__(self, handler: FakeBroker) -> None:
        body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        self.got.append((handler.command, handler.headers.get("Content-Type"), body))
        handler.reply(self.code, b"")


def test_what_is_changed_is_json_and_nothing_has_no_body() -> None:
    written = Written(200)
    with broker({"/admin/v2/x": written}) as (url, asked):
        admin = Admin(Endpoint(url=url, credentials=Token("secret")))
        admin.change("POST", "x", {"a": 1})
        admin.change("DELETE", "x")
        admin.change("PUT", "x", 0)
    assert [(method, json.loads(body or b"null")) for method, _, body in written.got] == [
        ("POST", {"a": 1}),
        ("DELETE", None),
        ("PUT", 0),
    ]
    assert [kind for _, kind, _ in written.got] == ["application/json", None, "application/json"]
    assert {token for _, _, token in asked} == {"Bearer secret"}


def redirecting(code: int, url: str) -> Any:
    def answer(handler: FakeBroker) -> None:
        handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        handler.send_response(code)
        handler.send_header("Location", url)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    return answer


@pytest.mark.parametrize("code", [307, 308])
@pytest.mark.parametrize("token", ["secret", None])
def test_a_change_is_redirected_with_its_body_to_a_host_that_is_trusted(code: int, token: str | None) -> None:
    written = Written(200)
    with (
        broker({"/admin/v2/x": written}, host="127.0.0.2") as (owner, asked),
        broker({"/admin/v2/x": redirecting(code, f"{owner}/admin/v2/x")}) as (url, _),
    ):
        credentials = Token(token) if token else None
        trusted = Endpoint(url=url, credentials=credentials, trusted_hosts=("127.0.0.2",))
        trusted.change("POST", "x", b"body", frozenset)
        assert [(method, body) for method, _, body in written.got] == [("POST", b"body")]
        assert [each[2] for each in asked] == [None if token is None else "Bearer secret"]
        # A change is not redirected to an unlisted host, with or without credentials.
        with pytest.raises(StatsError, match="which the cluster does not list"):
            Endpoint(url=url, credentials=credentials).change("POST", "x", b"body", frozenset)
    assert len(written.got) == 1


def test_without_credentials_a_question_is_followed_anywhere() -> None:
    with (
        broker({PATH: b"1"}, host="127.0.0.2") as (owner, _),
        broker({PATH: redirecting(307, f"{owner}{PATH}")}) as (url, _),
    ):
        assert get(url) == b"1"
        with pytest.raises(StatsError, match="the credentials are not sent there"):
            get(url, credentials=Token("secret"))


def test_a_change_is_not_turned_into_a_question_by_another_redirect() -> None:
    handler = module._OwnerRedirectHandler(Endpoint(url="http://127.0.0.1:1"), frozenset)
    for code in (301, 302, 303):
        request = urllib.request.Request("http://127.0.0.1:1/x", data=b"body", method="PUT")
        with pytest.raises(urllib.error.HTTPError):
            handler.redirect_request(request, None, code, "", {}, "http://127.0.0.1:1/y")  # type: ignore[arg-type]
