"""The credentials of clients: users, tokens and certificates. They determine the role as in Pulsar."""

from __future__ import annotations

import hmac
import re
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ackwell.regular_files import read_regular

_ALGORITHMS: Final = ("HS256", "HS384", "HS512")
"""The supported algorithms of tokens. They sign a token with a secret key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedCredentials:
    """The credentials that a broker accepts. Pass the object as `authenticate` to a broker."""

    users: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Maps user names of the authentication method `basic` to passwords. The user name is the role."""
    token_key: bytes | None = field(default=None, repr=False)
    """The secret key that signs tokens (`tokenSecretKey`). The subject of a token is the role."""
    anonymous_role: str | None = None
    """`anonymousUserRole`: the role of clients without credentials. If it is None, these clients are
    refused."""

    def __call__(self, method: str, data: bytes) -> str | None:
        """Return the role of a client; `PermissionError` if the credentials are wrong.

        `method` is the authentication method, and `data` is its credential. For the method `tls`, `data` is
        the common name of the client's certificate. TLS has already verified the certificate.
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
    """Return the subject of a JSON web token that was signed with the secret key `key`.

    Raises `PermissionError` in three cases: the signature is wrong, the token has expired or is not valid
    yet, or its algorithm uses a public key.
    """
    import jwt

    try:
        claims = jwt.decode(token, key, list(_ALGORITHMS), {"require": ["sub"], "verify_aud": False})
    except (jwt.InvalidTokenError, RecursionError) as error:
        raise PermissionError(f"Authentication failed: the token is refused: {error}") from None
    subject: str = claims["sub"]
    if not subject:
        raise PermissionError("Authentication failed: the token is refused: its subject is empty")
    return subject


def secret_key(source: str) -> bytes:
    """Return the bytes of the secret key to which a value of `tokenSecretKey` refers.

    The value is a file name, `file:…`, `data:…;base64,…` or base64. The key of a file consists of all bytes
    of the file, as in a Pulsar broker. Raises `OSError` or `ValueError`.
    """
    path = Path(re.sub(r"^file:(//)?", "", source))
    if source.startswith("data:"):
        key = b64decode(source.partition(",")[2], validate=True)
    elif source.startswith("file:") or path.is_file():
        key = read_regular(path)
    else:
        key = b64decode(source, validate=True)
    if not key:
        raise ValueError("the secret key is empty")
    return key
