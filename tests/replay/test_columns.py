"""Arrow batches are read correctly with shared memory and with any offset."""

from __future__ import annotations

import pyarrow as pa
import pytest

from ackwell.errors import EventError
from ackwell.replay.columns import COLUMNS, BatchReader
from ackwell.replay.event_columns import columns_of
from ackwell.replay.events import Event, Kind
from tests.replay.histories import random_history
from tests.replay.layouts import table_of

TEXTS = ("topic", "subscription", "kind", "file")


def encoded(table: pa.Table, *names: str) -> pa.Table:
    for name in names:
        index = table.schema.get_field_index(name)
        table = table.set_column(index, name, table.column(name).dictionary_encode())
    return table


def batches_of(events: list[Event], form: str) -> list[pa.RecordBatch]:
    """Return batches of seven rows: slices of one table or separate ones, plain or as dictionaries."""
    parts = [events] if form.endswith("sliced") else [events[at : at + 7] for at in range(0, len(events), 7)]
    tables = [table_of(part).select(list(COLUMNS)) for part in parts]
    if form.startswith("dictionaries"):
        tables = [encoded(table.combine_chunks(), *TEXTS) for table in tables]
    return [batch for table in tables for batch in table.combine_chunks().to_batches(max_chunksize=7)]


@pytest.mark.slow
@pytest.mark.parametrize("form", ["plain", "plain, sliced", "dictionaries", "dictionaries, sliced"])
def test_every_batch_is_read_as_its_rows(form: str) -> None:
    for seed in range(0, 24, 3):
        events = [event for near in range(3) for event in random_history(seed + near, by_topic=near == 1)]
        expected = columns_of(events)
        rows = [expected.row(row) for row in range(len(events))]
        reader = BatchReader()
        found = [
            columns.row(row)
            for columns in map(reader.columns, batches_of(events, form))
            for row in range(len(columns.ledger_ids))
        ]
        assert found == rows


def test_a_dictionary_of_the_same_length_is_not_taken_for_the_one_before() -> None:
    reader, found = BatchReader(), []
    for kind, topic in ((Kind.PUBLISH, "t"), (Kind.ACK, "t"), (Kind.ACK, "u"), (Kind.PUBLISH, "u")):
        (batch,) = batches_of([Event(topic, "s", 1, kind, ledger_id=3, entry_id=0)], "dictionaries")
        row = reader.columns(batch).row(0)
        found.append((row["kind"], row["topic"]))
    assert found == [("publish", "t"), ("ack", "t"), ("ack", "u"), ("publish", "u")]


def test_dictionaries_that_share_their_memory_are_told_apart() -> None:
    topics = pa.array(["t", "u"])
    reader, found = BatchReader(), []
    (batch,) = batches_of([Event("t", "s", 1, Kind.ACK, ledger_id=3, entry_id=0)], "plain")
    index = batch.schema.get_field_index("topic")
    for start in (0, 1, 0):
        column = pa.DictionaryArray.from_arrays(pa.array([0], pa.int32()), topics.slice(start, 1))
        found.append(reader.columns(batch.set_column(index, "topic", column)).row(0)["topic"])
    assert found == ["t", "u", "t"]


def test_a_path_that_names_no_transaction_is_asked_before_the_column() -> None:
    (batch,) = batches_of([Event("t", "s", 1, Kind.ACK, ledger_id=3, entry_id=0, transaction="1:2")], "plain")
    assert BatchReader().columns(batch).row(0)["transaction"] == "1:2"
    assert BatchReader().columns(batch, {"transaction": None}).row(0)["transaction"] is None
    with pytest.raises(EventError, match="topic is null"):
        BatchReader().columns(batch, {"topic": None})
