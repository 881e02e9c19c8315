"""Users, tokens and client certificates, as a Pulsar broker checks them: each gives a role."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import time
from base64 import b64decode, urlsafe_b64decode
from binascii import Error as Base64Error
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

_HASHES: Final = {"HS256": hashlib.sha256, "HS384": hashlib.sha384, "HS512": hashlib.sha512}


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """The credentials that a broker accepts; use it as the `authenticate` of a broker."""

    users: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Maps a name to its password, for the method `basic`; the name is the role."""
    token_key: bytes | None = field(default=None, repr=False)
    """The secret key of tokens (`tokenSecretKey`); the subject of a token is the role."""
    anonymous_role: str | None = None
    """`anonymousUserRole`: the role of clients without credentials. Without it they are refused."""

    def __call__(self, method: str, data: bytes) -> str | None:
        """Return the role; `PermissionError` if the credentials are wrong.

        The data of the method `tls` is the common name of the client's certificate, which TLS has verified.
        """
        if method == "basic" and self.users:
            return self._user(data.decode("utf-8", "replace"))
        if method == "token" and self.token_key is not None:
            return subject_of(data.decode("utf-8", "replace").strip(), self.token_key)
        if method == "tls" and data:
            return data.decode()
        if not data and self.anonymous_role is not None:
            return self.anonymous_role
        raise PermissionError(f"Authentication failed: no credentials of the method {method or 'none'!r}")

    def _user(self, text: str) -> str:
        name, _, password = text.partition(":")
        if not hmac.compare_digest(self.users.get(name, "").encode(), password.encode()) or not password:
            raise PermissionError("Authentication failed: wrong user or password")
        return name


def subject_of(token: str, key: bytes) -> str:
    """Return the subject of a JSON web token that is signed with a secret key.

    `PermissionError` if it has another signature, has expired, or uses a public key.
    """
    head, _, signature = token.rpartition(".")
    first, _, second = head.partition(".")
    header, claims = _json(first), _json(second)
    algorithm = header.get("alg")
    if algorithm not in _HASHES:
        raise PermissionError(
            f"Authentication failed: a token with the algorithm {algorithm!r}; known are {', '.join(_HASHES)}"
        )
    expected = hmac.digest(key, head.encode(), _HASHES[algorithm])
    if not hmac.compare_digest(expected, _bytes(signature)):
        raise PermissionError("Authentication failed: the signature of the token does not match the key")
    expires_s = claims.get("exp")
    if isinstance(expires_s, int | float) and expires_s <= time.time():
        raise PermissionError("Authentication failed: the token has expired")
    if not isinstance(subject := claims.get("sub"), str) or not subject:
        raise PermissionError("Authentication failed: the token has no subject")
    return subject


def _bytes(text: str) -> bytes:
    try:
        return urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except (Base64Error, ValueError):
        raise PermissionError("Authentication failed: not a JSON web token") from None


def _json(text: str) -> dict[str, Any]:
    try:
        found = json.loads(_bytes(text))
    except (ValueError, RecursionError):
        raise PermissionError("Authentication failed: not a JSON web token") from None
    if not isinstance(found, dict):
        raise PermissionError("Authentication failed: not a JSON web token")
    return found


def secret_key(source: str) -> bytes:
    """Return the secret key that `tokenSecretKey` gives: a file, `file:…`, `data:…;base64,…` or base64.

    The bytes of a file are the key, as a Pulsar broker reads it. Raises `OSError` or `ValueError`.
    """
    if source.startswith("data:"):
        return b64decode(source.partition(",")[2], validate=True)
    path = Path(re.sub(r"^file:(//)?", "", source))
    if source.startswith("file:") or path.is_file():
        return path.read_bytes()
    return b64decode(source, validate=True)
