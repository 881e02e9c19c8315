"""How many messages are acknowledged inside of batches of which others are not.

No answer of a broker shows them, but its counters bound them. The messages of the backlog, less those that
the consumers have and did not acknowledge, are all that can be; and if everything was delivered, some are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackwell.broker.batch_sizes import Bounds
from ackwell.broker.writes import entries_up_to
from ackwell.protocol.constants import SubscriptionType

if TYPE_CHECKING:
    from ackwell.broker.dispatch import DispatchStats
    from ackwell.broker.settings import BrokerSettings
    from ackwell.broker.stats import SubscriptionStats


def hidden_parts(stats: SubscriptionStats, settings: BrokerSettings) -> Bounds:
    """Bound the acknowledged messages inside of batches that are not acknowledged whole; O(consumers)."""
    if not settings.acknowledgment_at_batch_index_level_enabled or _acknowledged_nothing(stats):
        return Bounds(0, 0)
    most = stats.batch_sizes.most_hidden(stats.backlog_entries)
    dispatch, counted = stats.dispatch, _backlog_messages(stats)
    if dispatch is None or counted is None or not _counts_unacked(stats, dispatch, settings):
        return Bounds(0, most)
    # Two counters of the same. The less favourable one decides.
    fewest, most_unacked = sorted((dispatch.unacked, sum(each.unacked for each in dispatch.consumers)))
    if fewest < 0 or fewest > counted:
        return Bounds(0, most)
    surely = 0 < most_unacked < counted and most != 0 and _all_delivered(stats, dispatch)
    missing = counted - fewest
    return Bounds(int(surely), missing if most is None else min(most, missing))


def _acknowledged_nothing(stats: SubscriptionStats) -> bool:
    """Return whether no consumer that received any of the entries has acknowledged anything.

    All were published since the broker loaded the topic, so who received them shows in the counters. An ack
    set that a seek leaves behind does not, but a seek opens the cursor ledger.
    """
    dispatch = stats.dispatch
    return (
        dispatch is not None
        and bool(dispatch.consumers)
        and stats.cursor_ledger == "none"
        and _is_covered(stats)
        and dispatch.messages_out == sum(each.messages_out or 0 for each in dispatch.consumers)
        # Where a broker does not show the time it proves nothing.
        and all(each.last_acked_ms == 0 for each in dispatch.consumers)
    )


def _is_covered(stats: SubscriptionStats) -> bool:
    """Return whether all entries of the topic were published since the broker loaded it."""
    entries = stats.batch_sizes.total_entries
    return entries is not None and entries >= sum(ledger.entries for ledger in stats.ledger_sizes)


def _backlog_messages(stats: SubscriptionStats) -> int | None:
    """Return how many messages the batches of the backlog hold, if the broker counted just these."""
    sizes = stats.batch_sizes
    return sizes.backlog_messages if sizes.backlog_entries == stats.backlog_entries else None


def _counts_unacked(stats: SubscriptionStats, dispatch: DispatchStats, settings: BrokerSettings) -> bool:
    """Return whether the consumers' counts of unacknowledged messages hold those of the backlog, each once.

    After an aborted transaction an entry may be with two consumers. 4.0 goes on counting what was skipped,
    cleared or expired.
    """
    if dispatch.kind not in (SubscriptionType.SHARED, SubscriptionType.KEY_SHARED) or not dispatch.consumers:
        return False
    if settings.transaction_coordinator_enabled:
        return False
    passed_none = _is_covered(stats) and not entries_up_to(stats.ledgers, stats.mark_delete_position)
    return settings.releases_passed_messages or passed_none


def _all_delivered(stats: SubscriptionStats, dispatch: DispatchStats) -> bool:
    """Return whether every message of the backlog is with a consumer, or acknowledged.

    If whole entries were acknowledged, the counts may be too low: several ids of one batch in a command are
    counted each against what was acknowledged before the command.
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
