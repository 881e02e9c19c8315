"""The answers to the requests `stats`, `stats-internal` and `info-internal` for a topic.

They contain those fields of Pulsar 4.2 that the dev broker can compute.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Final

from ackwell.broker.dates import date_of
from ackwell.broker.names import encoded_name
from ackwell.subscription import SubscriptionType

if TYPE_CHECKING:
    from ackwell import Position
    from ackwell.devbroker.cursor_writes import CursorWrites
    from ackwell.devbroker.subscriptions import ConnectedConsumer, TopicSubscription
    from ackwell.devbroker.topic import Topic
    from ackwell.subscription import ConsumerSummary


def internal_stats(topic: Topic) -> dict[str, Any]:
    """Return the answer to `stats-internal`: a topic's ledgers and cursors in the broker's memory."""
    log = topic.content.log
    open_id = log.end.ledger_id
    return {
        "entriesAddedCounter": topic.entries_added,
        "numberOfEntries": log.ledgers.total_entries,
        "totalSize": log.nbytes,
        "currentLedgerEntries": log.end.entry_id + 1,
        "currentLedgerSize": log.sizes[open_id],
        "lastLedgerCreatedTimestamp": timestamp(log.created_ms(open_id)),
        "waitingCursorsCount": sum(1 for each in topic.subscriptions.values() if each.consumers),
        "pendingAddEntriesCount": 0,
        "lastConfirmedEntry": str(log.last_confirmed or log.ledgers.last_position or log.end),
        "state": "Terminated" if topic.content.terminated else "LedgerOpened",
        "ledgers": [
            {
                "ledgerId": ledger_id,
                # A Pulsar broker reports 0 entries for the open ledger.
                "entries": 0 if ledger_id == open_id else len(entries),
                "size": 0 if ledger_id == open_id else log.sizes[ledger_id],
                "offloaded": False,
                "underReplicated": False,
            }
            for ledger_id, entries in log.entries.items()
        ],
        "cursors": {encoded_name(name): _cursor(each) for name, each in topic.subscriptions.items()},
        "properties": {},
        "schemaLedgers": [],
        "compactedLedger": {
            "ledgerId": -1,
            "entries": -1,
            "size": -1,
            "offloaded": False,
            "underReplicated": False,
        },
    }


def _cursor(subscription: TopicSubscription) -> dict[str, Any]:
    cursor = subscription.cursor
    written = subscription.cursor_writes.ledger == "open"
    return {
        "markDeletePosition": str(cursor.mark_delete_position),
        "readPosition": str(_read_position(subscription)),
        "waitingReadOp": bool(subscription.consumers),
        "pendingReadOps": 0,
        "messagesConsumedCounter": cursor.messages_consumed,
        "cursorLedger": -1 if subscription.cursor_writes.ledger == "none" else 0,
        "cursorLedgerLastEntry": 0 if written else -1,
        "individuallyDeletedMessages": str(cursor.individually_deleted),
        "lastLedgerSwitchTimestamp": timestamp(subscription.created_ms),
        "state": "Open" if written else "NoLedger",
        "active": bool(subscription.consumers),
        "numberOfEntriesSinceFirstNotAckedMessage": _since_first_hole(subscription),
        "totalNonContiguousDeletedMessagesRange": len(cursor.individually_deleted),
        "subscriptionHavePendingRead": bool(subscription.consumers),
        "subscriptionHavePendingReplayRead": False,
        "properties": dict(cursor.properties),
    }


def managed_ledger_info(topic: Topic) -> dict[str, Any]:
    """Return the answer to `info-internal`: the ledgers and cursors in Pulsar's metadata store.

    The dev broker has no such store. It computes what Pulsar would store.
    """
    dates = dict.fromkeys(("creationDate", "modificationDate"), timestamp(topic.content.clock.now_ms()))
    return {
        "version": 1,
        **dates,
        "ledgers": [
            {"ledgerId": each, "isOffloaded": False, "timestamp": topic.content.log.closed_ms(each) or 0}
            for each in topic.content.log.entries
        ],
        "cursors": {
            encoded_name(name): {"version": 1, **dates, **_stored(each.cursor_writes)}
            for name, each in topic.subscriptions.items()
            if each.durable
        },
    }


def _stored(writes: CursorWrites) -> dict[str, Any]:
    """Return the fields of a cursor that Pulsar would keep in the metadata store.

    The fields include the individually deleted ranges only if the cursor has no cursor ledger. They never
    include ack sets. If the cursor has no ranges, the field is missing, as in a Pulsar broker.
    """
    in_metadata_store = writes.ledger == "none"
    stored: dict[str, Any] = {
        "cursorsLedgerId": -1 if in_metadata_store else 0,
        "markDelete": _position(*writes.written.mark_delete_position),
    }
    if in_metadata_store and len(writes.written.individually_deleted):
        stored["individualDeletedMessages"] = [
            {"from": _position(ledger_id, lower), "to": _position(ledger_id, upper)}
            for ledger_id, lower, upper in writes.written.individually_deleted
        ]
    return stored


def _position(ledger_id: int, entry_id: int) -> dict[str, int]:
    return {"ledgerId": ledger_id, "entryId": entry_id}


def _read_position(subscription: TopicSubscription) -> Position:
    """Return the read position of a subscription, as a Pulsar broker reports it.

    The result is after the mark-delete position. If the ledger of the read position is deleted, the result is
    the start of the next ledger.
    """
    position, log = subscription.subscription.read_position, subscription.content.log
    mark_delete = subscription.cursor.mark_delete_position
    if position <= mark_delete:
        position = log.ledgers.next_valid(*mark_delete)
    if position.ledger_id in log.entries:
        return position
    return log.ledgers.next_valid(position.ledger_id, position.entry_id - 1)


def _since_first_hole(subscription: TopicSubscription) -> int:
    """Return the number of entries from the mark-delete position to the read position, as in Pulsar."""
    ledger_id, entry_id = subscription.subscription.read_position
    cursor = subscription.cursor
    upper = (ledger_id, entry_id - 1)
    if upper <= cursor.mark_delete_position:
        return 1
    return cursor.ledgers.entries_between(cursor.mark_delete_position, upper) + 1


def stats(topic: Topic) -> dict[str, Any]:
    """Return the answer to `stats`: the topic, its producers, its subscriptions, and their consumers."""
    return {
        "msgRateIn": 0.0,
        "msgThroughputIn": 0.0,
        "msgRateOut": 0.0,
        "msgThroughputOut": 0.0,
        "bytesInCounter": topic.bytes_in,
        "msgInCounter": topic.messages_in,
        "bytesOutCounter": sum(each.bytes_out for each in topic.subscriptions.values()),
        "msgOutCounter": sum(each.messages_out for each in topic.subscriptions.values()),
        "topicCreationTimeStamp": topic.created_ms,
        "lastPublishTimeStamp": topic.published_ms,
        "averageMsgSize": 0.0,
        "storageSize": topic.content.log.nbytes,
        "backlogSize": topic.content.log.nbytes,
        "ongoingTxnCount": topic.content.transactions.ongoing,
        "abortedTxnCount": topic.content.transactions.aborted,
        "committedTxnCount": topic.content.transactions.committed,
        "publishers": [
            {
                "msgRateIn": 0.0,
                "msgThroughputIn": 0.0,
                "averageMsgSize": 0.0,
                "chunkedMessageRate": 0.0,
                "supportsPartialProducer": False,
                "accessMode": each.access_mode.name.title().replace("_", ""),
                "producerId": each.producer_id,
                "producerName": each.name,
                "address": each.connection.address,
                "connectedSince": timestamp(each.connected_ms),
                "clientVersion": each.connection.client_version,
                "metadata": each.metadata,
            }
            for each in topic.producers.by_name.values()
        ],
        "waitingPublishers": 0,
        "subscriptions": {name: _subscription(each) for name, each in topic.subscriptions.items()},
        "replication": {},
        "deduplicationStatus": "Enabled" if topic.content.shared.deduplicates(topic.name) else "Disabled",
    }


def _subscription(subscription: TopicSubscription) -> dict[str, Any]:
    summary = subscription.subscription.summary(subscription.content.clock.now_ms())
    consumers = {each.consumer: each for each in summary.consumers}
    backlog_bytes = subscription.backlog_bytes
    draining = subscription.subscription.draining_hashes
    return {
        **_RATES_OUT,
        "bytesOutCounter": subscription.bytes_out,
        "msgOutCounter": subscription.messages_out,
        "msgBacklog": summary.backlog_entries,
        "backlogSize": backlog_bytes,
        "msgBacklogNoDelayed": summary.backlog_entries - summary.delayed,
        "blockedSubscriptionOnUnackedMsgs": summary.blocked,
        "msgDelayed": summary.delayed,
        "msgInReplay": summary.to_redeliver,
        "unackedMessages": summary.unacked,
        "type": str(subscription.type) if subscription.had_consumer else "None",
        **_active(subscription),
        "consumers": [
            _consumer(each, consumers[each.key]) | _draining([draining.get(each.key, {})])
            for each in subscription.consumers.values()
        ],
        **_draining(draining.values()),
        "isDurable": subscription.durable,
        "durable": subscription.durable,
        "isReplicated": subscription.is_replicated,
        "replicated": subscription.is_replicated,
        "allowOutOfOrderDelivery": False,
        **({} if subscription.content.settings.is_5 else {"consumersAfterMarkDeletePosition": {}}),
        "nonContiguousDeletedMessagesRanges": len(subscription.cursor.individually_deleted),
        "subscriptionProperties": subscription.properties,
    }


_RATES_OUT = {
    "msgRateOut": 0.0,
    "msgThroughputOut": 0.0,
    "msgRateRedeliver": 0.0,
    "messageAckRate": 0.0,
    "chunkedMessageRate": 0.0,
}


_NAMES = {"publishers": "producerName", "consumers": "consumerName"}
"""Maps a list in the statistics to the field that identifies its elements when two lists are merged."""


_NEWEST: Final = {"topicCreationTimeStamp": min, "lastPublishTimeStamp": max}
"""Maps a time in the statistics to the function that merges two such times. `min` keeps the earlier time."""


def merged_stats(described: list[dict[str, Any]]) -> dict[str, Any]:
    """Merge the statistics of several topics.

    Numbers are added. Publishers and consumers of the same name are merged.
    """
    merged: dict[str, Any] = {}
    for each in described:
        for name, value in each.items():
            before = merged.get(name)
            if name in _NAMES:
                merged[name] = _merged_by_name([*(before or []), *value], _NAMES[name])
            elif isinstance(value, dict):
                merged[name] = merged_stats([before or {}, value])
            elif name in _NEWEST:
                merged[name] = value if before is None else _NEWEST[name](before, value)
            elif before is None or isinstance(value, (bool, str)):
                merged[name] = value
            else:
                merged[name] = before + value
    return merged


def _merged_by_name(rows: list[dict[str, Any]], key: str) -> list[dict[str, Any]]:
    by_name: dict[str, dict[str, Any]] = {}
    for row in rows:
        known = by_name.get(row[key])
        by_name[row[key]] = (
            row if known is None else merged_stats([known, row]) | {"metadata": row["metadata"]}
        )
    return list(by_name.values())


def _active(subscription: TopicSubscription) -> dict[str, str]:
    """Return the field that depends on the type of the subscription.

    It is the active consumer for Failover and the mode for Key_Shared. Other types have no such field.
    """
    if subscription.type is not SubscriptionType.FAILOVER:
        mode = {"sticky": "STICKY", "auto": "AUTO_SPLIT"}.get(subscription.key_shared_mode)
        return {"keySharedMode": mode} if mode else {}
    active = subscription.subscription.active_consumer
    return {"activeConsumerName": "" if active is None else subscription.consumers[active].name}


def _consumer(consumer: ConnectedConsumer, summary: ConsumerSummary) -> dict[str, Any]:
    return {
        "consumerName": consumer.name,
        **_RATES_OUT,
        "bytesOutCounter": consumer.bytes_out,
        "msgOutCounter": consumer.messages_out,
        "availablePermits": summary.permits,
        "unackedMessages": summary.unacked,
        "avgMessagesPerEntry": consumer.messages_per_entry,
        "blockedConsumerOnUnackedMsgs": summary.blocked,
        "address": consumer.connection.address,
        "connectedSince": timestamp(consumer.connected_ms),
        "clientVersion": consumer.connection.client_version,
        "lastConsumedFlowTimestamp": consumer.flow_ms,
        "lastConsumedTimestamp": consumer.consumed_ms,
        "lastAckedTimestamp": consumer.acked_ms,
        "metadata": consumer.metadata,
    }


def _draining(hashes: Collection[dict[int, int]]) -> dict[str, int]:
    """Return the number of draining hashes, and the number of unacknowledged messages with these hashes.

    Each pending entry counts as one message.
    """
    return {
        "drainingHashesCount": sum(map(len, hashes)),
        "drainingHashesUnackedMessages": sum(sum(each.values()) for each in hashes),
    }


def timestamp(ms: int) -> str:
    """Return a time in the format of the admin API. Times after the year 9999 become the end of that year."""
    return date_of(ms).isoformat(timespec="milliseconds").replace("+00:00", "Z")
