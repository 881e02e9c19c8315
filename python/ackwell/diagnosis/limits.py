"""The limits of a broker that a cursor's state may exceed, and how much of each limit the state uses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Final

from ackwell.broker.metadata_node import closing_request_bytes, ledger_list_bytes, most_record_bytes
from ackwell.broker.writes import closes_to_ledger
from ackwell.cursor.cursor_state import size_in
from ackwell.diagnosis.hidden import hidden_parts

if TYPE_CHECKING:
    from ackwell.broker.broker_settings import BrokerSettings
    from ackwell.broker.stats import SubscriptionStats

NEAR_A_LIMIT: Final = 0.8
"""A subscription is at risk if it uses at least this share of a limit, because a busy subscription may use
the rest within minutes."""

RANGE_LIMIT: Final = "managedLedgerMaxUnackedRangesToPersist"
BATCH_LIMIT: Final = "managedLedgerMaxBatchDeletedIndexToPersist"
NODE_LIMIT: Final = "metadata-node-bytes"
"""The name of the metadata store's limit for the size of a record, which is not a setting of the broker."""
LIST_LIMIT: Final = "metadata-node-bytes of the ledger list"
"""The name of the same limit for another record: the list of a topic's ledgers."""

IN_RANGES: Final = "ranges"
"""The unit (`LimitUsage.what`) of the limit of ranges, if the state is written in the ranges form."""


@dataclass(frozen=True, slots=True)
class LimitUsage:
    """How much of a limit a state uses. If the state exceeds the limit, acknowledgments are lost."""

    setting: str
    """The broker's name of the setting that contains the limit; otherwise `NODE_LIMIT` or `LIST_LIMIT`."""
    what: str
    used: int
    limit: int
    is_upper_bound: bool = False
    """Whether `used` is only an upper bound. The real value is then unknown."""

    @property
    def is_exceeded(self) -> bool:
        """Whether the state certainly exceeds the limit: False if `used` is only an upper bound."""
        return self.share > 1 and not self.is_upper_bound

    @property
    def share(self) -> float:
        """`used` divided by `limit`. Infinite if `limit` is at most 0 and `used` is greater than 0."""
        if self.limit <= 0:
            return inf if self.used > 0 else 0.0
        return self.used / self.limit

    @property
    def is_near(self) -> bool:
        """Whether a busy subscription may exceed the limit within minutes."""
        return self.share >= NEAR_A_LIMIT

    @property
    def text(self) -> str:
        """The usage in words."""
        return f"{self.setting}: {self.used:,} of {self.limit:,} {self.what}"

    def to_json(self) -> dict[str, str | int | bool]:
        """Return the usage as JSON values."""
        return {
            "setting": self.setting,
            "what": self.what,
            "used": self.used,
            "limit": self.limit,
            "isUpperBound": self.is_upper_bound,
        }


def limit_usage(
    stats: SubscriptionStats, settings: BrokerSettings, later: Sequence[BrokerSettings] = ()
) -> Iterator[LimitUsage]:
    """Yield how much of each limit the state of the subscription uses.

    After the restart, other brokers may load the topic and close it gracefully again. `later` contains the
    settings of these brokers.
    """
    yield max(_range_usages(stats, settings, later), key=lambda each: each.share)
    form = "pulsar-long-array" if settings.long_array else "pulsar-ranges"
    size = size_in(stats.to_position_info(), form)
    if size is not None:
        yield LimitUsage("maxMessageSize", "bytes in one entry", size, settings.max_entry_bytes)
    # A close does not write to a cursor ledger that was only read since the topic was loaded.
    record = closing_request_bytes(stats, settings, stats.cursor_ledger)
    for each in later:
        record = max(record or 0, closing_request_bytes(stats, each, "read-only") or 0) or None
    if record is not None:
        what = "bytes that a close writes to the metadata store"
        yield LimitUsage(NODE_LIMIT, what, record, settings.metadata_node_bytes)
    if stats.batch_deleted:
        yield LimitUsage(
            BATCH_LIMIT,
            "partly acknowledged entries",
            len(stats.batch_deleted),
            settings.max_batch_deleted_index_to_persist,
        )


def _range_usages(
    stats: SubscriptionStats, settings: BrokerSettings, later: Sequence[BrokerSettings]
) -> Iterator[LimitUsage]:
    """Yield the usage of the maximum number of ranges in each form in which acknowledgments may be lost.

    In the long-array form, this limit is compared with a number of entries. A close that writes to the
    metadata store uses the ranges form. If the cursor ledger is open, a close writes to the metadata store
    only if there are at most `metadata_store_ranges` ranges. The close then loses ranges only if
    `metadata_store_ranges` exceeds the limit.
    """
    if settings.long_array:
        counted = (
            "acknowledged entries"
            if settings.counts_the_ledger_itself
            else "acknowledged entries before the last ledger"
        )
        limit = settings.max_unacked_ranges_to_persist
        yield LimitUsage(RANGE_LIMIT, counted, counted_entries(stats, settings), limit)
    in_ranges = list(later)
    may_lose = stats.cursor_ledger != "open" or settings.metadata_store_ranges > settings.ranges_written
    to_metadata_store = not closes_to_ledger(stats, settings, stats.cursor_ledger)
    if not settings.long_array or (to_metadata_store and may_lose):
        in_ranges.append(settings)
    for each in in_ranges:
        yield LimitUsage(RANGE_LIMIT, IN_RANGES, len(stats.individually_deleted), each.ranges_written)


def ledger_list_usage(
    stats: SubscriptionStats, settings: BrokerSettings, later: Sequence[BrokerSettings] = ()
) -> Iterator[LimitUsage]:
    """Yield how much of `LIST_LIMIT` the topic's ledger list uses when a broker loads the topic.

    Yield nothing if the list is small, or if neither an upper nor a lower bound of its size is known.
    """
    loads = (each.reader or each for each in (settings, *later))
    sizes = [size for each in loads if (size := ledger_list_bytes(stats, each)) is not None]
    what = "bytes of the topic's ledger list that a load writes to the metadata store"
    limit = settings.metadata_node_bytes
    least = max((size.at_least for size in sizes), default=0)
    if sizes and None not in (most := {size.at_most for size in sizes}):
        used = max(each for each in most if each is not None)
        is_bound = used > least
        yield LimitUsage(LIST_LIMIT, what + ", at most" * is_bound, used, limit, is_upper_bound=is_bound)
    elif least:
        yield LimitUsage(LIST_LIMIT, f"{what}, at least", least, limit)


def unknown_list(stats: SubscriptionStats, settings: BrokerSettings) -> Iterator[str]:
    """Yield a note if the topic's ledger list may be large, but its size is unknown."""
    size = ledger_list_bytes(stats, settings.reader or settings)
    if size is not None and size.at_most is None:
        count = sum(each.is_offloaded for each in stats.ledger_sizes)
        yield (
            f"the size of the topic's ledger list in the metadata store is unknown: {count:,} of "
            f"{len(stats.ledger_sizes):,} ledgers are offloaded, and no answer shows the size of their "
            "offload contexts"
        )


def unknown_record(stats: SubscriptionStats, settings: BrokerSettings) -> Iterator[str]:
    """Yield a note if a close may write a record that is too large because of unknown ack sets."""
    if stats.batch_deleted is not None or closes_to_ledger(stats, settings, stats.cursor_ledger):
        return
    hidden = hidden_parts(stats, settings).at_most
    counts = (settings.max_batch_deleted_index_to_persist, hidden, stats.backlog_entries)
    sets = min(each for each in counts if each is not None)
    words = stats.batch_sizes.most_words(sets, stats.backlog_entries)
    if sets <= 0 or words is None:
        return
    most = most_record_bytes(len(stats.individually_deleted), sets, words)
    if most > settings.metadata_node_bytes:
        yield (
            "the admin API does not show acknowledgments inside batches. With them, the record that a close "
            f"writes to the metadata store has at most {most:,} bytes before its compression, and the limit "
            f"({NODE_LIMIT}) is {settings.metadata_node_bytes:,}"
        )


def counted_entries(stats: SubscriptionStats, settings: BrokerSettings) -> int:
    """Return the number of entries that the broker compares with the limit before it writes the last ledger.

    This number is for the long-array form. See `BrokerSettings.entries_counted`.
    """
    ranges = stats.individually_deleted
    ledger_ids = ranges.ledger_ids()
    last = ranges.cardinality_of(int(ledger_ids[-1])) if len(ledger_ids) else 0
    return settings.entries_counted(ranges.cardinality - last, last)


def loss_beyond(stats: SubscriptionStats, settings: BrokerSettings, usage: LimitUsage) -> str:
    """Return a sentence about the effect of a state that exceeds a limit."""
    at_most = "at most " if usage.is_upper_bound else ""
    share = f"{usage.setting} is used to {at_most}{usage.share:.0%}"
    if usage.setting == NODE_LIMIT:
        return (
            f"{share}: if the metadata store refuses the record, the broker repeats the write without end, "
            "the topic does not close, and other topics of the broker fail"
        )
    if usage.setting == LIST_LIMIT:
        return (
            f"{share}: if the metadata store refuses the list, the broker repeats the write without end, the "
            "topic does not load, and other topics of the broker fail"
        )
    ranges = stats.individually_deleted
    if usage.setting != RANGE_LIMIT or usage.what == IN_RANGES:
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
