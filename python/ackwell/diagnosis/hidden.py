"""Bounds of the number of acknowledged messages inside partly acknowledged batches.

A broker does not report the number of these messages, but the bounds follow from its counters. The upper
bound is the number of messages in the backlog minus the number of unacknowledged messages of the consumers.
If this difference is not 0 and all messages were delivered, at least one message is acknowledged inside a
batch: the lower bound is 1. Otherwise, the lower bound is 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackwell.broker.batch_sizes import Bounds
from ackwell.broker.contradictions import DumpPart
from ackwell.broker.writes import entries_up_to
from ackwell.protocol.constants import SubscriptionType

if TYPE_CHECKING:
    from ackwell.broker.broker_settings import BrokerSettings
    from ackwell.broker.dispatch import DispatchStats
    from ackwell.broker.stats import SubscriptionStats


def hidden_parts(stats: SubscriptionStats, settings: BrokerSettings) -> Bounds:
    """Return bounds of the number of acknowledged messages in partly acknowledged batches. O(consumers)."""
    if not settings.acknowledgment_at_batch_index_level_enabled or _acknowledged_nothing(stats):
        return Bounds(0, 0)
    most = stats.batch_sizes.most_hidden(stats.backlog_entries)
    dispatch, counted = stats.dispatch, _backlog_messages(stats)
    if stats.backlog_entries is None or DumpPart.DELIVERY in stats.unknown:
        return Bounds(0, most)
    if dispatch is None or counted is None or not _counts_unacked(stats, dispatch, settings):
        return Bounds(0, most)
    # There are two counters of the same messages. Use for each bound the counter that makes it wider.
    fewest, most_unacked = sorted((dispatch.unacked, sum(each.unacked for each in dispatch.consumers)))
    if fewest < 0 or fewest > counted:
        return Bounds(0, most)
    surely = 0 < most_unacked < counted and most != 0 and _all_delivered(stats, dispatch)
    missing = counted - fewest
    return Bounds(int(surely), missing if most is None else min(most, missing))


def _acknowledged_nothing(stats: SubscriptionStats) -> bool:
    """Return whether the counters prove that no message was acknowledged.

    A proof requires that all entries were published after the broker loaded the topic. The counters then
    include every consumer that received a message. The counters do not show whether a seek created an ack
    set. A seek opens the cursor ledger, so the result is False if the cursor has a ledger.
    """
    dispatch = stats.dispatch
    return (
        dispatch is not None
        and bool(dispatch.consumers)
        and not {DumpPart.WRITES, DumpPart.DELIVERY, DumpPart.LEDGERS} & stats.unknown
        and stats.cursor_ledger == "none"
        and _is_covered(stats)
        and dispatch.messages_out == sum(each.messages_out or 0 for each in dispatch.consumers)
        # If the time of a consumer's last acknowledgment is missing, there is no proof.
        and all(each.last_acked_ms == 0 for each in dispatch.consumers)
    )


def _is_covered(stats: SubscriptionStats) -> bool:
    """Return whether all entries of the topic were published since the broker loaded it."""
    entries = stats.batch_sizes.total_entries
    return entries is not None and entries >= sum(ledger.entries for ledger in stats.ledger_sizes)


def _backlog_messages(stats: SubscriptionStats) -> int | None:
    """Return the number of messages in the backlog; None if the present backlog was not counted."""
    sizes = stats.batch_sizes
    return sizes.backlog_messages if sizes.backlog_entries == stats.backlog_entries else None


def _counts_unacked(stats: SubscriptionStats, dispatch: DispatchStats, settings: BrokerSettings) -> bool:
    """Return whether the consumers' counts of unacknowledged messages can be compared with the backlog.

    The counts must include each message only once, and only messages of the backlog. After an aborted
    transaction, two consumers may count the same entry. In 4.0, the counts also include messages that were
    skipped, cleared or expired. Such messages are not in the backlog.
    """
    if dispatch.kind not in (SubscriptionType.SHARED, SubscriptionType.KEY_SHARED) or not dispatch.consumers:
        return False
    if settings.transaction_coordinator_enabled:
        return False
    passed_none = _is_covered(stats) and not entries_up_to(stats.ledgers, stats.mark_delete_position)
    return settings.releases_passed_messages or passed_none


def _all_delivered(stats: SubscriptionStats, dispatch: DispatchStats) -> bool:
    """Return whether every message of the backlog is delivered or acknowledged.

    Return False if the cursor ledger is open, because whole entries may then be acknowledged, and the
    consumers' counts of unacknowledged messages may then be too low. The reason is a defect of the broker: it
    compares each message of a command with the state before the command. The count is then wrong if the
    command acknowledges several messages of one batch.
    """
    last = stats.ledgers.last_position
    return (
        stats.cursor_ledger != "open"
        and any(each.last_acked_ms for each in dispatch.consumers)
        and last is not None
        and stats.backlog_end == last
        and stats.read_position is not None
        and stats.read_position > last
        and dispatch.cursor_reads is True
        and dispatch.in_replay == 0
        and not dispatch.delayed
    )
