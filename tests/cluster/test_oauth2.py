"""OAuth2 client credentials with a fake issuer: requests, renewal, and errors without a secret."""

from __future__ import annotations

import base64
import threading
from pathlib import Path
from typing import Any

import pytest

from ackwell.cluster import oauth2 as module
from ackwell.cluster.admin import Admin
from ackwell.cluster.credentials import TemporaryError
from ackwell.cluster.endpoint import Endpoint
from ackwell.cluster.oauth2 import OAuth2
from ackwell.errors import StatsError
from tests.cluster.fake_admin import broker, guarded, served
from tests.cluster.fake_issuer import SECRET, TOKEN, Issuer, issuer, key_file
from tests.pauses import recorded_pauses


class Clock:
    """A clock that a test moves."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(module, "time", made)
    return made


def oauth2(made: Issuer, tmp_path: Path, **options: Any) -> OAuth2:
    if "key_file" not in options:
        options["key_file"] = str(key_file(tmp_path))
    return OAuth2(issuer_url=f"{made.url}/realm/", **options)


def test_one_token_serves_all_threads_until_a_tenth_of_its_life_is_left(tmp_path: Path, clock: Clock) -> None:
    with issuer(100) as made:
        credentials = oauth2(made, tmp_path, audience="urn:pulsar", scope="a b")
        assert made.forms == []
        found: list[str] = []
        threads = [threading.Thread(target=lambda: found.append(credentials.header())) for _ in range(8)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert found == [f"Bearer {TOKEN}1"] * 8
        clock.now = 89.9
        assert credentials.data() == f"{TOKEN}1".encode()
        clock.now = 90.1
        assert credentials.header() == f"Bearer {TOKEN}2"
    assert made.forms == 2 * [
        {
            "grant_type": ["client_credentials"],
            "client_id": ["ops"],
            "client_secret": [SECRET],
            "audience": ["urn:pulsar"],
            "scope": ["a b"],
        }
    ]


def test_a_valid_token_is_used_while_the_issuer_is_down(tmp_path: Path, clock: Clock) -> None:
    with issuer(100) as made:
        credentials = oauth2(made, tmp_path)
        first = credentials.header()
        made.answers["/token"] = 503
        clock.now = 95.0
        assert credentials.header() == first
        clock.now = 100.1
        with pytest.raises(TemporaryError, match="no token: HTTP 503"):
            credentials.header()
        made.answers["/token"] = made.token
        assert credentials.header() == f"Bearer {TOKEN}2"


def test_a_refused_token_is_renewed_once(tmp_path: Path) -> None:
    with issuer(None) as made:
        credentials = oauth2(made, tmp_path)
        with broker(guarded(served(), made.accepts)) as (url, asked):
            admin = Admin(Endpoint(url=url, credentials=credentials))
            assert admin.facts().version == "4.2.4"
            made.revoked.add(f"Bearer {TOKEN}1")
            assert Admin(admin.endpoint).facts().version == "4.2.4"
            assert {header for _, _, header in asked[-2:]} == {f"Bearer {TOKEN}2"}
        with broker(guarded(served(), lambda _: False)) as (url, asked):
            with pytest.raises(StatsError, match="HTTP 401: Unauthorized"):
                Endpoint(url=url, credentials=credentials).get("brokers/version", frozenset)
            assert [header for _, _, header in asked] == [f"Bearer {TOKEN}2", f"Bearer {TOKEN}3"]


def test_a_request_waits_for_an_issuer_that_is_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slept = recorded_pauses(monkeypatch, "ackwell.cluster.endpoint")
    with issuer() as made, broker(guarded(served(), made.accepts)) as (url, _):
        endpoint = Endpoint(url=url, credentials=oauth2(made, tmp_path))
        made.answers["/token"] = 503
        with pytest.raises(StatsError, match=r"/token: no token: HTTP 503"):
            endpoint.get("brokers/version", frozenset)
        assert len(slept) == 3
        made.answers["/token"] = made.token
        assert endpoint.get("brokers/version", frozenset).body == b"4.2.4"


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (400, "no token: the answer is not one of a token endpoint"),
        (404, "no token: HTTP 404"),
        (b"<html>", "no token: the answer is not one of a token endpoint"),
        (b"[1]", "no token: the answer is not one of a token endpoint"),
        ({"access_token": 5, "token_type": "Bearer"}, "no token: the answer is not one of a token endpoint"),
        ({"access_token": "a\nb", "token_type": "x"}, "no token: the answer is not one of a token endpoint"),
        ({"access_token": "a", "expires_in": "soon"}, "no token: the answer is not one of a token endpoint"),
        ({"token_type": "Bearer"}, "no token: the answer is not one of a token endpoint"),
        ("http://127.0.0.1:1/other", "the credentials are not sent there"),
    ],
)
def test_a_bad_answer_is_one_sentence(tmp_path: Path, answer: Any, error: str) -> None:
    with issuer() as made:
        made.answers["/token"] = answer
        with pytest.raises(StatsError) as caught:
            oauth2(made, tmp_path).header()
        assert error in str(caught.value)
        assert f"{made.url}/token: " in str(caught.value)


@pytest.mark.parametrize("answer", [b"<html>", {}, [], {"token_endpoint": 5}, {"token_endpoint": "ftp://a"}])
def test_metadata_without_a_token_endpoint_are_refused(tmp_path: Path, answer: Any) -> None:
    with issuer() as made:
        made.answers["/realm/.well-known/openid-configuration"] = answer
        with pytest.raises(StatsError, match="name no token endpoint"):
            oauth2(made, tmp_path).header()


def test_a_wrong_secret_is_never_quoted(tmp_path: Path) -> None:
    with issuer() as made:
        credentials = oauth2(made, tmp_path, key_file=str(key_file(tmp_path, "WrOnG-SeCrEt")))
        with pytest.raises(StatsError, match="invalid_client: no client ops with …") as caught:
            credentials.header()
    assert "WrOnG" not in str(caught.value) + repr(credentials)


def test_the_key_file_is_a_path_or_a_url(tmp_path: Path) -> None:
    file = key_file(tmp_path)
    encoded = base64.b64encode(file.read_bytes()).decode()
    with issuer() as made:
        for given in (file.as_uri(), f"data:application/json;base64,{encoded}"):
            assert oauth2(made, tmp_path, key_file=given).header().startswith(f"Bearer {TOKEN}")
        with pytest.raises(FileNotFoundError):
            oauth2(made, tmp_path, key_file=str(tmp_path / "none"))
        for content in ("", "[]", "{}", '{"client_id":"a"}', '{"client_id":"a","client_secret":5}', "\0"):
            file.write_text(content)
            with pytest.raises(ValueError, match=r"key.json: expected a JSON object with client_id"):
                OAuth2(issuer_url=made.url, key_file=str(file))
        for given in ("data:application/json;base64,SeC", "data:,SeCrEt"):
            with pytest.raises(ValueError, match="the data URL") as caught:
                oauth2(made, tmp_path, key_file=given)
            assert "SeC" not in str(caught.value)


@pytest.mark.parametrize("url", ["", "issuer", "ftp://issuer", "https://"])
def test_an_issuer_is_an_address(tmp_path: Path, url: str) -> None:
    with pytest.raises(ValueError, match="issuerUrl: expected the address"):
        OAuth2(issuer_url=url, key_file=str(key_file(tmp_path)))


def test_no_secret_leaves_tls(tmp_path: Path, certificate: Path) -> None:
    with issuer(certificate=certificate) as made:
        credentials = oauth2(made, tmp_path, trust_certificates=certificate)
        assert credentials.header() == f"Bearer {TOKEN}1"
        with pytest.raises(StatsError, match=r"no connection: .*CERTIFICATE_VERIFY_FAILED"):
            oauth2(made, tmp_path).header()
        plain = made.url.replace("https", "http")
        for path, answer, error in (
            ("/realm/.well-known/openid-configuration", {"token_endpoint": f"{plain}/token"}, "has no TLS"),
            ("/realm/.well-known/openid-configuration", f"{plain}/x", "a connection without TLS"),
        ):
            made.answers[path] = answer
            with pytest.raises(StatsError, match=error):
                oauth2(made, tmp_path, trust_certificates=certificate).header()
    assert len(made.forms) == 1
