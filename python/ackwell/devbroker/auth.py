"""Who may connect, and to which topics: everybody and to all, unless a broker is set up otherwise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ackwell.devbroker.refused_commands import CommandRefusedError
from ackwell.errors import ErrorCode

if TYPE_CHECKING:
    from ackwell.protocol.topic_name import TopicName

Authenticate = Callable[[str, bytes], str | None]
"""Takes a client's method and its data; gives its role, None for nobody; `PermissionError` refuses it."""

Authorize = Callable[[str | None, str], bool]
"""Takes a role and a namespace; whether it may produce and consume there."""


@dataclass(slots=True)
class Service:
    """Where a broker is to be found, and who may use it."""

    url: str
    tls_url: str | None = None
    authenticate_by: Authenticate | None = None
    authorize_by: Authorize | None = None
    admin_url: str = ""

    def authenticate(self, method: str, data: bytes) -> str | None:
        """Return a client's role; `RefusedError` for one that may not connect."""
        if self.authenticate_by is None:
            return None
        try:
            return self.authenticate_by(method, data)
        except PermissionError as error:
            raise CommandRefusedError(ErrorCode.AUTHENTICATION_ERROR, str(error)) from None

    def authorize(self, role: str | None, topic: TopicName) -> None:
        """Refuse a topic to a role that may not use it."""
        if self.authorize_by is not None and not self.authorize_by(role, topic.in_namespace):
            raise CommandRefusedError(
                ErrorCode.AUTHORIZATION_ERROR, f"{role or 'nobody'} may not use {topic}"
            )

    def listener(self, name: str) -> None:
        """Refuse every advertised listener: this broker has none."""
        if name:
            raise CommandRefusedError(
                ErrorCode.SERVICE_NOT_READY, f"no advertised listener is called {name!r}"
            )
