"""`client.conf` and contexts of pulsarctl: every key that we use, and errors without a value."""

from __future__ import annotations

import json
import ssl
from pathlib import Path
from typing import Any

import pytest

from ackwell.cluster.admin import Admin
from ackwell.cluster.client_conf import ClientConf, read_client_conf, read_pulsarctl_context
from ackwell.cluster.credentials import Token
from ackwell.cluster.endpoint import Endpoint
from tests.cluster.fake_admin import broker, guarded, served
from tests.cluster.fake_issuer import TOKEN, issuer, key_file

PLUGIN = "org.apache.pulsar.client.impl.auth."
SHIPPED = """
# Configuration for pulsar-client and pulsar-admin CLI tools
webServiceUrl=http://localhost:8080/
brokerServiceUrl=pulsar://localhost:6650/
authPlugin=
authParams=
tlsAllowInsecureConnection=false
tlsEnableHostnameVerification=false
tlsTrustCertsFilePath=
tlsCertificateFilePath=
tlsKeyFilePath=
useKeyStoreTls=false
tlsTrustStoreType=JKS
"""


def conf(tmp_path: Path, text: str = "", **values: str) -> ClientConf:
    file = tmp_path / "client.conf"
    file.write_text(text + "".join(f"{name}={value}\n" for name, value in values.items()))
    return read_client_conf(file)


def headers(found: ClientConf) -> tuple[str, bytes]:
    assert found.credentials is not None
    return found.credentials.header(), found.credentials.data()


def test_the_shipped_file_has_the_addresses_and_no_credentials(tmp_path: Path) -> None:
    expected = ClientConf(admin_url="http://localhost:8080", broker_url="pulsar://localhost:6650")
    assert conf(tmp_path, SHIPPED) == expected
    assert conf(tmp_path) == ClientConf()


@pytest.mark.parametrize("plugin", [f"{PLUGIN}AuthenticationToken", "token"])
def test_a_token_is_a_text_a_file_or_a_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plugin: str
) -> None:
    file = tmp_path / "token"
    file.write_text("first\n")
    monkeypatch.setenv("SOME_TOKEN", "first")
    for given in ("token:first", "data:first", "first", file.as_uri(), "env:SOME_TOKEN"):
        found = conf(tmp_path, authPlugin=plugin, authParams=given)
        assert headers(found) == ("Bearer first", b"first")
        assert "first" not in repr(found)


def test_a_token_in_a_file_can_be_replaced(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first")
    token = Token.in_file(file)
    for content, expected in (("second", "second"), ("", "second"), ("third\n", "third")):
        file.write_text(content)
        assert token.header() == f"Bearer {expected}"
    file.unlink()
    assert token.data() == b"third"
    with broker(guarded(served(), lambda header: header == "Bearer fourth")) as (url, asked):
        file.write_text("third")
        endpoint = Endpoint(url=url, credentials=token)
        original = Token.renew

        def replaced(self: Token, header: str) -> bool:
            file.write_text("fourth")
            return original(self, header)

        token.renew = replaced.__get__(token)  # type: ignore[method-assign]
        assert Admin(endpoint).facts().version == "4.2.4"
    assert [header for _, _, header in asked][:2] == ["Bearer third", "Bearer fourth"]


def test_basic_has_a_user_and_a_password(tmp_path: Path) -> None:
    parameters = json.dumps({"userId": "ops", "password": "p:@ss"})
    found = conf(tmp_path, authPlugin=f"{PLUGIN}AuthenticationBasic", authParams=parameters)
    assert headers(found) == ("Basic b3BzOnA6QHNz", b"ops:p:@ss")
    assert Endpoint(url="http://a", credentials=found.credentials).binary_credentials()[0] == "basic"


def test_oauth2_gets_a_token_from_the_issuer(tmp_path: Path) -> None:
    with issuer() as made:
        parameters = {
            "type": "client_credentials",
            "issuerUrl": f"{made.url}/realm",
            "privateKey": key_file(tmp_path).as_uri(),
            "audience": "urn:pulsar",
            "connectTimeout": "PT5S",
        }
        found = conf(
            tmp_path, authPlugin=f"{PLUGIN}oauth2.AuthenticationOAuth2", authParams=json.dumps(parameters)
        )
        assert made.forms == []
        assert headers(found) == (f"Bearer {TOKEN}1", f"{TOKEN}1".encode())
        assert made.forms[0]["audience"] == ["urn:pulsar"]


def test_tls_keys_name_the_certificates(tmp_path: Path) -> None:
    keys = {"tlsCertificateFilePath": "c", "tlsKeyFilePath": "k", "tlsTrustCertsFilePath": "t"}
    found = conf(tmp_path, **keys, tlsAllowInsecureConnection="TRUE")
    assert (found.tls_certificate, found.tls_key, found.tls_trust_certificates, found.tls_allow_insecure) == (
        *(Path(each) for each in "ckt"),
        True,
    )
    for parameters in (
        "tlsCertFile:/a/cert,tlsKeyFile:/a/key",
        '{"tlsCertFile":"/a/cert","tlsKeyFile":"/a/key"}',
    ):
        found = conf(tmp_path, **keys, authPlugin=f"{PLUGIN}AuthenticationTls", authParams=parameters)
        assert (found.tls_certificate, found.tls_key) == (Path("/a/cert"), Path("/a/key"))
        assert found.credentials is None
    assert conf(tmp_path, **keys, authPlugin="tls").tls_certificate == Path("c")


def test_names_are_verified_unless_the_file_says_no_and_names_its_own_authorities(
    tmp_path: Path, certificate: Path
) -> None:
    no = {"tlsEnableHostnameVerification": "false"}
    trusted = {"tlsTrustCertsFilePath": str(certificate)}
    verifies = [conf(tmp_path, **values).tls_verify_names for values in ({}, no, trusted, no | trusted)]
    assert verifies == [True, True, True, False]
    assert conf(tmp_path, **trusted, tlsEnableHostnameVerification="true").tls_verify_names
    context = Endpoint(
        url="https://a", tls_verify_names=False, tls_trust_certificates=certificate
    ).tls_context
    assert (context.check_hostname, context.verify_mode) == (False, ssl.CERT_REQUIRED)


@pytest.mark.parametrize(
    ("admin", "given", "used"),
    [
        ("https://p:8443/", "pulsar+ssl://p:6651/", "pulsar+ssl://p:6651"),
        ("http://a:8080,b:8080", "pulsar://a:6650,b:6650", "pulsar://a:6650"),
        ("http://a:8080", "pulsar://localhost:6650", None),
        ("http://a:8080", "", None),
        ("http://a:8080", "pulsar://[", None),
        ("", "pulsar://a:6650", None),
    ],
)
def test_the_brokers_address_is_used_on_the_host_of_the_admin_api(
    tmp_path: Path, admin: str, given: str, used: str | None
) -> None:
    assert conf(tmp_path, webServiceUrl=admin, brokerServiceUrl=given).broker_url == used


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ({"useKeyStoreTls": "true"}, "useKeyStoreTls: a Java key store cannot be read"),
        ({"tlsAllowInsecureConnection": "SeCrEt"}, "tlsAllowInsecureConnection: expected true or false"),
        ({"authPlugin": f"{PLUGIN}AuthenticationSasl"}, "authPlugin: 'sasl' is not supported"),
        ({"authPlugin": "token", "authParams": ""}, "authParams: no token in it"),
        ({"authPlugin": "token", "authParams": "SeCrEt\\u00e9"}, "authParams: not a token"),
        ({"authPlugin": "token", "authParams": "file:///none"}, "authParams: /none: No such file"),
        ({"authPlugin": "tls"}, "authParams: expected tlsCertFile:PATH,tlsKeyFile:PATH"),
        ({"authPlugin": "basic", "authParams": "SeCrEt"}, "expected a JSON object with userId and password"),
        ({"authPlugin": "basic", "authParams": '{"userId":5}'}, "expected a JSON object of texts"),
        ({"authPlugin": "basic", "authParams": "{SeCrEt"}, "expected a JSON object of texts"),
        ({"authPlugin": "oauth2", "authParams": "{}"}, "authParams: issuerUrl is missing"),
        ({"authPlugin": "oauth2", "authParams": '{"issuerUrl":"https://a"}'}, "privateKey is missing"),
        ({"authPlugin": "oauth2", "authParams": '{"type":"SeCrEt"}'}, "only client_credentials"),
        (
            {"authPlugin": "oauth2", "authParams": '{"issuerUrl":"https://a","privateKey":"/none"}'},
            "authParams: /none: No such file",
        ),
        (
            {
                "authPlugin": "oauth2",
                "authParams": '{"issuerUrl":"https://a","privateKey":"k","wellKnownMetadataPath":"/x"}',
            },
            "authParams: wellKnownMetadataPath is not supported",
        ),
    ],
)
def test_an_error_names_the_file_and_the_key_and_no_value(
    tmp_path: Path, values: dict[str, str], error: str
) -> None:
    with pytest.raises(ValueError, match=r"client\.conf: ") as caught:
        conf(tmp_path, **values)
    assert error in str(caught.value)
    assert "SeCrEt" not in str(caught.value)


def test_a_file_of_bytes_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "client.conf"
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match="it holds no text"):
        read_client_conf(file)


CONTEXTS: dict[str, Any] = {
    "contexts": {name: {"admin-service-url": f"https://{name}:8443/"} for name in ("plain", "token", "file")},
    "auth-info": {"token": {"token": "first", "tls_allow_insecure_connection": True}},
    "current-context": "plain",
}


def context(tmp_path: Path, name: str, config: Any) -> ClientConf:
    file = tmp_path / "config"
    # JSON is YAML.
    file.write_text(config if isinstance(config, str) else json.dumps(config))
    return read_pulsarctl_context(name, file)


def test_a_context_of_pulsarctl_has_an_address_and_credentials(tmp_path: Path) -> None:
    assert context(tmp_path, "plain", CONTEXTS) == ClientConf(admin_url="https://plain:8443")
    found = context(tmp_path, "token", CONTEXTS)
    assert (found.admin_url, found.tls_allow_insecure, *headers(found)) == (
        "https://token:8443",
        True,
        "Bearer first",
        b"first",
    )
    (tmp_path / "token").write_text("second")
    info = {"tokenFile": str(tmp_path / "token"), "tls_trust_certs_file_path": "ca.pem"}
    found = context(tmp_path, "file", CONTEXTS | {"auth-info": {"file": info}})
    assert (headers(found)[0], found.tls_trust_certificates) == ("Bearer second", Path("ca.pem"))
    with issuer() as made:
        info = {"issuer_endpoint": f"{made.url}/realm", "key_file": str(key_file(tmp_path)), "scope": "s"}
        found = context(tmp_path, "plain", CONTEXTS | {"auth-info": {"plain": info}})
        assert headers(found)[0] == f"Bearer {TOKEN}1"
        assert made.forms[0]["scope"] == ["s"]


@pytest.mark.parametrize(
    ("config", "error"),
    [
        (CONTEXTS, "no context 'c'; it has 'plain', 'token', 'file'"),
        ("SeCrEt: [", "not a file of contexts as pulsarctl writes it"),
        ("SeCrEt", "not a file of contexts as pulsarctl writes it"),
        ("", "not a file of contexts as pulsarctl writes it"),
        ({"contexts": {"c": "SeCrEt"}}, "context 'c': expected a mapping"),
        ({"contexts": {"c": {"admin-service-url": 5}}}, "context 'c': admin-service-url: expected a text"),
        (
            {"contexts": {"c": {}}, "auth-info": {"c": {"token": "SeCrEt\n"}}},
            "context 'c': token: not a token",
        ),
        ({"contexts": {"c": {}}, "auth-info": {"c": {"issuer_endpoint": "i"}}}, "a login of pulsarctl"),
    ],
)
def test_a_bad_context_is_one_sentence_without_values(tmp_path: Path, config: Any, error: str) -> None:
    with pytest.raises(ValueError, match="config: ") as caught:
        context(tmp_path, "c", config)
    assert error in str(caught.value)
    assert "SeCrEt" not in str(caught.value)
