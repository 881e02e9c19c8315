"""Events in the layouts that real systems have: few large files, many small ones, many subscriptions mixed.

Each is written once, by PyArrow alone, and is the same each time.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq

from ackwell.spark.fleet import Fleet, chunk_events, chunks

if TYPE_CHECKING:
    from collections.abc import Callable

PATTERNS: Final = ("holes", "random", "oldest", "drained")
COPIES: Final = 4
SMALL_FILES: Final = 304
MIXED: Final = (200, 2_000, 20_000, 100_000)
"""Numbers of subscriptions whose events are mixed by time."""
MIXED_ENTRIES: Final = 1_000_000
_ROW_GROUP: Final = 1 << 20


def write(folder: Path, name: str, entries: int) -> Path:
    """Write one layout, unless it is there."""
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
    if name.startswith("mixed"):
        return lambda place, _, __: _mixed(place, int(name.split()[1]))
    return _lines


def _copies(place: Path, folder: Path, entries: int) -> None:
    """The skewed fleet under several names: links cost no disk, and reading them what more data costs."""
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
    """Subscriptions of equal size, their events in the order of time, as one recorder would write them."""
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
    """A tenth of the fleet as JSON lines, with the names of recorded traces."""
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


def _table(fleet: Fleet) -> pa.Table:
    return pa.Table.from_batches(chunk_events(fleet, chunk) for chunk in chunks(fleet)).combine_chunks()


def skewed(entries: int) -> Fleet:
    """200 subscriptions, one with half of all."""
    return replace(Fleet(entries=entries, patterns=PATTERNS), delayed_share=0)
