"""Handlers of CONNECT, PING and PONG."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ackwell.devbroker.client_connection import NO_REQUEST
from ackwell.devbroker.refused_commands import CommandRefusedError
from ackwell.protocol import messages
from ackwell.protocol.constants import PROTOCOL_VERSION, CommandType

if TYPE_CHECKING:
    from ackwell.devbroker.client_connection import ClientConnection


def connect(connection: ClientConnection, command: Any, _: bytes) -> None:
    """Authenticate a client. Answer with the lower of the client's and the broker's protocol version."""
    try:
        connection.authenticate(command.auth_method_name, command.auth_data)
    except CommandRefusedError as refusal:
        error = messages.CommandError(request_id=NO_REQUEST, error=refusal.code, message=str(refusal))
        connection.send(CommandType.ERROR, error)
        connection.close(str(refusal))
        return
    connection.connected = True
    connection.client_version = command.client_version
    connection.send(
        CommandType.CONNECTED,
        messages.CommandConnected(
            server_version=f"ackwell dev broker (Pulsar {connection.state.settings.version})",
            protocol_version=min(command.protocol_version, PROTOCOL_VERSION),
            max_message_size=connection.state.settings.max_message_bytes,
            feature_flags=messages.FeatureFlags(
                supports_topic_watchers=True,
                supports_get_partitioned_metadata_without_auto_creation=True,
            ),
        ),
    )


def ping(connection: ClientConnection, _command: Any, _: bytes) -> None:
    """Answer a ping."""
    connection.send(CommandType.PONG, messages.CommandPong())


def pong(connection: ClientConnection, _command: Any, _: bytes) -> None:
    """Count the client's answer to a ping of the broker."""
    connection.pongs += 1
