"""Compute upper bounds of the number of acknowledgments that a broker has not written yet.

A broker sends an acknowledgment to the cursor ledger within `managedLedgerCursorPositionFlushSeconds`. No
answer of the admin API shows whether the bookies have confirmed that write. A bookie that does not answer
delays the write for `bookkeeperClientTimeoutInSeconds`. Then another bookie replaces the first one, or the
write fails and the state is not `Open`. The write of an acknowledgment is therefore proven only when all
these times have passed since the acknowledgment (`written_after_ms`).

`NoLedger` is the state of a cursor that was only read since the topic was loaded. It is also the state of a
cursor whose ledger cannot be created or written. In this second case, the acknowledgments are in memory only.
The counters of delivered and unacknowledged messages distinguish these two cases. Two dumps prove a delayed
write if an entry was acknowledged between them, but the cursor ledger did not grow.
"""

from __future__ import annotations

from itertools import accumulate
from math import ceil
from typing import TYPE_CHECKING, Final, NamedTuple

from ackwell.broker.batch_sizes import Bounds
from ackwell.broker.contradictions import DumpPart
from ackwell.broker.writes import entries_up_to
from ackwell.cursor.cursor_state import existing
from ackwell.cursor.rules import acknowledged
from ackwell.diagnosis.hidden import hidden_parts

if TYPE_CHECKING:
    from ackwell.broker.broker_settings import BrokerSettings
    from ackwell.broker.stats import SubscriptionStats
    from ackwell.cursor.cursor_state import CursorState

WRITE_MS: Final = 1_000
"""The minimum time between two writes of a cursor at the default rate. A higher rate of writes is treated
like the default."""

ATTEMPTS: Final = 2
"""The number of timeouts for which one write may wait: one for a bookie of the ledger, and one for the bookie
that replaces it."""


def unwritten(
    stats: SubscriptionStats, settings: BrokerSettings, before: SubscriptionStats | None
) -> int | None:
    """Return the maximum number of entries whose acknowledgment is not written yet; None if unbounded.

    An acknowledgment is certainly written when its age exceeds `written_after_ms`. If all acknowledgments are
    older than that, the result is 0. Otherwise, if the dump `before` is older than that, the result is the
    number of entries that were acknowledged since this dump. For this, all states since the dump must have
    been within the limits, and the cursor must not have moved back. A move back closes the consumers, so the
    dumps must show the same consumers.
    """
    if stats.cursor_state not in (None, "Open") or DumpPart.WRITES in stats.unknown:
        return None
    waits_ms = written_after_ms(settings)
    quiet_ms = stats.quiet_ms
    if quiet_ms is not None and quiet_ms > waits_ms:
        return 0
    if before is None or before.time_ms is None or stats.time_ms is None or stats.dispatch is None:
        return None
    if (
        before.dispatch is None
        or stats.time_ms - before.time_ms <= waits_ms
        or not before.shows_acknowledgments
    ):
        return None
    then, now = (
        {(each.name, each.connected_since) for each in some.consumers}
        for some in (before.dispatch, stats.dispatch)
    )
    if then != now or before.dispatch.consumed is None or stats.dispatch.consumed is None:
        return None
    if _unmoved(before, stats):
        return 0
    if not stats.dispatch.consumers:
        return None
    acked = stats.dispatch.consumed - before.dispatch.consumed
    ranges = before.individually_deleted
    most = (ranges.cardinality if settings.long_array else len(ranges)) + acked
    return acked if acked >= 0 and most <= settings.max_unacked_ranges_to_persist else None


def written_after_ms(settings: BrokerSettings) -> int:
    """Return an age in ms. An older acknowledgment is certainly written if the cursor is still `Open`."""
    return _sent_after_ms(settings) + ATTEMPTS * 1_000 * settings.bookkeeper_client_timeout_seconds


def _sent_after_ms(settings: BrokerSettings) -> int:
    """Return the maximum time in ms until a broker sends an acknowledgment to the cursor ledger."""
    rate = settings.cursor_writes_per_second
    write_ms = max(ceil(1_000 / rate), WRITE_MS) if rate > 0 else WRITE_MS
    return settings.cursor_position_flush_seconds * 1_000 + write_ms


def _unmoved(before: SubscriptionStats, now: SubscriptionStats) -> bool:
    """Return whether no acknowledgment arrived between two dumps."""
    assert before.dispatch is not None
    assert now.dispatch is not None
    since = before.time_ms or 0
    parts = any((each.last_acked_ms or 0) > since for each in now.dispatch.consumers)
    return not parts and (
        before.dispatch.consumed,
        before.dispatch.messages_out,
        before.mark_delete_position,
        before.individually_deleted,
        before.cursor_ledger,
    ) == (
        now.dispatch.consumed,
        now.dispatch.messages_out,
        now.mark_delete_position,
        now.individually_deleted,
        now.cursor_ledger,
    )


NOT_WRITING: Final = ("Uninitialized", "Closing", "Closed", "DeletingLedger")
"""The states of a cursor in which the broker does not write it."""


class WithheldAcks(NamedTuple):
    """Acknowledged messages that may be in memory only, because writes of the cursor fail or wait."""

    messages: Bounds
    sign: str
    """A sentence about the evidence that acknowledgments are not written; empty without evidence."""
    is_certain: bool = False
    """Whether `info-internal` shows the persisted acknowledgments. A crash then loses exactly all other
    acknowledgments."""
    unwritten_ms: int | None = None
    """The minimum time for which the cursor has not been written; None if it is unknown."""


NOTHING: Final = WithheldAcks(Bounds(0, 0), "")


def withheld(
    stats: SubscriptionStats, settings: BrokerSettings, before: SubscriptionStats | None = None
) -> WithheldAcks:
    """Return bounds of the number of acknowledged messages that the cursor ledger has not accepted.

    O(ranges + ledgers).
    """
    # After a failed write, the broker writes to the metadata store, and keeps the id of the failed ledger.
    # Not every version reads ack sets back from the metadata store. So a cursor that may have ack sets is
    # excluded.
    in_metadata_store = stats.cursor_ledger == "none" or (
        stats.cursor_state == "NoLedger" and hidden_parts(stats, settings).at_most == 0
    )
    if stats.persisted is not None and in_metadata_store:
        return _not_persisted(stats, stats.persisted, settings)
    if stats.cursor_state in NOT_WRITING:
        return WithheldAcks(_acked(stats, settings), f"state is {stats.cursor_state}")
    if stats.cursor_state == "SwitchingLedger":
        unwritten_ms = _switching_ms(before, stats)
        sign = _sign_between(before, stats) or (
            f"the cursor has been switching ledgers for at least {unwritten_ms // 1_000:,} s"
            if unwritten_ms is not None and unwritten_ms > _sent_after_ms(settings)
            else ""
        )
        return WithheldAcks(_acked(stats, settings), sign, unwritten_ms=unwritten_ms) if sign else NOTHING
    if stats.cursor_ledger == "open":
        quiet_ms = stats.quiet_ms
        is_overdue = quiet_ms is not None and quiet_ms > _sent_after_ms(settings)
        shows_writes = stats.cursor_ledger_last_entry is not None
        sign = _sign_between(before, stats) if is_overdue and shows_writes else ""
        return WithheldAcks(_acked(stats, settings), sign, unwritten_ms=quiet_ms) if sign else NOTHING
    if stats.untouched:
        return NOTHING
    sign = _sign(stats) or _sign_between(before, stats)
    if not sign and _acknowledged_nothing(stats):
        return NOTHING
    return WithheldAcks(_acked(stats, settings), sign)


def _not_persisted(
    stats: SubscriptionStats, persisted: CursorState, settings: BrokerSettings
) -> WithheldAcks:
    """Count the acknowledged messages that `persisted`, the state in the metadata store, does not contain."""
    if not stats.shows_ledgers:
        return WithheldAcks(_acked(stats, settings), "")
    then, now = (
        existing(
            acknowledged(stats.ledgers, each.mark_delete_position, each.individually_deleted), stats.ledgers
        )
        for each in (persisted, stats)
    )
    missing = (now - then).cardinality
    if not missing:
        return NOTHING
    messages = stats.batch_sizes.acked(missing)
    sign = f"info-internal shows that {missing:,} acknowledged entries are not persisted"
    return WithheldAcks(messages, sign, is_certain=not len(then - now), unwritten_ms=stats.quiet_ms)


def _acknowledged_nothing(stats: SubscriptionStats) -> bool:
    """Return whether all delivered messages are unacknowledged."""
    dispatch = stats.dispatch
    return (
        dispatch is not None
        and dispatch.messages_out is not None
        and dispatch.messages_out == dispatch.unacked
    )


def _acked(stats: SubscriptionStats, settings: BrokerSettings) -> Bounds:
    """Return bounds of the number of acknowledged messages: 0, and the smaller one of two upper bounds.

    The first upper bound is the number of delivered messages minus the number of unacknowledged messages. The
    second upper bound is a sum: the maximum number of messages in wholly acknowledged entries, and the
    maximum number of acknowledged messages in partly acknowledged batches.
    """
    bounds = []
    dispatch = stats.dispatch
    if (
        dispatch is not None
        and dispatch.messages_out is not None
        and not settings.transaction_coordinator_enabled
    ):
        delivered = dispatch.messages_out - max(dispatch.unacked, 0)
        if delivered > 0:
            bounds.append(delivered)
    if stats.shows_ledgers:
        ranges = existing(stats.individually_deleted, stats.ledgers).cardinality
        whole = stats.batch_sizes.acked(ranges + entries_up_to(stats.ledgers, stats.mark_delete_position))
        most = whole.plus_up_to(stats.batch_sizes.most_hidden(stats.backlog_entries)).at_most
        if most is not None:
            bounds.append(most)
    return Bounds(0, min(bounds, default=None))


def _sign(stats: SubscriptionStats) -> str:
    """Return a sentence if the dump proves that a whole entry was acknowledged after the topic was loaded.

    The sentence is the proof. If the dump does not prove this, return an empty text.
    """
    if stats.mark_delete_moved_ms is not None:
        return "the mark-delete position has moved since the topic was loaded"
    consumers = () if stats.dispatch is None else stats.dispatch.consumers
    if stats.batch_sizes.each == 1 and any(each.last_acked_ms for each in consumers):
        return "a consumer has acknowledged an entry since the topic was loaded"
    added = stats.entries_added or 0
    ranges = stats.individually_deleted
    if not stats.shows_ledgers or not stats.shows_acknowledgments or not len(ranges):
        return ""
    # A load of the topic opens a new ledger. The entries added since the load are therefore in whole ledgers,
    # the newest ones.
    newest = list(reversed(stats.ledger_sizes))
    ends = accumulate(each.entries for each in newest)
    since = {each.ledger_id for each, entries in zip(newest, ends, strict=True) if entries <= added}
    acked = sum(ranges.cardinality_of(ledger_id) for ledger_id in since)
    return (
        f"{acked:,} entries that were published since the topic was loaded are acknowledged" if acked else ""
    )


def _switching_ms(before: SubscriptionStats | None, now: SubscriptionStats) -> int | None:
    """Return the time in ms between two dumps if the cursor was not written between them.

    Return None if the cursor was written, if the topic was reloaded, or if a time is unknown. The caller has
    checked that the state of the cursor in `now` is `SwitchingLedger`. If the cursor was not written, the
    state in `before` is also `SwitchingLedger`.
    """
    if before is None or before.time_ms is None or now.time_ms is None or not _is_same_ledger(before, now):
        return None
    return now.time_ms - before.time_ms


def _is_same_ledger(before: SubscriptionStats, now: SubscriptionStats) -> bool:
    """Return False if the topic was reloaded or the cursor was written between two dumps, else True."""
    first, second = (
        (
            stats.ledger_sizes[-1].ledger_id if stats.ledger_sizes else None,
            stats.cursor_state,
            stats.cursor_ledger,
            stats.cursor_ledger_id,
            stats.cursor_ledger_last_entry,
        )
        for stats in (before, now)
    )
    return first == second


def _sign_between(before: SubscriptionStats | None, now: SubscriptionStats) -> str:
    """Return a sentence if an entry was acknowledged between two dumps, but the cursor was not written.

    If the dumps do not prove this, return an empty text.
    """
    if before is None or not (before.shows_acknowledgments and now.shows_acknowledgments):
        return ""
    if not _is_same_ledger(before, now):
        return ""
    moved = before.mark_delete_position < now.mark_delete_position or len(
        existing(now.individually_deleted - before.individually_deleted, now.ledgers)
    )
    return "entries were acknowledged between two dumps, and the cursor was not written" if moved else ""
