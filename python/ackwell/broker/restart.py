"""Predict the acknowledgments that a broker loses in a restart, and so the messages that it redelivers.

A broker holds all acknowledgments in memory and persists only a part of them. The persisted part depends on
the place to which the broker writes:

- **The cursor ledger** (BookKeeper), while the broker runs, and on a graceful close with more ranges than
  `managedLedgerMaxUnackedRangesToPersistInMetadataStore`. If the limit of ranges is N, the *ranges form*
  keeps the first N + 1 ranges, and in 5.0 the first N (apache/pulsar#25548). In the *long-array form* the
  limit counts acknowledged **entries**, not ranges. The broker writes whole ledgers in order, until the
  entries written so far exceed the limit. From 5.0.0 on, the broker stops before the ledger with which the
  total would exceed the limit. If that is the very first ledger, the broker writes the ranges form
  (apache/pulsar#26127). A separate limit applies to batch indexes.
- **The metadata store**, on a graceful close with fewer ranges, without an open cursor ledger, or when
  BookKeeper refuses the entry for its size. The form is always the ranges form. Before 4.0.14, 4.2.5 and
  5.0.0, the batch indexes written there are not read back (apache/pulsar#20585, apache/pulsar#26475).

A *crash* leaves the last written state. A broker writes a cursor at most once per second, and writes a
delayed change within `managedLedgerCursorPositionFlushSeconds`. `RestartLoss.messages` assumes that the
current state is written; `RestartLoss.messages_before_flush` assumes a crash before that write. A broker
writes a seek together with the acknowledgments from before the seek. If it crashes before the next whole
entry is acknowledged, these acknowledgments are effective again. After such a crash, the broker holds more
acknowledgments than before the crash, never fewer.

The rules are derived from recorded restarts of Apache Pulsar, and compared with restarts of 4.0.7, 4.2.4,
5.0.0-M1 and 5.0.1.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from ackwell.broker.batch_sizes import BatchSizes, Bounds, CountedAckSets
from ackwell.broker.broker_settings import BrokerSettings
from ackwell.broker.writes import (
    CursorLedger,
    MemoryState,
    Reason,
    Restart,
    entries_up_to,
    hidden_acks,
    hidden_reason,
    keeps_hidden_ack_sets,
    loses_hidden_ack_sets,
    read_back,
    read_back_again,
    unacked_entries,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ackwell import PositionRangeSet
    from ackwell.broker.stats import SubscriptionStats
    from ackwell.cursor.cursor_state import AckSetMapping, CursorState
    from ackwell.position import Position


@dataclass(frozen=True, kw_only=True)
class RestartLoss:
    """The acknowledged messages that one restart loses; the module docstring describes the rules."""

    restart: Restart
    place: Literal["cursor ledger", "metadata store"]
    """The place from which the broker reads the state after the restart."""
    form: Literal["pulsar-ranges", "pulsar-long-array"]
    """The form of the state in that place."""
    entries: int
    """The number of wholly acknowledged entries that are delivered again."""
    partial_entries: int
    """The number of partly acknowledged entries of which some acknowledged messages are delivered again."""
    messages: Bounds
    """The number of acknowledged messages that are delivered again in the best case: the broker writes the
    current state before the restart."""
    messages_before_flush: Bounds
    """The number of acknowledged messages that are delivered again in the worst case: the broker crashes
    before it writes the last changes."""
    reasons: tuple[Reason, ...]
    ranges: PositionRangeSet = field(repr=False, compare=False)
    """The wholly acknowledged entries that are delivered again."""

    @property
    def bounds(self) -> tuple[Bounds, Bounds]:
        """The bounds of the number of redelivered messages, in the best case and in the worst case."""
        return self.messages, self.messages_before_flush

    def or_else(self, other: RestartLoss) -> RestartLoss:
        """Return this loss with the narrowest bounds that contain the bounds of both losses."""
        return replace(
            self,
            messages=self.messages.or_else(other.messages),
            messages_before_flush=self.messages_before_flush.or_else(other.messages_before_flush),
        )


def restart_loss(
    state: CursorState,
    settings: BrokerSettings | None = None,
    restart: Restart = "graceful",
    *,
    cursor_ledger: CursorLedger | None = None,
    batch_sizes: BatchSizes | None = None,
    persisted_mark_delete: tuple[int, int] | None = None,
    unwritten_entries: int | None = None,
    hidden: Bounds | None = None,
    later: Sequence[BrokerSettings] = (),
) -> RestartLoss:
    """Return the acknowledged messages that are delivered again after a restart, and the reasons.

    If `state.batch_deleted` is None, the source does not show ack sets. Every entry that may hold several
    messages may then have acknowledged messages, and the numbers of messages are intervals. If the state has
    ledgers, only existing entries count. O(ranges + ack sets).

    - `cursor_ledger`: the state of the cursor ledger; by default `open` if any entry is wholly acknowledged,
      else `none`.
    - `batch_sizes`: the number of messages in each entry; by default one in each entry without an ack set.
    - `persisted_mark_delete`: the mark-delete position on disk; it narrows the worst case of a crash.
    - `unwritten_entries`: the maximum number of entries whose acknowledgment is not written yet; it also
      narrows the worst case of a crash.
    - `hidden`: bounds of the acknowledged messages inside batches, if the source does not show ack sets.
    - `later`: the settings of the brokers that load and gracefully close the topic after this restart, in
      order. No message is acknowledged in that time.

    >>> from ackwell import Position, PositionRangeSet
    >>> from ackwell.cursor.cursor_state import CursorState
    >>> holes = PositionRangeSet.parse("[(3:0..3:1],(3:2..3:3],(3:4..3:5]]")
    >>> settings = BrokerSettings.of("4.0").with_values(["managedLedgerMaxUnackedRangesToPersist=1"])
    >>> loss = restart_loss(CursorState(Position(3, -1), holes), settings)
    >>> loss.messages.exact, str(loss.ranges), loss.reasons[0].issues
    (1, '[(3:4..3:5]]', ('apache/pulsar#25540', 'apache/pulsar#25548'))
    """
    settings = settings or BrokerSettings()
    sizes = batch_sizes or BatchSizes()
    held = MemoryState.from_state(state)
    ledger = cursor_ledger or held.presumed_ledger()
    persisted = read_back(held, settings, restart, ledger)
    kept = [(settings, persisted)]
    for each in later:
        persisted = read_back_again(persisted, held, each)
        kept.append((each, persisted))

    lost = held.existing - persisted.ranges
    entries = lost.cardinality
    partial: AckSetMapping
    if isinstance(held.batch_deleted, CountedAckSets):
        # The persisted ack sets are the first ones. All later ack sets are lost.
        partial = held.batch_deleted.without_first(len(persisted.ack_sets))
    else:
        partial = {p: words for p, words in held.batch_deleted.items() if p not in persisted.ack_sets}
    certain = (
        {p: words for p, words in partial.items() if p not in persisted.uncertain_ack_sets}
        if persisted.uncertain_ack_sets
        else partial
    )
    within = lost if sizes.of else None
    messages = Bounds(
        sizes.acked(entries, certain, within=within).at_least,
        sizes.acked(held.existing.cardinality, held.batch_deleted, within=held.individually_deleted).at_most
        if persisted.may_be_empty
        else sizes.acked(entries, partial, within=within).at_most,
    )
    if state.batch_deleted is not None:
        hidden = Bounds(0, 0)
    elif hidden is None:
        hidden = hidden_acks(held, settings, sizes)
    written = restart == "graceful" and unwritten_entries == 0
    if hidden.at_most != 0 and not all(
        keeps_hidden_ack_sets(held, each, then, hidden, closes=restart == "graceful", written=written)
        for each, then in kept
    ):
        loses = any(loses_hidden_ack_sets(each, restart, ledger, then) for each, then in kept)
        surely = hidden.at_least if loses else 0
        messages = Bounds(messages.at_least + surely, messages.plus_up_to(hidden.at_most).at_most)
        persisted.reasons.append(hidden_reason(hidden))
    # A restart cannot lose more messages than are acknowledged.
    most = sizes.most_acked(unacked_entries(held)) if not sizes.of else None
    messages = messages.up_to(most)
    before_flush = messages
    if restart == "crash" and ledger == "open" and unwritten_entries != 0:
        moved = _moved(state, persisted_mark_delete)
        worst = (
            None
            if moved is None
            else sizes.acked(
                held.existing.cardinality + moved,
                held.batch_deleted,
                within=_AckedEntries(held.mark_delete_position, held.individually_deleted),
            )
            .plus_up_to(hidden.at_most)
            .at_most
        )
        if unwritten_entries is not None and not sizes.of and messages.at_most is not None:
            since = sizes.acked(unwritten_entries).at_most
            bounds = [each for each in (worst, None if since is None else messages.at_most + since) if each]
            worst = min(bounds, default=worst)
        before_flush = Bounds(messages.at_least, worst).up_to(most)
    elif restart == "crash" and settings.writes_batch_indexes_alone and held.batch_deleted:
        # The ranges in memory are those that the broker loaded, so they are on disk. The ack sets may be
        # newer, and are on disk only after the next flush.
        alone = sizes.acked(entries, held.batch_deleted, within=within).at_most
        before_flush = Bounds(messages.at_least, alone).up_to(most)
    return RestartLoss(
        restart=restart,
        place=persisted.place,
        form=persisted.form,
        entries=entries,
        partial_entries=len(partial),
        messages=messages,
        messages_before_flush=before_flush,
        reasons=() if messages.at_most == 0 else tuple(persisted.reasons),
        ranges=lost,
    )


def acked_within(stats: SubscriptionStats) -> int | None:
    """Return the maximum number of acknowledged messages in partly acknowledged batches.

    Return None if no bound is known.
    """
    if stats.batch_deleted is not None:
        return stats.batch_sizes.acked(0, stats.batch_deleted).at_most
    return stats.batch_sizes.most_hidden(stats.backlog_entries)


@dataclass(frozen=True, slots=True)
class _AckedEntries:
    """The set of wholly acknowledged entries of a cursor."""

    mark_delete: Position
    ranges: PositionRangeSet

    def __contains__(self, position: tuple[int, int], /) -> bool:
        return position <= self.mark_delete or position in self.ranges


def _moved(state: CursorState, persisted: tuple[int, int] | None) -> int | None:
    """Return the maximum number of entries that the mark-delete position passed since its last write.

    A broker deletes only ledgers before the position on disk. An unknown position on disk is therefore in the
    first ledger or in a later one. Return None if the ledgers are unknown, too.
    """
    if persisted is not None and tuple(persisted) == state.mark_delete_position:
        return 0
    return (
        None if state.ledgers is None else entries_up_to(state.ledgers, state.mark_delete_position, persisted)
    )
