"""A fake OAuth2 issuer on 127.0.0.1: metadata, and a token endpoint for client credentials (RFC 6749)."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from tests.cluster.fake_admin import FakeBroker, broker

SECRET = "cLiEnT+SeCrEt/=="
TOKEN = "tOkEn-SeCrEt-"


class Issuer:
    """The issued tokens, and the requests for them."""

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds
        """The lifetime of a token; None is one without a stated lifetime."""
        self.url = ""
        self.answers: dict[str, Any] = {}
        self.forms: list[dict[str, list[str]]] = []
        self.revoked: set[str] = set()
        self.make: Callable[[str], str] = str
        """Returns the token for a name."""
        self._expires_at: dict[str, float] = {}

    def accepts(self, header: str | None) -> bool:
        """Return whether a broker accepts a header: its token is issued, has not expired, is not revoked."""
        end = self._expires_at.get(header or "")
        return end is not None and time.monotonic() < end and header not in self.revoked

    def token(self, handler: FakeBroker) -> None:
        """Answer a request for a token."""
        body = handler.rfile.read(int(handler.headers["Content-Length"]))
        form = parse_qs(body.decode(), strict_parsing=True)
        self.forms.append(form)
        if form.get("client_secret") != [SECRET]:
            # An issuer may quote the request.
            text = f"no client {form['client_id'][0]} with {form['client_secret'][0]}"
            handler.reply(401, json.dumps({"error": "invalid_client", "error_description": text}).encode())
            return
        token = self.make(f"{TOKEN}{len(self.forms)}")
        lifetime = {} if self.seconds is None else {"expires_in": self.seconds}
        end = float("inf") if self.seconds is None else time.monotonic() + self.seconds
        self._expires_at[f"Bearer {token}"] = end
        handler.reply(200, json.dumps({"access_token": token, "token_type": "Bearer", **lifetime}).encode())


@contextmanager
def issuer(seconds: float | None = 3600, certificate: Path | None = None) -> Iterator[Issuer]:
    """Serve an issuer."""
    made = Issuer(seconds)
    with broker(made.answers, certificate) as (made.url, _):
        made.answers["/realm/.well-known/openid-configuration"] = {"token_endpoint": f"{made.url}/token"}
        made.answers["/token"] = made.token
        yield made


def key_file(folder: Path, secret: str = SECRET) -> Path:
    """Write the key file of a client."""
    file = folder / "key.json"
    file.write_text(json.dumps({"type": "client_credentials", "client_id": "ops", "client_secret": secret}))
    return file
