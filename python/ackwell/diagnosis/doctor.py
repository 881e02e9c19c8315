"""Predict for each subscription whether a restart of its broker would lose acknowledgments.

`diagnose` examines one subscription. It predicts both kinds of restart with `ackwell.broker.restart`,
compares the state with each limit, and lists the remedies that apply. `ackwell.diagnosis.delivery` decides
whether the subscription delivers; this is the second verdict.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from ackwell.broker.batch_sizes import Bounds
from ackwell.broker.broker_settings import BrokerSettings
from ackwell.broker.restart import RestartLoss
from ackwell.broker.writes import RESTARTS, Reason, Restart
from ackwell.diagnosis.assumptions import over_assumed
from ackwell.diagnosis.delivery import DeliveryDiagnosis, delivery_of
from ackwell.diagnosis.limits import (
    LIST_LIMIT,
    NODE_LIMIT,
    LimitUsage,
    ledger_list_usage,
    limit_usage,
    loss_beyond,
    unknown_list,
    unknown_record,
)
from ackwell.diagnosis.prediction import predict, weight, with_withheld, written_losses
from ackwell.diagnosis.remedies import (
    STATE_THE_SETTINGS,
    WRITE_FIRST,
    Remedy,
    list_remedies,
    record_remedies,
    remedies_for,
)
from ackwell.diagnosis.unwritten import withheld

if TYPE_CHECKING:
    from ackwell.broker.stats import SubscriptionStats


class Verdict(StrEnum):
    """The effect of a restart on a subscription, from good to bad."""

    FINE = "fine"
    """All present acknowledgments survive."""
    UNPROVEN = "unproven"
    """The source shows no sign of a loss. But it does not show all facts that are needed to exclude a
    loss."""
    AT_RISK = "at risk"
    """All acknowledgments may survive, but there is a sign of a loss, or a limit is near."""
    LOSING = "losing"
    """Acknowledged messages are delivered again."""
    UNWRITABLE = "unwritable"
    """The metadata store refuses the record that a close writes, or the ledger list that a load writes."""

    @property
    def severity(self) -> int:
        """The rank of the verdict: 0 for `FINE`, and a greater number for a worse verdict."""
        return _SEVERITY[self]

    @classmethod
    def worst(cls, verdicts: Iterable[Verdict]) -> Verdict:
        """Return the worst verdict; `FINE` if there are none."""
        return max(verdicts, key=lambda each: each.severity, default=cls.FINE)


_SEVERITY: Final = {verdict: severity for severity, verdict in enumerate(Verdict)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """The findings about one subscription."""

    stats: SubscriptionStats
    restarts: tuple[RestartLoss, ...] = ()
    usage: tuple[LimitUsage, ...] = ()
    remedies: tuple[Remedy, ...] = ()
    notes: tuple[str, ...]
    """Texts about observations, and about information that is missing for an exact prediction."""
    delivery: DeliveryDiagnosis
    """Whether the subscription delivers messages, and the reason if it does not."""
    unwritten_ms: int | None = None
    """The minimum time for which some acknowledgments have been in memory only; None if there is no evidence
    of such acknowledgments."""

    messages_lost: Bounds = field(init=False)
    """The minimum and maximum number of acknowledged messages that the worst examined restart loses."""
    verdict: Verdict = field(init=False)
    """The worst verdict on the examined restarts."""

    def __post_init__(self) -> None:
        losses = (loss.messages_before_flush for loss in self.restarts)
        none = Bounds(0, 0 if self.is_known else None)
        object.__setattr__(self, "messages_lost", max(losses, key=weight, default=none))
        object.__setattr__(self, "verdict", self._verdict(self.restarts))

    @property
    def is_known(self) -> bool:
        """Whether the loss of a restart can be predicted.

        True if the source shows the acknowledgments, or if the broker does not persist this cursor's
        acknowledgments.
        """
        stats = self.stats
        in_memory = stats.shows_acknowledgments and not stats.persisted_only
        return in_memory or not stats.durable or stats.overview is not None

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """The distinct reasons of all examined restarts."""
        return tuple(dict.fromkeys(reason for loss in self.restarts for reason in loss.reasons))

    def verdict_of(self, restart: Restart) -> Verdict:
        """Return the verdict on one kind of restart only."""
        return self._verdict([loss for loss in self.restarts if loss.restart == restart])

    def _verdict(self, restarts: Sequence[RestartLoss]) -> Verdict:
        losses = [loss.messages_before_flush for loss in restarts]
        closes = any(loss.restart == "graceful" for loss in restarts)
        refused = {LIST_LIMIT, NODE_LIMIT} if closes else {LIST_LIMIT}
        if any(each.setting in refused and each.is_exceeded for each in self.usage):
            return Verdict.UNWRITABLE
        if any(loss.at_least for loss in losses):
            return Verdict.LOSING
        open_losses = [loss for loss in restarts if loss.messages_before_flush.at_most != 0]
        if any(usage.is_near for usage in self.usage):
            return Verdict.AT_RISK
        if not self.is_known:
            return Verdict.UNPROVEN
        if not open_losses:
            return Verdict.FINE
        hidden = {"batch-index-hidden", "settings-assumed"} | (
            {"batch-index-not-written"} if not self.stats.batch_deleted else set()
        )
        found = [{reason.code for reason in loss.reasons} - {"write-not-confirmed"} for loss in open_losses]
        spoken_for = any(codes and (not codes <= hidden or _shows_parts(self.stats)) for codes in found)
        return Verdict.AT_RISK if spoken_for else Verdict.UNPROVEN

    def to_json(self) -> dict[str, Any]:
        """Return the findings as JSON values; a number of messages is `{min, max, exact}`."""
        stats = self.stats
        return {
            "topic": stats.topic,
            "subscription": stats.subscription,
            "verdict": str(self.verdict),
            "ackedMessagesLostOnRestart": count_to_json(self.messages_lost),
            "reasons": [
                {"code": reason.code, "text": reason.text, "issues": list(reason.issues)}
                for reason in self.reasons
            ],
            "remedies": [
                {"text": remedy.text_for(stats), "settings": list(remedy.settings)}
                for remedy in self.remedies
            ],
            "restarts": {
                loss.restart: {"verdict": str(self.verdict_of(loss.restart)), **_loss_to_json(loss)}
                for loss in self.restarts
            },
            "limits": [each.to_json() for each in self.usage],
            "markDeletePosition": str(stats.mark_delete_position) if stats.shows_acknowledgments else None,
            "ranges": stats.range_count,
            "backlogEntries": stats.backlog_entries,
            "delivery": self.delivery.to_json(stats),
            "source": stats.source,
            "owner": stats.owner,
            "notes": list(self.notes),
            "contradictions": [each.to_json() for each in stats.contradictions],
        }


def diagnose(
    stats: SubscriptionStats,
    settings: BrokerSettings | None = None,
    *,
    restarts: Sequence[Restart] = RESTARTS,
    before: SubscriptionStats | None = None,
    version: str = BrokerSettings.DEFAULT_VERSION,
    assumed: Collection[str] = (),
    later: Sequence[BrokerSettings] = (),
) -> Diagnosis:
    """Return the findings about a subscription; O(ranges + ack sets).

    `before` is an earlier dump of the same subscription. `assumed` contains the names of settings whose value
    in `settings` is only a default (`ackwell.diagnosis.assumptions`). After the restart, other brokers may
    load the topic and close it gracefully again, one after the other. `later` contains the settings of these
    brokers in this order. The prediction assumes that no message is acknowledged in that time.
    """
    settings = settings or BrokerSettings()
    if before is not None and before.overview is not None:
        # A dump that is an overview has no counters to compare.
        before = None
    delivery = delivery_of(stats, settings, before, version=version, assumed=assumed)
    if stats.overview is not None:
        return _of_overview(stats, restarts, delivery)
    contradictions = tuple(map(str, stats.contradictions))
    list_usage = tuple(ledger_list_usage(stats, settings, later))
    note = _without_prediction(stats)
    if note or not stats.shows_acknowledgments:
        return Diagnosis(
            stats=stats,
            usage=list_usage,
            remedies=tuple(list_remedies(settings, list_usage)),
            notes=(*((note,) if note else contradictions), *_limit_notes(stats, settings, list_usage)),
            delivery=delivery,
        )
    held_back = withheld(stats, settings, before)
    written = written_losses(stats, settings, restarts, before, later)
    losses = with_withheld(written, held_back, stats, settings)
    usage = (*limit_usage(stats, settings, later), *list_usage)
    notes = (
        *_notes(stats, settings, losses, usage),
        *_reloaded(stats, settings, written),
    )
    losses, reason = over_assumed(stats, settings, restarts, before, assumed, losses, later)
    return Diagnosis(
        stats=stats,
        restarts=losses,
        usage=usage,
        remedies=(
            *((Remedy(WRITE_FIRST),) if held_back.sign else ()),
            *((Remedy(STATE_THE_SETTINGS),) if reason is not None else ()),
            *record_remedies(stats, usage),
            *list_remedies(settings, usage),
            *remedies_for(stats, settings, written, usage),
        ),
        notes=(*contradictions, *_discarded(stats, before), *notes),
        delivery=delivery,
        unwritten_ms=held_back.unwritten_ms,
    )


def _without_prediction(stats: SubscriptionStats) -> str:
    """Return the reason why the loss of a restart cannot be predicted, or an empty text if it can."""
    if not stats.durable:
        return "not durable: the broker stores no state of it; a reader keeps its position itself"
    if stats.persisted_only:
        return "`info-internal` shows only the persisted acknowledgments: the loss of a restart is unknown"
    if not stats.shows_cursor:
        return "an answer of `topics stats` alone has no ranges: the loss of a restart is unknown"
    return ""


def _of_overview(
    stats: SubscriptionStats, restarts: Sequence[Restart], delivery: DeliveryDiagnosis
) -> Diagnosis:
    """Return the findings about a subscription of which only the broker's overview was read.

    Such a subscription has no ranges. If it also has no backlog, a graceful restart loses nothing. A crash
    may lose the last acknowledgments, because they may not be written yet. The number of these
    acknowledgments is unknown, unless no message was delivered.
    """
    assert stats.overview is not None
    losses = []
    for restart in restarts:
        closes = restart == "graceful"
        keeps = not stats.overview.backlog_entries and (closes or stats.overview.delivered_nothing)
        messages = Bounds(0, 0 if keeps else None)
        losses.append(
            RestartLoss(
                restart=restart,
                place="metadata store" if closes else "cursor ledger",
                form="pulsar-ranges",
                entries=0,
                partial_entries=0,
                messages=messages,
                messages_before_flush=messages,
                reasons=(),
                ranges=stats.individually_deleted,
            )
        )
    return Diagnosis(stats=stats, restarts=tuple(losses), notes=(FROM_THE_OVERVIEW,), delivery=delivery)


FROM_THE_OVERVIEW: Final = (
    "no ranges, and no backlog that does not move, in the overview of the broker (`broker-stats/topics`), "
    "which may be `statsUpdateFrequencyInSecs` old, by default 60 s; --every-topic examines each topic"
)


def _shows_parts(stats: SubscriptionStats) -> bool:
    """Return whether the counters indicate acknowledged messages inside batches.

    No answer of a broker shows these messages directly.
    """
    dispatch = stats.dispatch
    if dispatch is None:
        return False
    acked = any(each.last_acked_ms for each in dispatch.consumers)
    if acked and stats.cursor_ledger == "none":
        # The first acknowledgment of a whole entry opens the cursor ledger. Without a cursor ledger, only
        # parts of batches were acknowledged.
        return True
    counted = stats.batch_sizes.backlog_messages
    last = stats.ledgers.last_position
    delivered = last is not None and stats.read_position is not None and stats.read_position > last
    waits = dispatch.delayed or dispatch.in_replay != 0
    return counted is not None and delivered and not waits and 0 < dispatch.unacked < counted


def count_to_json(count: Bounds) -> dict[str, int | bool | None]:
    """Return `{"min": …, "max": …, "exact": …}`; `max` is null if no bound is known."""
    return {"min": count.at_least, "max": count.at_most, "exact": count.exact is not None}


def _loss_to_json(loss: RestartLoss) -> dict[str, Any]:
    is_assumed = any(reason.code == "settings-assumed" for reason in loss.reasons)
    return {
        "ackedMessagesLost": count_to_json(loss.messages),
        "ackedMessagesLostBeforeFlush": count_to_json(loss.messages_before_flush),
        "ackedEntriesLost": None if is_assumed else loss.entries,
        "partlyAckedEntriesLost": None if is_assumed else loss.partial_entries,
        "readBackFrom": loss.place,
        "form": loss.form,
    }


def _discarded(stats: SubscriptionStats, before: SubscriptionStats | None) -> Iterator[str]:
    """Yield a note if the cursor has lost its properties since the earlier dump.

    The loss indicates that the broker could not read the cursor ledger.
    """
    if before is None or not before.properties or stats.properties:
        return
    was, now = before.mark_delete_position, stats.mark_delete_position
    if now > was:
        return
    back = f"the mark-delete position went back from {was} to {now}, and " if now < was else ""
    yield str(
        Reason(
            "properties-discarded",
            f"the broker probably could not read the cursor's ledger: {back}its properties "
            f"({', '.join(sorted(before.properties))}) are gone",
        )
    )


def _limit_notes(
    stats: SubscriptionStats, settings: BrokerSettings, usage: Sequence[LimitUsage]
) -> Iterator[str]:
    """Yield a note for each limit that the state almost reaches.

    If the ledger list of the topic may be large but its size is unknown, also yield a note about it.
    """
    yield from (loss_beyond(stats, settings, each) for each in usage if each.is_near and not each.is_exceeded)
    yield from unknown_list(stats, settings)


def _notes(
    stats: SubscriptionStats,
    settings: BrokerSettings,
    losses: Sequence[RestartLoss],
    usage: Sequence[LimitUsage],
) -> Iterator[str]:
    yield from _limit_notes(stats, settings, usage)
    yield from unknown_record(stats, settings)
    if stats.batch_sizes.each is None and any(loss.entries or loss.partial_entries for loss in losses):
        yield (
            "the source does not prove the number of messages in an entry, so the number of messages is an "
            "interval; --messages-per-entry N narrows it if every batch holds N messages"
        )


def _reloaded(
    stats: SubscriptionStats, settings: BrokerSettings, losses: Sequence[RestartLoss]
) -> Iterator[str]:
    """Yield a note if a graceful restart would lose less after one more acknowledgment.

    This is possible if no acknowledgment has opened the cursor ledger since the broker loaded the topic.
    """
    closes = [loss for loss in losses if loss.restart == "graceful"]
    if stats.cursor_ledger != "read-only" or not closes or closes[0].messages.at_most == 0:
        return
    opened = predict(replace(stats, cursor_ledger="open"), settings, "graceful")
    if weight(opened.messages) < weight(closes[0].messages):
        yield (
            "no entry was acknowledged since the topic was loaded, so a close writes the cursor to the "
            "metadata store, and not to a cursor ledger as before. After the next acknowledgment of an "
            f"entry, a graceful restart redelivers {opened.messages}"
        )
