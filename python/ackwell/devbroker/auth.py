"""Authentication and authorization of clients; by default every client may use every topic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ackwell.devbroker.refused_commands import CommandRefusedError
from ackwell.errors import ErrorCode

if TYPE_CHECKING:
    from asyncio import BaseTransport

    from ackwell.protocol.topic_name import TopicName

Authenticate = Callable[[str, bytes], str | None]
"""Takes an authentication method and its data. Returns the role of the client, or None for a client without a
role. Raises `PermissionError` for wrong credentials.

For the method `tls`, the data is the common name of the client's certificate.
"""

Authorize = Callable[[str | None, str], bool]
"""Takes a role and a namespace. Returns whether the role may produce to and consume from the namespace's
topics."""


@dataclass(slots=True)
class Service:
    """The addresses of a broker, and the rules that decide which clients may access it."""

    url: str
    tls_url: str | None = None
    authenticate_by: Authenticate | None = None
    authorize_by: Authorize | None = None
    admin_url: str = ""
    admin_tls_url: str | None = None
    permits: Callable[[str | None, TopicName, str | None], bool] | None = None
    """Takes a role, a topic and an action. Returns whether the role has the permission. None permits
    everything."""

    def authenticate(self, method: str, data: bytes, transport: BaseTransport | None = None) -> str | None:
        """Return the role of a client; None if the broker does not authenticate clients.

        Wrong credentials raise `CommandRefusedError`.
        """
        if self.authenticate_by is None:
            return None
        try:
            return self.authenticate_by(method, common_name(transport) if method == "tls" else data)
        except PermissionError as error:
            raise CommandRefusedError(ErrorCode.AUTHENTICATION_ERROR, str(error)) from None

    def authorize(self, role: str | None, topic: TopicName, action: str | None = None) -> None:
        """Raise `CommandRefusedError` if a role may not perform an action on a topic.

        The action is `produce` or `consume`. Without an action, a permission for any action suffices.
        """
        is_permitted = self.authorize_by is None or self.authorize_by(role, topic.in_namespace)
        if not is_permitted or (self.permits is not None and not self.permits(role, topic, action)):
            raise CommandRefusedError(
                ErrorCode.AUTHORIZATION_ERROR,
                f"{role or 'an anonymous client'} may not use {topic}",
            )

    def listener(self, name: str) -> None:
        """Raise `CommandRefusedError` if `name` is not empty. The broker has no advertised listeners."""
        if name:
            raise CommandRefusedError(
                ErrorCode.SERVICE_NOT_READY, f"no advertised listener is called {name!r}"
            )


def common_name(transport: BaseTransport | None) -> bytes:
    """Return the common name in the certificate of a client. TLS has verified the certificate.

    The result is empty if the client sent no certificate, or one without a common name.
    """
    certificate = transport.get_extra_info("peercert") if transport is not None else None
    names = [
        value for part in (certificate or {}).get("subject", ()) for key, value in part if key == "commonName"
    ]
    return names[0].encode() if names else b""
