"""Send requests to a broker's admin API over HTTP: GET only, except for `Endpoint.change`.

Only two features call `change`: `ackwell.rescue`, and the count of a backlog. Both run only on a user's
request.

The module uses `urllib` of the standard library, which needs no installation and uses the proxies and
certificates of the machine. Three rules keep the credentials safe:

- A token or password goes only to the requested host and to hosts that the cluster lists.
- It never goes over an unencrypted connection after an encrypted one.
- Error messages and `repr` do not show a token or password. They show an address without its user and
  password.

An address may list several hosts, as for `pulsar-admin`: `http://a:8080,b:8080`. A request goes to the host
that answered last. If this host cannot be reached, the request goes to the next one.

A broker redirects to the owner of a topic. If the owner cannot be reached, `OwnerError` is raised without
retries. `Endpoint.reach` maps the addresses of owners to reachable addresses, such as forwarded ports.
"""

from __future__ import annotations

import http
import http.client
import random
import socket
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from email.message import Message
from email.utils import parsedate_to_datetime
from functools import cached_property
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

from ackwell.cluster.credentials import BasicAuth, TemporaryError
from ackwell.errors import StatsError
from ackwell.json_values import json_value
from ackwell.regular_files import require_regular

if TYPE_CHECKING:
    from ackwell.cluster.credentials import Credentials

BODY_BYTES_MAX: Final = 256 << 20
"""The maximum size of an answer; a `stats-internal` of a million ranges has about 30 MB."""

TIMEOUT_SECONDS_MAX: Final = 86_400

_RETRIES: Final = 3
_FIRST_PAUSE_SECONDS: Final = 0.25
_RETRYABLE: Final = (429, 500, 502, 503, 504)

_CONNECT_SECONDS: Final = 3.0
"""The maximum time to connect to one of several hosts. After this time, the next host is tried."""

_STATUS: Final = {
    401: "the token is missing or not accepted; pass one with --token-file or --client-conf",
    403: "the token may not read this; it needs the right to consume or to administer",
    404: "the topic or namespace does not exist, or the address is not an admin URL",
}


class Response(NamedTuple):
    """An HTTP response.

    `time_ms` is the time in its `Date` header; None if the header is missing or invalid.
    """

    body: bytes
    time_ms: int | None
    headers: Message = Message()
    host: str = ""
    """The host and port that answered. After a redirect, they are the host and port of the owner."""
    redirected: bool = False


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """An admin address with credentials and TLS options.

    `url` may list several hosts after one scheme: `http://a:8080,b:8080`. A user and a password in
    `url` apply to all hosts.
    """

    url: str = field(repr=False)
    credentials: Credentials | None = field(default=None, repr=False)
    """The credentials to send; by default the user and password in `url`, if there are any."""
    broker_url: str | None = None
    """The address of the brokers, or of a Pulsar proxy, for the binary protocol. By default, the admin API
    reports it."""
    tls_trust_certificates: Path | None = None
    """The PEM file of the trusted authorities; by default the authorities that the machine trusts."""
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    tls_allow_insecure: bool = False
    """Whether to accept any certificate; for test clusters only."""
    tls_verify_names: bool = True
    """Whether the certificate of a host must contain the name of the host."""
    timeout_seconds: float = 30.0
    trusted_hosts: tuple[str, ...] = ()
    """Hosts that may receive the credentials, in addition to the hosts that the cluster lists."""
    reach: Mapping[str, str] = field(default_factory=dict)
    """Maps the address of a broker to the address to connect to instead; both are `host` or `host:port`."""
    _current: list[int] = field(default_factory=lambda: [0], init=False, repr=False, compare=False)
    """The index of the URL for the next request."""

    def __post_init__(self) -> None:
        try:
            valid = self.url.isprintable() and all(map(_is_admin_url, self._urls))
        except ValueError:
            valid = False
        if not valid:
            raise ValueError(
                "not an admin address: expected http://host:8080, https://host:8443, or a list such as "
                f"http://a:8080,b:8080, got {self.shown_url!r}"
            )
        if not 0 < self.timeout_seconds <= TIMEOUT_SECONDS_MAX:
            raise ValueError(
                f"a timeout of {self.timeout_seconds} s; expected at most {TIMEOUT_SECONDS_MAX:,}"
            )

    @cached_property
    def _urls(self) -> tuple[SplitResult, ...]:
        """One URL for each host that `url` lists."""
        parts = urlsplit(self.url)
        user, at, hosts = parts.netloc.rpartition("@")
        # Every comma separates hosts, because an IPv6 address has no comma, and a comma in a user or password
        # is quoted.
        return tuple(parts._replace(netloc=f"{user}{at}{host}") for host in hosts.split(","))

    @property
    def _parts(self) -> SplitResult:
        return self._urls[self._current[0] % len(self._urls)]

    @property
    def host(self) -> str:
        """The host name of the next request, without a port."""
        return self._parts.hostname or ""

    @property
    def shown_url(self) -> str:
        """The address `url` with all its hosts, but without user and password."""
        return _shown(urlsplit(self.url))

    def address(self, path: str) -> str:
        """Return the URL of a path. The path is relative to `/admin/v2/`, unless it begins with `/`."""
        shown = _shown(self._parts)
        return f"{shown}{path}" if path.startswith("/") else f"{shown}/admin/v2/{path}"

    def at(self, host: str) -> Endpoint:
        """Return a copy for another broker at `host` (`host:port`), with the same credentials."""
        user, at, _ = self._parts.netloc.rpartition("@")
        return self.with_options(url=f"{self._parts.scheme}://{user}{at}{host}")

    def with_options(self, **options: Any) -> Endpoint:
        """Return a copy in which `options` replace fields. The copy has the same TLS context."""
        made = replace(self, **options)
        # A new context would load the trusted authorities, which takes 20 ms. A watch creates an endpoint for
        # every broker in every round.
        vars(made)["tls_context"] = self.tls_context
        return made

    @property
    def asked_host(self) -> str:
        """The host and port of the next request."""
        return self._parts.netloc.rpartition("@")[2]

    def trusts(self, host: str, cluster_hosts: Callable[[], frozenset[str]]) -> bool:
        """Return whether the credentials may be sent to a host.

        They may be sent to the hosts in `url`, to `trusted_hosts`, to the owners that `reach` maps to other
        addresses, and to the hosts that `cluster_hosts` returns.
        """
        asked = (url.hostname for url in self._urls)
        reached = (name.rpartition(":")[0] or name for name in self.reach)
        return host in (*asked, *self.trusted_hosts, *reached) or host in cluster_hosts()

    def get(
        self, path: str, cluster_hosts: Callable[[], frozenset[str]], *, retries: int = _RETRIES
    ) -> Response:
        """Send a GET request. After a temporary failure, retry it; double the pause after each attempt.

        If a redirect leads to another host, `cluster_hosts` is called to decide whether that host is trusted.
        Raises `StatsError`, which names the address and the failure.
        """
        return self._repeated("GET", path, None, cluster_hosts, retries)

    def change(
        self, method: str, path: str, body: bytes | None, cluster_hosts: Callable[[], frozenset[str]]
    ) -> Response:
        """Send a request that changes the cluster. It is retried like `get`, so it must be idempotent."""
        return self._repeated(method, path, body, cluster_hosts)

    def _repeated(
        self,
        method: str,
        path: str,
        body: bytes | None,
        cluster_hosts: Callable[[], frozenset[str]],
        retries: int = _RETRIES,
    ) -> Response:
        for attempt in range(retries + 1):
            try:
                return self._ask_any(method, path, body, cluster_hosts)
            except _RetryableError as error:
                if attempt == retries:
                    raise NoAnswerError(str(error), self.address(path)) from None
                time.sleep(_FIRST_PAUSE_SECONDS * 2**attempt * random.uniform(0.5, 1.5))
        raise AssertionError("unreachable")

    def _ask_any(
        self, method: str, path: str, body: bytes | None, cluster_hosts: Callable[[], frozenset[str]]
    ) -> Response:
        """Send the request to one host after another, without a pause, until a host can be reached."""
        for left in range(len(self._urls) - 1, -1, -1):
            asked = self._current[0]
            try:
                return self._ask(method, path, body, cluster_hosts)
            except _UnreachableError as error:
                # Another thread may already have selected the next host.
                if self._current[0] == asked and len(self._urls) > 1:
                    self._current[0] = (asked + 1) % len(self._urls)
                if not left:
                    if error.temporary:
                        raise
                    raise StatsError(str(error), self.address(path)) from None
        raise AssertionError("unreachable")

    def _ask(
        self,
        method: str,
        path: str,
        body: bytes | None,
        cluster_hosts: Callable[[], frozenset[str]],
        *,
        renews: bool = True,
    ) -> Response:
        """Send one request. If the broker refuses the credentials, renew them, and send it once more."""
        address = self.address(path)
        headers = {"Accept": "application/json"} | (
            {} if body is None else {"Content-Type": "application/json"}
        )
        request = urllib.request.Request(address, data=body, headers=headers, method=method)
        authorization = self._authorization()
        if authorization:
            request.add_unredirected_header("Authorization", authorization)
        redirects = _OwnerRedirectHandler(self, cluster_hosts)
        opener = urllib.request.build_opener(_ConnectHandler(self), _SecureConnectHandler(self), redirects)
        try:
            with opener.open(request, timeout=self.timeout_seconds) as response:
                answer: bytes = response.read(BODY_BYTES_MAX + 1)
                received = response.headers
                host = urlsplit(response.geturl()).netloc.rpartition("@")[2]
                if response.length and len(answer) <= BODY_BYTES_MAX:
                    # If the connection ends early, `read(size)` returns fewer bytes and raises no error.
                    raise http.client.IncompleteRead(answer, response.length)
        except urllib.error.HTTPError as error:
            if error.code == http.HTTPStatus.UNAUTHORIZED and renews and self._renew(authorization):
                return self._ask(method, path, body, cluster_hosts, renews=False)
            message = f"HTTP {error.code}: {_error_reason(error)}"
            if error.code in _RETRYABLE:
                raise _RetryableError(message) from None
            raise StatsError(message, address) from None
        except urllib.error.URLError as error:
            raise _connection_error(error.reason, address, redirects.owner) from None
        except ValueError as error:
            # The broker redirected to an invalid address.
            raise StatsError(f"redirected to an address that cannot be read: {error}", address) from None
        except (TimeoutError, ConnectionError, http.client.HTTPException) as error:
            raise _RetryableError(f"the answer broke off: {error or type(error).__name__}") from None
        if len(answer) > BODY_BYTES_MAX:
            raise StatsError(f"an answer of more than {BODY_BYTES_MAX >> 20} MiB", address)
        redirected = bool(redirects.owner)
        return Response(answer, _time_ms_of(received.get("Date")), received, host, redirected)

    def connect(self, address: tuple[str, int], timeout: float, *source: Any) -> socket.socket:
        """Connect to a host, or to its replacement in `reach`.

        If the endpoint has several hosts, the timeout is at most a few seconds, so that the next host is
        tried soon.
        """
        host, port = address
        named = self.reach.get(f"{host}:{port}") or self.reach.get(host)
        if named is not None:
            parts = urlsplit(f"//{named}")
            address = parts.hostname or host, parts.port or port
        limit = min(timeout, _CONNECT_SECONDS) if len(self._urls) > 1 else timeout
        made = socket.create_connection(address, limit, *source)
        made.settimeout(timeout)
        return made

    def prepared(self, connection: http.client.HTTPConnection) -> http.client.HTTPConnection:
        """Set `connect` as the function that opens the socket of an HTTP connection. Return the connection.

        TLS checks the name of the requested host, even if `reach` replaces the host.
        """
        # The standard library has no public way to replace the function that opens a connection.
        vars(connection)["_create_connection"] = self.connect
        return connection

    @cached_property
    def _credentials(self) -> Credentials | None:
        user, password = self._parts.username, self._parts.password
        if self.credentials is None and user is not None:
            return BasicAuth(unquote(user), unquote(password or ""))
        return self.credentials

    def _authorization(self) -> str | None:
        try:
            return None if self._credentials is None else self._credentials.header()
        except TemporaryError as error:
            raise _RetryableError(str(error)) from None

    def _renew(self, refused: str | None) -> bool:
        return self._credentials is not None and refused is not None and self._credentials.renew(refused)

    def binary_credentials(self) -> tuple[str, bytes]:
        """Return the name of the authentication method and the authentication data of the binary protocol."""
        if self._credentials is not None:
            return self._credentials.method, self._credentials.data()
        return "tls" if self.tls_certificate else "none", b""

    @cached_property
    def tls_context(self) -> ssl.SSLContext:
        """The TLS context of connections, with the trusted authorities and the client certificate."""
        require_regular(self.tls_trust_certificates, self.tls_certificate, self.tls_key)
        context = ssl.create_default_context(cafile=self.tls_trust_certificates)
        if self.tls_certificate:
            context.load_cert_chain(self.tls_certificate, self.tls_key)
        if self.tls_allow_insecure or not self.tls_verify_names:
            context.check_hostname = False
        if self.tls_allow_insecure:
            context.verify_mode = ssl.CERT_NONE
        return context


class NoAnswerError(StatsError):
    """All attempts of a request failed with temporary errors. A later request may succeed."""


class OwnerError(NoAnswerError):
    """The broker that owns a topic cannot be reached."""

    def __init__(self, error: OSError, source: str, owner: str) -> None:
        super().__init__(f"the owner {owner} cannot be reached: {error}", source)
        self.owner = owner
        """The admin address of the broker, `host:port`."""
        self.unresolved = isinstance(error, socket.gaierror)
        """Whether the name of the broker does not resolve on this machine."""


class _RetryableError(Exception):
    """A temporary failure: another attempt may succeed."""


class _ConnectHandler(urllib.request.HTTPHandler):
    """A handler that opens the HTTP connections of an endpoint."""

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__()
        self._endpoint = endpoint

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        """Open a connection without TLS."""
        return self.do_open(self._connection, req)

    def _connection(self, host: str, **options: Any) -> http.client.HTTPConnection:
        return self._endpoint.prepared(http.client.HTTPConnection(host, **options))


class _SecureConnectHandler(urllib.request.HTTPSHandler):
    """A handler that opens the HTTPS connections of an endpoint."""

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(context=endpoint.tls_context)
        self._endpoint = endpoint

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        """Open a connection with TLS."""
        return self.do_open(self._connection, req)

    def _connection(self, host: str, **options: Any) -> http.client.HTTPConnection:
        context = self._endpoint.tls_context
        return self._endpoint.prepared(http.client.HTTPSConnection(host, context=context, **options))


class _UnreachableError(_RetryableError):
    """The connection to a host failed. If `temporary` is true, another attempt may succeed."""

    def __init__(self, message: str, *, temporary: bool) -> None:
        super().__init__(message)
        self.temporary = temporary


def _connection_error(reason: str | BaseException, address: str, owner: str) -> Exception:
    """Return the error for a failed connection to the requested host, or to the owner of a topic."""
    if not isinstance(reason, OSError):
        return StatsError(f"no connection: {reason}", address)
    if owner:
        return OwnerError(reason, address, owner)
    temporary = isinstance(reason, TimeoutError | ConnectionError)
    return _UnreachableError(f"no connection: {reason}", temporary=temporary)


class _OwnerRedirectHandler(urllib.request.HTTPRedirectHandler):
    """A handler that follows redirects to topic owners, and sends credentials to trusted hosts only."""

    def __init__(self, endpoint: Endpoint, cluster_hosts: Callable[[], frozenset[str]]) -> None:
        self._endpoint = endpoint
        self._cluster_hosts = cluster_hosts
        self.owner = ""
        """The target `host:port` of the last redirect; empty without a redirect."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        target = urlsplit(newurl)
        # Reading an invalid port raises `ValueError`.
        _ = target.port
        self.owner = target.netloc.rpartition("@")[2]
        writes = req.get_method() != "GET"
        followed: urllib.request.Request | None
        if writes and code in (307, 308):
            followed = urllib.request.Request(
                newurl, data=req.data, headers=req.headers, method=req.get_method()
            )
        else:
            followed = super().redirect_request(req, fp, code, msg, headers, newurl)
        authorization = self._endpoint._authorization()  # noqa: SLF001 - one module
        if followed is None or (authorization is None and not writes):
            return followed
        shown = f"{target.scheme}://{target.netloc.rpartition('@')[2]}"
        if req.type == "https" and target.scheme != "https":
            raise urllib.error.URLError(
                f"redirected from https to {shown}; the credentials are not sent there"
            )
        host = target.hostname or ""
        if not self._endpoint.trusts(host, self._cluster_hosts):
            raise urllib.error.URLError(
                f"redirected to {shown}, which the cluster does not list; the credentials are not sent "
                f"there. Allow it with --trust-host {host}"
            )
        if authorization is not None:
            followed.add_unredirected_header("Authorization", authorization)
        return followed


def _is_admin_url(parts: SplitResult) -> bool:
    """Return whether a URL can be an admin address; raises `ValueError` for an invalid port or host."""
    _ = parts.port, (parts.hostname or "").encode("idna")
    return parts.scheme in ("http", "https") and bool(parts.hostname)


def _shown(parts: SplitResult) -> str:
    """Return an address without user and password."""
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2])).rstrip("/")


def _time_ms_of(date: str | None) -> int | None:
    if date is None:
        return None
    try:
        return int(parsedate_to_datetime(date).timestamp() * 1000)
    except ValueError:
        return None


def _error_reason(error: urllib.error.HTTPError) -> str:
    """Return the reason in the broker's JSON answer, or else a hint for the HTTP status."""
    hint = _STATUS.get(error.code, error.reason)
    try:
        reason = json_value(error.read(1 << 16))["reason"]
    except (OSError, ValueError, KeyError, TypeError, http.client.HTTPException):
        return hint
    return f"{reason} ({hint})" if error.code in _STATUS else str(reason)
