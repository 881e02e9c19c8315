"""Check the fields of one dump against each other, before a command uses them.

A broker derives many fields of its answers from the same state, so a healthy dump fulfils every entry of
`INVARIANTS`. A damaged paste, a lost ledger or a defect of the broker breaks at least one. For each broken
invariant, there is a `Contradiction`. It names the contradictory fields, and the parts of the dump that are
therefore unknown. Every command reads the unknown parts from `SubscriptionStats.unknown`.

A busy topic changes while its broker answers. Two counters of the same messages may then differ by the
messages of a short time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import pairwise
from math import ceil
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ackwell.cursor.cursor_state import backlog_beyond, existing
from ackwell.integers import INT64_MAX
from ackwell.position import Position

if TYPE_CHECKING:
    from ackwell import Ledgers, PositionRangeSet
    from ackwell.broker.batch_sizes import BatchSizes

ONE_ANSWER_SECONDS: Final = 0.1
"""The time that a broker is assumed to need for one answer."""

TWO_ANSWERS_SECONDS: Final = 10.0
"""The time that is assumed to pass between the answers of `stats-internal` and `stats`."""

STATES: Final = (
    "Uninitialized",
    "NoLedger",
    "Open",
    "SwitchingLedger",
    "Closing",
    "Closed",
    "DeletingLedger",
)
"""The states of a cursor that a healthy broker reports."""

MEAN_SIZES_RATIO_MAX: Final = 5
"""The maximum ratio, in either direction, between the mean sizes of published and of delivered messages. They
differ a little, because consumers may get some messages twice and others never."""

CLOCK_SKEW_MS: Final = 1_000
"""The tolerance for a time in an answer that is later than the time of the answer. A greater difference is a
contradiction."""


class DumpPart(StrEnum):
    """A part of a dump. If two fields contradict each other, the parts that depend on them are unknown."""

    LEDGERS = "ledgers"
    """The ledgers of the topic, and so the existing entries."""
    ACKNOWLEDGMENTS = "acknowledgments"
    """The mark-delete position and the ranges."""
    WRITES = "writes"
    """Whether the broker has persisted the cursor, and in which place: cursor ledger or metadata store."""
    BATCH_SIZES = "batch sizes"
    """The number of messages in an entry."""
    DELIVERY = "delivery"
    """The read position and the counts of the consumers."""


@dataclass(frozen=True, slots=True)
class Contradiction:
    """A broken invariant of a dump: fields whose values cannot all be right."""

    name: str
    """The name of the invariant in `INVARIANTS`."""
    text: str
    unknown: frozenset[DumpPart]
    """The parts of the dump that are unknown; empty if the contradiction affects only a counter."""

    def __str__(self) -> str:
        unknown = f"; unknown because of it: {', '.join(sorted(self.unknown))}" if self.unknown else ""
        return f"contradiction: {self.text}{unknown}"

    def to_json(self) -> dict[str, Any]:
        """Return the contradiction as JSON values."""
        return {"name": self.name, "text": self.text, "unknown": sorted(self.unknown)}


@dataclass(frozen=True, kw_only=True)
class DumpFields:
    """The fields of one subscription in a dump, and the values parsed from them."""

    internal: Mapping[str, Any]
    """The answer of `stats-internal`."""
    cursor: Mapping[str, Any]
    """The subscription's cursor in the answer of `stats-internal`."""
    topic_stats: Mapping[str, Any]
    """The answer of `stats`; empty if the dump does not contain it."""
    stats: Mapping[str, Any]
    """The subscription in the answer of `stats`; empty if the answer does not list it."""
    mark_delete: Position
    read_position: Position | None
    ranges: PositionRangeSet
    split_ranges: int
    """The number of ranges that are added when ranges over several ledgers are split into one per ledger."""
    ledgers: Ledgers
    batch_sizes: BatchSizes
    time_ms: int | None

    def number(self, values: Mapping[str, Any], name: str) -> int | None:
        """Return an integer field of an answer; None if it is missing or not an integer."""
        value = values.get(name)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def changes_within(self, seconds: float) -> int:
        """Return the maximum number of messages that are published, delivered or acknowledged in `seconds`.

        The result is derived from the rates in the dump, which are means over several seconds. A rate that is
        greater than the counter of the same messages is damaged, and is ignored.
        """
        published, delivered = (
            self.number(values, name)
            for values, name in ((self.topic_stats, "msgInCounter"), (self.stats, "msgOutCounter"))
        )
        rates = (
            (self.topic_stats.get("msgRateIn"), published),
            (self.stats.get("msgRateOut"), delivered),
            (self.stats.get("messageAckRate"), delivered),
        )
        rate = sum(
            each
            for each, counted in rates
            if isinstance(each, int | float) and 0 <= each < (INT64_MAX if counted is None else counted + 1)
        )
        return ceil(rate * seconds) + max(self.number(self.internal, "pendingAddEntriesCount") or 0, 0)

    def added_to(self, ledger_id: int) -> int:
        """Return the maximum number of entries that the broker adds to a ledger while it writes one answer.

        The broker adds entries only to the newest ledger. For any other ledger, the result is 0.
        """
        return self.changes_within(ONE_ANSWER_SECONDS) if ledger_id == max(self.sizes, default=None) else 0

    @cached_property
    def sizes(self) -> dict[int, int]:
        """The number of entries of each ledger."""
        return dict(self.ledgers)

    @cached_property
    def entries(self) -> int:
        """The number of entries of all ledgers."""
        return sum(self.sizes.values())

    @property
    def last(self) -> Position | None:
        """The position of the last entry; None if no ledger has an entry."""
        return self.ledgers.last_position

    @cached_property
    def backlog_entries(self) -> int:
        """The number of existing entries after the mark-delete position that are not in a range."""
        return backlog_beyond(self.ledgers, self.mark_delete, self._existing_ranges)

    @cached_property
    def entries_beyond(self) -> int:
        """The number of existing entries after the mark-delete position."""
        return 0 if self.last is None else self.ledgers.entries_between(self.mark_delete, self.last)

    @cached_property
    def _existing_ranges(self) -> PositionRangeSet:
        ranges = self.ranges.copy()
        ranges.remove_up_to(*self.mark_delete)
        return existing(ranges, self.ledgers)

    @cached_property
    def counted_backlog(self) -> int | None:
        """`entriesAddedCounter` minus `messagesConsumedCounter`; None if one of them is unknown."""
        added = self.number(self.internal, "entriesAddedCounter")
        consumed = self.number(self.cursor, "messagesConsumedCounter")
        return None if added is None or consumed is None else added - consumed

    @property
    def has_damaged_counters(self) -> bool:
        """Whether both counters of `counted_backlog` are present, but at least one is not a number."""
        return self.counted_backlog is None and (
            "entriesAddedCounter" in self.internal and "messagesConsumedCounter" in self.cursor
        )

    @property
    def counters_agree(self) -> bool:
        """Whether no counter contradicts the backlog of the cursor."""
        return _counted_backlog(self) is None and _shown_backlog(self) is None

    @property
    def ledgers_are_proven(self) -> bool:
        """Whether `numberOfEntries` is the total of all ledgers, and no counter contradicts the backlog."""
        return self.number(self.internal, "numberOfEntries") == self.entries and self.counters_agree

    @property
    def consumers(self) -> Sequence[Mapping[str, Any]]:
        """The consumers in the answer of `stats`."""
        return [each for each in self.stats.get("consumers") or () if isinstance(each, dict)]


Found: TypeAlias = "tuple[str, tuple[DumpPart, ...]]"
"""The text of a contradiction, and the parts that are unknown because of it."""


def _sum_of_ledgers(fields: DumpFields) -> Found | None:
    counted = fields.number(fields.internal, "numberOfEntries")
    if counted is None or 0 <= fields.entries - counted <= fields.changes_within(ONE_ANSWER_SECONDS):
        return None
    return (
        f"numberOfEntries is {counted:,}, and the ledgers have {fields.entries:,} entries",
        (DumpPart.LEDGERS, DumpPart.BATCH_SIZES),
    )


def _sum_of_sizes(fields: DumpFields) -> Found | None:
    total = fields.number(fields.internal, "totalSize")
    listed = fields.internal["ledgers"]
    sizes = [fields.number(each, "size") or 0 for each in listed]
    if total is None or not listed or fields.changes_within(ONE_ANSWER_SECONDS):
        return None
    summed = sum(sizes) + (0 if sizes[-1] else fields.number(fields.internal, "currentLedgerSize") or 0)
    if total == summed:
        return None
    return f"totalSize is {total:,}, and the ledgers have {summed:,} bytes", (DumpPart.LEDGERS,)


def _order_of_ledgers(fields: DumpFields) -> Found | None:
    listed = [each["ledgerId"] for each in fields.internal["ledgers"]]
    if all(first < second for first, second in pairwise(listed)):
        return None
    return "the ids of the ledgers do not grow", (DumpPart.ACKNOWLEDGMENTS, DumpPart.LEDGERS)


def _last_confirmed_entry(fields: DumpFields) -> Found | None:
    text = fields.internal.get("lastConfirmedEntry")
    if not isinstance(text, str):
        return None
    confirmed = Position.parse(text)
    if confirmed.entry_id < 0 and fields.last is None:
        return None
    first = next(iter(fields.sizes), None)
    trimmed = not fields.entries and first is not None and confirmed.ledger_id < first
    # If the newest ledger is empty, the broker reports its entry -1. The last entry is then in an earlier
    # ledger.
    before = confirmed.entry_id == -1 and fields.last == fields.ledgers.previous_valid(*confirmed)
    if confirmed == fields.last or trimmed or before:
        return None
    where = "no ledger has an entry" if fields.last is None else f"the last entry is {fields.last}"
    return f"lastConfirmedEntry is {confirmed}, and by the ledgers {where}", (DumpPart.LEDGERS,)


def _open_ledger(fields: DumpFields) -> Found | None:
    current = fields.number(fields.internal, "currentLedgerEntries")
    newest = list(fields.sizes.values())[-1] if fields.sizes else 0
    if current is None or 0 <= newest - current <= fields.changes_within(ONE_ANSWER_SECONDS):
        return None
    return (
        f"currentLedgerEntries is {current:,}, and the newest ledger has {newest:,} entries",
        (DumpPart.LEDGERS,),
    )


def _added_entries(fields: DumpFields) -> Found | None:
    added = fields.number(fields.internal, "entriesAddedCounter")
    current = fields.number(fields.internal, "currentLedgerEntries")
    if added is None or current is None or added >= current:
        return None
    return (
        f"entriesAddedCounter is {added:,}, and the open ledger alone has {current:,} entries",
        (DumpPart.BATCH_SIZES,),
    )


def _mark_delete_in_a_ledger(fields: DumpFields) -> Found | None:
    ledger_id, entry_id = fields.mark_delete
    first = next(iter(fields.sizes), None)
    if first is None or ledger_id < first:
        # The ledger of the mark-delete position is before the first listed ledger: the broker deleted it
        # after the mark-delete position had passed its entries.
        return None
    size = fields.sizes.get(ledger_id)
    if size is None:
        is_old = fields.ledgers_are_proven and ledger_id < max(fields.sizes)
        return (
            f"markDeletePosition is {fields.mark_delete}, in a ledger that is not listed",
            () if is_old else (DumpPart.ACKNOWLEDGMENTS, DumpPart.LEDGERS),
        )
    if entry_id < size + fields.added_to(ledger_id):
        return None
    return (
        f"markDeletePosition is {fields.mark_delete}, and ledger {ledger_id} has {size:,} entries",
        (DumpPart.ACKNOWLEDGMENTS, DumpPart.LEDGERS),
    )


def _mark_delete_before_the_ranges(fields: DumpFields) -> Found | None:
    ranges = fields.ranges.copy()
    ranges.remove_up_to(*fields.mark_delete)
    passed = fields.ranges.cardinality - ranges.cardinality
    if not passed:
        return None
    return (
        f"markDeletePosition is {fields.mark_delete}, and {passed:,} entries in ranges are not after it",
        (DumpPart.ACKNOWLEDGMENTS,),
    )


def _first_range_after_a_hole(fields: DumpFields) -> Found | None:
    if not len(fields.ranges) or fields.last is None or fields.mark_delete >= fields.last:
        return None
    following = fields.ledgers.next_valid(*fields.mark_delete)
    if following not in fields.ranges:
        return None
    return (
        f"entry {following} follows the mark-delete position {fields.mark_delete}, and is in a range: "
        "the mark-delete position moves over such an entry",
        (),
    )


def _ranges_in_ledgers(fields: DumpFields) -> Found | None:
    listed = [int(each) for each in fields.ranges.ledger_ids()]
    lost = [each for each in listed if each not in fields.sizes]
    if not lost or not fields.sizes:
        return None
    names = ", ".join(str(each) for each in lost[:3]) + (", …" if len(lost) > 3 else "")
    return (
        f"individuallyDeletedMessages has ranges in ledgers that are not listed: {names}",
        ()
        if fields.ledgers_are_proven
        else (DumpPart.LEDGERS,)
        if fields.counters_agree
        else (DumpPart.ACKNOWLEDGMENTS, DumpPart.LEDGERS),
    )


def _ranges_end_in_their_ledger(fields: DumpFields) -> Found | None:
    ranges = fields.ranges.copy()
    for ledger_id in map(int, ranges.ledger_ids()):
        if ledger_id in fields.sizes:
            last = fields.sizes[ledger_id] - 1 + fields.added_to(ledger_id)
            ranges.remove_range(ledger_id, last, INT64_MAX)
    beyond = fields.ranges.cardinality - ranges.cardinality
    if not beyond:
        return None
    return (
        f"{beyond:,} entries in ranges are after the last entry of their ledger",
        (DumpPart.ACKNOWLEDGMENTS, DumpPart.LEDGERS),
    )


def _number_of_ranges(fields: DumpFields) -> Found | None:
    """Compare the ranges with the counters of ranges in `stats-internal` and `stats`; None if they agree.

    The broker answers `stats` after `stats-internal`. A burst of acknowledgments between the two answers
    changes only the counter in `stats`. The rates do not show the burst, because they are means over a
    minute.
    """
    shown = len(fields.ranges) - fields.split_ranges
    has_ranges = f"individuallyDeletedMessages has {shown:,} ranges"
    counted = fields.number(fields.cursor, "totalNonContiguousDeletedMessagesRange")
    if counted is not None and abs(counted - shown) > fields.changes_within(ONE_ANSWER_SECONDS):
        return (
            f"totalNonContiguousDeletedMessagesRange is {counted:,}, and {has_ranges}",
            (DumpPart.ACKNOWLEDGMENTS,),
        )
    of_stats = fields.number(fields.stats, "nonContiguousDeletedMessagesRanges")
    # An answer of `stats` alone has no ledgers, and its ranges are unknown.
    if not fields.sizes or of_stats is None:
        return None
    if abs(of_stats - shown) > fields.changes_within(TWO_ANSWERS_SECONDS):
        return (
            f"nonContiguousDeletedMessagesRanges is {of_stats:,}, and {has_ranges}: "
            "one of them is wrong, or the topic changed between the two answers",
            (DumpPart.ACKNOWLEDGMENTS,) if counted is None else (),
        )
    return None


def _counted_backlog(fields: DumpFields) -> Found | None:
    """Compare `counted_backlog` with the backlog that the cursor's positions show; None if they agree.

    If they differ, the counters may be wrong, because a broker only adds to them and never recomputes them
    (apache/pulsar#5202). The acknowledgments may be wrong instead, if a cursor with other ranges could have
    the counted backlog. The acknowledgments are not wrong if the cursor has a read position and no ranges.
    The mark-delete position then determines the backlog, and the read position confirms it
    (`_entries_up_to_the_read_position`).
    """
    backlog, counted = fields.backlog_entries, fields.counted_backlog
    slack = fields.changes_within(ONE_ANSWER_SECONDS)
    if counted is None or abs(counted - backlog) <= slack or not fields.sizes:
        return None
    is_confirmed = fields.read_position is not None and not len(fields.ranges)
    is_possible = 0 <= counted <= fields.entries_beyond and not is_confirmed
    return (
        f"entriesAddedCounter - messagesConsumedCounter is {counted:,}, and the cursor has a backlog of "
        f"{backlog:,} entries",
        (DumpPart.ACKNOWLEDGMENTS, DumpPart.BATCH_SIZES) if is_possible else (DumpPart.BATCH_SIZES,),
    )


def _shown_backlog(fields: DumpFields) -> Found | None:
    """Compare `msgBacklog` with the backlog that the cursor's positions show; None if they agree.

    Normally only `msgBacklog` is assumed to be wrong. If the counters of `counted_backlog` are damaged, the
    ranges may be wrong, too. `msgBacklog` is then the only counter that can contradict the ranges.
    """
    backlog, shown = fields.backlog_entries, fields.number(fields.stats, "msgBacklog")
    slack = fields.changes_within(TWO_ANSWERS_SECONDS)
    if shown is None or abs(shown - backlog) <= slack or not fields.sizes:
        return None
    return (
        f"msgBacklog is {shown:,}, and the cursor has a backlog of {backlog:,} entries: "
        "the counter is off, or the topic changed between the two answers",
        (DumpPart.ACKNOWLEDGMENTS,) if fields.has_damaged_counters else (),
    )


def _entries_up_to_the_read_position(fields: DumpFields) -> Found | None:
    counted = fields.number(fields.cursor, "numberOfEntriesSinceFirstNotAckedMessage")
    read, last = fields.read_position, fields.last
    if counted is None or read is None or last is None or not fields.mark_delete < read:
        return None
    if fields.mark_delete > last:
        return None
    # The read position may be after the last entry of a ledger. The broker then counts the read position as
    # an entry.
    after = read > last or read.entry_id >= fields.sizes.get(read.ledger_id, INT64_MAX)
    entries = fields.ledgers.entries_between(fields.mark_delete, min(read, last)) + after
    if abs(counted - entries) <= fields.changes_within(ONE_ANSWER_SECONDS):
        return None
    return (
        f"numberOfEntriesSinceFirstNotAckedMessage is {counted:,}, and {entries:,} entries are between "
        f"markDeletePosition {fields.mark_delete} and readPosition {read}",
        (DumpPart.ACKNOWLEDGMENTS, DumpPart.DELIVERY),
    )


def _read_position(fields: DumpFields) -> Found | None:
    read, last = fields.read_position, fields.last
    if read is None or read.ledger_id < 0 or last is None:
        return None
    if read <= fields.mark_delete:
        return (
            f"readPosition {read} is not after markDeletePosition {fields.mark_delete}",
            (DumpPart.ACKNOWLEDGMENTS, DumpPart.DELIVERY),
        )
    size = fields.sizes.get(read.ledger_id)
    if size is None or read.entry_id <= size + fields.added_to(read.ledger_id):
        return None
    return f"readPosition is {read}, and ledger {read.ledger_id} has {size:,} entries", (DumpPart.DELIVERY,)


def _state_and_cursor_ledger(fields: DumpFields) -> Found | None:
    state = fields.cursor.get("state")
    ledger, last = (fields.number(fields.cursor, each) for each in ("cursorLedger", "cursorLedgerLastEntry"))
    if state is None:
        return None
    if state not in STATES:
        return f"state is {state!r}, which is not a state of a cursor", (DumpPart.WRITES,)
    if state == "Open" and ledger is not None and ledger < 0:
        return f"state is Open, and cursorLedger is {ledger}", (DumpPart.WRITES,)
    if state == "Open" and ledger is not None and last is not None and last < 0:
        return f"state is Open, and cursorLedgerLastEntry is {last}", (DumpPart.WRITES,)
    if ledger is not None and last is not None and ledger < 0 <= last:
        return f"cursorLedger is {ledger}, and cursorLedgerLastEntry is {last}", (DumpPart.WRITES,)
    return None


def _times(fields: DumpFields) -> Found | None:
    names = ("lastAckedTimestamp", "lastConsumedTimestamp", "lastMarkDeleteAdvancedTimestamp")
    for values in (fields.stats, *fields.consumers):
        for name in names:
            time_ms, now_ms = fields.number(values, name), fields.time_ms
            if time_ms is not None and now_ms is not None and time_ms > now_ms + CLOCK_SKEW_MS:
                return f"{name} is {time_ms}, after the time of the answer, {now_ms}", (DumpPart.WRITES,)
    return None


def _last_acknowledgment(fields: DumpFields) -> Found | None:
    shown = fields.number(fields.stats, "lastAckedTimestamp")
    acked = [fields.number(each, "lastAckedTimestamp") or 0 for each in fields.consumers]
    if not shown or not acked or shown == max(acked):
        return None
    return (
        f"lastAckedTimestamp is {shown}, and the latest of the consumers is {max(acked)}",
        (DumpPart.WRITES,),
    )


def _counted_messages(fields: DumpFields) -> Found | None:
    counted, entries = fields.batch_sizes.backlog_messages, fields.batch_sizes.backlog_entries
    if counted is None or entries is None:
        return None
    if counted < entries:
        return f"the counted backlog has {counted:,} messages in {entries:,} entries", (DumpPart.BATCH_SIZES,)
    unacked = sum(fields.number(each, "unackedMessages") or 0 for each in fields.consumers)
    if unacked <= counted + fields.changes_within(TWO_ANSWERS_SECONDS):
        return None
    return (
        f"the counted backlog has {counted:,} messages, and the consumers have {unacked:,} of them",
        (DumpPart.BATCH_SIZES,),
    )


def _one_message_per_entry(fields: DumpFields) -> Found | None:
    if fields.batch_sizes.each != 1:
        return None
    means = [fields.number(each, "avgMessagesPerEntry") or 0 for each in fields.consumers]
    counts = "msgInCounter and entriesAddedCounter are equal: one message per entry"
    if max(means, default=0) > 1:
        return f"{counts}, and avgMessagesPerEntry of a consumer is {max(means)}", (DumpPart.BATCH_SIZES,)
    unacked = fields.number(fields.stats, "unackedMessages") or 0
    slack = fields.changes_within(TWO_ANSWERS_SECONDS)
    if fields.sizes and unacked > fields.backlog_entries + slack:
        return (
            f"{counts}, and the consumers have {unacked:,} unacknowledged messages in a backlog of "
            f"{fields.backlog_entries:,} entries",
            (DumpPart.BATCH_SIZES, DumpPart.DELIVERY),
        )
    return None


def _bytes_per_message(fields: DumpFields) -> Found | None:
    """Compare the mean sizes of published and of delivered messages; None if they agree."""
    names = ("bytesInCounter", "msgInCounter"), ("bytesOutCounter", "msgOutCounter")
    means = []
    for values, (size, messages) in zip((fields.topic_stats, fields.stats), names, strict=True):
        total_bytes, count = fields.number(values, size), fields.number(values, messages)
        if total_bytes is None or count is None or total_bytes < 0 or count <= 0:
            return None
        means.append(total_bytes / count)
    if max(means) <= MEAN_SIZES_RATIO_MAX * min(means):
        return None
    return (
        f"a published message has {means[0]:,.0f} bytes on average, and a delivered one {means[1]:,.0f}",
        (DumpPart.BATCH_SIZES, DumpPart.WRITES),
    )


def _sums_of_consumers(fields: DumpFields) -> Found | None:
    if not fields.consumers:
        return None
    unacked = fields.number(fields.stats, "unackedMessages")
    slack = fields.changes_within(ONE_ANSWER_SECONDS)
    of_each = [fields.number(each, "unackedMessages") for each in fields.consumers]
    total = sum(each or 0 for each in of_each)
    if unacked is not None and None not in of_each and abs(unacked - total) > slack:
        return (
            f"unackedMessages is {unacked:,}, and its consumers have {total:,}",
            () if min(unacked, total) < 0 else (DumpPart.WRITES,),
        )
    delivered = fields.number(fields.stats, "msgOutCounter")
    received = sum(fields.number(each, "msgOutCounter") or 0 for each in fields.consumers)
    if delivered is not None and received > delivered + slack:
        return f"msgOutCounter is {delivered:,}, and its consumers received {received:,}", (DumpPart.WRITES,)
    return None


INVARIANTS: Final[Mapping[str, Callable[[DumpFields], Found | None]]] = {
    "sum of ledgers": _sum_of_ledgers,
    "sum of sizes": _sum_of_sizes,
    "order of ledgers": _order_of_ledgers,
    "last confirmed entry": _last_confirmed_entry,
    "open ledger": _open_ledger,
    "added entries": _added_entries,
    "mark-delete position in a ledger": _mark_delete_in_a_ledger,
    "ranges after the mark-delete position": _mark_delete_before_the_ranges,
    "first range after a hole": _first_range_after_a_hole,
    "ranges in ledgers": _ranges_in_ledgers,
    "ranges end in their ledger": _ranges_end_in_their_ledger,
    "number of ranges": _number_of_ranges,
    "counted backlog": _counted_backlog,
    "shown backlog": _shown_backlog,
    "entries up to the read position": _entries_up_to_the_read_position,
    "read position": _read_position,
    "state and cursor ledger": _state_and_cursor_ledger,
    "times": _times,
    "last acknowledgment": _last_acknowledgment,
    "counted messages": _counted_messages,
    "one message per entry": _one_message_per_entry,
    "bytes per message": _bytes_per_message,
    "sums of consumers": _sums_of_consumers,
}
"""The invariants that the fields of a healthy dump fulfil, by name. Each check takes O(ranges) or less."""


def contradictions_of(fields: DumpFields) -> Iterator[Contradiction]:
    """Yield the invariants that a dump breaks, in the order of `INVARIANTS`."""
    for name, check in INVARIANTS.items():
        found = check(fields)
        if found is not None:
            text, unknown = found
            yield Contradiction(name, text, frozenset(unknown))
