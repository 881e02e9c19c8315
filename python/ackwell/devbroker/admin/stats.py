"""`stats` and `stats-internal`, under the names of Pulsar 4.2, as far as this broker has the figures."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ackwell.devbroker.consumers import Consumer
    from ackwell.devbroker.subscriptions import TopicSubscription
    from ackwell.devbroker.topic import Topic
    from ackwell.subscription import ConsumerSummary


def internal_stats(topic: Topic) -> dict[str, Any]:
    """Describe a topic's ledgers and cursors."""
    log = topic.log
    open_id = log.end.ledger_id
    return {
        "entriesAddedCounter": topic.entries_added,
        "numberOfEntries": log.ledgers.total_entries,
        "totalSize": log.nbytes,
        "currentLedgerEntries": log.end.entry_id + 1,
        "currentLedgerSize": sum(len(entry.data) for entry in log.entries[open_id]),
        "waitingCursorsCount": sum(1 for each in topic.subscriptions.values() if each.consumers),
        "pendingAddEntriesCount": 0,
        "lastConfirmedEntry": str(log.last_position if log.last_position.entry_id >= 0 else log.end),
        "state": "Terminated" if topic.terminated else "LedgerOpened",
        "ledgers": [
            {
                "ledgerId": ledger_id,
                # The open ledger is listed with none, as a broker lists it.
                "entries": 0 if ledger_id == open_id else len(entries),
                "size": 0 if ledger_id == open_id else sum(len(entry.data) for entry in entries),
                "offloaded": False,
                "underReplicated": False,
            }
            for ledger_id, entries in log.entries.items()
        ],
        "cursors": {name: _cursor(each) for name, each in topic.subscriptions.items()},
        "properties": {},
        "schemaLedgers": [],
        "compactedLedger": {"ledgerId": -1, "entries": -1, "size": -1, "offloaded": False},
    }


def _cursor(subscription: TopicSubscription) -> dict[str, Any]:
    cursor = subscription.cursor
    written = subscription.writes.ledger == "open"
    return {
        "markDeletePosition": str(cursor.mark_delete_position),
        "readPosition": str(subscription.subscription.read_position),
        "waitingReadOp": bool(subscription.consumers),
        "pendingReadOps": 0,
        "messagesConsumedCounter": cursor.messages_consumed,
        "cursorLedger": -1 if subscription.writes.ledger == "none" else 0,
        "cursorLedgerLastEntry": 0 if written else -1,
        "individuallyDeletedMessages": str(cursor.individually_deleted),
        "state": "Open" if written else "NoLedger",
        "active": bool(subscription.consumers),
        "numberOfEntriesSinceFirstNotAckedMessage": _since_first_hole(subscription),
        "totalNonContiguousDeletedMessagesRange": len(cursor.individually_deleted),
        "properties": dict(cursor.properties),
    }


def _since_first_hole(subscription: TopicSubscription) -> int:
    """Count the entries from the first that is not acknowledged up to the read position."""
    ledger_id, entry_id = subscription.subscription.read_position
    cursor = subscription.cursor
    upper = (ledger_id, entry_id - 1)
    if upper <= cursor.mark_delete_position:
        return 0
    return cursor.ledgers.entries_between(cursor.mark_delete_position, upper)


def stats(topic: Topic) -> dict[str, Any]:
    """Describe a topic, its producers, its subscriptions and their consumers."""
    return {
        "msgRateIn": 0.0,
        "msgThroughputIn": 0.0,
        "msgRateOut": 0.0,
        "msgThroughputOut": 0.0,
        "bytesInCounter": topic.bytes_in,
        "msgInCounter": topic.messages_in,
        "bytesOutCounter": sum(each.bytes_out for each in topic.subscriptions.values()),
        "msgOutCounter": sum(each.messages_out for each in topic.subscriptions.values()),
        "averageMsgSize": 0.0,
        "storageSize": topic.log.nbytes,
        "backlogSize": topic.log.nbytes,
        "ongoingTxnCount": topic.transactions.ongoing,
        "abortedTxnCount": topic.transactions.aborted,
        "committedTxnCount": topic.transactions.committed,
        "publishers": [
            {
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
        "subscriptions": {name: _subscription(each) for name, each in topic.subscriptions.items()},
        "replication": {},
        "deduplicationStatus": "Enabled" if topic.broker.deduplicates(topic.name) else "Disabled",
    }


def _subscription(subscription: TopicSubscription) -> dict[str, Any]:
    summary = subscription.subscription.summary(subscription.topic.clock.now_ms())
    consumers = {each.consumer: each for each in summary.consumers}
    return {
        "msgRateOut": 0.0,
        "bytesOutCounter": subscription.bytes_out,
        "msgOutCounter": subscription.messages_out,
        "msgBacklog": summary.backlog_entries,
        "msgBacklogNoDelayed": summary.backlog_entries - summary.delayed,
        "blockedSubscriptionOnUnackedMsgs": summary.blocked,
        "msgDelayed": summary.delayed,
        "msgInReplay": summary.to_redeliver,
        "unackedMessages": summary.unacked,
        "type": str(subscription.type),
        "activeConsumerName": _active(subscription),
        "consumers": [_consumer(each, consumers[each.key]) for each in subscription.consumers.values()],
        "isDurable": subscription.durable,
        "isReplicated": False,
        "nonContiguousDeletedMessagesRanges": len(subscription.cursor.individually_deleted),
        "subscriptionProperties": subscription.properties,
    }


def _active(subscription: TopicSubscription) -> str:
    active = subscription.subscription.active_consumer
    return "" if active is None else subscription.consumers[active].name


def _consumer(consumer: Consumer, summary: ConsumerSummary) -> dict[str, Any]:
    return {
        "consumerName": consumer.name,
        "msgRateOut": 0.0,
        "bytesOutCounter": consumer.bytes_out,
        "msgOutCounter": consumer.messages_out,
        "availablePermits": summary.permits,
        "unackedMessages": summary.unacked,
        "avgMessagesPerEntry": round(consumer.messages_out / max(consumer.entries_out, 1)),
        "blockedConsumerOnUnackedMsgs": summary.blocked,
        "address": consumer.connection.address,
        "connectedSince": timestamp(consumer.connected_ms),
        "clientVersion": consumer.connection.client_version,
        "metadata": consumer.metadata,
    }


def timestamp(ms: int) -> str:
    """Return a time as the admin API writes it."""
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
