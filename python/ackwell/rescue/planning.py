"""Decide which acknowledgments may be restored after a restart, without any I/O.

`plan` compares a snapshot with the live state. It finds the existing entries that are acknowledged in the
snapshot, but not in the live state. A restore repeats the acknowledgments of these entries, which a consumer
made before the restart. Such a restore is wrong in two cases only: a seek removed the acknowledgments on
purpose, or the topic is not the topic of the snapshot. So each check looks for a seek or for another topic.

A graceful restart never moves the mark-delete position back, and keeps the first ranges, up to the limit
`managedLedgerMaxUnackedRangesToPersist` (`ackwell.broker.restart`). Any other loss looks like a seek and is
refused. If consumers acknowledge entries after a seek until there are as many ranges as the limit, the seek
looks like a restart. Such a seek is not detected.

A crash can leave any state that was ever written, so it cannot be distinguished from a seek. With
`restart="crash"` the caller states that the restart was a crash. If the snapshot has an answer of
`info-internal`, a crash keeps at least the acknowledgments in this answer. A live state without them is
refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np

from ackwell._native import Ledgers, PositionRangeSet
from ackwell.cursor.cursor_state import AckSetMapping, CursorState, existing
from ackwell.cursor.rules import acknowledged
from ackwell.errors import AckwellError, StatsError
from ackwell.json_values import object_in
from ackwell.position import Position
from ackwell.protocol.constants import SubscriptionType
from ackwell.protocol.topic_name import TopicName
from ackwell.rescue.refusals import RefusedError, refuse_other_cluster
from ackwell.sources import SourceKind, wrong_kind

if TYPE_CHECKING:
    from ackwell.broker.broker_settings import BrokerSettings
    from ackwell.broker.writes import Restart
    from ackwell.rescue.snapshot import Snapshot

SCHEMA_VERSION: Final = 1

Acknowledgment = list[tuple[Position, tuple[int, ...]]]
"""The content of one acknowledgment command: positions, each with an ack set. The ack set is empty if the
whole entry is acknowledged."""

IDS_A_COMMAND: Final = 1000
"""The maximum number of positions in one acknowledgment command. They take 9 kB, far below the limit of a
frame."""

_INTERNAL_PREFIX: Final = "__"
"""The prefix of the broker's internal subscriptions, such as `__compaction`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The acknowledgments to restore in one subscription, and the checks that passed."""

    cluster: str | None
    version: str | None
    """The version of the broker at the time of the snapshot; None if it is unknown."""
    limits: Mapping[str, int | bool]
    """The broker settings on which the losses of a restart depend: a map from name to value."""
    topic: str
    subscription: str
    type: SubscriptionType | None
    """The type of the subscription; None only if it is unknown and there is nothing to restore."""
    restart: Restart
    snapshot_time_ms: int | None
    snapshot_digest: str
    ledgers: Mapping[int, int]
    """The number of entries of each ledger of the topic when the plan was made."""
    now: CursorState = field(repr=False)
    """The live state of the subscription when the plan was made."""
    missing: PositionRangeSet
    """The entries that are acknowledged in the snapshot, but not in the live state."""
    ack_sets: AckSetMapping = field(default_factory=dict)
    """The ack sets of the partly acknowledged batches to restore. The live state does not show ack sets."""
    passed: tuple[str, ...] = ()
    """A sentence for each check that passed."""
    unknown: tuple[str, ...] = ()
    """A sentence for each fact that the checks could not establish."""

    @property
    def name(self) -> tuple[str, str]:
        """The topic and the subscription."""
        return self.topic, self.subscription

    def __bool__(self) -> bool:
        """Return whether there is an acknowledgment to restore."""
        return bool(len(self.missing) or self.ack_sets)

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON values."""
        return {
            "cluster": self.cluster,
            "brokerVersion": self.version,
            "limits": dict(self.limits),
            "topic": self.topic,
            "subscription": self.subscription,
            "type": self.type,
            "restart": self.restart,
            "snapshotTimeMs": self.snapshot_time_ms,
            "snapshotDigest": self.snapshot_digest,
            "ledgers": {str(ledger_id): entries for ledger_id, entries in self.ledgers.items()},
            "now": {
                "markDeletePosition": str(self.now.mark_delete_position),
                "individuallyDeletedMessages": str(self.now.individually_deleted),
            },
            "entries": self.missing.cardinality,
            "ranges": str(self.missing),
            "ackSets": {str(position): list(words) for position, words in self.ack_sets.items()},
            "checksPassed": list(self.passed),
            "notKnown": list(self.unknown),
        }

    @classmethod
    def of_json(cls, value: Mapping[str, Any], source: str = "") -> Self:
        """Build a plan from JSON values. Raises `StatsError` if the values are not a plan."""
        try:
            sizes, ack_sets = object_in(value["ledgers"]), object_in(value["ackSets"])
            ledgers = {int(ledger_id): int(entries) for ledger_id, entries in sizes.items()}
            now = CursorState(
                Position.parse(value["now"]["markDeletePosition"]),
                PositionRangeSet.parse(value["now"]["individuallyDeletedMessages"]),
                ledgers=Ledgers(ledgers),
            )
            missing = PositionRangeSet.parse(value["ranges"])
            if missing.cardinality != value["entries"]:
                raise ValueError(f"{value['entries']} entries, and ranges of {missing.cardinality}")
            return cls(
                cluster=value["cluster"],
                version=value["brokerVersion"],
                limits=value["limits"],
                topic=str(TopicName.parse(value["topic"])),
                subscription=value["subscription"],
                type=None if value["type"] is None else SubscriptionType(value["type"]),
                restart=value["restart"],
                snapshot_time_ms=value["snapshotTimeMs"],
                snapshot_digest=value["snapshotDigest"],
                ledgers=ledgers,
                now=now,
                missing=missing,
                ack_sets={Position.parse(text): tuple(words) for text, words in ack_sets.items()},
                passed=tuple(value["checksPassed"]),
                unknown=tuple(value["notKnown"]),
            )
        except (KeyError, TypeError, ValueError, AckwellError) as error:
            message = wrong_kind(SourceKind.PLAN, SourceKind.PLAN, detail=f": {error!r}")
            raise StatsError(message, source) from None


def plan(
    before: Snapshot,
    now: Snapshot,
    *,
    restart: Restart = "graceful",
    ack_sets: CursorState | None = None,
    brokers: Sequence[BrokerSettings | None] = (),
) -> Plan:
    """Find the acknowledgments in a snapshot that are missing in the live state. O(ranges).

    `restart` is the kind of restart that happened between the snapshot `before` and the live state `now`. A
    snapshot from the admin API has no ack sets. `ack_sets` can add them: it is a state from persisted bytes,
    from a memory dump or from the end of a trace. `brokers` has the settings of other brokers that may have
    owned the topic between the snapshot and now. Raises `RefusedError` if a check fails.
    """
    refuse_other_cluster("the snapshot is", before.cluster, now.cluster)
    if ack_sets is None and before.stats.batch_deleted is not None:
        ack_sets = before.stats
    missing = existing(before.acked, now.stats.ledgers) - now.acked
    parts = _parts(ack_sets, before, now)
    passed = []
    if len(missing) or parts:
        attachable_type(now, before)
        _check_same_topic(
            {each.ledger_id: (each.entries, each.size_bytes) for each in before.stats.ledger_sizes}, now
        )
        passed.append("the ledgers of the snapshot are the topic's ledgers, without a gap")
        _check_reloaded(before, now)
        passed.append("the topic was loaded anew since the snapshot")
        if restart == "graceful":
            passed += _check_graceful(before, now, missing, brokers)
        else:
            passed += _check_crash(before, now)
    settings = before.settings or now.settings
    unknown = ["acknowledgments after the snapshot"]
    if not dict(now.stats.ledgers).keys() & dict(before.stats.ledgers).keys():
        unknown.append("whether it is the same topic: no ledger of the snapshot still exists")
    if ack_sets is None:
        unknown.append("parts of batches: the admin API does not show them (--acks)")
    if restart == "graceful" and len(missing):
        unknown.append("a seek that left as many acknowledgments as the limit would look the same")
    return Plan(
        cluster=now.cluster,
        version=before.broker.version if before.broker else now.broker.version if now.broker else None,
        limits={} if settings is None else settings.named(),
        topic=now.stats.topic,
        subscription=now.stats.subscription,
        type=now.type or before.type,
        restart=restart,
        snapshot_time_ms=before.stats.time_ms,
        snapshot_digest=before.digest,
        ledgers=dict(now.stats.ledgers),
        now=now.stats,
        missing=missing,
        ack_sets=parts,
        passed=tuple(passed),
        unknown=tuple(unknown),
    )


def remaining(plan: Plan, live: Snapshot) -> tuple[PositionRangeSet, AckSetMapping]:
    """Return the entries of a plan that are still unacknowledged, and the ack sets to restore. O(ranges).

    Raises `RefusedError` if the live state no longer matches the plan.
    """
    refuse_other_cluster("the plan is", plan.cluster, live.cluster)
    if plan:
        attachable_type(live, planned=plan.type)
    _check_same_topic({ledger_id: (entries, None) for ledger_id, entries in plan.ledgers.items()}, live)
    ledgers = live.stats.ledgers
    gone = existing(_acked(plan.now, plan.ledgers), ledgers) - live.acked
    if len(gone) or _moved_back(
        plan.now.mark_delete_position, live.stats.mark_delete_position, plan.ledgers, live
    ):
        raise RefusedError("lost-since-the-plan", count=gone.cardinality)
    parts = {
        position: words
        for position, words in plan.ack_sets.items()
        if ledgers.contains(*position) and position not in live.acked
    }
    return existing(plan.missing, ledgers) - live.acked, parts


def commands(entries: PositionRangeSet, ack_sets: AckSetMapping) -> Iterator[Acknowledgment]:
    """Yield the contents of the acknowledgment commands for the given entries and ack sets."""
    ids: Iterator[tuple[Position, tuple[int, ...]]] = chain(
        ((position, ()) for position in entries.positions()),
        ((position, tuple(words)) for position, words in ack_sets.items()),
    )
    while command := list(islice(ids, IDS_A_COMMAND)):
        yield command


def attachable_type(
    live: Snapshot, before: Snapshot | None = None, *, planned: SubscriptionType | None = None
) -> SubscriptionType:
    """Return the subscription type with which a helper must attach.

    If the live state has no type, the type comes from the snapshot `before` or from the plan (`planned`).
    Raises `RefusedError` if no helper may attach, or if the type is unknown or has changed.
    """
    topic, subscription = live.name
    shown = live.shown
    if not TopicName.parse(topic).persistent or not live.stats.durable:
        raise RefusedError("not-durable", topic=topic, subscription=subscription)
    refuse_internal(subscription)
    if shown.get("isReplicated") or shown.get("replicated"):
        raise RefusedError("replicated", subscription=subscription)
    if live.topic_shown.get("ongoingTxnCount"):
        raise RefusedError("transactions", topic=topic)
    then = before.type if before else planned
    if live.type is not None and then is not None and live.type is not then:
        raise RefusedError("type-changed", subscription=subscription, then=then, now=live.type)
    found = live.type or then
    if found is None:
        raise RefusedError("no-type", subscription=subscription)
    for each in (live, before):
        if (
            each is not None
            and found is SubscriptionType.KEY_SHARED
            and (each.shown.get("keySharedMode") == "STICKY" or each.shown.get("allowOutOfOrderDelivery"))
        ):
            raise RefusedError("key-shared-mode", subscription=subscription)
    return found


def known_settings(*settings: BrokerSettings | None) -> list[BrokerSettings]:
    """Return the settings that are not None.

    Raises `RefusedError` if all settings are None, because the limit of ranges is then unknown.
    """
    known = [each for each in settings if each is not None]
    if not known:
        raise RefusedError("limit-unknown")
    return known


def is_internal(subscription: str) -> bool:
    """Return whether a subscription is internal, which means that the broker created it for its own use."""
    return subscription.startswith(_INTERNAL_PREFIX)


def refuse_internal(subscription: str) -> None:
    """Raise `RefusedError` for an internal subscription of the broker."""
    if is_internal(subscription):
        raise RefusedError("internal", subscription=subscription)


def _acked(state: CursorState, ledgers: Mapping[int, int]) -> PositionRangeSet:
    return acknowledged(Ledgers(dict(ledgers)), state.mark_delete_position, state.individually_deleted)


def _check_same_topic(old: Mapping[int, tuple[int, int | None]], now: Snapshot) -> None:
    """Raise `RefusedError` if the topic with the live ledgers is not the topic that had the `old` ledgers.

    The live ledgers must contain the old ledgers, with two exceptions. An empty old ledger may be missing,
    because a broker deletes it. The first old ledgers may be missing, because a broker trims them. Only the
    last old ledger may have more entries than before.
    """
    new = {each.ledger_id: (each.entries, each.size_bytes) for each in now.stats.ledger_sizes}
    topic = now.stats.topic
    # A broker deletes an empty ledger when it loads the topic.
    full = {ledger_id: each for ledger_id, each in old.items() if each[0]}
    common = full.keys() & new.keys()
    for ledger_id in sorted(full.keys() - common):
        if ledger_id > min(new):
            raise RefusedError("ledger-gap", ledger=ledger_id, topic=topic)
    newest = max(new)
    for ledger_id in sorted(common):
        (then, then_bytes), (entries, size_bytes) = full[ledger_id], new[ledger_id]
        was_open = ledger_id == max(old)
        changed = entries < then or (not was_open and entries != then)
        if not was_open and ledger_id != newest and then_bytes is not None and size_bytes != then_bytes:
            changed = True
        if changed:
            raise RefusedError("other-entries", ledger=ledger_id, topic=topic, then=then, now=entries)


def is_loaded_anew(before: Snapshot, now: Snapshot) -> bool:
    """Return whether the topic has opened a new ledger since the snapshot `before`.

    If not, the topic was not loaded again. A topic opens a ledger at each load, and when a ledger is full.
    """
    return max(dict(now.stats.ledgers)) > max(dict(before.stats.ledgers))


def _check_reloaded(before: Snapshot, now: Snapshot) -> None:
    if not is_loaded_anew(before, now):
        raise RefusedError("not-loaded-anew", topic=now.stats.topic)


def _moved_back(old: Position, new: Position, ledgers: Mapping[int, int], now: Snapshot) -> bool:
    """Return whether the position `new` is before the position `old`.

    The last entry of a ledger and the position before the first entry of the next ledger count as equal.
    """
    both = _joined(ledgers, now)
    return both.next_valid(*new) < both.next_valid(*old)


def _joined(ledgers: Mapping[int, int], now: Snapshot) -> Ledgers:
    entries = dict(ledgers)
    for ledger_id, count in now.stats.ledgers:
        entries[ledger_id] = max(count, entries.get(ledger_id, 0))
    return Ledgers(dict(sorted(entries.items())))


def _check_graceful(
    before: Snapshot, now: Snapshot, missing: PositionRangeSet, brokers: Sequence[BrokerSettings | None]
) -> list[str]:
    """Check that the live state can be the result of a graceful restart. Return the checks that passed.

    Raises `RefusedError` if a check fails.
    """
    old, new = before.stats, now.stats
    since = age_between(before, now)
    if _moved_back(old.mark_delete_position, new.mark_delete_position, dict(old.ledgers), now):
        raise RefusedError(
            "mark-delete-back", then=old.mark_delete_position, now=new.mark_delete_position, age=since
        )
    if not len(missing):
        # Only ack sets are missing. A seek removes all ranges, so a remaining range excludes a seek.
        ahead = old.individually_deleted.copy()
        ahead.remove_up_to(*new.mark_delete_position)
        first = ahead.first_range()
        if first is None or (first[0], first[1] + 1) not in new.individually_deleted:
            raise RefusedError("no-range-kept", age=since)
        return ["the mark-delete position did not move back", "the first range of the snapshot still exists"]
    known = known_settings(before.settings, now.settings, *brokers)
    first_range = missing.first_range()
    assert first_range is not None
    ledger_id, end, _ = first_range
    then = old.individually_deleted.copy()
    then.remove_up_to(*old.mark_delete_position)
    then = _up_to(then, ledger_id, end)
    # Of the entries before the new mark-delete position, count only those that the snapshot has. A seek
    # forward may have skipped the others.
    perhaps = _up_to(new.individually_deleted, ledger_id, end) - then
    if not len(then) and not len(perhaps):
        raise RefusedError("first-range-gone", age=since)
    count = _ranges_max(then, perhaps, (ledger_id, end))
    limit = min(each.ranges_written for each in known)
    if not limit:
        raise RefusedError("nothing-kept", age=since)
    earlier = _up_to(then | perhaps, ledger_id, -1).cardinality
    # If no earlier ledger is written, the broker writes the state in the ranges form.
    own = dict(_joined(dict(before.stats.ledgers), now)).get(ledger_id, 0) if earlier else 0
    if count < limit and not any(
        _writes_ledgers(each, each.entries_counted(earlier, own), before, now) for each in known
    ):
        raise RefusedError("fewer-than-limit", count=count, limit=limit, age=since)
    return [
        "the mark-delete position did not move back",
        f"the ranges before the first missing entry can be the {limit:,} that a restart keeps",
    ]


def _check_crash(before: Snapshot, now: Snapshot) -> list[str]:
    """Check that the live state can be the result of a crash. Return the checks that passed.

    After a crash, a broker restores the persisted state, which has the acknowledgments that `info-internal`
    showed. Raises `RefusedError` if one of these acknowledgments is missing.
    """
    stated = "you stated with --restart crash that there was no seek since the snapshot"
    persisted = before.stats.persisted
    if persisted is None:
        return [stated]
    kept = existing(_acked(persisted, dict(before.stats.ledgers)), now.stats.ledgers)
    if gone := (kept - now.acked).cardinality:
        raise RefusedError("persisted-gone", count=gone)
    return [stated, "the acknowledgments that `info-internal` showed with the snapshot still exist"]


def _up_to(ranges: PositionRangeSet, ledger_id: int, entry_id: int) -> PositionRangeSet:
    """Return the positions in `ranges` that are at or before the given position. O(ranges)."""
    later = ranges.copy()
    later.remove_up_to(ledger_id, entry_id)
    return ranges - later


def _ranges_max(then: PositionRangeSet, perhaps: PositionRangeSet, before: tuple[int, int]) -> int:
    """Return the maximum number of ranges before the first missing entry that a restart may have kept.

    The snapshot has the ranges of `then`. Any positions of `perhaps` may have been acknowledged between the
    snapshot and the restart. `before` is the position before the first missing entry. A range of `then` that
    ends at `before` is not counted: the missing entry belonged to this range, so the restart did not keep it.
    O(ranges).
    """
    missing = PositionRangeSet([(before[0], before[1], before[1] + 1)])
    parts = [each.to_arrays() for each in (then, perhaps, missing)]
    ledger_ids, lowers, uppers = (np.concatenate(each) for each in zip(*parts, strict=True))
    kinds = np.repeat([0, 1, 2], [len(each[0]) for each in parts])
    order = np.lexsort((lowers, ledger_ids))
    ledger_ids, lowers, uppers, kinds = (each[order] for each in (ledger_ids, lowers, uppers, kinds))
    touches = (ledger_ids[1:] == ledger_ids[:-1]) & (lowers[1:] == uppers[:-1])
    neighbours = np.zeros(len(kinds), np.int64)
    neighbours[1:] += touches
    neighbours[:-1] += touches
    # In a gap, at most every second entry can be a range that does not touch another range.
    gaps = (uppers - lowers + 1 - neighbours)[kinds == 1] // 2
    last = bool(touches[-1] and kinds[-2] == 0) if len(touches) else False
    return len(then) - last + int(gaps.sum())


def _writes_ledgers(settings: BrokerSettings, counted: int, before: Snapshot, now: Snapshot) -> bool:
    """Return whether a restart may have kept only the ledgers before the ledger of the first missing entry.

    A broker writes whole ledgers only in the long-array form, which only the cursor ledger has. The broker
    reads the cursor ledger only if there are more ranges than the limit of the metadata store.

    The number of ranges at the restart is unknown, so its upper bound is used. An unacknowledged entry
    precedes each range. The bound is therefore the number of entries that were unacknowledged in the
    snapshot or were published after it.
    """
    if not settings.long_array or counted <= settings.max_unacked_ranges_to_persist:
        return False
    entries = _joined(dict(before.stats.ledgers), now)
    unacked = sum(count for _, count in entries) - _acked(before.stats, dict(entries)).cardinality
    ranges_max = min(unacked, sum((count + 1) // 2 for _, count in entries))
    return settings.needs_ledger(ranges_max)


def age_between(before: Snapshot, now: Snapshot) -> str:
    """Return the age of the snapshot `before` at the time of `now`, in words.

    If a clock was set back, `before` may be newer than `now`.
    """
    if before.stats.time_ms is None or now.stats.time_ms is None:
        return "of unknown age"
    seconds = (now.stats.time_ms - before.stats.time_ms) / 1000
    return f"{age(seconds)} old" if seconds >= 0 else f"{age(-seconds)} newer than the live state"


def age(seconds: float) -> str:
    """Return a duration in words.

    >>> age(40), age(4000), age(400000)
    ('40 s', '67 min', '111 h')
    """
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"


def _parts(shown: CursorState | None, before: Snapshot, now: Snapshot) -> AckSetMapping:
    """Return the ack sets in `shown`. Leave out entries that do not exist or are wholly acknowledged.

    Raises `RefusedError` if `shown` and `before` each have acknowledgments that the other state does not
    have.
    """
    if shown is None:
        return {}
    ledgers = now.stats.ledgers
    theirs = existing(_acked(shown, dict(ledgers)), ledgers)
    ours = existing(before.acked, ledgers)
    if len(theirs - ours) and len(ours - theirs):
        raise RefusedError(
            "acks-differ", theirs=(theirs - ours).cardinality, ours=(ours - theirs).cardinality
        )
    return {
        Position(*position): tuple(words)
        for position, words in sorted((shown.batch_deleted or {}).items())
        if ledgers.contains(*position) and position not in now.acked and position not in before.acked
    }
