"""Ask a live broker, reading only: every request is a GET of Pulsar's admin API.

`urllib` of the standard library does it: nothing to install beside the operator's Python, proxies and
certificates as the machine has them. A broker redirects to the owner of a topic; the token goes along,
as `pulsar-admin` sends it, but never from https to http.
"""

from __future__ import annotations

import http.client
import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any, Final
from urllib.parse import quote, urlsplit

from ackwell.broker.stats import SubscriptionStats, from_answer, json_documents
from ackwell.errors import StatsError

REQUESTS_AT_ONCE: Final = 8
"""Enough to hide the way there and back; an admin API serves people too."""

_STATUS: Final = {
    401: "the token is missing or not accepted; pass one with --token-file",
    403: "the token may not read this; it needs the right to consume or to administer",
    404: "there is no such topic or namespace, or this is no admin address",
}


@dataclass(frozen=True, kw_only=True)
class Admin:
    """A broker's admin address and how to speak to it; `token` is a JSON web token."""

    url: str
    token: str | None = None
    tls_trust_certificates: Path | None = None
    """Certificates of the authorities to trust, as PEM; without it, those of the machine."""
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    tls_allow_insecure: bool = False
    """Accept any certificate: for a look at a test cluster only."""
    timeout_seconds: float = 30.0

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise ValueError(
                f"not an admin address: {self.url!r}; expected http://host:8080 or https://host:8443"
            )

    def topics(self, wanted: Sequence[str] = ()) -> Iterator[str]:
        """Yield the persistent topics of `wanted`: topics, `tenant/namespace` or tenants; default all."""
        for name in wanted or self._list("tenants"):
            if "://" in name:
                yield name
            elif "/" in name:
                yield from self._list(f"persistent/{name}")
            else:
                for namespace in self._list(f"namespaces/{name}"):
                    yield from self._list(f"persistent/{namespace}")

    def read(self, wanted: Sequence[str] = ()) -> Iterator[SubscriptionStats]:
        """Yield every subscription of the wanted topics, in their order.

        Raises `StatsError`, which names the address and what went wrong.
        """
        with ThreadPoolExecutor(REQUESTS_AT_ONCE) as pool:
            for found in pool.map(self._subscriptions, self.topics(wanted)):
                yield from found

    def _subscriptions(self, topic: str) -> list[SubscriptionStats]:
        domain, _, name = topic.partition("://")
        tenant, namespace, local = name.split("/", 2)
        path = f"{domain}/{tenant}/{namespace}/{quote(local, safe='')}"
        answer = {"internalStats": self._get(f"{path}/internalStats"), "stats": self._get(f"{path}/stats")}
        return list(from_answer(answer, topic, self._address(path)))

    def _list(self, path: str) -> list[str]:
        names = self._get(path)
        if not isinstance(names, list):
            raise StatsError("expected a list of names; is this an admin address?", self._address(path))
        return names

    def _address(self, path: str) -> str:
        return f"{self.url.rstrip('/')}/admin/v2/{path}"

    def _get(self, path: str) -> Any:
        address = self._address(path)
        request = urllib.request.Request(address, headers={"Accept": "application/json"})
        if self.token:
            request.add_header("Authorization", f"Bearer {self.token}")
        try:
            with self._opener.open(request, timeout=self.timeout_seconds) as response:
                data: bytes = response.read()
        except urllib.error.HTTPError as error:
            raise StatsError(f"HTTP {error.code}: {_why(error)}", address) from None
        except urllib.error.URLError as error:
            raise StatsError(f"no connection: {error.reason}", address) from None
        except (TimeoutError, ConnectionError, http.client.HTTPException) as error:
            raise StatsError(f"the answer broke off: {error or type(error).__name__}", address) from None
        _, answer = next(json_documents(data, address))
        return answer

    @cached_property
    def _opener(self) -> urllib.request.OpenerDirector:
        context = ssl.create_default_context(cafile=self.tls_trust_certificates)
        if self.tls_certificate:
            context.load_cert_chain(self.tls_certificate, self.tls_key)
        if self.tls_allow_insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return urllib.request.build_opener(urllib.request.HTTPSHandler(context=context), _ToTheOwner)


class _ToTheOwner(urllib.request.HTTPRedirectHandler):
    """Follow a broker to the owner of a topic, but carry no token out of an encrypted connection."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        if req.type == "https" and urlsplit(newurl).scheme != "https" and req.has_header("Authorization"):
            raise urllib.error.URLError(f"redirected from https to {newurl}; the token is not sent there")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _why(error: urllib.error.HTTPError) -> str:
    """Prefer the reason the broker gives in its JSON answer."""
    hint = _STATUS.get(error.code, error.reason)
    try:
        reason = json.loads(error.read())["reason"]
    except (OSError, ValueError, KeyError, TypeError, http.client.HTTPException):
        return hint
    return f"{reason} ({hint})" if error.code in _STATUS else str(reason)
