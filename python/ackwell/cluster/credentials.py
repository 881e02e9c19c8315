"""The credentials of a client: a token, or a user with a password. `oauth2` fetches tokens of an issuer.

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
        """Replace a header that a broker refused; return whether `header` now returns another value."""


class TemporaryError(StatsError):
    """The credentials cannot be obtained now; another attempt may succeed."""


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
        """Return whether the source has a token other than the refused one."""
        return self.header() != header

    def _current(self) -> str:
        if not isinstance(self._source, str):
            try:
                self._last = _checked(self._source())
            except (OSError, ValueError):
                # The file is being replaced.
                return self._last
        return self._last


class Basic:
    """A user with a password.

    >>> Basic("ops", "secret").data()
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
        """Return False: a password does not change."""
        return header != self.header()


def _checked(token: str) -> str:
    if not token:
        raise ValueError("no token in it, but nothing, or bytes that are not text")
    if not (token.isascii() and token.isprintable()):
        # The error of an invalid header would quote the token.
        raise ValueError("not a token: it has line ends or characters that no token has")
    return token
