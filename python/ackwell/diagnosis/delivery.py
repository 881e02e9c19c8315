"""Decide whether a subscription delivers messages. If it does not, find the reason.

The doctor reports the result as its second verdict.

`ackwell.subscription.stall` decides, from the consumers that the broker reports, whether a rule of the broker
holds messages back. The known defects of brokers are entries of `codes.toml`. For each defect, the entry
lists the attributes of `DeliveryFacts` that must be true, and those that must be false. A subscription makes
progress if any message is delivered or acknowledged between two dumps. The verdict `STALLED` therefore
requires two dumps.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Final

from ackwell.broker.codes import Code, codes, with_names
from ackwell.broker.contradictions import DumpPart
from ackwell.broker.dates import date_of
from ackwell.diagnosis.assumptions import TRANSACTIONS
from ackwell.diagnosis.holes import holder_of, oldest_unacked
from ackwell.diagnosis.limits import RANGE_LIMIT
from ackwell.position import Position
from ackwell.protocol.constants import SubscriptionType
from ackwell.subscription.outcome import NonDelivery
from ackwell.subscription.subscription_settings import SubscriptionSettings

if TYPE_CHECKING:
    from ackwell.broker.broker_settings import BrokerSettings
    from ackwell.broker.dispatch import ConsumerStats, DispatchStats
    from ackwell.broker.stats import SubscriptionStats


class DeliveryVerdict(StrEnum):
    """The verdicts on the delivery of a subscription, from good to bad."""

    DELIVERING = "delivering"
    IDLE = "idle"
    """No message is left to deliver."""
    WAITING = "waiting"
    """A rule of the broker holds messages back, by design."""
    CANNOT_TELL = "cannot tell"
    STALLED = "stalled"
    """Messages wait although no rule of the broker holds them back. Probably the broker or a client has a
    defect."""

    @property
    def severity(self) -> int:
        """The rank of the verdict: 0 for `DELIVERING`, and a greater number for a worse verdict."""
        return list(DeliveryVerdict).index(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryDiagnosis:
    """The verdict on the delivery of one subscription, and the reason for the verdict."""

    verdict: DeliveryVerdict
    code: Code
    consumer: str | None = None
    """The consumer whose permits, limit or unacknowledged messages are the cause."""
    details: tuple[str, ...] = ()
    """Sentences with the relevant numbers, such as limits, and the number of messages of each consumer."""
    since_ms: int | None = None
    """The time of the last delivery or acknowledgment, if the source shows it."""
    suspected: Code | None = None
    """The defect that the dump suggests. Only a second dump can prove it."""

    @property
    def is_stuck(self) -> bool:
        """Whether messages wait, and a user should examine the reason."""
        waits = self.verdict is DeliveryVerdict.WAITING and self.code.code not in EXPECTED_WAITS
        return waits or self.verdict is DeliveryVerdict.STALLED

    @property
    def reason(self) -> str:
        """The code of the reason why nothing is delivered; empty if the subscription delivers or is idle."""
        is_fine = self.verdict in (DeliveryVerdict.DELIVERING, DeliveryVerdict.IDLE)
        return "" if is_fine else (self.suspected or self.code).code

    def to_json(self, stats: SubscriptionStats) -> dict[str, Any]:
        """Return the diagnosis as JSON values."""
        shown = self.suspected or self.code
        return {
            "verdict": str(self.verdict),
            "code": self.code.code,
            "text": self.code.what,
            "consumer": self.consumer,
            "details": list(self.details),
            "sinceMs": self.since_ms,
            "until": self.until(stats) or None,
            "suspected": None if self.suspected is None else self.suspected.code,
            "issues": list(shown.issues),
            "fixedIn": list(shown.fixed_in),
            "saveFirst": shown.save or None,
            "remedies": self.steps(stats),
        }

    def until(self, stats: SubscriptionStats) -> str:
        """Return the event that ends the wait, as text; empty if no rule of the broker is the reason."""
        return with_names(self.code.until, stats.topic, stats.subscription)

    def steps(self, stats: SubscriptionStats) -> list[str]:
        """Return the remedies: commands and notes, one per line."""
        return self.code.steps(stats.topic, stats.subscription)


BY_DESIGN: Final = {
    NonDelivery.NO_CONSUMER: "no-consumer",
    NonDelivery.NO_PERMITS: "no-permits",
    NonDelivery.CONSUMER_BLOCKED: "consumer-blocked",
    NonDelivery.SUBSCRIPTION_BLOCKED: "subscription-blocked",
    NonDelivery.LOOK_AHEAD: "look-ahead",
    NonDelivery.FIXED_DELAY: "fixed-delay",
    NonDelivery.PAUSED: "paused",
}
"""Maps each reason that `explain_stall` returns to its code in `codes.toml`."""


EXPECTED_WAITS: Final = ("with-consumers", "delayed", "only-markers")
"""The codes of waits that need no attention: messages wait for an acknowledgment, for a time, or for the
next request of a consumer."""

AT_A_LIMIT: Final = (NonDelivery.CONSUMER_BLOCKED, NonDelivery.SUBSCRIPTION_BLOCKED)

SLOTS: Final = 65_535
"""The number of sticky-key hashes that all consumers own together; hash 0 has no owner."""


@cache
def _limits(settings: BrokerSettings) -> SubscriptionSettings:
    """Return the settings that `explain_stall` needs, without the limits of unacknowledged messages.

    The limits are not needed, because the answer of `stats` shows whether a consumer has reached one.
    """
    return SubscriptionSettings.pulsar(
        "4.2",
        look_ahead_per_consumer=settings.look_ahead_per_consumer,
        look_ahead_per_subscription=settings.look_ahead_per_subscription,
        pause_above_ranges=settings.max_unacked_ranges_to_persist if settings.pause_on_ack_state else None,
    )


@cache
def _defects(version: str) -> tuple[Code, ...]:
    """Return the defects that a broker of this version may have, in the order of examination."""
    return tuple(each for each in codes().values() if each.when and each.has(version))


@cache
def _conditions(when: tuple[str, ...]) -> list[tuple[str, bool]]:
    """Parse the conditions of a defect. Return pairs: the name of a fact, and the value that it must have."""
    return [(each.removeprefix("!"), not each.startswith("!")) for each in when]


class DeliveryFacts:
    """Facts about the delivery of a subscription, from its newest dump and possibly an earlier one.

    A defect in `codes.toml` has a list of conditions, `when`. Each condition is the name of a boolean
    attribute of this class. The name has the prefix `!` if the attribute must be false.
    """

    def __init__(
        self,
        stats: SubscriptionStats,
        dispatch: DispatchStats,
        settings: BrokerSettings,
        still: bool,
        assumed: Collection[str] = (),
    ) -> None:
        # This import takes time. No command needs the module before the command has read its input.
        from ackwell.subscription.stall import ConsumerView, explain_stall

        if dispatch.pauses is not None:
            settings = replace(settings, pause_on_ack_state=dispatch.pauses)
        self._stats = stats
        self.dispatch = dispatch
        self.still = still
        """Whether there is an earlier dump, and no message was delivered or acknowledged since then."""
        kind = dispatch.kind or SubscriptionType.EXCLUSIVE
        self.one_active = kind in (SubscriptionType.EXCLUSIVE, SubscriptionType.FAILOVER)
        self.individual = not self.one_active
        self.key_shared = kind is SubscriptionType.KEY_SHARED
        self.reason, self.reasons = explain_stall(
            kind,
            [
                ConsumerView(each.name, each.permits, each.unacked, each.blocked)
                for each in dispatch.consumers
            ],
            _limits(settings),
            active=dispatch.active,
            blocked=dispatch.blocked,
            waiting=dispatch.in_replay or 0,
            fixed_delay=0 < settings.fixed_delay_lookahead <= dispatch.delayed,
            ranges=len(stats.individually_deleted),
        )
        consumers = dispatch.consumers
        # True if permits and limits allow delivery to at least one consumer.
        self.somebody_can = self.reason is None
        self.in_replay = bool(dispatch.in_replay)
        self.delayed = dispatch.delayed > 0
        self.draining = dispatch.draining > 0
        self._draining_unknown = self.key_shared and any(each.draining_hashes is None for each in consumers)
        self.may_drain = self.draining or self._draining_unknown
        self.draining_without_unacked = any(each.draining_hashes and each.unacked <= 0 for each in consumers)
        self.pending_read = dispatch.pending_read is True
        self.pending_replay_read = dispatch.pending_replay_read is True
        # If the source does not show the reads of the cursor, assume that the cursor has a read in progress.
        self.cursor_reads = dispatch.cursor_reads is not False
        # Older brokers show the cursor of a reader as `Uninitialized`, although the cursor reads.
        closed = dispatch.cursor_state not in (None, "Open", "NoLedger", "SwitchingLedger")
        self.cursor_closed = closed and stats.durable and dispatch.cursor_reads is not True
        self.negative_permits = (
            self.individual
            and any(each.permits < 0 and each.unacked <= 0 for each in consumers)
            and all(each.permits <= 0 for each in consumers)
        )
        self.negative_total = (dispatch.total_permits or 0) < 0 and any(
            each.permits > 0 for each in consumers
        )
        self.negative_unacked = dispatch.unacked < 0 or any(each.unacked < 0 for each in consumers)
        self.blocked_without_unacked = self.individual and (
            (dispatch.blocked and dispatch.unacked <= 0)
            or any(each.blocked and each.unacked <= 0 for each in consumers)
        )
        self.held = dispatch.held
        exceeds_batch_indexes = self.individual and _may_exceed_batch_indexes(stats, settings)
        self._may_pause_on_batch_indexes = settings.pause_on_ack_state and exceeds_batch_indexes
        limit = 0 if RANGE_LIMIT in assumed else settings.max_unacked_ranges_to_persist
        self._may_be_paused = (
            self.individual
            and dispatch.pauses is None
            and (len(stats.individually_deleted) > limit or exceeds_batch_indexes)
        )
        self._has_transactions = settings.transaction_coordinator_enabled or TRANSACTIONS in assumed

    @property
    def undelivered(self) -> bool:
        """Whether undelivered entries exist: unread entries, or read entries that wait for delivery."""
        return self.unread or self.in_replay

    @cached_property
    def unread(self) -> bool:
        """Whether unacknowledged entries exist after the read position."""
        stats = self._stats
        if stats.backlog_entries is None or DumpPart.DELIVERY in stats.unknown:
            dispatch = self.dispatch
            known = dispatch.unacked + dispatch.delayed + (dispatch.in_replay or 0)
            return (dispatch.backlog_messages or 0) > known
        read, last, first = stats.read_position, stats.ledgers.last_position, stats.ledgers.first_position
        if read is None or last is None or first is None or read > last:
            return False
        # The read position of a new cursor may be -1:-1, before the first ledger.
        start = max(read, Position(first.ledger_id, 0))
        before = start.ledger_id, max(start.entry_id - 1, -1)
        acked_after = stats.individually_deleted.copy()
        acked_after.remove_up_to(*before)
        return stats.ledgers.entries_between(before, last) > acked_after.cardinality

    @property
    def _holder(self) -> ConsumerStats | None:
        """Return the active consumer of an Exclusive or Failover subscription, or None.

        For the other types, return the consumer with the most unacknowledged messages, or None.
        """
        if self.one_active:
            return next((each for each in self.dispatch.consumers if each.name == self.dispatch.active), None)
        return next(iter(self.dispatch.holders), None)

    def fits(self, defect: Code) -> bool:
        """Return whether the facts fulfil all conditions of a defect."""
        return all(bool(getattr(self, name)) is wanted for name, wanted in _conditions(defect.when))

    def by_design(self) -> tuple[str, ConsumerStats | None] | None:
        """Return the code of the rule that holds messages back, and the consumer to which it applies.

        Return None if no rule holds messages back. The consumer is None if the rule does not apply to one
        consumer.
        """
        dispatch = self.dispatch
        if self._stats.markers_only:
            return "only-markers", None
        if self._all_delivered_or_delayed:
            return self._delivered_rule(), self._holder
        if self.reason is not None:
            return BY_DESIGN[self.reason], self._responsible_consumer()
        if self.held:
            return "hold", None
        if self.in_replay and not self.unread:
            return self._replay_rule()
        if dispatch.open_transactions > 0:
            return "open-transaction", None
        if self._pause_rule:
            return self._pause_rule, None
        return self._replay_rule() if self.in_replay else None

    def _delivered_rule(self) -> str:
        """Return the code of the reason why nothing is delivered if all messages are delivered or delayed."""
        if self.delayed:
            return "delayed"
        if self._acknowledged_in_a_transaction:
            return "acknowledged-in-transaction"
        # A broker rereads the messages of the last consumer only when the next consumer connects.
        return "with-consumers" if self.dispatch.consumers else "no-consumer"

    @property
    def _pause_rule(self) -> str:
        """The code `paused` or `may-be-paused` if reads may pause until acknowledgments are written.

        Otherwise, an empty text.
        """
        if not self.unread or self.pending_read or self.cursor_reads:
            return ""
        if self._may_pause_on_batch_indexes:
            return "paused"
        return "may-be-paused" if self._may_be_paused else ""

    @cached_property
    def _all_delivered_or_delayed(self) -> bool:
        """Return whether every unacknowledged message is delivered or delayed."""
        dispatch = self.dispatch
        if self.unread or self.in_replay:
            return False
        if dispatch.in_replay is not None or self.one_active:
            return True
        # An older broker does not report the entries that wait for redelivery.
        return dispatch.unacked + dispatch.delayed >= (dispatch.backlog_messages or 0)

    @property
    def _acknowledged_in_a_transaction(self) -> bool:
        """Whether open transactions may contain acknowledgments of entries in the backlog.

        A sign of this is that the consumers have fewer unacknowledged messages than the backlog has entries.
        """
        backlog, dispatch = self._stats.backlog_entries, self.dispatch
        return (
            self._has_transactions
            and self.individual
            and bool(dispatch.consumers)
            and backlog is not None
            and not self.delayed
            and 0 <= dispatch.unacked < backlog
        )

    def _replay_rule(self) -> tuple[str, ConsumerStats | None] | None:
        """Return the code of the rule that holds back replayed entries, and the consumer to which it applies.

        Replayed entries were already read once, and wait for delivery. Return None if no rule holds back
        these entries.
        """
        dispatch = self.dispatch
        if not self.key_shared:
            return None
        if self.draining:
            holder = next(
                (each for each in dispatch.consumers if each.draining_hashes and each.unacked > 0), None
            )
            return None if holder is None else ("key-waits", holder)
        owned = [each.slots or 0 for each in dispatch.consumers]
        if dispatch.sticky and sum(owned) < SLOTS:
            return "no-owner", None
        for reason, consumer in zip(self.reasons, dispatch.consumers, strict=True):
            if reason is not None:
                # The waiting entries may have keys of this consumer.
                return BY_DESIGN[reason], consumer
        return ("draining-unknown", None) if self._draining_unknown else None

    def _responsible_consumer(self) -> ConsumerStats | None:
        """Return the consumer to which `reason` applies, or None.

        If `reason` applies to several consumers, return the one with the most unacknowledged messages.
        """
        if self.one_active:
            return self._holder
        reasons = zip(self.dispatch.consumers, self.reasons, strict=True)
        found = [each for each, reason in reasons if reason is self.reason]
        return max(found, key=lambda each: each.unacked, default=self._holder)


def _may_exceed_batch_indexes(stats: SubscriptionStats, settings: BrokerSettings) -> bool:
    """Return whether the broker may pause reads because too many batches are partly acknowledged.

    The admin API does not show which batches are partly acknowledged. Any unacknowledged entry with several
    messages may be such a batch.
    """
    if not settings.pauses_on_batch_indexes or not settings.acknowledgment_at_batch_index_level_enabled:
        return False
    limit = settings.max_batch_deleted_index_to_persist
    if stats.batch_deleted is not None:
        return len(stats.batch_deleted) > limit
    backlog = stats.backlog_entries
    return (
        backlog is not None and backlog > limit and stats.batch_sizes.most_hidden(stats.backlog_entries) != 0
    )


def delivery_of(
    stats: SubscriptionStats,
    settings: BrokerSettings,
    before: SubscriptionStats | None = None,
    *,
    version: str = "4.2",
    assumed: Collection[str] = (),
) -> DeliveryDiagnosis:
    """Diagnose the delivery of a subscription; `before` is an earlier dump of it.

    `assumed` contains the names of settings whose value in `settings` is only a default.
    O(consumers + ledgers + ranges).
    """
    dispatch = stats.dispatch
    if stats.internal_cursor:
        return _diagnosis("internal-cursor")
    if _is_idle(stats) or dispatch is None:
        return _diagnosis(_without_dispatch(stats))
    moved = None if before is None else _moved(before, stats)
    if moved is None and before is not None and before.dispatch is not None:
        return _diagnosis("reloaded", stats)
    facts = DeliveryFacts(stats, dispatch, settings, moved is False, assumed)
    # The rate covers the last minute. It may be outdated for consumers at a limit, because they get no
    # messages until they acknowledge some.
    if moved or (moved is None and dispatch.rate_out > 0 and facts.reason not in AT_A_LIMIT):
        return _diagnosis("delivering")
    if _is_throttled(facts, before):
        return _diagnosis("dispatch-rate", stats)
    defect = next(filter(facts.fits, _defects(version)), None)
    rule = facts.by_design()
    # A rule explains the wait, unless the defect is an inconsistent flag of the broker. The rule is then only
    # a symptom of the flag.
    if rule is not None and (defect is None or "somebody_can" in defect.when):
        return _diagnosis(rule[0], stats, rule[1], settings)
    if not stats.shows_cursor and defect is None:
        return _diagnosis("no-internal-stats", stats)
    if any(each.unknown for each in stats.contradictions):
        return _diagnosis("contradiction", stats, suspected=defect)
    if not facts.still:
        return _diagnosis("second-dump", stats, suspected=defect)
    return _diagnosis("unexplained" if defect is None else defect.code, stats)


def _without_dispatch(stats: SubscriptionStats) -> str:
    """Return the code for an idle subscription, or for one without statistics of its delivery."""
    if stats.overview is not None and stats.overview.backlog_entries:
        return "delivering"
    if _is_idle(stats):
        return "idle"
    if stats.unreadable:
        return "unreadable-field"
    is_unknown = stats.backlog_entries is None and not stats.persisted_only
    return "contradiction" if is_unknown else "no-stats"


def _is_idle(stats: SubscriptionStats) -> bool:
    """Return whether no message is left to deliver."""
    if stats.shows_cursor:
        return stats.backlog_entries == 0
    return stats.dispatch is None or not stats.dispatch.backlog_messages


def _is_throttled(facts: DeliveryFacts, before: SubscriptionStats | None) -> bool:
    """Return whether a dispatch rate made the dispatcher wait between two dumps.

    A hold of `ackwell rescue` is a dispatch rate, too. Return False during such a hold.
    """
    if before is None or before.dispatch is None or facts.held:
        return False
    now, then = facts.dispatch.throttled, before.dispatch.throttled
    return facts.undelivered and facts.somebody_can and then is not None and (now or 0) > then


def _moved(before: SubscriptionStats, now: SubscriptionStats) -> bool | None:
    """Return whether anything was delivered or acknowledged between two dumps; None if unknown."""
    old, new = before.dispatch, now.dispatch
    if old is None or new is None:
        return None
    if (old.messages_out or 0) > (new.messages_out or 0):
        return None
    return (
        old.messages_out,
        old.consumed,
        before.mark_delete_position,
        before.read_position,
        before.individually_deleted,
    ) != (
        new.messages_out,
        new.consumed,
        now.mark_delete_position,
        now.read_position,
        now.individually_deleted,
    )


def _diagnosis(
    code: str,
    stats: SubscriptionStats | None = None,
    consumer: ConsumerStats | None = None,
    settings: BrokerSettings | None = None,
    *,
    suspected: Code | None = None,
) -> DeliveryDiagnosis:
    entry = codes()[code]
    if stats is None or stats.dispatch is None:
        return DeliveryDiagnosis(verdict=DeliveryVerdict(entry.verdict), code=entry)
    dispatch = stats.dispatch
    since = max(dispatch.last_delivered_ms or 0, dispatch.last_acked_ms or 0) or None
    return DeliveryDiagnosis(
        verdict=DeliveryVerdict(entry.verdict),
        code=entry,
        consumer=None if consumer is None else consumer.name,
        details=(*_details(dispatch, consumer, code, settings), *_oldest(stats)),
        since_ms=since,
        suspected=suspected,
    )


def _details(
    dispatch: DispatchStats, consumer: ConsumerStats | None, code: str, settings: BrokerSettings | None
) -> Iterator[str]:
    if consumer is not None:
        connected = f", connected since {consumer.connected_since[:19]}" if consumer.connected_since else ""
        yield f"{consumer.permits:,} permits, {consumer.unacked:,} unacknowledged messages{connected}"
    if settings is not None and code == "consumer-blocked":
        limit = settings.max_unacked_messages_per_consumer
        unacked = 0 if consumer is None else consumer.unacked
        yield _limit("maxUnackedMessagesPerConsumer", limit, dispatch.consumer_limit, unacked)
    if settings is not None and code == "subscription-blocked":
        limit = settings.max_unacked_messages_per_subscription
        yield f"{dispatch.unacked:,} unacknowledged in all"
        yield _limit(
            "maxUnackedMessagesPerSubscription", limit, dispatch.subscription_limit, dispatch.unacked
        )
    if dispatch.delayed:
        yield f"{dispatch.delayed:,} messages are delayed"
    if dispatch.in_replay:
        yield f"{dispatch.in_replay:,} entries were read and wait to be delivered"
    if dispatch.oldest_age_seconds is not None:
        yield f"the oldest message of the backlog is {dispatch.oldest_age_seconds:,} s old"


def _limit(name: str, of_broker: int, effective: int | None, unacked: int) -> str:
    """Return a text about a limit of unacknowledged messages: its value, and whether a policy sets it.

    A broker unblocks a consumer at half of the limit. If a blocked consumer has fewer messages than half of
    the broker's limit, a policy sets a smaller limit.
    """
    if effective is not None:
        return f"{name}={effective}" + (", set by a policy" if effective != of_broker else "")
    if unacked <= of_broker // 2:
        return f"the limit is unknown, a policy sets it; blocked at {unacked:,}"
    return f"{name}={of_broker}, if no policy sets another limit"


def _oldest(stats: SubscriptionStats) -> Iterator[str]:
    """Yield a sentence about the oldest unacknowledged entry, its consumer and its age, if they are known."""
    oldest = oldest_unacked(stats)
    if oldest is None:
        return
    holder, moved_ms = holder_of(stats, oldest), stats.mark_delete_moved_ms
    has = "" if holder is None else f", with consumer {holder.name}"
    since = "" if moved_ms is None else f", since {date_of(moved_ms):%Y-%m-%d %H:%M:%S} UTC"
    yield f"the oldest unacknowledged entry is {oldest}{has}{since}"
