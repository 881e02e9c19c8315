"""Events in the layouts of real systems: few large files, many small files, many mixed subscriptions.

PyArrow writes each layout once. A layout always has the same events.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq

from ackwell.spark.tasks.source_rows import to_batches
from benches.fleet import Fleet, chunk_events, chunks

if TYPE_CHECKING:
    from collections.abc import Callable

    from ackwell.replay.events import Event

PATTERNS: Final = ("holes", "random", "oldest", "drained")
COPIES: Final = 4
SMALL_FILES: Final = 304
MIXED: Final = (200, 2_000, 20_000, 100_000)
"""The numbers of subscriptions of the layouts in which the events of all subscriptions are mixed by time."""
MIXED_ENTRIES: Final = 1_000_000
RECORDED: Final = 10_000
"""The number of messages of the recording."""
FILES: Final = 4
BILLION: Final = 1_000_000_000
_ROW_GROUP: Final = 1 << 20


def write(folder: Path, name: str, entries: int) -> Path:
    """Write one layout, unless it exists; return its folder."""
    place = folder / name.replace(" ", "-")
    if not (place / "_SUCCESS").exists():
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        _writer(name)(place, folder, entries)
        (place / "_SUCCESS").touch()
    return place


def _writer(name: str) -> Callable[[Path, Path, int], None]:
    if name == "copies":
        return _copies
    if name == "small files":
        return _small_files
    if name == "recording":
        return _recording
    if name == "billion":
        return _billion
    if name.startswith("mixed"):
        return lambda place, _, __: _mixed(place, int(name.split()[1]))
    return _lines


def _copies(place: Path, folder: Path, entries: int) -> None:
    """Write the skewed fleet under several names. Links take no disk space, but are read like more data."""
    for path in sorted((folder / "skewed").glob("*.parquet")):
        for copy in range(COPIES):
            os.link(path, place / f"{copy}-{path.name}")


def _small_files(place: Path, folder: Path, entries: int) -> None:
    fleet = Fleet(entries=entries // 10, patterns=PATTERNS, delayed_share=0)
    table = _table(fleet)
    rows = -(-table.num_rows // SMALL_FILES)
    for number in range(SMALL_FILES):
        part = table.slice(number * rows, rows)
        pq.write_table(part, place / f"{number:04}.parquet", compression="zstd")


def _mixed(place: Path, subscriptions: int) -> None:
    """Write the events of subscriptions of equal size in the order of time, as one recorder does."""
    fleet = Fleet(
        subscriptions=subscriptions,
        entries=MIXED_ENTRIES,
        hot_share=1 / subscriptions,
        patterns=PATTERNS,
        delayed_share=0,
    )
    table = _table(fleet).sort_by([("time_ms", "ascending")])
    half = -(-table.num_rows // 2)
    for number in range(2):
        part = table.slice(number * half, half)
        pq.write_table(part, place / f"{number}.parquet", compression="zstd", row_group_size=_ROW_GROUP)


def _lines(place: Path, folder: Path, entries: int) -> None:
    """Write a tenth of the fleet as JSON lines, with the field names of recorded traces."""
    table = _table(Fleet(entries=entries // 10, patterns=PATTERNS, delayed_share=0))
    columns = {"topic": "topic", "subscription": "sub", "kind": "ev", "time_ms": "t", "consumer": "c"}
    columns |= {"ledger_id": "l", "entry_id": "e"}
    with (place / "events.jsonl").open("w") as file:
        for batch in table.select(list(columns)).to_batches(65_536):
            rows = zip(*(column.to_pylist() for column in batch.columns), strict=True)
            for topic, subscription, kind, time_ms, consumer, ledger_id, entry_id in rows:
                who = "" if consumer is None else f'"c":"{consumer}",'
                file.write(
                    f'{{"t":{time_ms},"ev":"{kind}",{who}"topic":"{topic}","sub":"{subscription}",'
                    f'"l":{ledger_id},"e":{entry_id}}}\n'
                )


def _recording(place: Path, folder: Path, entries: int) -> None:
    """Write the recorded traffic of a client with batches on a dev broker, repeated for many topics."""
    table = pa.Table.from_batches(to_batches(_traffic()))
    copies = max(1, entries // 2 // table.num_rows)
    for number in range(FILES):
        tables = [
            table.set_column(
                0, "topic", pa.array([f"persistent://public/default/orders-{copy}"] * table.num_rows)
            )
            for copy in range(number, copies, FILES)
        ]
        if tables:
            pq.write_table(pa.concat_tables(tables), place / f"{number}.parquet", compression="zstd")


def _billion(place: Path, folder: Path, entries: int) -> None:
    """Write the default fleet of `benches.fleet` under many names, with a billion events in total."""
    units, rows = chunks(fleet := Fleet(entries=entries // 4)), 0
    for number in range(FILES):
        table = pa.Table.from_batches(chunk_events(fleet, unit) for unit in units[number::FILES])
        pq.write_table(table, place / f"0000-{number}.parquet", compression="zstd", row_group_size=_ROW_GROUP)
        rows += table.num_rows
    for copy in range(1, -(-BILLION // rows)):
        for number in range(FILES):
            os.link(place / f"0000-{number}.parquet", place / f"{copy:04}-{number}.parquet")


def _traffic() -> list[Event]:
    """Record publishes in batches of ten and their acknowledgments; return the events.

    On Shared, nine messages of ten are acknowledged; on Failover, the acknowledgments are cumulative.
    """
    import pulsar

    from ackwell.devbroker import Broker

    with Broker() as broker:
        client = pulsar.Client(broker.url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
        consumers = [
            client.subscribe("orders", str(kind), consumer_type=kind, batch_index_ack_enabled=True)
            for kind in (pulsar.ConsumerType.Shared, pulsar.ConsumerType.Failover)
        ]
        producer = client.create_producer(
            "orders", batching_enabled=True, batching_max_messages=10, block_if_queue_full=True
        )
        for number in range(RECORDED):
            producer.send_async(b"%d" % number, None)
        producer.flush()
        shared, failover = consumers
        for number in range(RECORDED):
            message = shared.receive(60_000)
            if number % 10 != 3 or number % 1_000 < 500:
                shared.acknowledge(message)
            message = failover.receive(60_000)
            if number % 100 == 57:
                failover.acknowledge_cumulative(message)
        client.close()
        broker.settle()
        return list(broker.events)


def _table(fleet: Fleet) -> pa.Table:
    return pa.Table.from_batches(chunk_events(fleet, chunk) for chunk in chunks(fleet)).combine_chunks()


def skewed(entries: int) -> Fleet:
    """Return a fleet of 200 subscriptions, of which one has half of all entries."""
    return replace(Fleet(entries=entries, patterns=PATTERNS), delayed_share=0)
