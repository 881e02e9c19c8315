"""Read addresses, credentials and TLS options from `client.conf` or from a context of pulsarctl.

An error message names the file and the key. It contains no value of the file, which may be a secret.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit
from urllib.request import url2pathname

from ackwell.broker.properties import properties
from ackwell.cluster.credentials import BasicAuth, Credentials, Token
from ackwell.cluster.oauth2 import OAuth2
from ackwell.json_values import json_value, object_in
from ackwell.regular_files import read_regular

_OAUTH2_PARAMETERS: Final = {
    "issuerUrl": "issuer_url",
    "privateKey": "key_file",
    "audience": "audience",
    "scope": "scope",
    "clientId": "client_id",
    "trustCertsFilePath": "trust_certificates",
    "tlsCertFile": "certificate",
    "tlsKeyFile": "key",
}
_IGNORED_PARAMETERS: Final = ("type", "connectTimeout", "readTimeout", "autoCertRefreshDuration")
"""Parameters of OAuth2 that are ignored. `type` is checked elsewhere. The others do not affect which token is
fetched."""

_Made = TypeVar("_Made")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConf:
    """The settings of a client; a missing setting is None."""

    admin_url: str | None = field(default=None, repr=False)
    broker_url: str | None = None
    """The address for the binary protocol; None if its host is not the host of `admin_url`."""
    credentials: Credentials | None = field(default=None, repr=False)
    tls_trust_certificates: Path | None = None
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    tls_allow_insecure: bool = False
    tls_verify_names: bool = True


def read_client_conf(file: Path) -> ClientConf:
    """Read a `client.conf`; raises `OSError`, or `ValueError` for an invalid value."""
    try:
        conf = dict(properties(read_regular(file).decode()))
    except UnicodeDecodeError:
        raise ValueError(f"{file}: not a file of settings: it holds no text") from None
    try:
        return _client_conf(conf)
    except _KeyError as error:
        raise ValueError(f"{file}: {error}") from None


def read_pulsarctl_context(name: str, file: Path | None = None) -> ClientConf:
    """Read a context of pulsarctl from `file`, by default from `~/.config/pulsar/config`.

    Raises the errors of `read_client_conf`.
    """
    import yaml

    file = Path.home() / ".config/pulsar/config" if file is None else file
    try:
        config = object_in(yaml.safe_load(read_regular(file)))
        contexts, infos = object_in(config["contexts"]), object_in(config.get("auth-info") or {})
        context, info = contexts.get(name), infos.get(name) or {}
        named = ", ".join(map(repr, contexts))
    except (yaml.YAMLError, ValueError, TypeError, KeyError):
        # The error of the parser is omitted, because it may quote a secret from the file.
        raise ValueError(f"{file}: not a file of contexts as pulsarctl writes it") from None
    if context is None:
        raise ValueError(f"{file}: no context {name!r}; it has {named or 'none'}")
    try:
        return _context(context, info)
    except _KeyError as error:
        raise ValueError(f"{file}: context {name!r}: {error}") from None


class _KeyError(ValueError):
    """The error for an invalid value of a key. Its message does not contain the value."""


def _client_conf(conf: Mapping[str, str]) -> ClientConf:
    if _boolean(conf, "useKeyStoreTls"):
        raise _KeyError(
            "useKeyStoreTls: a Java key store cannot be read; convert it to PEM and name it in "
            "tlsTrustCertsFilePath, tlsCertificateFilePath and tlsKeyFilePath"
        )
    plugin = conf.get("authPlugin", "").rpartition(".")[2].removeprefix("Authentication").lower()
    parameters = conf.get("authParams", "")
    certificate, key = _path(conf, "tlsCertificateFilePath"), _path(conf, "tlsKeyFilePath")
    credentials: Credentials | None = None
    if plugin == "tls":
        found = _parameters(parameters)
        certificate = _path(found, "tlsCertFile") or certificate
        key = _path(found, "tlsKeyFile") or key
        if certificate is None:
            raise _KeyError("authParams: expected tlsCertFile:PATH,tlsKeyFile:PATH")
    elif plugin == "token":
        credentials = _token(parameters)
    elif plugin == "basic":
        found = _parameters(parameters)
        if "userId" not in found or "password" not in found:
            raise _KeyError("authParams: expected a JSON object with userId and password")
        credentials = BasicAuth(found["userId"], found["password"])
    elif plugin == "oauth2":
        credentials = _oauth2(_parameters(parameters))
    elif plugin not in ("", "disabled"):
        raise _KeyError(f"authPlugin: {plugin!r} is not supported; expected token, tls, basic or OAuth2")
    trusted = _path(conf, "tlsTrustCertsFilePath")
    verifies = conf.get("tlsEnableHostnameVerification", "") == "" or _boolean(
        conf, "tlsEnableHostnameVerification"
    )
    admin_url = conf.get("webServiceUrl", "").rstrip("/") or None
    return ClientConf(
        admin_url=admin_url,
        broker_url=_broker_url(conf.get("brokerServiceUrl", ""), admin_url),
        credentials=credentials,
        tls_trust_certificates=trusted,
        tls_certificate=certificate,
        tls_key=key,
        tls_allow_insecure=_boolean(conf, "tlsAllowInsecureConnection"),
        # The `client.conf` that Pulsar ships has `false`. That is not safe with the machine's authorities,
        # because they give certificates to every owner of a host name. So names are then always checked.
        tls_verify_names=verifies or trusted is None,
    )


def _context(context: Mapping[str, Any], info: Mapping[str, Any]) -> ClientConf:
    def text(values: Mapping[str, Any], key: str) -> str:
        value = values.get(key) or ""
        if not isinstance(value, str):
            raise _KeyError(f"{key}: expected a text")
        return value

    if not isinstance(context, dict) or not isinstance(info, dict):
        raise _KeyError("expected a mapping")
    credentials: Credentials | None = None
    if text(info, "key_file"):
        credentials = _oauth2(
            {
                "issuerUrl": text(info, "issuer_endpoint"),
                "privateKey": text(info, "key_file"),
                "audience": text(info, "audience"),
                "scope": text(info, "scope"),
                "clientId": text(info, "client_id"),
            }
        )
    elif text(info, "issuer_endpoint"):
        raise _KeyError("key_file: a login of pulsarctl is not supported; name a key file")
    elif text(info, "token"):
        credentials = _made("token", Token, text(info, "token"))
    elif text(info, "tokenFile"):
        credentials = _made("tokenFile", Token.in_file, Path(text(info, "tokenFile")))
    trusted = text(info, "tls_trust_certs_file_path")
    return ClientConf(
        admin_url=text(context, "admin-service-url").rstrip("/") or None,
        credentials=credentials,
        tls_trust_certificates=Path(trusted) if trusted else None,
        tls_allow_insecure=info.get("tls_allow_insecure_connection") is True,
    )


def _token(text: str) -> Token:
    """Return the token for the parameters of Pulsar's `AuthenticationToken`."""
    if text.startswith("file:"):
        return _made("authParams", Token.in_file, Path(url2pathname(urlsplit(text).path)))
    if text.startswith("env:"):
        variable = text.removeprefix("env:")
        return _made("authParams", Token, lambda: os.environ.get(variable, ""))
    return _made("authParams", Token, text.removeprefix("token:").removeprefix("data:"))


def _oauth2(parameters: Mapping[str, str]) -> OAuth2:
    kind = parameters.get("type", "client_credentials")
    if kind != "client_credentials":
        raise _KeyError("authParams: type: only client_credentials is supported")
    for name in ("issuerUrl", "privateKey"):
        if not parameters.get(name):
            raise _KeyError(f"authParams: {name} is missing")
    options: dict[str, Any] = {}
    for name, value in parameters.items():
        if name in _IGNORED_PARAMETERS or not value:
            continue
        if name not in _OAUTH2_PARAMETERS:
            raise _KeyError(f"authParams: {name} is not supported")
        options[_OAUTH2_PARAMETERS[name]] = Path(value) if name.endswith(("Path", "File")) else value
    return _made("authParams", OAuth2, **options)


def _parameters(text: str) -> dict[str, str]:
    """Parse the parameters of an authentication plugin: a JSON object of texts, or `key:value,key:value`."""
    if not text.lstrip().startswith("{"):
        pairs = (each.partition(":") for each in text.split(",") if each.strip())
        return {name.strip(): value.strip() for name, _, value in pairs}
    try:
        found = json_value(text)
        if all(isinstance(value, str) for value in found.values()):
            return dict(found)
    except ValueError:
        pass
    raise _KeyError("authParams: expected a JSON object of texts")


def _made(key: str, make: Callable[..., _Made], *values: Any, **options: Any) -> _Made:
    """Create credentials with `make`. If `make` fails, raise an error that names the key."""
    try:
        return make(*values, **options)
    except OSError as error:
        file = f"{error.filename}: " if error.filename else ""
        raise _KeyError(f"{key}: {file}{error.strerror or error}") from None
    except ValueError as error:
        raise _KeyError(f"{key}: {error}") from None


def _broker_url(urls: str, admin_url: str | None) -> str | None:
    """Return the first address in `urls` if its host is also the host of the admin API, else None.

    The credentials for the admin API may be sent to that address, because the host is the same.
    """
    url = urls.split(",")[0].rstrip("/")
    try:
        hosts = {urlsplit(url).hostname, urlsplit((admin_url or "").split(",")[0]).hostname}
    except ValueError:
        return None
    return url if url and len(hosts) == 1 else None


def _boolean(conf: Mapping[str, str], key: str) -> bool:
    value = conf.get(key, "").lower()
    if value not in ("", "true", "false"):
        raise _KeyError(f"{key}: expected true or false")
    return value == "true"


def _path(conf: Mapping[str, str], key: str) -> Path | None:
    return Path(conf[key]) if conf.get(key) else None
