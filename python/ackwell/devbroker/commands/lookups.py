"""Handlers of LOOKUP and PARTITIONED_METADATA. Every lookup leads to this broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ackwell.devbroker.broker_state import parse_topic_name
from ackwell.devbroker.refused_commands import CommandRefusedError
from ackwell.errors import ErrorCode
from ackwell.protocol import messages
from ackwell.protocol.constants import CommandType, LookupType

if TYPE_CHECKING:
    from ackwell.devbroker.client_connection import ClientConnection

FAILED = 1
"""The value `LookupType.Failed` in an answer to PARTITIONED_METADATA."""


def look_up(connection: ClientConnection, command: Any, _: bytes) -> None:
    """Answer a lookup with the address of this broker."""
    answer = messages.CommandLookupTopicResponse(request_id=command.request_id)
    try:
        name = parse_topic_name(command.topic)
        connection.service.authorize(connection.role, name)
        connection.state.check_namespace(name)
        if not connection.state.settings.auto_create_topics:
            connection.state.topic(str(name), create=False)
        connection.service.listener(command.advertised_listener_name)
        answer.response = LookupType.CONNECT
        answer.authoritative = True
        answer.brokerServiceUrl = connection.service.url
        if connection.service.tls_url:
            answer.brokerServiceUrlTls = connection.service.tls_url
    except CommandRefusedError as refusal:
        answer.response = LookupType.FAILED
        answer.error, answer.message = refusal.code, str(refusal)
    connection.send(CommandType.LOOKUP_RESPONSE, answer)


def partitions(connection: ClientConnection, command: Any, _: bytes) -> None:
    """Answer with the number of partitions of a topic."""
    answer = messages.CommandPartitionedTopicMetadataResponse(request_id=command.request_id)
    state = connection.state
    try:
        name = parse_topic_name(command.topic)
        connection.service.authorize(connection.role, name)
        create = command.metadata_auto_creation_enabled
        answer.partitions = state.partitions_of(name, create=create)
        if not answer.partitions and not create and str(name) not in state.topics:
            raise CommandRefusedError(ErrorCode.TOPIC_NOT_FOUND, f"Topic {name} does not exist")
        answer.response = 0
    except CommandRefusedError as refusal:
        answer.response = FAILED
        answer.error, answer.message = refusal.code, str(refusal)
    connection.send(CommandType.PARTITIONED_METADATA_RESPONSE, answer)
