"""Handlers of GET_SCHEMA and GET_OR_CREATE_SCHEMA."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ackwell.devbroker.broker_state import parse_topic_name
from ackwell.devbroker.refused_commands import CommandRefusedError
from ackwell.errors import ErrorCode
from ackwell.protocol import messages
from ackwell.protocol.constants import CommandType

if TYPE_CHECKING:
    from ackwell.devbroker.client_connection import ClientConnection


def get(connection: ClientConnection, command: Any, _: bytes) -> None:
    """Answer with one version of a topic's schema."""
    answer = messages.CommandGetSchemaResponse(request_id=command.request_id)
    found = connection.state.schemas.get(
        str(parse_topic_name(command.topic).partitioned), command.schema_version or None
    )
    if found is None:
        answer.error_code, answer.error_message = ErrorCode.TOPIC_NOT_FOUND, "Topic not found or no-schema"
    else:
        answer.schema.CopyFrom(found[0])
        answer.schema_version = found[1]
    connection.send(CommandType.GET_SCHEMA_RESPONSE, answer)


def get_or_create(connection: ClientConnection, command: Any, _: bytes) -> None:
    """Add a schema to a topic. Answer with the version of the schema."""
    answer = messages.CommandGetOrCreateSchemaResponse(request_id=command.request_id)
    try:
        version = connection.state.put_schema(parse_topic_name(command.topic), command.schema)
        answer.schema_version = version or b""
    except CommandRefusedError as refusal:
        answer.error_code, answer.error_message = refusal.code, str(refusal)
    connection.send(CommandType.GET_OR_CREATE_SCHEMA_RESPONSE, answer)
