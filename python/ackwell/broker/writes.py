"""What a broker writes of a cursor, and reads back: the rules of `restart`, each in a function.

A `MemoryState` is what the broker holds, as parallel arrays; `kept` gives what of it comes back after a
restart: a mask over the ranges, and the positions of ack sets, with the reasons for all that is cut.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Final, Literal, Self

from ackwell.position import Position

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ackwell import Ledgers, PositionRangeSet
    from ackwell.broker.batch_sizes import AckSets
    from ackwell.broker.settings import BrokerSettings

Restart = Literal["graceful", "crash"]
"""A graceful restart, or a topic unload, closes the cursor; a crash leaves what was written last."""

RESTARTS: Final[tuple[Restart, ...]] = ("graceful", "crash")

CursorLedger = Literal["open", "read-only", "none"]
"""The ledger the cursor writes to: *open* from its first whole-entry acknowledgment on; *read-only*
while nothing was acknowledged since the cursor was recovered from it; *none* before that."""

ReasonCode = Literal[
    "range-limit",
    "entry-limit",
    "entry-too-large",
    "batch-index-limit",
    "batch-index-off",
    "batch-index-not-read-back",
    "batch-index-not-written",
]


@dataclass(frozen=True, slots=True)
class Reason:
    """One cause of a loss: a stable `code`, a sentence, and the upstream `issues` that describe it."""

    code: ReasonCode
    text: str
    issues: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.text} ({', '.join(self.issues)})" if self.issues else self.text


@dataclass(frozen=True, slots=True)
class MemoryState:
    """What the broker holds in memory: parallel arrays of ranges in order, and ack sets in order."""

    mark_delete: Position
    ledger_ids: NDArray[np.int64]
    lowers: NDArray[np.int64]
    uppers: NDArray[np.int64]
    real_lowers: NDArray[np.int64]
    """Cut to the entries that exist beyond the mark-delete position; a limit counts the others too."""
    real_uppers: NDArray[np.int64]
    partial: AckSets

    @classmethod
    def of(
        cls,
        mark_delete: Position,
        ranges: PositionRangeSet,
        batch_deleted: AckSets,
        ledgers: Ledgers | None,
    ) -> Self:
        """Take the arrays of `ranges`, and cut them to what exists; O(ranges)."""
        import numpy as np

        ledger_ids, lowers, uppers = ranges.to_arrays()
        real_lowers = np.where(ledger_ids < mark_delete.ledger_id, uppers, lowers)
        here = ledger_ids == mark_delete.ledger_id
        real_lowers[here] = np.maximum(real_lowers[here], mark_delete.entry_id)
        real_uppers = uppers
        if ledgers is not None and len(ledger_ids):
            entries = dict(ledgers)
            starts = _ledger_starts(ledger_ids)
            last = [entries.get(ledger_id, 0) - 1 for ledger_id in ledger_ids[starts].tolist()]
            runs = np.diff(starts, append=len(ledger_ids))
            real_uppers = np.minimum(uppers, np.repeat(np.array(last, dtype=np.int64), runs))
        partial = {Position(*p): tuple(batch_deleted[p]) for p in sorted(batch_deleted)}
        return cls(mark_delete, ledger_ids, lowers, uppers, real_lowers, real_uppers, partial)

    def existing_entries(self, chosen: NDArray[np.bool_] | None = None) -> int:
        """Count the entries of the chosen ranges, or of all, that exist beyond the mark-delete position."""
        import numpy as np

        entries = np.maximum(self.real_uppers - self.real_lowers, 0)
        return int((entries if chosen is None else entries[chosen]).sum())

    def existing(self, chosen: NDArray[np.bool_]) -> PositionRangeSet:
        """Give the chosen ranges, cut to the entries that exist beyond the mark-delete position."""
        from ackwell import PositionRangeSet

        some = chosen & (self.real_lowers < self.real_uppers)
        ranges = PositionRangeSet()
        ranges.add_ranges(self.ledger_ids[some], self.real_lowers[some], self.real_uppers[some])
        return ranges

    def presumed_ledger(self, ledgers: Ledgers | None) -> CursorLedger:
        """A cursor that never saw a whole-entry acknowledgment has never opened a ledger."""
        if len(self.ledger_ids):
            return "open"
        if ledgers is None:
            return "open" if self.mark_delete.entry_id >= 0 else "none"
        return "open" if entries_up_to(ledgers, self.mark_delete) else "none"


@dataclass(slots=True)
class Kept:
    """What a restart reads back: a mask over the ranges, and the positions of ack sets."""

    place: Literal["cursor ledger", "metadata store"]
    form: Literal["pulsar-ranges", "pulsar-long-array"]
    ranges: NDArray[np.bool_]
    partial: frozenset[Position] = frozenset()
    perhaps: frozenset[Position] = frozenset()
    """Ack sets that may or may not have been written: no acknowledgment since says which."""
    perhaps_nothing: bool = False
    """Whether it hangs on more than the state that any of it is read back."""
    reasons: list[Reason] = field(default_factory=list)


def kept_of(state: MemoryState, settings: BrokerSettings, restart: Restart, ledger: CursorLedger) -> Kept:
    """Decide where the state is written, and what of it."""
    if restart == "crash":
        return _after_crash(state, settings, ledger)
    to_ledger = (
        ledger == "open"
        and settings.max_unacked_ranges_to_persist > 0
        and len(state.ledger_ids) > settings.metadata_store_ranges
    )
    return _in_ledger(state, settings) if to_ledger else _in_metadata_store(state, settings)


def _after_crash(state: MemoryState, settings: BrokerSettings, ledger: CursorLedger) -> Kept:
    import numpy as np

    everything = np.ones(len(state.ledger_ids), dtype=np.bool_)
    if ledger == "none":
        # Nothing was written since the cursor was loaded: whole entries are as they were read, and
        # ack sets, which are never read back from the metadata store, are all newer than that.
        kept = Kept("metadata store", "pulsar-ranges", everything)
        kept.reasons.append(_not_written(len(state.partial)))
        return kept
    if ledger == "read-only":
        form = _form(settings)
        kept = Kept("cursor ledger", form, everything, perhaps=frozenset(state.partial))
        kept.reasons.append(_not_written(len(state.partial)))
        return kept
    kept = _in_ledger(state, settings)
    if not len(state.ledger_ids) and kept.partial:
        # Acknowledging part of a batch writes nothing while no range stands beyond the mark-delete
        # position; whether the ack sets were there when it last moved, the state does not tell.
        kept.perhaps, kept.partial = kept.partial, frozenset()
        kept.reasons.append(_not_written(len(kept.perhaps)))
    return kept


def _in_ledger(state: MemoryState, settings: BrokerSettings) -> Kept:
    """Write one entry to the cursor ledger, in the form the broker is set to."""
    limit = settings.max_unacked_ranges_to_persist
    ranges = _first_ledgers(state, limit) if settings.long_array else None
    if ranges is not None and (ranges.any() or not len(ranges)):
        kept = Kept("cursor ledger", "pulsar-long-array", ranges)
        reason = _entry_limit(state, ranges, limit)
    else:
        # Without a single ledger within the limit the broker falls back to the ranges form.
        kept = Kept("cursor ledger", "pulsar-ranges", _first_ranges(state, limit))
        reason = _range_limit(kept.ranges, limit)
    kept.reasons += reason
    _keep_partial(kept, state, settings)
    size = _entry_bytes(state, kept, settings.max_entry_bytes)
    if size is None:
        return kept
    # The broker then writes to the metadata store, unless that refuses the size too (ZooKeeper takes
    # 1 MB); and between two attempts its record points at an empty cursor ledger, so that a crash
    # there forgets everything.
    fallback = _in_metadata_store(state, settings)
    fallback.perhaps_nothing = True
    fallback.reasons.insert(0, _too_large(size, settings.max_entry_bytes))
    return fallback


def _in_metadata_store(state: MemoryState, settings: BrokerSettings) -> Kept:
    """Write to the metadata store: the ranges form, its batch indexes never read back."""
    limit = settings.max_unacked_ranges_to_persist
    kept = Kept("metadata store", "pulsar-ranges", _first_ranges(state, limit))
    kept.reasons += _range_limit(kept.ranges, limit)
    if state.partial:
        kept.reasons.append(
            Reason(
                "batch-index-not-read-back",
                f"the batch indexes of {_entries(len(state.partial))} go to the metadata store on "
                "close, from where the broker does not read them back",
                ("apache/pulsar#20585", "apache/pulsar#26475"),
            )
        )
    return kept


def _first_ranges(state: MemoryState, limit: int) -> NDArray[np.bool_]:
    """The limit is looked at after a range was added, so limit + 1 are written, and never none."""
    import numpy as np

    return np.arange(len(state.ledger_ids)) <= max(limit, 0)


def _first_ledgers(state: MemoryState, limit: int) -> NDArray[np.bool_]:
    """A ledger is written whole unless the entries acknowledged in those before it exceed the limit."""
    import numpy as np

    if not len(state.ledger_ids):
        return np.ones(0, dtype=np.bool_)
    starts = _ledger_starts(state.ledger_ids)
    acked = np.add.reduceat(state.uppers - state.lowers, starts)
    written = np.cumsum(acked) - acked <= limit
    kept: NDArray[np.bool_] = np.repeat(written, np.diff(starts, append=len(state.ledger_ids)))
    return kept


def _keep_partial(kept: Kept, state: MemoryState, settings: BrokerSettings) -> None:
    if not state.partial:
        return
    if not settings.acknowledgment_at_batch_index_level_enabled:
        kept.reasons.append(
            Reason(
                "batch-index-off",
                f"acknowledgmentAtBatchIndexLevelEnabled is off: the batch indexes of "
                f"{_entries(len(state.partial))} are not read back",
            )
        )
        return
    limit = max(settings.max_batch_deleted_index_to_persist, 0)
    kept.partial = frozenset(islice(state.partial, limit))
    if len(state.partial) > limit:
        kept.reasons.append(
            Reason(
                "batch-index-limit",
                f"the batch indexes of {_entries(len(state.partial))}, of which "
                f"managedLedgerMaxBatchDeletedIndexToPersist={limit} keeps the first {limit:,}",
                ("apache/pulsar#25540", "apache/pulsar#25548"),
            )
        )


def _entry_bytes(state: MemoryState, kept: Kept, limit: int) -> int | None:
    """Give the size of the entry where it exceeds `limit`; it is encoded only where it might."""
    if kept.form == "pulsar-ranges" or not kept.ranges.any():
        at_most = 64 * int(kept.ranges.sum())
    else:
        import numpy as np

        # The greatest entry of each ledger says how many words its bit set takes.
        before_next = np.append(_ledger_starts(state.ledger_ids[kept.ranges])[1:], kept.ranges.sum()) - 1
        words = state.uppers[kept.ranges][before_next] // 64 + 1
        at_most = int((11 * words + 32).sum())
    at_most += sum(48 + 11 * len(state.partial[position]) for position in kept.partial)
    if at_most <= limit:
        return None
    from ackwell import PositionInfo, PositionRangeSet

    ranges = PositionRangeSet()
    ranges.add_ranges(state.ledger_ids[kept.ranges], state.lowers[kept.ranges], state.uppers[kept.ranges])
    partial = {position: state.partial[position] for position in sorted(kept.partial)}
    info = PositionInfo(*state.mark_delete, individually_deleted=ranges, batch_deleted=partial)
    size = len(info.encode(format=kept.form))
    return size if size > limit else None


def entries_up_to(ledgers: Ledgers, position: Position, after: tuple[int, int] | None = None) -> int:
    """Count the entries up to `position`: those after `after`, or all that are kept."""
    first = ledgers.first_position
    start = after or (first and (first.ledger_id, -1))
    return ledgers.entries_between(start, position) if start and start < position else 0


def _ledger_starts(ledger_ids: NDArray[np.int64]) -> NDArray[np.intp]:
    """Give where each ledger starts in ordered ids."""
    import numpy as np

    starts: NDArray[np.intp] = np.flatnonzero(np.diff(ledger_ids, prepend=-1))
    return starts


def _form(settings: BrokerSettings) -> Literal["pulsar-ranges", "pulsar-long-array"]:
    return "pulsar-long-array" if settings.long_array else "pulsar-ranges"


def _range_limit(kept: NDArray[np.bool_], limit: int) -> Iterable[Reason]:
    if kept.all():
        return
    yield Reason(
        "range-limit",
        f"{len(kept):,} ranges, of which managedLedgerMaxUnackedRangesToPersist={limit} keeps the "
        f"first {int(kept.sum()):,}",
        ("apache/pulsar#25540", "apache/pulsar#25548"),
    )


def _entry_limit(state: MemoryState, kept: NDArray[np.bool_], limit: int) -> Iterable[Reason]:
    if kept.all():
        return
    acked = state.uppers - state.lowers
    yield Reason(
        "entry-limit",
        f"{int(acked.sum()):,} acknowledged entries; in the long-array form "
        f"managedLedgerMaxUnackedRangesToPersist={limit} counts entries, ledger by ledger, and keeps "
        f"the first {int(acked[kept].sum()):,}, up to ledger {int(state.ledger_ids[kept][-1])}",
        ("apache/pulsar#25540",),
    )


def _too_large(size: int, limit: int) -> Reason:
    return Reason(
        "entry-too-large",
        f"the state takes {size:,} bytes in one entry, and BookKeeper accepts {limit:,}",
        ("apache/pulsar#25985",),
    )


def _not_written(entries: int) -> Reason:
    return Reason(
        "batch-index-not-written",
        f"the batch indexes of {_entries(entries)}: acknowledging parts of batches alone is never "
        "written while the broker runs",
        ("apache/pulsar#26475",),
    )


def _entries(count: int) -> str:
    return "1 entry" if count == 1 else f"{count:,} entries"
