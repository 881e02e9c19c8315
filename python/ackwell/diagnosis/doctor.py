"""Predict for each subscription whether a restart of its broker would lose acknowledgments.

`diagnose` examines one subscription: it predicts both restarts with `ackwell.broker.restart`, compares the
state with each limit, and lists remedies, each tried on the state first. The second verdict, whether the
subscription delivers, comes from `ackwell.diagnosis.delivery`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from ackwell.broker.batch_sizes import Bounds
from ackwell.broker.broker_settings import BrokerSettings
from ackwell.broker.codes import with_names
from ackwell.broker.contradictions import Part
from ackwell.broker.metadata_node import closing_record_bytes
from ackwell.broker.restart import RestartLoss, restart_loss
from ackwell.broker.writes import RESTARTS, Reason, Restart, not_written_reason
from ackwell.cursor.cursor_state import CursorState, size_in
from ackwell.diagnosis.delivery import DeliveryDiagnosis, delivery_of
from ackwell.diagnosis.hidden import hidden_parts
from ackwell.diagnosis.holes import oldest_unacked
from ackwell.diagnosis.unwritten import Withheld, unwritten, withheld

if TYPE_CHECKING:
    from ackwell.broker.stats import SubscriptionStats
    from ackwell.broker.writes import CursorLedger

NEAR_A_LIMIT: Final = 0.8
"""The share of a limit from which a subscription is at risk: a busy one uses the rest within minutes."""


class Verdict(StrEnum):
    """The effect of a restart on a subscription, from good to bad."""

    FINE = "fine"
    """Every acknowledgment made so far survives."""
    UNPROVEN = "unproven"
    """No sign of a loss, but the source does not show everything that would exclude one."""
    AT_RISK = "at risk"
    """All acknowledgments may survive, but there is a sign of a loss, or a limit is near."""
    LOSING = "losing"
    """Acknowledged messages are delivered again."""
    UNWRITABLE = "unwritable"
    """The metadata store refuses the record of a close: the broker repeats the write without end."""

    @property
    def severity(self) -> int:
        """0 for fine, greater for worse."""
        return _SEVERITY[self]


_SEVERITY: Final = {verdict: severity for severity, verdict in enumerate(Verdict)}


NODE_LIMIT: Final = "metadata-node-bytes"
"""The limit of the metadata store for one record; not a setting of the broker."""


@dataclass(frozen=True, slots=True)
class LimitUsage:
    """The part of a limit that the state uses; beyond the limit acknowledgments are lost."""

    setting: str
    """The broker's name for the limit."""
    what: str
    used: int
    limit: int

    @property
    def share(self) -> float:
        """The used part of the limit; 1.0 is all of it."""
        return self.used / self.limit if self.limit > 0 else float(self.used > 0)

    @property
    def is_near(self) -> bool:
        """Whether a busy subscription uses the rest within minutes."""
        return self.share >= NEAR_A_LIMIT


@dataclass(frozen=True, slots=True)
class Remedy:
    """A change of settings (`name=value`), or an action without settings; `text` describes the effect."""

    text: str
    """`{topic}` and `{subscription}` are placeholders for the names."""
    settings: tuple[str, ...] = ()

    def text_for(self, stats: SubscriptionStats) -> str:
        """Return the text with the names of a subscription, so that its commands can be copied."""
        return with_names(self.text, stats.topic, stats.subscription)


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """The findings about one subscription."""

    stats: SubscriptionStats
    restarts: tuple[RestartLoss, ...]
    usage: tuple[LimitUsage, ...]
    remedies: tuple[Remedy, ...]
    notes: tuple[str, ...]
    """Limits of the prediction because of missing information, and observations."""
    delivery: DeliveryDiagnosis
    """Whether it delivers, and why not."""

    messages_lost: Bounds = field(init=False)
    """Acknowledged messages that the worst restart loses, from its best to its worst case."""
    verdict: Verdict = field(init=False)
    """The worst over the examined restarts."""

    def __post_init__(self) -> None:
        losses = (loss.messages_before_flush for loss in self.restarts)
        none = Bounds(0, 0 if self._is_known else None)
        object.__setattr__(self, "messages_lost", max(losses, key=_weight, default=none))
        object.__setattr__(self, "verdict", self._verdict(self.restarts))

    @property
    def _is_known(self) -> bool:
        """Whether the acknowledgments are known, or the broker stores none."""
        return self.stats.shows_acknowledgments or not self.stats.durable

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """The distinct reasons of all examined restarts."""
        return tuple(dict.fromkeys(reason for loss in self.restarts for reason in loss.reasons))

    def verdict_of(self, restart: Restart) -> Verdict:
        """Return the verdict on one kind of restart alone."""
        return self._verdict([loss for loss in self.restarts if loss.restart == restart])

    def _verdict(self, restarts: Sequence[RestartLoss]) -> Verdict:
        if not self._is_known:
            return Verdict.UNPROVEN
        losses = [loss.messages_before_flush for loss in restarts]
        closes = any(loss.restart == "graceful" for loss in restarts)
        if closes and any(each.setting == NODE_LIMIT and each.share > 1 for each in self.usage):
            return Verdict.UNWRITABLE
        if any(loss.at_least for loss in losses):
            return Verdict.LOSING
        open_losses = [loss for loss in restarts if loss.messages_before_flush.at_most != 0]
        if any(usage.is_near for usage in self.usage):
            return Verdict.AT_RISK
        if not open_losses:
            return Verdict.FINE
        hidden = {"batch-index-hidden"} | (
            {"batch-index-not-written"} if not self.stats.batch_deleted else set()
        )
        spoken_for = any(
            not {reason.code for reason in loss.reasons} <= hidden
            or (loss.reasons and _shows_parts(self.stats))
            for loss in open_losses
        )
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
            "limits": [
                {"setting": u.setting, "what": u.what, "used": u.used, "limit": u.limit} for u in self.usage
            ],
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
) -> Diagnosis:
    """Return the findings about a subscription; O(ranges + ack sets).

    `before` is an earlier dump of the same subscription.
    """
    settings = settings or BrokerSettings()
    delivery = delivery_of(stats, settings, before, version=version)
    if not stats.durable:
        note = "not durable: the broker stores no state of it; a reader keeps its position itself"
        return Diagnosis(stats=stats, restarts=(), usage=(), remedies=(), notes=(note,), delivery=delivery)
    if not stats.shows_cursor:
        note = "an answer of `topics stats` alone has no ranges: the loss of a restart is unknown"
        return Diagnosis(stats=stats, restarts=(), usage=(), remedies=(), notes=(note,), delivery=delivery)
    contradictions = tuple(map(str, stats.contradictions))
    if not stats.shows_acknowledgments:
        return Diagnosis(
            stats=stats, restarts=(), usage=(), remedies=(), notes=contradictions, delivery=delivery
        )
    held_back = withheld(stats, settings, before)
    written = _losses(stats, settings, restarts, unwritten(stats, settings, before))
    losses = tuple(_with_withheld(loss, held_back) for loss in written)
    return Diagnosis(
        stats=stats,
        restarts=losses,
        usage=(usage := tuple(_usage(stats, settings))),
        remedies=(
            *((Remedy(WRITE_FIRST),) if held_back.sign else ()),
            *_record_remedies(stats, usage),
            *_remedies(stats, settings, written, usage),
        ),
        notes=(*contradictions, *_discarded(stats, before), *_notes(stats, settings, losses, usage)),
        delivery=delivery,
    )


def _shows_parts(stats: SubscriptionStats) -> bool:
    """Return whether the counters indicate acknowledged messages inside batches, which no answer shows."""
    dispatch = stats.dispatch
    if dispatch is None:
        return False
    acked = any(each.last_acked_ms for each in dispatch.consumers)
    if acked and stats.cursor_ledger == "none":
        # The first entry that is wholly acknowledged opens the cursor ledger.
        return True
    counted = stats.batch_sizes.backlog_messages
    last = stats.ledgers.last_position
    delivered = last is not None and stats.read_position is not None and stats.read_position > last
    waits = dispatch.delayed or dispatch.in_replay != 0
    return counted is not None and delivered and not waits and 0 < dispatch.unacked < counted


def count_to_json(count: Bounds) -> dict[str, int | bool | None]:
    """Return `{"min": …, "max": …, "exact": …}`; `max` is null if no bound is known."""
    return {"min": count.at_least, "max": count.at_most, "exact": count.exact is not None}


def predict(
    stats: SubscriptionStats, settings: BrokerSettings, restart: Restart, unwritten_entries: int | None = None
) -> RestartLoss:
    """Predict one restart of a subscription; `unwritten_entries` is the bound of `unwritten`."""
    if stats.untouched and stats.batch_deleted is None and _has_no_unwritten_parts(stats, settings, restart):
        stats = replace(stats, batch_deleted={})
    state = stats if stats.shows_ledgers else CursorState.of(stats.to_position_info())
    if stats.batch_deleted is None:
        state = replace(state, batch_deleted=None)
    unsure = Part.WRITES in stats.unknown or stats.cursor_state is None
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
        )
        for ledger in ledgers
    )
    for other in others:
        loss = replace(
            loss,
            messages=loss.messages.or_else(other.messages),
            messages_before_flush=loss.messages_before_flush.or_else(other.messages_before_flush),
            reasons=tuple({reason.code: reason for reason in (*loss.reasons, *other.reasons)}.values()),
        )
    if not stats.shows_ledgers or stats.split_ranges:
        # Entries of unknown ledgers may not exist. A broker writes all pieces of a range over an end of a
        # ledger as one range.
        loss = replace(
            loss,
            messages=Bounds(0, loss.messages.at_most),
            messages_before_flush=Bounds(0, loss.messages_before_flush.at_most),
        )
    return loss


def _with_withheld(loss: RestartLoss, held_back: Withheld) -> RestartLoss:
    """Return the loss together with acknowledgments that may be in memory only.

    A close writes to the metadata store. Only a proof that writes fail makes its result uncertain.
    """
    if held_back.messages.at_most == 0 or (loss.restart == "graceful" and not held_back.sign):
        return loss
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


def _has_no_unwritten_parts(stats: SubscriptionStats, settings: BrokerSettings, restart: Restart) -> bool:
    """Return whether a subscription without a consumer since it was loaded loses no ack sets."""
    if stats.cursor_ledger == "none":
        # The broker loaded no ack sets.
        return not settings.reads_batch_indexes_back
    # A crash leaves the ack sets of the ledger; a close writes elsewhere.
    return stats.cursor_ledger == "read-only" and restart == "crash"


def _losses(
    stats: SubscriptionStats,
    settings: BrokerSettings,
    restarts: Sequence[Restart],
    unwritten_entries: int | None = None,
) -> tuple[RestartLoss, ...]:
    return tuple(predict(stats, settings, restart, unwritten_entries) for restart in restarts)


def _weight(count: Bounds) -> tuple[int, float]:
    return count.at_least, float("inf") if count.at_most is None else count.at_most


def _loss_to_json(loss: RestartLoss) -> dict[str, Any]:
    return {
        "ackedMessagesLost": count_to_json(loss.messages),
        "ackedMessagesLostBeforeFlush": count_to_json(loss.messages_before_flush),
        "ackedEntriesLost": loss.entries,
        "partlyAckedEntriesLost": loss.partial_entries,
        "readBackFrom": loss.place,
        "form": loss.form,
    }


def _usage(stats: SubscriptionStats, settings: BrokerSettings) -> Iterator[LimitUsage]:
    limit = settings.max_unacked_ranges_to_persist
    name = "managedLedgerMaxUnackedRangesToPersist"
    ranges = stats.individually_deleted
    if settings.long_array:
        counted = (
            "acknowledged entries"
            if settings.counts_the_ledger_itself
            else "acknowledged entries before the last ledger"
        )
        yield LimitUsage(name, counted, _counted_entries(stats, settings), limit)
    else:
        yield LimitUsage(name, "ranges", len(ranges), limit + settings.ranges_beyond_limit)
    form = "pulsar-long-array" if settings.long_array else "pulsar-ranges"
    size = size_in(stats.to_position_info(), form)
    if size is not None:
        yield LimitUsage("maxMessageSize", "bytes in one entry", size, settings.max_entry_bytes)
    record = closing_record_bytes(stats, settings)
    if record is not None:
        what = "bytes of the record that a close writes to the metadata store"
        yield LimitUsage(NODE_LIMIT, what, record, settings.metadata_node_bytes)
    if stats.batch_deleted:
        yield LimitUsage(
            "managedLedgerMaxBatchDeletedIndexToPersist",
            "partly acknowledged entries",
            len(stats.batch_deleted),
            settings.max_batch_deleted_index_to_persist,
        )


def _counted_entries(stats: SubscriptionStats, settings: BrokerSettings) -> int:
    """Return the acknowledged entries that count for the limit of the long-array form.

    Before 5.0.0 a ledger is lost if the ledgers before it exceed the limit, so the last one does not count.
    """
    ranges = stats.individually_deleted
    ledger_ids = ranges.ledger_ids()
    if settings.counts_the_ledger_itself or not len(ledger_ids):
        return ranges.cardinality
    return ranges.cardinality - ranges.cardinality_of(int(ledger_ids[-1]))


def _cliff(stats: SubscriptionStats, settings: BrokerSettings, usage: LimitUsage) -> str:
    """Describe the loss beyond a limit."""
    share = f"{usage.setting} is used to {usage.share:.0%}"
    if usage.setting == NODE_LIMIT:
        return (
            f"{share}: if the metadata store refuses the record, the broker repeats the write without end, "
            "the topic does not close, and other topics of the broker fail"
        )
    ranges = stats.individually_deleted
    if usage.setting != "managedLedgerMaxUnackedRangesToPersist" or not settings.long_array:
        return f"{share}: acknowledgments beyond it are lost"
    last = int(ranges.ledger_ids()[-1])
    at_stake, left = ranges.cardinality_of(last), max(usage.limit - usage.used, 0)
    if settings.counts_the_ledger_itself:
        return (
            f"{share}: after {left + 1:,} more acknowledged entries, the {at_stake:,} of ledger {last} are "
            f"lost; if no ledger is within the limit, all but the first {usage.limit:,} ranges"
        )
    rolls = (
        ""
        if usage.used + at_stake <= usage.limit
        else (" When the open ledger rolls over, all acknowledgments in the next one are lost, too.")
    )
    return (
        f"{share}: after {left + 1:,} more acknowledged entries before ledger {last}, the {at_stake:,} of "
        f"that ledger and of all later ones are lost.{rolls}"
    )


def _record_remedies(stats: SubscriptionStats, usage: Sequence[LimitUsage]) -> Iterator[Remedy]:
    """Yield the remedy for a record that is near the limit of the metadata store."""
    if not any(each.setting == NODE_LIMIT and each.is_near for each in usage):
        return
    oldest = oldest_unacked(stats)
    first = "" if oldest is None else f", first of all entry {oldest}"
    yield Remedy(
        "with this setting a close writes the state to the cursor ledger. The restart that applies it still "
        "writes the record, so apply it before the state is too large. If it already is, acknowledge "
        f"or skip the oldest unacknowledged entries{first}, or raise jute.maxbuffer of ZooKeeper and of the "
        "brokers. `bin/pulsar` sets 10 MiB: then use --metadata-node-bytes 10485760 (apache/pulsar#24382, "
        "apache/pulsar#23652)",
        ("managedLedgerMaxUnackedRangesToPersistInMetadataStore=1000",),
    )


def _remedies(
    stats: SubscriptionStats,
    settings: BrokerSettings,
    losses: Sequence[RestartLoss],
    usage: Sequence[LimitUsage],
) -> Iterator[Remedy]:
    codes = {reason.code for loss in losses for reason in loss.reasons}
    near = [each for each in usage if each.is_near and each.setting.startswith("managedLedger")]
    if near and not codes & {"range-limit", "entry-limit", "batch-index-limit"}:
        yield Remedy(
            "raise the limit before it is reached; the restart that applies it loses nothing",
            tuple(f"{each.setting}={_with_headroom(each.used)}" for each in near),
        )
    if not codes and not near:
        return
    changes: list[str] = []
    if codes & {"range-limit", "entry-limit"}:
        needed = max(
            _counted_entries(stats, settings) if settings.long_array else 0,
            len(stats.individually_deleted),
        )
        changes.append(f"managedLedgerMaxUnackedRangesToPersist={_with_headroom(needed)}")
    if "batch-index-off" in codes:
        changes.append("acknowledgmentAtBatchIndexLevelEnabled=true")
    if "batch-index-limit" in codes:
        needed = len(stats.batch_deleted or ())
        changes.append(f"managedLedgerMaxBatchDeletedIndexToPersist={_with_headroom(needed)}")
    if codes & {"batch-index-not-read-back", "batch-index-hidden"}:
        changes.append("managedLedgerMaxUnackedRangesToPersistInMetadataStore=0")
    if "entry-too-large" in codes and settings.long_array:
        changes.append("managedLedgerPersistIndividualAckAsLongArray=false")
    yield from _settings_that_help(stats, settings, losses, changes)
    oldest = oldest_unacked(stats)
    if oldest is not None:
        yield Remedy(
            f"acknowledge or skip the oldest unacknowledged entries, first of all entry {oldest}: "
            "ranges that the mark-delete position passes do not count for the limits"
        )
    if codes & {"batch-index-not-read-back", "batch-index-not-written", "batch-index-hidden"}:
        yield Remedy(
            "acknowledge whole batches before a restart, or run a broker with apache/pulsar#26474, "
            "which reads batch indexes back from the metadata store"
        )


THROUGH_THE_RESTART: Final = (
    "avoid a loss in that restart with these commands, each with `--admin URL`: "
    "`ackwell rescue hold {topic} {subscription} --journal hold.journal --yes`, "
    "`ackwell rescue snapshot {topic} {subscription}`, restart, `ackwell rescue plan before.json`, "
    "`ackwell rescue apply plan.json --yes`, `ackwell rescue release --journal hold.journal --yes`"
)


WRITE_FIRST: Final = (
    "save the acknowledgments now, with "
    "`ackwell rescue snapshot {topic} {subscription} --admin URL > before.json`; then look at the bookies "
    "and at the metadata store: when they accept writes again, the next acknowledgment writes the cursor; "
    "do not unload the topic or restart the broker before"
)


def _settings_that_help(
    stats: SubscriptionStats,
    settings: BrokerSettings,
    losses: Sequence[RestartLoss],
    changes: Sequence[str],
) -> Iterator[Remedy]:
    """Try the changes on the state; suggest them, with the remaining loss, only if they reduce it."""
    if not changes:
        return
    changed = _losses(stats, settings.with_values(changes), [loss.restart for loss in losses])
    before, after = (max((loss.messages for loss in some), key=_weight) for some in (losses, changed))
    if _weight(after) >= _weight(before):
        return
    left = (
        "no acknowledgment is lost"
        if after == Bounds(0, 0)
        else f"a restart loses {after} acknowledged messages instead of {before}"
    )
    yield Remedy(
        f"with these settings {left}; the restart that applies them still writes under the old settings",
        tuple(changes),
    )
    yield Remedy(THROUGH_THE_RESTART)


def _with_headroom(needed: int) -> int:
    """Return twice `needed`, rounded up to 1, 2 or 5 times a power of ten."""
    power = 1
    while True:
        for step in (1, 2, 5):
            if step * power >= 2 * needed:
                return step * power
        power *= 10


def _discarded(stats: SubscriptionStats, before: SubscriptionStats | None) -> Iterator[str]:
    """Report a loss since the earlier dump because the broker could not read the cursor ledger."""
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


def _notes(
    stats: SubscriptionStats,
    settings: BrokerSettings,
    losses: Sequence[RestartLoss],
    usage: Sequence[LimitUsage],
) -> Iterator[str]:
    yield from (_cliff(stats, settings, each) for each in usage if each.is_near and each.share <= 1)
    if any(loss.messages_before_flush != loss.messages for loss in losses):
        yield (
            "a crash may happen before the last acknowledgments are written, which takes up to "
            f"{settings.cursor_position_flush_seconds} s; the source does not show whether they are written"
        )
    if stats.batch_sizes.each is None and any(loss.entries or loss.partial_entries for loss in losses):
        yield (
            "the source does not prove the number of messages in an entry, so the number of messages is an "
            "interval; --messages-per-entry N narrows it if every batch holds N messages"
        )
