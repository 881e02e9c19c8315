"""Which function handles which command; a broker answers any other with an error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ackwell.devbroker.commands import (
    acking,
    consuming,
    looking_up,
    producing,
    schemas,
    sessions,
    topic_lists,
    transactions,
)
from ackwell.protocol.codes import CommandType

if TYPE_CHECKING:
    from ackwell.devbroker.connection import Handler

HANDLERS: Final[dict[int, Handler]] = {
    CommandType.CONNECT: sessions.connect,
    CommandType.PING: sessions.ping,
    CommandType.PONG: sessions.pong,
    CommandType.LOOKUP: looking_up.look_up,
    CommandType.PARTITIONED_METADATA: looking_up.partitions,
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
    CommandType.GET_SCHEMA: schemas.get,
    CommandType.GET_OR_CREATE_SCHEMA: schemas.get_or_create,
    CommandType.TC_CLIENT_CONNECT_REQUEST: transactions.connect,
    CommandType.NEW_TXN: transactions.begin,
    CommandType.ADD_PARTITION_TO_TXN: transactions.add_topics,
    CommandType.ADD_SUBSCRIPTION_TO_TXN: transactions.add_subscriptions,
    CommandType.END_TXN: transactions.end,
}
