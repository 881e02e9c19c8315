"""Suggest remedies against the loss of acknowledgments. Settings are suggested only if they reduce it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ackwell.broker.batch_sizes import Bounds
from ackwell.broker.codes import with_names
from ackwell.diagnosis.holes import oldest_unacked
from ackwell.diagnosis.limits import (
    BATCH_LIMIT,
    LIST_LIMIT,
    NODE_LIMIT,
    RANGE_LIMIT,
    LimitUsage,
    counted_entries,
)
from ackwell.diagnosis.prediction import weight, written_losses

if TYPE_CHECKING:
    from ackwell.broker.broker_settings import BrokerSettings
    from ackwell.broker.restart import RestartLoss
    from ackwell.broker.stats import SubscriptionStats

THROUGH_THE_RESTART: Final = (
    "avoid a loss in that restart with these commands, each with `--admin URL`: "
    "`ackwell rescue hold {topic} {subscription} --journal hold.journal --yes`, "
    "`ackwell rescue snapshot {topic} {subscription}`, restart, `ackwell rescue plan before.json`, "
    "`ackwell rescue apply plan.json --yes`, `ackwell rescue release --journal hold.journal --yes`"
)

WRITE_FIRST: Final = (
    "save the acknowledgments now, with "
    "`ackwell rescue snapshot {topic} {subscription} --admin URL -o before.json`; then look at the bookies "
    "and at the metadata store. When they accept writes again, the next acknowledgment writes the cursor. "
    "An unload or a restart before that loses these acknowledgments"
)

STATE_THE_SETTINGS: Final = (
    "give the settings of the broker: use a token that may read its configuration, or "
    "`--broker-setting NAME=VALUE`, or `--broker-setting broker.conf`. `--broker-setting defaults` states "
    "that all other settings have their defaults"
)


@dataclass(frozen=True, slots=True)
class Remedy:
    """A suggestion for an operator: an action, or a change of settings. `settings` is empty for an action."""

    text: str
    """The description, in which `{topic}` and `{subscription}` are placeholders for the names."""
    settings: tuple[str, ...] = ()

    def text_for(self, stats: SubscriptionStats) -> str:
        """Return `text` with the names of a subscription, so that the commands in it can be copied."""
        return with_names(self.text, stats.topic, stats.subscription)


def record_remedies(stats: SubscriptionStats, usage: Sequence[LimitUsage]) -> Iterator[Remedy]:
    """Yield the remedies if the record that a close writes is near the limit of the metadata store."""
    if not any(each.setting == NODE_LIMIT and each.is_near for each in usage):
        return
    if stats.cursor_ledger != "open":
        yield Remedy(
            "acknowledge one entry first: that opens a cursor ledger. Since the topic was loaded the cursor "
            "only read its ledger, so a close writes the whole state to the metadata store"
        )
    oldest = oldest_unacked(stats)
    first = "" if oldest is None else f", first of all entry {oldest}"
    yield Remedy(
        "with this setting a close writes the state to the cursor ledger. The restart that applies it still "
        "writes the record and may lose acknowledgments, so apply it before the state is too large, between "
        "`ackwell rescue begin` and `ackwell rescue end`. If it already is, acknowledge "
        f"the oldest unacknowledged entries{first}, or raise jute.maxbuffer of ZooKeeper and of the "
        "brokers. `bin/pulsar` sets 10 MiB: then use --metadata-node-bytes 10485760 (apache/pulsar#24382, "
        "apache/pulsar#23652)",
        ("managedLedgerMaxUnackedRangesToPersistInMetadataStore=1000",),
    )


def list_remedies(settings: BrokerSettings, usage: Sequence[LimitUsage]) -> Iterator[Remedy]:
    """Yield the remedies if the ledger list of the topic is near the limit of the metadata store."""
    if not any(each.setting == LIST_LIMIT and each.is_near for each in usage):
        return
    if settings.ledger_info_compression == "NONE":
        yield Remedy(
            "with this setting the broker compresses the ledger list",
            ("managedLedgerInfoCompressionType=LZ4",),
        )
    yield Remedy(
        "keep fewer ledgers: acknowledge the entries of the oldest ledgers, and shorten the retention of the "
        "namespace. For larger ledgers, raise managedLedgerMaxEntriesPerLedger, "
        "managedLedgerMaxSizePerLedgerMbytes, managedLedgerMinLedgerRolloverTimeMinutes and "
        "managedLedgerMaxLedgerRolloverTimeMinutes. Or raise jute.maxbuffer of ZooKeeper and of the brokers, "
        "and give the new value with --metadata-node-bytes"
    )


def remedies_for(
    stats: SubscriptionStats,
    settings: BrokerSettings,
    losses: Sequence[RestartLoss],
    usage: Sequence[LimitUsage],
) -> Iterator[Remedy]:
    """Yield the remedies for predicted losses, and for limits that are almost reached."""
    codes = {reason.code for loss in losses for reason in loss.reasons}
    near_limits = [each for each in usage if each.is_near and each.setting.startswith("managedLedger")]
    if near_limits and not codes & {"range-limit", "entry-limit", "batch-index-limit"}:
        loses = any(loss.messages_before_flush.at_most != 0 for loss in losses)
        yield Remedy(
            "raise the limit before it is reached. The restart that applies it still saves under the old "
            + ("limit, and may lose acknowledgments" if loses else "limit, and loses nothing now"),
            tuple(f"{each.setting}={_with_headroom(each.used)}" for each in near_limits),
        )
        if loses:
            yield Remedy(THROUGH_THE_RESTART)
    if not codes and not near_limits:
        return
    yield from _settings_that_help(stats, settings, losses, list(_changes(stats, settings, codes)))
    oldest = oldest_unacked(stats)
    if oldest is not None:
        yield Remedy(
            f"acknowledge the oldest unacknowledged entries, first of all entry {oldest}: "
            "ranges that the mark-delete position passes do not count for the limits"
        )
    if codes & {"batch-index-not-read-back", "batch-index-not-written", "batch-index-hidden"}:
        yield Remedy(
            "acknowledge whole batches before a restart, or run a broker with apache/pulsar#26474, "
            "which reads batch indexes back from the metadata store"
        )


def _changes(stats: SubscriptionStats, settings: BrokerSettings, codes: Collection[str]) -> Iterator[str]:
    """Yield settings, as `name=value`, that prevent losses whose reasons have these `codes`."""
    if "range-limit" in codes or "entry-limit" in codes:
        needed = max(
            counted_entries(stats, settings) if settings.long_array else 0,
            len(stats.individually_deleted),
        )
        yield f"{RANGE_LIMIT}={_with_headroom(needed)}"
    if "batch-index-off" in codes:
        yield "acknowledgmentAtBatchIndexLevelEnabled=true"
    if "batch-index-limit" in codes:
        needed = len(stats.batch_deleted or ())
        yield f"{BATCH_LIMIT}={_with_headroom(needed)}"
    if "batch-index-not-read-back" in codes or "batch-index-hidden" in codes:
        yield "managedLedgerMaxUnackedRangesToPersistInMetadataStore=0"
    if "entry-too-large" in codes and settings.long_array:
        yield "managedLedgerPersistIndividualAckAsLongArray=false"


def _settings_that_help(
    stats: SubscriptionStats,
    settings: BrokerSettings,
    losses: Sequence[RestartLoss],
    changes: Sequence[str],
) -> Iterator[Remedy]:
    """Yield changes of settings as a remedy, but only if they reduce the predicted loss."""
    if not changes:
        return
    changed = written_losses(stats, settings.with_values(changes), [loss.restart for loss in losses])
    before, after = (max((loss.messages for loss in some), key=weight) for some in (losses, changed))
    if weight(after) >= weight(before):
        return
    left = (
        "no acknowledgment is lost"
        if after == Bounds(0, 0)
        else f"a restart loses {after} acknowledged messages instead of {before}"
    )
    yield Remedy(
        f"with these settings, {left}. The restart that applies them still saves under the old settings, and "
        "loses the messages that are predicted here",
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
