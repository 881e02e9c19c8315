"""Requests for the statistics of transactions."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from ackwell.devbroker.admin.requests import HttpError, number
from ackwell.devbroker.admin.topic_routes import existing
from ackwell.protocol.command_ack import TransactionId
from ackwell.protocol.constants import TxnAction

if TYPE_CHECKING:
    from ackwell.devbroker.admin.requests import Request


def list_coordinators(request: Request) -> Any:
    """List the coordinators; there is one."""
    return [{"id": 0, "brokerServiceUrl": request.service.url}]


def get_coordinator_stats(request: Request) -> Any:
    """Return the statistics of one coordinator, or of all by id."""
    described = {
        "state": "Ready",
        "leastSigBits": request.state.shared.counters.get("transaction", -1) + 1,
        "lowWaterMark": 0,
        "ongoingTxnSize": len(request.state.coordinator.open),
        "recoverStartTime": 0,
        "recoverEndTime": 0,
    }
    wanted = request.query.get("coordinatorId")
    if wanted not in (None, "0"):
        raise HttpError(HTTPStatus.NOT_FOUND, f"Transaction coordinator not found! coordinator id : {wanted}")
    return described if wanted else {"0": described}


def _transaction(request: Request) -> TransactionId:
    found = TransactionId(number(request.names["mostSigBits"]), number(request.names["leastSigBits"]))
    if not request.state.coordinator.is_open(found):
        raise HttpError(HTTPStatus.NOT_FOUND, f"Transaction {found} not found")
    return found


def abort_transaction(request: Request) -> None:
    """Abort a transaction."""
    request.state.end_transaction(_transaction(request), TxnAction.ABORT)


def get_transaction_buffer_stats(request: Request) -> Any:
    """Return the statistics of a topic's transactions."""
    content = existing(request).content
    return {
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
    """Return the statistics of a subscription's transactions."""
    found = existing(request).subscriptions.get(request.names["subscription"])
    if found is None:
        raise HttpError(HTTPStatus.NOT_FOUND, f"Subscription {request.names['subscription']} not found")
    ongoing = len(list(found.subscription.transactions))
    return {
        "state": "Ready" if ongoing else "None",
        "ongoingTxnSize": ongoing,
        "recoverStartTime": 0,
        "recoverEndTime": 0,
    }
