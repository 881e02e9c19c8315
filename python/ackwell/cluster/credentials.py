"""The credentials of a client: a token, or a user with a password. `oauth2` fetches tokens from an issuer.

Error messages and `repr` do not show tokens and passwords.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Final, Protocol

from ackwell.errors import StatsError
from ackwell.regular_files import read_regular

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Credentials(Protocol):
    """The authentication data of a client, for HTTP and for the binary protocol."""

    @property
    def method(self) -> str:
        """The name of the authentication method in the binary protocol."""

    def header(self) -> str:
        """Return the value of the header `Authorization`; raises `StatsError` if it cannot be obtained."""

    def data(self) -> bytes:
        """Return the authentication data for the binary protocol; raises the errors of `header`."""

    def renew(self, header: str) -> bool:
        """Replace the credentials after a broker refused `header`. Return whether the header has changed."""


class TemporaryError(StatsError):
    """The credentials cannot be obtained at the moment; a later attempt may succeed."""


class Token:
    """A JSON web token. `source` is called for each request, so that a token file can be replaced.

    >>> Token("abc").header()
    'Bearer abc'
    """

    method: Final = "token"

    def __init__(self, source: str | Callable[[], str]) -> None:
        self._source = source
        self._last = _checked(source if isinstance(source, str) else source())

    @classmethod
    def in_file(cls, file: Path) -> Token:
        """Return the token in a file. Raises `OSError`, or `ValueError` if the content is not a token."""

        def read() -> str:
            try:
                return read_regular(file).decode().strip()
            except UnicodeDecodeError:
                return ""

        try:
            return cls(read)
        except ValueError as error:
            raise ValueError(f"{file}: {error}") from None

    def header(self) -> str:
        """Return the value of the header `Authorization`."""
        return f"Bearer {self._current()}"

    def data(self) -> bytes:
        """Return the authentication data for the binary protocol."""
        return self._current().encode()

    def renew(self, header: str) -> bool:
        """Return whether the source now has another token than the refused header."""
        return self.header() != header

    def _current(self) -> str:
        if not isinstance(self._source, str):
            try:
                self._last = _checked(self._source())
            except (OSError, ValueError):
                # Another process is replacing the file, so use the previous token.
                return self._last
        return self._last


class BasicAuth:
    """A user with a password.

    >>> BasicAuth("ops", "secret").data()
    b'ops:secret'
    """

    method: Final = "basic"

    def __init__(self, user: str, password: str) -> None:
        self._data = f"{user}:{password}".encode()

    def header(self) -> str:
        """Return the value of the header `Authorization`."""
        return "Basic " + base64.b64encode(self._data).decode()

    def data(self) -> bytes:
        """Return the authentication data for the binary protocol."""
        return self._data

    def renew(self, header: str) -> bool:
        """Return False, because a password does not change."""
        return header != self.header()


def _checked(token: str) -> str:
    if not token:
        raise ValueError("no token in it, but nothing, or bytes that are not text")
    if not (token.isascii() and token.isprintable()):
        # Without this check, the error for an invalid header would quote the token.
        raise ValueError("not a token: it has line ends or characters that no token has")
    return token
