"""The table of command handlers. A command without a handler is answered with an error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ackwell.devbroker.commands import (
    acking,
    consuming,
    lookups,
    producing,
    schema_commands,
    sessions,
    topic_lists,
    transaction_commands,
)
from ackwell.protocol.constants import CommandType

if TYPE_CHECKING:
    from ackwell.devbroker.client_connection import Handler

HANDLERS: Final[dict[int, Handler]] = {
    CommandType.CONNECT: sessions.connect,
    CommandType.PING: sessions.ping,
    CommandType.PONG: sessions.pong,
    CommandType.LOOKUP: lookups.look_up,
    CommandType.PARTITIONED_METADATA: lookups.partitions,
    CommandType.PRODUCER: producing.open_producer,
    CommandType.SEND: producing.publish,
    CommandType.CLOSE_PRODUCER: producing.close_producer,
    CommandType.SUBSCRIBE: consuming.subscribe,
    CommandType.FLOW: consuming.flow,
    CommandType.UNSUBSCRIBE: consuming.unsubscribe,
    CommandType.CLOSE_CONSUMER: consuming.close_consumer,
    CommandType.SEEK: consuming.seek,
    CommandType.GET_LAST_MESSAGE_ID: consuming.last_message_id,
    CommandType.CONSUMER_STATS: consuming.consumer_stats,
    CommandType.ACK: acking.acknowledge,
    CommandType.REDELIVER_UNACKNOWLEDGED_MESSAGES: acking.redeliver,
    CommandType.GET_TOPICS_OF_NAMESPACE: topic_lists.topics_of_namespace,
    CommandType.WATCH_TOPIC_LIST: topic_lists.watch,
    CommandType.WATCH_TOPIC_LIST_CLOSE: topic_lists.unwatch,
    CommandType.GET_SCHEMA: schema_commands.get,
    CommandType.GET_OR_CREATE_SCHEMA: schema_commands.get_or_create,
    CommandType.TC_CLIENT_CONNECT_REQUEST: transaction_commands.connect,
    CommandType.NEW_TXN: transaction_commands.begin,
    CommandType.ADD_PARTITION_TO_TXN: transaction_commands.add_topics,
    CommandType.ADD_SUBSCRIPTION_TO_TXN: transaction_commands.add_subscriptions,
    CommandType.END_TXN: transaction_commands.end,
}
