"""The rules of a restart, spelt out entry by entry, against the arrays that apply them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import example, given, settings
from hypothesis import strategies as st

from ackwell import Position, PositionRangeSet
from ackwell.broker.batch_sizes import BatchSizes, Bounds
from ackwell.broker.broker_settings import BrokerSettings
from ackwell.broker.restart import restart_loss
from ackwell.cursor.cursor_state import CursorState

if TYPE_CHECKING:
    from ackwell.broker.writes import CursorLedger, Restart

Range = tuple[int, int, int]

positions = st.tuples(st.integers(1, 5), st.integers(0, 40))
acked = st.sets(positions, max_size=120)
ack_sets = st.dictionaries(positions.map(lambda p: Position(*p)), st.just((0b0110,)), max_size=12)
small = st.integers(-1, 40)


def in_ranges(entries: set[tuple[int, int]]) -> list[Range]:
    """The ranges that a broker holds for acknowledged entries, in order."""
    ranges: list[Range] = []
    for ledger_id, entry_id in sorted(entries):
        if ranges and ranges[-1][0] == ledger_id and ranges[-1][2] == entry_id - 1:
            ranges[-1] = (ledger_id, ranges[-1][1], entry_id)
        else:
            ranges.append((ledger_id, entry_id - 1, entry_id))
    return ranges


def written_ranges(ranges: list[Range], limit: int) -> list[Range]:
    """As the broker writes them: it looks at the limit after it has added one."""
    written: list[Range] = []
    for each in ranges:
        written.append(each)
        if not len(written) <= limit:
            break
    return written


def written_ledgers(ranges: list[Range], limit: int) -> list[Range]:
    """As the broker writes bit sets: it looks at the entries counted before it adds a ledger."""
    counted, written = 0, []
    for ledger_id in sorted({each[0] for each in ranges}):
        of_ledger = [each for each in ranges if each[0] == ledger_id]
        before, counted = counted, counted + sum(upper - lower for _, lower, upper in of_ledger)
        if not before > limit:
            written += of_ledger
    return written


@settings(max_examples=300)
@given(
    acked,
    ack_sets,
    small,
    small,
    small,
    st.booleans(),
    st.sampled_from(("graceful", "crash")),
    st.sampled_from(("open", "read-only", "none")),
)
@example({(1, 0)}, {Position(1, 0): (6,), Position(1, 1): (6,)}, 1, 0, 1, False, "crash", "open")
def test_what_comes_back_is_what_the_broker_did_not_write_or_does_not_read(
    entries: set[tuple[int, int]],
    partial: dict[Position, tuple[int, ...]],
    limit: int,
    metadata_limit: int,
    batch_limit: int,
    long_array: bool,
    restart: Restart,
    ledger: CursorLedger,
) -> None:
    broker = BrokerSettings(
        max_unacked_ranges_to_persist=limit,
        max_unacked_ranges_to_persist_in_metadata_store=metadata_limit,
        max_batch_deleted_index_to_persist=batch_limit,
        persist_individual_ack_as_long_array=long_array,
    )
    ranges = in_ranges(entries)
    # The broker drops the ack set of an entry when the whole entry is acknowledged.
    shown, partial = partial, {p: words for p, words in partial.items() if p not in PositionRangeSet(ranges)}
    loss = restart_loss(
        CursorState(Position(0, -1), PositionRangeSet(ranges), shown),
        settings=broker,
        restart=restart,
        cursor_ledger=ledger,
        batch_sizes=BatchSizes(each=1, of=dict.fromkeys(shown, 4)),
    )

    survives_in_ledger = set(sorted(partial)[: max(batch_limit, 0)])
    if restart == "graceful" and not (ledger == "open" and limit > 0 and len(ranges) > metadata_limit):
        kept, kept_partial = written_ranges(ranges, limit), set[Position]()
    elif restart == "crash" and ledger != "open":
        kept, kept_partial = ranges, set[Position]()
    else:
        kept = (written_ledgers(ranges, limit) if long_array else []) or written_ranges(ranges, limit)
        kept_partial = survives_in_ledger
    assert list(loss.ranges) == [each for each in ranges if each not in kept]
    assert loss.entries == loss.ranges.cardinality

    # With ack sets only, or ack sets that may have been recovered, the time of the last write decides.
    uncertain = restart == "crash" and (ledger == "read-only" or (ledger == "open" and not ranges))
    lost_partial = [position for position in partial if position not in kept_partial]
    certain = 0 if uncertain and ledger == "read-only" else len(lost_partial)
    at_most = len(partial) if uncertain else len(lost_partial)
    # An entry listed with a batch of four is four messages when it is lost whole.
    whole = loss.entries + sum(3 for position in shown if position in loss.ranges)
    assert loss.messages == Bounds(whole + 2 * certain, whole + 2 * at_most)
    assert loss.partial_entries == at_most
    assert bool(loss.reasons) == (loss.messages.at_most != 0)
