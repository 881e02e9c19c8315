"""Fetch tokens from the token endpoint of an issuer with OAuth2 client credentials, as Pulsar's clients do.

The metadata of the issuer contains the address of the token endpoint. The key file is read for each token, so
that a user can replace the file. oauthlib builds and reads the messages; `urllib` sends them, with the
proxies of the machine.
"""

from __future__ import annotations

import base64
import http.client
import ssl
import threading
import time
import urllib.error
import urllib.request
from functools import cached_property
from pathlib import Path
from typing import IO, Any, Final
from urllib.parse import unquote_to_bytes, urlsplit
from urllib.request import url2pathname

from ackwell.cluster.credentials import TemporaryError
from ackwell.errors import StatsError
from ackwell.json_values import json_value, object_in
from ackwell.regular_files import read_regular, require_regular

_METADATA_PATH: Final = "/.well-known/openid-configuration"
_TIMEOUT_SECONDS: Final = 30.0
_BODY_BYTES_MAX: Final = 1 << 20
_TEMPORARY: Final = (429, 500, 502, 503, 504)
_WITH_ERROR: Final = (400, 401)
"""The HTTP status codes of answers that describe the error in their body (RFC 6749)."""

_EARLY: Final = 0.9
"""The part of a token's lifetime after which the next token is requested, as in Pulsar's clients."""
_RETRY_SECONDS: Final = 5.0
"""The pause between failed requests for the next token, while the present token is still valid."""


class OAuth2:
    """OAuth2 client credentials; several threads may use one object."""

    method: Final = "token"

    def __init__(
        self,
        *,
        issuer_url: str,
        key_file: str,
        audience: str | None = None,
        scope: str | None = None,
        client_id: str | None = None,
        trust_certificates: Path | None = None,
        certificate: Path | None = None,
        key: Path | None = None,
    ) -> None:
        """Take the parameters of Pulsar's `AuthenticationOAuth2`. Send no request.

        `key_file` is a path, a `file:` URL, or a `data:` URL with JSON. `certificate` and `key` are for the
        connection to the issuer. Raises `ModuleNotFoundError` without oauthlib, `ValueError` for an invalid
        issuer, and `OSError` or `ValueError` for an invalid key file or certificate.
        """
        from oauthlib.oauth2 import BackendApplicationClient

        self._client_class = BackendApplicationClient
        self._issuer = urlsplit(issuer_url)
        if self._issuer.scheme not in ("http", "https") or not self._issuer.hostname:
            raise ValueError("issuerUrl: expected the address of an OAuth2 issuer, https://host/path")
        self._key_file = key_file
        self._client_id = client_id
        self._request = {name: value for name, value in (("audience", audience), ("scope", scope)) if value}
        require_regular(trust_certificates, certificate, key)
        self._tls = ssl.create_default_context(cafile=trust_certificates)
        if certificate is not None:
            self._tls.load_cert_chain(certificate, key)
        self._lock = threading.Lock()
        self._token = ""
        self._renew_at = self._expires_at = 0.0
        self._read_key()

    def header(self) -> str:
        """Return the value of the header `Authorization`, with a token that has not expired."""
        return f"Bearer {self._current()}"

    def data(self) -> bytes:
        """Return the authentication data for the binary protocol."""
        return self._current().encode()

    def renew(self, header: str) -> bool:
        """Replace the token after a broker refused `header`. Return whether the header has changed."""
        with self._lock:
            if header == f"Bearer {self._token}":
                self._token = ""
        return self.header() != header

    def _current(self) -> str:
        with self._lock:
            now = time.monotonic()
            if self._token and now < self._renew_at:
                return self._token
            try:
                self._fetch(now)
            except StatsError:
                if not self._token or now >= self._expires_at:
                    raise
                self._renew_at = now + _RETRY_SECONDS
            return self._token

    def _fetch(self, now: float) -> None:
        """Fetch a token from the issuer and store it."""
        from oauthlib.oauth2 import MissingTokenError, OAuth2Error

        url = self._endpoint
        try:
            client_id, secret = self._read_key()
        except (OSError, ValueError) as error:
            raise StatsError(f"no token: the key file: {error}", url) from None
        client = self._client_class(client_id)
        body = client.prepare_request_body(include_client_id=True, client_secret=secret, **self._request)
        answer = self._send(url, body.encode())
        try:
            found = object_in(client.parse_request_body_response(answer))
            token, seconds = found["access_token"], found.get("expires_in")
            if not isinstance(token, str) or not (token.isascii() and token.isprintable()):
                raise ValueError
            lifetime = float("inf") if seconds is None else float(seconds)
        except (MissingTokenError, ValueError, TypeError, KeyError):
            raise StatsError("no token: the answer is not one of a token endpoint", url) from None
        except OAuth2Error as error:
            reason = f"{error.error}: {error.description}" if error.description else error.error
            # An issuer may quote the request, and so the secret, in its error.
            raise StatsError(f"no token: {reason.replace(secret, '…')}", url) from None
        self._token = token
        self._renew_at, self._expires_at = now + _EARLY * lifetime, now + lifetime

    @cached_property
    def _endpoint(self) -> str:
        """The address of the token endpoint; raises `StatsError` if the issuer does not name it."""
        url = self._issuer._replace(
            path=self._issuer.path.rstrip("/") + _METADATA_PATH, query="", fragment=""
        ).geturl()
        try:
            found = json_value(self._send(url, None))["token_endpoint"]
            if not isinstance(found, str):
                raise TypeError
            parts = urlsplit(found)
            _ = parts.port
            if parts.scheme not in ("http", "https") or not parts.hostname:
                raise ValueError
        except (ValueError, TypeError, KeyError):
            raise StatsError("no token: the metadata of the issuer name no token endpoint", url) from None
        if self._issuer.scheme == "https" and parts.scheme != "https":
            raise StatsError(
                f"no token: {found} has no TLS, so the credentials are not sent there", url
            ) from None
        return str(found)

    def _send(self, url: str, body: bytes | None) -> bytes:
        request = urllib.request.Request(url, data=body, headers={"Accept": "application/json"})
        opener = urllib.request.build_opener(
            urllib.request.HTTPSHandler(context=self._tls), _SafeRedirectHandler
        )
        try:
            with opener.open(request, timeout=_TIMEOUT_SECONDS) as response:
                answer: bytes = response.read(_BODY_BYTES_MAX)
                return answer
        except urllib.error.HTTPError as error:
            if error.code in _WITH_ERROR and body is not None:
                return error.read(_BODY_BYTES_MAX)
            kind = TemporaryError if error.code in _TEMPORARY else StatsError
            raise kind(f"no token: HTTP {error.code}: {error.reason}", url) from None
        except urllib.error.URLError as error:
            temporary = isinstance(error.reason, TimeoutError | ConnectionError)
            kind = TemporaryError if temporary else StatsError
            raise kind(f"no token: no connection: {error.reason}", url) from None
        except (OSError, http.client.HTTPException) as error:
            raise TemporaryError(
                f"no token: the answer broke off: {error or type(error).__name__}", url
            ) from None

    def _read_key(self) -> tuple[str, str]:
        """Return the client's id and secret; an error message contains no part of the file."""
        text = _text_at(self._key_file)
        try:
            found = object_in(json_value(text))
            client_id, secret = found.get("client_id", self._client_id), found["client_secret"]
        except (ValueError, TypeError, KeyError):
            client_id = secret = None
        if not (isinstance(client_id, str) and isinstance(secret, str) and client_id and secret):
            raise ValueError(
                f"{_shown(self._key_file)}: expected a JSON object with client_id and client_secret"
            )
        return client_id, secret


class _SafeRedirectHandler(urllib.request.HTTPRedirectHandler):
    """A handler that refuses unsafe redirects: of a request with credentials, or from HTTPS to HTTP."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        if req.data is not None:
            raise urllib.error.URLError("a token endpoint that redirects; the credentials are not sent there")
        if req.type == "https" and urlsplit(newurl).scheme != "https":
            raise urllib.error.URLError("redirected to a connection without TLS")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _text_at(location: str) -> str:
    """Return the text at a location: a path, a `file:` URL or a `data:` URL that contains the text."""
    parts = urlsplit(location)
    try:
        if parts.scheme == "data":
            header, _, content = location.partition(",")
            data = unquote_to_bytes(content)
            return (base64.b64decode(data) if header.endswith(";base64") else data).decode()
        path = url2pathname(parts.path) if parts.scheme == "file" else location
        return read_regular(Path(path)).decode()
    except ValueError:
        raise ValueError(f"{_shown(location)}: no text in it") from None


def _shown(location: str) -> str:
    """Return a location as text for messages. The content of a `data:` URL is secret, so it is omitted."""
    return "the data URL" if location.startswith("data:") else location
