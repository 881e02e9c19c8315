"""Widen the bounds of a prediction, so that they hold for every value of the unknown settings.

The settings are unknown if the token for the broker has no superuser rights, or if the source is a file that
does not contain them. A prediction with the default settings may then be too high or too low.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from ackwell.broker.writes import Reason
from ackwell.diagnosis.limits import BATCH_LIMIT, RANGE_LIMIT, counted_entries
from ackwell.diagnosis.prediction import predicted_losses
from ackwell.diagnosis.unwritten import ATTEMPTS, written_after_ms

if TYPE_CHECKING:
    from ackwell.broker.broker_settings import BrokerSettings
    from ackwell.broker.restart import RestartLoss
    from ackwell.broker.stats import SubscriptionStats
    from ackwell.broker.writes import Restart

VERSION: Final = "version"
"""A set of names of assumed settings contains this name if the version is assumed, too. The bounds of the
prediction then hold for the rules of all versions."""

LONG_ARRAY: Final = "managedLedgerPersistIndividualAckAsLongArray"
FLUSH_SECONDS: Final = "managedLedgerCursorPositionFlushSeconds"
CLIENT_TIMEOUT: Final = "bookkeeperClientTimeoutInSeconds"
TRANSACTIONS: Final = "transactionCoordinatorEnabled"

_UNLIMITED: Final = "1000000000"

_EXTREMES: Final[dict[str, tuple[str, str]]] = {
    RANGE_LIMIT: ("0", _UNLIMITED),
    "managedLedgerMaxUnackedRangesToPersistInMetadataStore": (_UNLIMITED, "0"),
    BATCH_LIMIT: ("0", _UNLIMITED),
    LONG_ARRAY: ("false", "true"),
    "managedLedgerUnackedRangesOpenCacheSetEnabled": ("false", "true"),
    "acknowledgmentAtBatchIndexLevelEnabled": ("true", "false"),
    TRANSACTIONS: ("true", "false"),
    FLUSH_SECONDS: (_UNLIMITED, "0"),
    CLIENT_TIMEOUT: (_UNLIMITED, "0"),
}
"""Maps each setting that affects the loss of a restart to two values: with the greatest and the least
loss."""

DECISIVE: Final = frozenset(_EXTREMES)
"""The names of the settings that affect the loss of a restart."""

SEARCHED_RANGES_MAX: Final = 100_000
"""If a cursor has more ranges than this number, the smallest limit of ranges without a loss is not searched.
An upper bound replaces it."""


Predict: TypeAlias = "Callable[[Sequence[BrokerSettings]], tuple[RestartLoss, ...]]"
"""A function that predicts each restart. Its argument contains the settings of each close, one after
another."""


class WidenedPredictions(NamedTuple):
    """Predictions with bounds that hold for all values of the assumed settings."""

    losses: tuple[RestartLoss, ...]
    reason: Reason | None
    """The reason why the bounds were widened; None if no assumed setting changes the prediction."""


def over_assumed(
    stats: SubscriptionStats,
    settings: BrokerSettings,
    restarts: Sequence[Restart],
    before: SubscriptionStats | None,
    assumed: Collection[str],
    losses: tuple[RestartLoss, ...],
    later: Sequence[BrokerSettings] = (),
) -> WidenedPredictions:
    """Return `losses` with bounds that hold for all values of the assumed settings.

    For each restart, this makes at most 22 predictions. If the result depends on the maximum number of saved
    ranges, a binary search makes further predictions. It finds the smallest maximum with which no range is
    lost.
    """

    def predict(closes: Sequence[BrokerSettings]) -> tuple[RestartLoss, ...]:
        first, *others = closes
        return predicted_losses(stats, first, restarts, before, others)

    widened, deciding = losses, []
    closes = (settings, *later)
    for variants in zip(*(_variants(each, assumed) for each in closes), strict=True):
        names = variants[0][0]
        predicted = predict([each for _, each in variants])
        if _bounds(predicted) == _bounds(losses):
            continue
        deciding += [name for name in names if name not in deciding]
        widened = tuple(one.or_else(another) for one, another in zip(widened, predicted, strict=True))
    if not deciding:
        return WidenedPredictions(losses, None)
    texts = [_condition(name, stats, closes, predict, assumed) for name in deciding]
    reason = Reason("settings-assumed", f"the broker's settings are not known: {'; '.join(texts)}")
    return WidenedPredictions(
        tuple(replace(each, reasons=(*each.reasons, reason)) for each in widened), reason
    )


def _variants(
    settings: BrokerSettings, assumed: Collection[str]
) -> Iterator[tuple[tuple[str, ...], BrokerSettings]]:
    """Yield variants of `settings` with extreme values of the assumed settings.

    The loss for any other values is between the losses for the variants. Each variant is `(names, settings)`.
    If `names` has one name, the variant changes only this setting, or the rules of the version. If `names` is
    empty, the variant changes everything that is assumed at once: to the values and rules with the greatest
    loss, or to those with the least loss.
    """
    names = [name for name in _EXTREMES if name in assumed]
    for name in names:
        for value in _EXTREMES[name]:
            yield (name,), settings.with_values([f"{name}={value}"])
    for worst in (True, False):
        rules = _rules(settings, worst=worst) if VERSION in assumed else settings
        if VERSION in assumed:
            yield (VERSION,), rules
        if names:
            yield (), rules.with_values(f"{name}={_EXTREMES[name][not worst]}" for name in names)


def _rules(settings: BrokerSettings, *, worst: bool) -> BrokerSettings:
    """Return the settings with the version rules that lead to the greatest loss of acknowledgments.

    If `worst` is false, use the version rules that lead to the least loss.
    """
    return replace(
        settings,
        ranges_beyond_limit=int(not worst),
        counts_the_ledger_itself=worst,
        has_open_cache_set=worst,
        reads_batch_indexes_back=not worst,
        writes_batch_indexes_alone=not worst,
        releases_passed_messages=not worst,
    )


def _with_all(closes: Sequence[BrokerSettings], assignment: str) -> list[BrokerSettings]:
    """Change one setting (`name=value`) in the settings of each close of the topic. Return the settings."""
    return [each.with_values([assignment]) for each in closes]


def _bounds(losses: Sequence[RestartLoss]) -> list[object]:
    return [each.bounds for each in losses]


def _condition(
    name: str,
    stats: SubscriptionStats,
    closes: Sequence[BrokerSettings],
    predict: Predict,
    assumed: Collection[str],
) -> str:
    """Return a text about an assumed setting: its default, and for limits and times the lossless values."""
    if name == VERSION:
        return "the rules differ between versions (--broker-version)"
    default = closes[0].named()[name]
    if name == RANGE_LIMIT:
        limit = _least_limit(stats, closes, predict, assumed)
        return f"no range is lost if {name} ≥ {limit:,}; the default is {default:,}"
    if name == BATCH_LIMIT:
        most = stats.backlog_entries if stats.batch_deleted is None else len(stats.batch_deleted)
        least = "the number of partly acknowledged batches" if most is None else f"{most:,}"
        return f"no batch index is lost for the limit if {name} ≥ {least}; the default is {default:,}"
    if name in (FLUSH_SECONDS, CLIENT_TIMEOUT) and stats.quiet_ms is not None:
        left_ms = stats.quiet_ms - written_after_ms(closes[0].with_values([f"{name}=0"])) - 1
        most = max(left_ms, 0) // (1_000 if name == FLUSH_SECONDS else ATTEMPTS * 1_000)
        return f"the last acknowledgments are written if {name} ≤ {most:,}; the default is {default:,}"
    return f"it also depends on {name}; the default is {str(default).lower()}"


def _least_limit(
    stats: SubscriptionStats, closes: Sequence[BrokerSettings], predict: Predict, assumed: Collection[str]
) -> int:
    """Return the smallest value of the setting `RANGE_LIMIT` with which no range is lost.

    If the search would be too long, return an upper bound of this value.
    """
    if VERSION in assumed:
        closes = [_rules(each, worst=True) for each in closes]
    forms = [closes]
    if LONG_ARRAY in assumed:
        forms = [_with_all(closes, f"{LONG_ARRAY}={value}") for value in ("false", "true")]
    high = max(len(stats.individually_deleted), stats.individually_deleted.cardinality)
    if high > SEARCHED_RANGES_MAX:
        return max(len(stats.individually_deleted), *(counted_entries(stats, first) for first, *_ in forms))

    def bounds(limit: int) -> list[object]:
        return [_bounds(predict(_with_all(each, f"{RANGE_LIMIT}={limit}"))) for each in forms]

    unlimited, low = bounds(int(_UNLIMITED)), 0
    while low < high:
        middle = (low + high) // 2
        if bounds(middle) == unlimited:
            high = middle
        else:
            low = middle + 1
    return low
