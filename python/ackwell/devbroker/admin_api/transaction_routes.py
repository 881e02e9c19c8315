"""Requests for the statistics of transactions."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from ackwell.devbroker.admin_api.requests import HttpError, number
from ackwell.devbroker.admin_api.topic_routes import existing
from ackwell.devbroker.broker_state import full_name
from ackwell.protocol.command_ack import TransactionId
from ackwell.protocol.constants import TxnAction

if TYPE_CHECKING:
    from ackwell.devbroker.admin_api.requests import Request
    from ackwell.devbroker.subscriptions import TopicSubscription
    from ackwell.devbroker.topic import Topic


def list_coordinators(request: Request) -> Any:
    """List the transaction coordinators. The dev broker has one."""
    return [{"id": 0, "brokerServiceUrl": request.service.url}]


def get_coordinator_stats(request: Request) -> Any:
    """Return the statistics of the coordinator in the query.

    If the query contains no coordinator id, return the statistics of all coordinators, by id.
    """
    described = {
        "state": "Ready",
        "leastSigBits": request.state.shared.counters.get("transaction", -1) + 1,
        "lowWaterMark": 0,
        "ongoingTxnSize": len(request.state.coordinator.open),
        "recoverStartTime": 0,
        "recoverEndTime": 0,
    }
    return described if _coordinator(request) else {"0": described}


def _coordinator(request: Request) -> str | None:
    """Return the coordinator id in the query. None if the query has no id; 404 if the id is unknown."""
    wanted = request.query.get("coordinatorId")
    if wanted not in (None, "0"):
        raise HttpError(HTTPStatus.NOT_FOUND, f"Transaction coordinator not found! coordinator id : {wanted}")
    return wanted


def _named(request: Request) -> TransactionId:
    """Return the transaction id in the path. The transaction does not have to exist."""
    return TransactionId(number(request.names["mostSigBits"]), number(request.names["leastSigBits"]))


def _open(request: Request) -> TransactionId:
    """Return the transaction id in the path. 404 if the transaction is not open."""
    found = _named(request)
    if not request.state.coordinator.is_open(found):
        raise HttpError(HTTPStatus.NOT_FOUND, f"Transaction {found} not found")
    return found


def abort_transaction(request: Request) -> None:
    """Abort a transaction."""
    request.state.end_transaction(_open(request), TxnAction.ABORT)


def get_transaction_metadata(request: Request) -> Any:
    """Return the metadata of an open transaction."""
    return _described(request, _open(request))


def get_slow_transactions(request: Request) -> Any:
    """Return the metadata of all transactions that were opened at least a given number of ms ago."""
    _coordinator(request)
    begun_before = request.state.clock.now_ms() - number(request.names["timeout"])
    coordinator = request.state.coordinator
    slow = [text for text, each in coordinator.open.items() if each["opened_ms"] <= begun_before]
    described = [_described(request, TransactionId.parse(text)) for text in slow]
    return {each["txnId"]: each for each in described}


def _described(request: Request, txn: TransactionId) -> dict[str, Any]:
    described, topics = request.state.coordinator.check(txn), request.state.topics
    acked: dict[str, Any] = {}
    for name, subscription in described["subscriptions"]:
        topic = topics.get(full_name(name))
        acked.setdefault(name, {})[subscription] = _acked(topic, subscription, txn)
    return {
        "txnId": f"({txn.most_bits},{txn.least_bits})",
        "status": "OPEN",
        "openTimestamp": described["opened_ms"],
        "timeoutAt": described["timeout_ms"],
        "producedPartitions": {
            name: _published(topics.get(full_name(name)), txn) for name in described["topics"]
        },
        "ackedPartitions": acked,
    }


def _published(topic: Topic | None, txn: TransactionId) -> dict[str, Any]:
    if topic is None:
        return {"aborted": False}
    first = topic.content.transactions.first_entry(txn)
    begun = {} if first is None else {"startPosition": str(first)}
    return begun | {"aborted": topic.content.transactions.is_aborted(txn)}


def _acked(topic: Topic | None, subscription: str, txn: TransactionId) -> dict[str, Any]:
    found = None if topic is None else topic.subscriptions.get(subscription)
    position = None if found is None else found.subscription.cumulative_ack(txn)
    return {} if position is None else {"cumulativeAckPosition": str(position)}


def get_transaction_in_buffer_stats(request: Request) -> Any:
    """Return the statistics of one transaction's entries in one topic."""
    return _published(existing(request), _named(request))


def get_transaction_in_pending_ack_stats(request: Request) -> Any:
    """Return the statistics of one transaction's acknowledgments on one subscription."""
    subscription = _subscription(request)
    return _acked(existing(request), subscription.name, _named(request))


def get_position_stats_in_pending_ack(request: Request) -> Any:
    """Return whether a given entry is acknowledged in an open transaction."""
    found = _subscription(request)
    position = number(request.names["ledgerId"]), number(request.names["entryId"])
    if position <= found.cursor.mark_delete_position:
        return {"state": "MarkDelete"}
    return {"state": "PendingAck" if found.subscription.is_in_transaction(*position) else "NotInPendingAck"}


def get_transaction_buffer_stats(request: Request) -> Any:
    """Return the statistics of all transactions that publish to a topic."""
    content = existing(request).content
    marks: dict[str, Any] = {"lowWaterMarks": {}} if request.flag("lowWaterMarks") else {}
    return marks | {
        "state": "Ready" if content.transactions.seen else "NoSnapshot",
        "maxReadPosition": str(content.log.last_position),
        "lastSnapshotTimestamps": 0,
        "ongoingTxnSize": content.transactions.ongoing,
        "recoverStartTime": 0,
        "recoverEndTime": 0,
        "totalAbortedTransactions": content.transactions.aborted,
        "snapshotType": "Single",
    }


def get_pending_ack_stats(request: Request) -> Any:
    """Return the statistics of all transactions that acknowledge messages of a subscription."""
    found = _subscription(request)
    ongoing = len(list(found.subscription.transactions))
    return {
        "state": "Ready" if ongoing else "None",
        "ongoingTxnSize": ongoing,
        "recoverStartTime": 0,
        "recoverEndTime": 0,
    }


def _subscription(request: Request) -> TopicSubscription:
    found = existing(request).subscriptions.get(request.names["subscription"])
    if found is None:
        raise HttpError(HTTPStatus.NOT_FOUND, f"Subscription {request.names['subscription']} not found")
    return found
