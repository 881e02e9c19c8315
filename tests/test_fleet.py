"""The synthetic fleet: the events that each chunk draws, without a Spark session."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from ackwell.replay.table_schemas import EVENTS
from benches.fleet import PATTERNS, Chunk, Fleet, chunk_events, chunks


def drawn(fleet: Fleet) -> list[tuple[Chunk, pa.RecordBatch]]:
    return [(chunk, chunk_events(fleet, chunk)) for chunk in chunks(fleet)]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"patterns": ()}, "unknown patterns"),
        ({"patterns": (*PATTERNS, "waves")}, "waves"),
        ({"hot_share": 1.1}, "a share is between 0 and 1"),
        ({"delayed_share": -0.1}, "a share is between 0 and 1"),
        ({"subscriptions": 0}, ">= 1"),
        ({"entries_per_ledger": 0}, ">= 1"),
        ({"ack_window": 0}, ">= 1"),
        ({"consumers": 0}, ">= 1"),
    ],
)
def test_a_fleet_that_cannot_be_is_refused(wrong: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Fleet(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("subscriptions", [1, 2, 7, 12])
def test_the_chunks_hold_all_entries_of_a_fleet_half_of_them_of_the_first(subscriptions: int) -> None:
    fleet = Fleet(subscriptions=subscriptions, entries=100_003)
    units = chunks(fleet)
    assert sum(unit.entries for unit in units) == fleet.entries
    of = Counter[int]()
    for unit in units:
        assert unit.first_entry == of[unit.subscription]
        of[unit.subscription] += unit.entries
    assert of[0] == (fleet.entries // 2 if subscriptions > 1 else fleet.entries)
    others = [of[number] for number in range(1, subscriptions)]
    assert not others or max(others) - min(others) <= 1


def test_consumers_acknowledge_in_turn_and_nobody_publishes() -> None:
    for chunk, batch in drawn(Fleet(subscriptions=6, entries=12_000)):
        published = pc.equal(batch["kind"], "publish")
        assert pc.all(pc.equal(published, pc.is_null(batch["consumer"]))).as_py()
        acks = batch.filter(pc.invert(published))
        assert acks.num_rows > 0, chunk
        for consumer, entry in zip(acks["consumer"].to_pylist(), acks["entry_id"].to_pylist(), strict=True):
            assert consumer == f"consumer-{entry % 3}"


def test_a_quarter_of_the_subscriptions_has_delays_of_three_shapes_and_only_publishes_carry_them() -> None:
    fleet = Fleet(subscriptions=100, entries=40_000, patterns=("holes",))
    delayed = 0
    for chunk, batch in drawn(fleet):
        due = batch["deliver_at_ms"]
        if due.null_count == len(due):
            continue
        delayed += 1
        published = pc.equal(batch["kind"], "publish")
        assert pc.all(pc.equal(published, pc.is_valid(due))).as_py(), chunk
        waits = pc.subtract(due, batch["time_ms"]).drop_null().to_pylist()
        distinct, days = len(set(waits)), 24 * 3_600_000
        match chunk.subscription % 3:
            case 0:
                assert set(waits) == {60_000}
            case 1:
                assert distinct > 1
                assert 1_800_000 < sum(waits) / len(waits) < 7_200_000
            case _:
                assert distinct > 1
                assert 2 * days < sum(waits) / len(waits) < 5 * days
                assert max(waits) < 7 * days
    assert delayed == 25


def test_every_column_of_an_event_is_there_and_those_of_batches_in_batches_alone() -> None:
    for chunk, batch in drawn(Fleet(subscriptions=len(PATTERNS), entries=12_000, delayed_share=0)):
        assert batch.schema.names == [column.name for column in EVENTS]
        batched = PATTERNS[chunk.subscription] == "batches"
        filled = {name for name in batch.schema.names if batch[name].null_count < batch.num_rows}
        assert filled == {
            *("topic", "subscription", "sequence", "kind", "time_ms", "consumer", "ledger_id", "entry_id"),
            *(("batch_index", "batch_size") if batched else ()),
        }
