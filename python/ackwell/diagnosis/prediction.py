"""Predict the restarts of a subscription from a dump. Values that the dump does not show widen the bounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ackwell.broker.batch_sizes import Bounds
from ackwell.broker.contradictions import DumpPart
from ackwell.broker.restart import RestartLoss, restart_loss
from ackwell.broker.writes import Restart, not_confirmed_reason, not_written_reason
from ackwell.cursor.cursor_state import CursorState
from ackwell.diagnosis.hidden import hidden_parts
from ackwell.diagnosis.unwritten import WithheldAcks, unwritten, withheld, written_after_ms

if TYPE_CHECKING:
    from ackwell.broker.broker_settings import BrokerSettings
    from ackwell.broker.stats import SubscriptionStats
    from ackwell.broker.writes import CursorLedger


def predicted_losses(
    stats: SubscriptionStats,
    settings: BrokerSettings,
    restarts: Sequence[Restart],
    before: SubscriptionStats | None = None,
    later: Sequence[BrokerSettings] = (),
) -> tuple[RestartLoss, ...]:
    """Predict each restart of a subscription; `before` is an earlier dump. O(ranges + ack sets).

    After the restart, other brokers may load the topic and close it gracefully again. `later` contains the
    settings of these brokers. The prediction assumes that no message is acknowledged in that time.
    """
    written = written_losses(stats, settings, restarts, before, later)
    return with_withheld(written, withheld(stats, settings, before), stats, settings)


def written_losses(
    stats: SubscriptionStats,
    settings: BrokerSettings,
    restarts: Sequence[Restart],
    before: SubscriptionStats | None = None,
    later: Sequence[BrokerSettings] = (),
) -> tuple[RestartLoss, ...]:
    """Predict each restart under the assumption that writes to the cursor ledger succeed."""
    unwritten_entries = unwritten(stats, settings, before)
    return tuple(predict(stats, settings, restart, unwritten_entries, later) for restart in restarts)


def with_withheld(
    losses: Sequence[RestartLoss], held_back: WithheldAcks, stats: SubscriptionStats, settings: BrokerSettings
) -> tuple[RestartLoss, ...]:
    """Add acknowledgments that may not be on disk (`held_back`) to the losses of `written_losses`."""
    found = tuple(_with_withheld(loss, held_back, stats, settings) for loss in losses)
    return found if held_back.sign else tuple(_with_unconfirmed(loss, stats, settings) for loss in found)


def predict(
    stats: SubscriptionStats,
    settings: BrokerSettings,
    restart: Restart,
    unwritten_entries: int | None = None,
    later: Sequence[BrokerSettings] = (),
) -> RestartLoss:
    """Predict one restart of a subscription. `unwritten_entries` is the result of `unwritten()`."""
    if stats.untouched and stats.batch_deleted is None and _has_no_unwritten_parts(stats, settings, restart):
        stats = replace(stats, batch_deleted={})
    state = stats if stats.shows_ledgers else CursorState.of(stats.to_position_info())
    if stats.batch_deleted is None:
        state = replace(state, batch_deleted=None)
    unsure = DumpPart.WRITES in stats.unknown or stats.cursor_state is None
    ledgers: tuple[CursorLedger, ...] = ("open", "read-only", "none") if unsure else (stats.cursor_ledger,)
    hidden = hidden_parts(stats, settings)
    loss, *others = (
        restart_loss(
            state,
            settings,
            restart,
            cursor_ledger=ledger,
            batch_sizes=stats.batch_sizes,
            persisted_mark_delete=stats.persisted_mark_delete,
            unwritten_entries=unwritten_entries,
            hidden=hidden,
            later=later,
        )
        for ledger in ledgers
    )
    for other in others:
        reasons = {reason.code: reason for reason in (*loss.reasons, *other.reasons)}
        loss = replace(loss.or_else(other), reasons=tuple(reasons.values()))
    if not stats.shows_ledgers or stats.split_ranges or settings.transaction_coordinator_enabled:
        # The loss may be smaller, down to 0, for three reasons. If the ledgers are unknown, the lost entries
        # may not exist. If ranges were split at the end of a ledger, the broker counts each of them as one
        # range only. With transactions, the log of pending acknowledgments restores the acknowledgments of a
        # committed transaction.
        loss = replace(
            loss,
            messages=Bounds(0, loss.messages.at_most),
            messages_before_flush=Bounds(0, loss.messages_before_flush.at_most),
        )
    return loss


def _with_withheld(
    loss: RestartLoss, held_back: WithheldAcks, stats: SubscriptionStats, settings: BrokerSettings
) -> RestartLoss:
    """Add acknowledgments that may not be on disk (`held_back`) to one loss.

    A graceful restart writes these acknowledgments to the metadata store at the close. They therefore change
    the loss of a graceful restart only if there is a sign that writes fail.
    """
    if held_back.messages.at_most == 0 or (loss.restart == "graceful" and not held_back.sign):
        return loss
    if held_back.is_certain and loss.restart == "crash":
        reason = not_written_reason(held_back.messages, held_back.sign)
        lost = held_back.messages.plus_up_to(hidden_parts(stats, settings).at_most)
        return replace(loss, messages=lost, messages_before_flush=lost, reasons=(*loss.reasons, reason))
    more = held_back.messages.at_most
    at_most = None if more is None or loss.messages.at_most is None else max(more, loss.messages.at_most)
    messages = Bounds(0, at_most)
    reasons = (
        (*loss.reasons, not_written_reason(messages, held_back.sign)) if held_back.sign else loss.reasons
    )
    return replace(
        loss,
        messages=loss.messages.or_else(messages) if held_back.sign else loss.messages,
        messages_before_flush=loss.messages_before_flush.or_else(messages),
        reasons=reasons,
    )


def _with_unconfirmed(loss: RestartLoss, stats: SubscriptionStats, settings: BrokerSettings) -> RestartLoss:
    """Add a reason to a loss if its bounds include acknowledgments that may not be written yet."""
    if loss.messages_before_flush == loss.messages:
        return loss
    is_open = stats.cursor_state in (None, "Open")
    proven_ms = written_after_ms(settings) if is_open else None
    reason = not_confirmed_reason(stats.quiet_ms, proven_ms, stats.cursor_state)
    return replace(loss, reasons=(*loss.reasons, reason))


def _has_no_unwritten_parts(stats: SubscriptionStats, settings: BrokerSettings, restart: Restart) -> bool:
    """Return whether the restart keeps all ack sets that the broker read when it loaded the topic.

    The caller has checked that no consumer has connected since then, so newer ack sets do not exist.
    """
    if stats.cursor_ledger == "none":
        # A crash leaves the record in the metadata store unchanged. A close loses no ack set if the broker
        # does not read ack sets back from there, because it has then loaded none.
        return restart == "crash" or not settings.reads_batch_indexes_back
    # A crash leaves the ack sets in the cursor ledger unchanged. A close writes to the metadata store.
    return stats.cursor_ledger == "read-only" and restart == "crash"


def weight(count: Bounds) -> tuple[int, float]:
    """Return the sort key of a loss: the lower bound, then the upper bound."""
    return count.at_least, float("inf") if count.at_most is None else count.at_most
