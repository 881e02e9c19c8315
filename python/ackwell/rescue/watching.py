"""The decisions of `ackwell rescue watch`. Each compares two observations of a subscription, without any I/O.

`decide` compares an earlier snapshot with the live state. If acknowledgments are missing and the topic was
not loaded again, a seek removed them, and they are not restored. If the topic was loaded again, every check
of `plan` applies. Because no person reads the plan, two further checks apply:

- The earlier snapshot is at most `AGE_MS_MAX` old. If a clock was set back, the snapshot may be newer than
  the live state, by at most the same time.
- At least `RANGES_MIN` of its ranges still exist unchanged. A seek removes all ranges, so after a seek this
  is true only if consumers acknowledge exactly the same entries again. `unchanged_remaining` repeats this
  check before a restore.

A crash may leave any older state of the subscription, and such a state looks like the result of a seek.
`plan` and `decide` refuse most of these states. The earlier snapshot is then kept in a file. An operator can
use it after checking that no seek happened.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from ackwell.cursor.cursor_state import existing
from ackwell.diagnosis.limits import limit_usage
from ackwell.rescue.planning import Plan, age, age_between, is_loaded_anew, plan, remaining
from ackwell.rescue.refusals import RefusedError

if TYPE_CHECKING:
    from ackwell import PositionRangeSet
    from ackwell.broker.broker_settings import BrokerSettings
    from ackwell.cursor.cursor_state import AckSetMapping, CursorState
    from ackwell.rescue.snapshot import Snapshot

AGE_MS_MAX: Final = 900_000
"""The maximum age of the earlier snapshot in ms. 15 minutes are longer than most restarts, and an older
snapshot would not show the state just before the load."""

RANGES_MIN: Final = 8
"""The minimum number of unchanged ranges for which a seek is excluded. By default, a broker keeps 10,000
ranges over a restart."""


class Transition(StrEnum):
    """The change between two observations of a subscription."""

    NONE = "none"
    """Every acknowledgment of the earlier observation still exists."""
    MOVED = "moved"
    """Acknowledgments are missing, although the topic was not loaded again. So a seek removed them."""
    LOST = "lost"
    """Acknowledgments are missing after a load of the topic, and all checks for a restore passed."""
    REFUSED = "refused"
    """Acknowledgments are missing after a load of the topic, and a check failed. The cause may be a seek."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The decision about one subscription."""

    change: Transition
    missing: int = 0
    """The number of existing entries that were acknowledged in the earlier observation, but no longer are."""
    plan: Plan | None = None
    """The plan to restore the missing acknowledgments, if `change` is `LOST`; else None."""
    refusal: RefusedError | None = None
    """The error of the check that failed, if `change` is `REFUSED`; else None."""


def decide(before: Snapshot, now: Snapshot, brokers: Sequence[BrokerSettings | None] = ()) -> Decision:
    """Compare two observations of a subscription and return the decision. O(ranges).

    `brokers` has the settings of all brokers that may have owned the topic between the observations.
    """
    missing = (existing(before.acked, now.stats.ledgers) - now.acked).cardinality
    if not missing:
        return Decision(change=Transition.NONE)
    if not is_loaded_anew(before, now):
        return Decision(change=Transition.MOVED, missing=missing)
    try:
        _check_age(before, now)
        made = plan(before, now, brokers=brokers)
        _check_unchanged_ranges(before.stats, now.stats, made.missing)
    except RefusedError as refusal:
        return Decision(change=Transition.REFUSED, missing=missing, refusal=refusal)
    return Decision(change=Transition.LOST, missing=missing, plan=made)


def is_at_risk(now: Snapshot) -> bool:
    """Return whether the next load of the topic may lose ranges of the subscription.

    This is the case for a subscription with ranges if it uses 80 % or more of a limit, or if the limits are
    unknown.
    """
    if not now.stats.durable or not len(now.stats.individually_deleted):
        return False
    settings = now.settings
    return settings is None or any(usage.is_near for usage in limit_usage(now.stats, settings))


def _check_age(before: Snapshot, now: Snapshot) -> None:
    then_ms, now_ms = before.stats.time_ms, now.stats.time_ms
    if then_ms is None or now_ms is None or abs(now_ms - then_ms) > AGE_MS_MAX:
        raise RefusedError("snapshot-too-old", age=age_between(before, now), limit=age(AGE_MS_MAX / 1000))


def unchanged_remaining(plan: Plan, live: Snapshot) -> tuple[PositionRangeSet, AckSetMapping]:
    """Return `remaining(plan, live)`, after checking that the plan's ranges exclude a seek. O(ranges).

    Raises `RefusedError` if too few ranges of the plan still exist unchanged, or if the live state no longer
    matches the plan.
    """
    found = remaining(plan, live)
    _check_unchanged_ranges(plan.now, live.stats, plan.missing)
    return found


def both_losses(earlier: Plan, later: Plan, live: Snapshot) -> Plan:
    """Return one plan for all entries that two successive loads of a topic lost. O(ranges).

    `earlier` is the plan for the entries that the first load lost. `later` is the plan for the entries that
    were acknowledged between the loads and that the second load lost. `live` is the live state. Raises
    `RefusedError` if there may have been a seek between the loads.
    """
    missing = later.missing | existing(earlier.missing, live.stats.ledgers) - live.acked
    _check_unchanged_ranges(earlier.now, live.stats, missing)
    return replace(later, missing=missing, ack_sets={**earlier.ack_sets, **later.ack_sets})


def _check_unchanged_ranges(before: CursorState, now: CursorState, missing: PositionRangeSet) -> None:
    """Raise `RefusedError` if too few of the ranges before the first missing entry still exist unchanged."""
    first = missing.first_range()
    assert first is not None
    unchanged = {*before.individually_deleted} & {*now.individually_deleted}
    count = sum((ledger_id, upper) <= first[:2] for ledger_id, _, upper in unchanged)
    if count < RANGES_MIN:
        raise RefusedError("few-ranges-kept", count=count, least=RANGES_MIN)
