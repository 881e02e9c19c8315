"""The rules by which a broker persists a cursor and reads it back, one function per rule.

`MemoryState` is the state in the broker's memory. `read_back` returns the ranges and ack sets that survive a
restart, with a reason for each loss. The module does not use NumPy, because its import would take longer than
a prediction.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import accumulate, islice
from typing import TYPE_CHECKING, Final, Literal, Self

from ackwell.broker.batch_sizes import Bounds, CountedAckSets
from ackwell.broker.codes import codes
from ackwell.cursor.cursor_state import CursorState, backlog_beyond, existing, size_in
from ackwell.integers import INT64_MAX
from ackwell.position import Position

if TYPE_CHECKING:
    from ackwell import Ledgers, PositionRangeSet
    from ackwell.broker.batch_sizes import BatchSizes
    from ackwell.broker.broker_settings import BrokerSettings
    from ackwell.cursor.cursor_state import AckSetMapping

Restart = Literal["graceful", "crash"]
"""A graceful restart, or a topic unload, closes the cursor; a crash leaves the last written state."""

RESTARTS: Final[tuple[Restart, ...]] = ("graceful", "crash")

RESTART_NAMES: Final[dict[Restart, str]] = {
    "graceful": "graceful restart, unload or move",
    "crash": "crash",
}
"""The names of the restarts in texts for operators."""

CursorLedger = Literal["open", "read-only", "none"]
"""The state of the ledger to which the cursor is written. *none*: no entry was wholly acknowledged yet.
*read-only*: the cursor was recovered from the ledger, and no entry was wholly acknowledged since the
recovery. *open*: an entry was wholly acknowledged since the broker loaded the cursor."""

ReasonCode = Literal[
    "range-limit",
    "entry-limit",
    "entry-too-large",
    "batch-index-limit",
    "batch-index-hidden",
    "batch-index-off",
    "batch-index-not-read-back",
    "batch-index-not-written",
    "cursor-not-written",
    "write-not-confirmed",
    "settings-assumed",
    "properties-discarded",
]


@dataclass(frozen=True, slots=True)
class Reason:
    """One cause of a loss: a stable `code`, which `codes.toml` explains, and a sentence."""

    code: ReasonCode
    text: str

    @property
    def issues(self) -> tuple[str, ...]:
        """The upstream issues that describe the cause."""
        return codes()[self.code].issues

    def __str__(self) -> str:
        return f"{self.text} ({', '.join(self.issues)})" if self.issues else self.text


@dataclass(frozen=True, slots=True)
class MemoryState(CursorState):
    """The state in the broker's memory; its ack sets are sorted, and none of them is obsolete."""

    batch_deleted: AckSetMapping
    existing: PositionRangeSet = field(kw_only=True)
    """The ranges of existing entries after the mark-delete position. The broker's limits count the ranges of
    `individually_deleted` instead of these ranges."""
    covered: tuple[Position, ...] = field(default=(), kw_only=True)
    """Positions up to the mark-delete position that still have an ack set. The broker drops these ack sets
    after the next write of the mark-delete position. That write still counts them for the limit.
    """

    @property
    def passed(self) -> int:
        """The maximum number of obsolete ack sets that the last write counted.

        An ack set of an entry up to the mark-delete position is obsolete.
        """
        if self.ledgers is None:
            return 0
        return entries_up_to(self.ledgers, self.mark_delete_position)

    @classmethod
    def from_state(cls, state: CursorState) -> Self:
        """Return a state as a broker holds it in memory. O(ranges · log(ledgers)).

        The broker drops the ack set of an entry when the whole entry is acknowledged individually. If the
        mark-delete position moves past an ack set, the ack set stays in memory until the next write.
        """
        mark_delete, ranges, ledgers = state.mark_delete_position, state.individually_deleted, state.ledgers
        beyond = ranges.copy() if ledgers is None else existing(ranges, ledgers)
        beyond.remove_up_to(*mark_delete)
        ack_sets = state.batch_deleted or {}
        if isinstance(ack_sets, CountedAckSets):
            # `CountedAckSets` contain no ack set of a wholly acknowledged entry, so there are no obsolete
            # ones.
            return cls(mark_delete, ranges, ack_sets, ledgers, existing=beyond)
        partial = {
            Position(*p): tuple(ack_sets[p])
            for p in sorted(ack_sets)
            if Position(*p) > mark_delete and p not in ranges
        }
        covered = tuple(sorted(Position(*p) for p in ack_sets if Position(*p) <= mark_delete))
        return cls(mark_delete, ranges, partial, ledgers, existing=beyond, covered=covered)

    def presumed_ledger(self) -> CursorLedger:
        """Return `open` if any entry is wholly acknowledged, else `none`.

        A broker opens the cursor ledger with the first acknowledgment of a whole entry.
        """
        if len(self.individually_deleted):
            return "open"
        if self.ledgers is None:
            return "open" if self.mark_delete_position.entry_id >= 0 else "none"
        return "open" if entries_up_to(self.ledgers, self.mark_delete_position) else "none"


@dataclass(slots=True)
class Persisted:
    """The part of a state that a restart reads back: some of the ranges, and the first ack sets."""

    place: Literal["cursor ledger", "metadata store"]
    form: Literal["pulsar-ranges", "pulsar-long-array"]
    ranges: PositionRangeSet
    ack_sets: AckSetMapping = field(default_factory=dict)
    uncertain_ack_sets: AckSetMapping = field(default_factory=dict)
    """Ack sets that are possibly written. The state in memory does not show whether they are."""
    may_be_empty: bool = False
    """Whether a restart may read back an empty state, because the broker is repeating a refused write."""
    reasons: list[Reason] = field(default_factory=list)


def read_back(
    state: MemoryState, settings: BrokerSettings, restart: Restart, ledger: CursorLedger
) -> Persisted:
    """Return the part of a state that survives a restart, and the place from which it is read."""
    if restart == "crash":
        return _after_crash(state, settings, ledger)
    to_ledger = closes_to_ledger(state, settings, ledger)
    return _in_ledger(state, settings) if to_ledger else _in_metadata_store(state, settings)


def closes_to_ledger(state: CursorState, settings: BrokerSettings, ledger: CursorLedger) -> bool:
    """Return whether a close writes the state to the cursor ledger, and not to the metadata store."""
    return ledger == "open" and settings.needs_ledger(len(state.individually_deleted))


def _after_crash(state: MemoryState, settings: BrokerSettings, ledger: CursorLedger) -> Persisted:
    if ledger != "open" and settings.writes_batch_indexes_alone and state.batch_deleted:
        # The next flush opens a cursor ledger and writes the whole state to it.
        persisted = _in_ledger(state, settings)
        _mark_uncertain(persisted, state, settings)
        return persisted
    if ledger == "none":
        # The broker wrote nothing since it loaded the cursor, so the ranges in memory are those on disk. All
        # ack sets in memory are newer, unless the broker reads ack sets back from the metadata store.
        persisted = Persisted("metadata store", "pulsar-ranges", state.individually_deleted)
        if settings.reads_batch_indexes_back:
            persisted.uncertain_ack_sets = state.batch_deleted
        persisted.reasons.append(_not_written_reason(len(state.batch_deleted)))
        return persisted
    if ledger == "read-only":
        form = _form(settings)
        persisted = Persisted(
            "cursor ledger", form, state.individually_deleted, uncertain_ack_sets=state.batch_deleted
        )
        persisted.reasons.append(_not_written_reason(len(state.batch_deleted)))
        return persisted
    persisted = _in_ledger(state, settings)
    _mark_uncertain(persisted, state, settings)
    alone = not len(state.individually_deleted)
    if alone and persisted.ack_sets and not settings.writes_batch_indexes_alone:
        # An acknowledgment of part of a batch is written only if a range exists after the mark-delete
        # position. The state does not show whether the ack sets existed when that position last moved.
        persisted.uncertain_ack_sets, persisted.ack_sets = (
            {**persisted.ack_sets, **persisted.uncertain_ack_sets},
            {},
        )
        persisted.reasons.append(_not_written_reason(len(persisted.uncertain_ack_sets)))
    return persisted


def _in_ledger(state: MemoryState, settings: BrokerSettings) -> Persisted:
    """Return the part of a state that is written to the cursor ledger, as one entry.

    The settings select the form of the entry. An entry that is too large goes to the metadata store.
    """
    limit = settings.max_unacked_ranges_to_persist
    ranges = _first_ledgers(state, settings) if settings.long_array else None
    if ranges is not None and (len(ranges) or not len(state.individually_deleted)):
        persisted = Persisted("cursor ledger", "pulsar-long-array", ranges)
        reason = _entry_limit(state, ranges, limit)
    else:
        # If no ledger fits the limit, the broker falls back to the ranges form.
        persisted = Persisted("cursor ledger", "pulsar-ranges", _first_ranges(state, settings))
        reason = _range_limit(state, persisted.ranges, limit)
    persisted.reasons += reason
    _persist_ack_sets(persisted, state, settings)
    size = _entry_bytes(state, persisted, settings.max_entry_bytes)
    if size is None:
        return persisted
    # The broker then writes to the metadata store, which may refuse the size, too (ZooKeeper accepts 1 MB).
    # Between two attempts, the record in the metadata store points at an empty cursor ledger. A crash then
    # loses all acknowledgments.
    fallback = _in_metadata_store(state, settings)
    fallback.may_be_empty = True
    fallback.reasons.insert(0, _too_large(size, settings.max_entry_bytes))
    return fallback


def _in_metadata_store(state: MemoryState, settings: BrokerSettings) -> Persisted:
    """Return the part of a state that survives in the metadata store, in the ranges form.

    Most versions do not read ack sets back from there.
    """
    limit = settings.max_unacked_ranges_to_persist
    persisted = Persisted("metadata store", "pulsar-ranges", _first_ranges(state, settings))
    persisted.reasons += _range_limit(state, persisted.ranges, limit)
    if settings.batch_indexes_return:
        _persist_ack_sets(persisted, state, settings)
    elif state.batch_deleted:
        persisted.reasons.append(not_read_back(len(state.batch_deleted)))
    return persisted


def read_back_again(persisted: Persisted, state: MemoryState, settings: BrokerSettings) -> Persisted:
    """Return the part that survives when a broker loads `persisted` and then closes the topic.

    No message is acknowledged between the load and the close. The broker has therefore not opened a new
    cursor ledger, so the close writes to the metadata store.
    """
    parts = persisted.ack_sets
    if persisted.uncertain_ack_sets:
        parts = dict(sorted({**persisted.ack_sets, **persisted.uncertain_ack_sets}.items()))
    existing = state.existing - (state.individually_deleted - persisted.ranges)
    loaded = MemoryState(
        state.mark_delete_position, persisted.ranges, parts, state.ledgers, existing=existing
    )
    again = _in_metadata_store(loaded, settings)
    if persisted.uncertain_ack_sets:
        # The broker may have loaded only a part of the ack sets, so each of them is uncertain.
        again.uncertain_ack_sets = {**again.ack_sets, **again.uncertain_ack_sets}
        again.ack_sets = {}
    again.may_be_empty = persisted.may_be_empty
    codes_before = {reason.code for reason in persisted.reasons}
    again.reasons = [
        *persisted.reasons,
        *(reason for reason in again.reasons if reason.code not in codes_before),
    ]
    return again


def not_read_back(ack_sets: int) -> Reason:
    """Return the reason for the loss of ack sets that a close wrote to the metadata store."""
    return Reason(
        "batch-index-not-read-back",
        f"the batch indexes of {_entries(ack_sets)} go to the metadata store on "
        "close, from where the broker does not read them back",
    )


def _first_ranges(state: MemoryState, settings: BrokerSettings) -> PositionRangeSet:
    """Return the ranges that the ranges form contains: the first ones, up to the limit."""
    written = settings.ranges_written
    if len(state.individually_deleted) <= written:
        return state.individually_deleted
    return type(state.individually_deleted)(islice(state.individually_deleted, written))


def _first_ledgers(state: MemoryState, settings: BrokerSettings) -> PositionRangeSet:
    """Return the ranges of the ledgers that the long-array form writes: the first ones, up to the limit."""
    limit = settings.max_unacked_ranges_to_persist
    if state.individually_deleted.cardinality <= limit:
        return state.individually_deleted
    ledger_ids = state.individually_deleted.ledger_ids()
    acked = [*map(state.individually_deleted.cardinality_of, ledger_ids)]
    counted = map(settings.entries_counted, accumulate(acked, initial=0), acked)
    kept = state.individually_deleted.copy()
    for ledger_id, total in zip(ledger_ids, counted, strict=True):
        if total > limit:
            kept.remove_range(ledger_id, -1, INT64_MAX)
    return kept


def _persist_ack_sets(persisted: Persisted, state: MemoryState, settings: BrokerSettings) -> None:
    if not state.batch_deleted:
        return
    if not (settings.acknowledgment_at_batch_index_level_enabled and settings.batch_indexes_are_read):
        persisted.reasons.append(
            Reason(
                "batch-index-off",
                f"acknowledgmentAtBatchIndexLevelEnabled is off: the batch indexes of "
                f"{_entries(len(state.batch_deleted))} are not read back",
            )
        )
        return
    limit = max(settings.max_batch_deleted_index_to_persist, 0)
    if isinstance(state.batch_deleted, CountedAckSets):
        persisted.ack_sets = state.batch_deleted.first(limit)
    else:
        first = dict(islice(state.batch_deleted.items(), limit))
        written = set(sorted((*state.covered, *first))[:limit])
        persisted.ack_sets = {p: words for p, words in first.items() if p in written}
        persisted.uncertain_ack_sets = {p: words for p, words in first.items() if p not in written}
    if len(state.batch_deleted) > limit or persisted.uncertain_ack_sets:
        persisted.reasons.append(_batch_index_limit(state, limit))


def _mark_uncertain(persisted: Persisted, state: MemoryState, settings: BrokerSettings) -> None:
    """Mark ack sets as uncertain if the limit may have excluded them from the last write.

    The limit also counts ack sets at or before the mark-delete position. If the last write contained such ack
    sets, it may have excluded the last ack sets of `persisted`.
    """
    limit = settings.max_batch_deleted_index_to_persist
    sure = max(limit - state.passed, 0)
    if len(persisted.ack_sets) <= sure or isinstance(persisted.ack_sets, CountedAckSets):
        return
    if not persisted.uncertain_ack_sets and len(state.batch_deleted) <= limit:
        persisted.reasons.append(_batch_index_limit(state, limit))
    first = list(persisted.ack_sets.items())
    persisted.ack_sets, persisted.uncertain_ack_sets = (
        dict(first[:sure]),
        {**dict(first[sure:]), **persisted.uncertain_ack_sets},
    )


def _batch_index_limit(state: MemoryState, limit: int) -> Reason:
    return Reason(
        "batch-index-limit",
        f"the batch indexes of {_entries(len(state.batch_deleted))}, of which "
        f"managedLedgerMaxBatchDeletedIndexToPersist={limit} keeps the first {limit:,}; those of entries "
        "that a cumulative acknowledgment covered since the write before count, too",
    )


def _entry_bytes(state: MemoryState, persisted: Persisted, limit: int) -> int | None:
    """Return the size in bytes of the state's entry; None if the size is at most `limit`.

    The entry is encoded only if an estimate shows that it may exceed the limit.
    """
    at_most = 64 * len(persisted.ranges) + sum(48 + 11 * len(words) for words in persisted.ack_sets.values())
    if persisted.form == "pulsar-ranges" and at_most <= limit:
        return None
    written = CursorState(state.mark_delete_position, persisted.ranges, persisted.ack_sets)
    size = size_in(written.to_position_info(), persisted.form)
    # The size is None if a ledger has more than 2^31 entries, which a Java bit set cannot hold. Such a ledger
    # exceeds the limit in any case.
    size = limit + 1 if size is None else size
    return size if size > limit else None


def hidden_acks(state: MemoryState, settings: BrokerSettings, sizes: BatchSizes) -> Bounds:
    """Return bounds of the number of acknowledged messages in partly acknowledged batches.

    Use these bounds if the source does not show the ack sets. Both bounds are 0 if the broker does not
    acknowledge parts of batches.
    """
    if not settings.acknowledgment_at_batch_index_level_enabled:
        return Bounds(0, 0)
    return Bounds(0, sizes.most_hidden(unacked_entries(state)))


def keeps_hidden_ack_sets(
    state: MemoryState,
    settings: BrokerSettings,
    persisted: Persisted,
    hidden: Bounds,
    *,
    closes: bool,
    written: bool,
) -> bool:
    """Return whether a restart keeps every ack set that the source does not show.

    `hidden` bounds the number of acknowledged messages in these ack sets. Each ack set has at least one such
    message.

    If `closes` is true, the broker closes the cursor, and so writes the ack sets. Otherwise, the broker
    crashes. Before a crash, the broker has certainly written the ack sets only if the cursor has a range.

    If `written` is true, every acknowledgment is already written. Otherwise, the limit may also count ack
    sets at or before the mark-delete position.
    """
    entries = unacked_entries(state)
    if entries is None or state.ledgers is None:
        return False
    sets = entries if hidden.at_most is None else min(entries, hidden.at_most)
    covered = 0 if written else state.passed
    return (
        settings.batch_indexes_are_read
        and (persisted.place == "cursor ledger" or settings.batch_indexes_return)
        and (closes or len(state.individually_deleted) > 0)
        and sets + covered <= settings.max_batch_deleted_index_to_persist
    )


def loses_hidden_ack_sets(
    settings: BrokerSettings, restart: Restart, ledger: CursorLedger, persisted: Persisted
) -> bool:
    """Return whether a restart loses every ack set that the source does not show."""
    if not settings.batch_indexes_are_read:
        return True
    if restart == "crash":
        # A cursor ledger may contain ack sets, even if the broker has only read it.
        return ledger == "none"
    return (
        persisted.place == "metadata store"
        and not settings.batch_indexes_return
        and not persisted.may_be_empty
    )


def unacked_entries(state: MemoryState) -> int | None:
    """Count the entries that are not wholly acknowledged; None if the ledgers are not known."""
    if state.ledgers is None:
        return None
    return backlog_beyond(state.ledgers, state.mark_delete_position, state.existing)


def entries_up_to(ledgers: Ledgers, position: Position, after: tuple[int, int] | None = None) -> int:
    """Count the existing entries after `after`, up to and including `position`.

    By default, count from the first entry.
    """
    first = ledgers.first_position
    if first is None:
        return 0
    # If the position was never written, `after` is -1:-1, which is before the first entry.
    start = first if after is None else max(first, after)
    return ledgers.entries_between(start, position) if start < position else 0


def _form(settings: BrokerSettings) -> Literal["pulsar-ranges", "pulsar-long-array"]:
    return "pulsar-long-array" if settings.long_array else "pulsar-ranges"


def _range_limit(state: MemoryState, kept: PositionRangeSet, limit: int) -> Iterable[Reason]:
    if len(kept) == len(state.individually_deleted):
        return
    yield Reason(
        "range-limit",
        f"{len(state.individually_deleted):,} ranges, of which "
        f"managedLedgerMaxUnackedRangesToPersist={limit} keeps the first {len(kept):,}",
    )


def _entry_limit(state: MemoryState, kept: PositionRangeSet, limit: int) -> Iterable[Reason]:
    if len(kept) == len(state.individually_deleted):
        return
    yield Reason(
        "entry-limit",
        f"{state.individually_deleted.cardinality:,} acknowledged entries; in the long-array form "
        f"managedLedgerMaxUnackedRangesToPersist={limit} counts entries, ledger by ledger, and keeps "
        f"the first {kept.cardinality:,}, up to ledger {kept.ledger_ids()[-1]}",
    )


def hidden_reason(hidden: Bounds) -> Reason:
    """Return the reason for a possible loss of acknowledgments inside batches.

    The admin API does not show these acknowledgments.
    """
    up_to = "an unknown number of" if hidden.at_most is None else f"up to {hidden.at_most:,}"
    some = "; the counters of the consumers prove that some exist" if hidden.at_least else ""
    return Reason(
        "batch-index-hidden",
        f"the admin API does not show the acknowledged messages inside batches: {up_to} "
        f"acknowledged messages may be lost{some}",
    )


def not_written_reason(messages: Bounds, sign: str) -> Reason:
    """Return the reason for a loss of acknowledgments that are in memory only."""
    up_to = "an unknown number of" if messages.at_most is None else f"up to {messages.at_most:,}"
    return Reason(
        "cursor-not-written",
        f"the broker could not write the cursor, or waits for the write: {sign}. {up_to.capitalize()} "
        "acknowledged messages may be in memory only",
    )


def not_confirmed_reason(age_ms: int | None, proven_ms: int | None, state: str | None) -> Reason:
    """Return the reason for a possible loss of acknowledgments whose write is not proven.

    `age_ms` is the time since the last acknowledgment. The write of an acknowledgment is proven when its age
    is at least `proven_ms`. If `proven_ms` is None, the state of the cursor excludes a proof.
    """
    if proven_ms is None:
        text = f"the state of the cursor is {state}, in which no write of the last acknowledgments is proven"
    else:
        last = "of unknown age" if age_ms is None else f"{age_ms // 1_000:,} s old"
        text = (
            f"the last acknowledgment is {last}, and its write is proven after {proven_ms // 1_000:,} s: "
            "the broker may delay it, and then a bookie may not answer"
        )
    return Reason("write-not-confirmed", text)


def _too_large(size: int, limit: int) -> Reason:
    return Reason(
        "entry-too-large",
        f"the state takes {size:,} bytes in one entry, and BookKeeper accepts {limit:,}",
    )


def _not_written_reason(entries: int) -> Reason:
    of = (
        f"the batch indexes of {_entries(entries)}" if entries else "batch indexes, which the source may hide"
    )
    return Reason(
        "batch-index-not-written",
        f"{of}: a running broker does not write the cursor if only parts of batches are acknowledged",
    )


def _entries(count: int) -> str:
    return "1 entry" if count == 1 else f"{count:,} entries"
