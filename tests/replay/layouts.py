"""The same events in every file layout that real systems write."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from ackwell.replay import table_schemas

if TYPE_CHECKING:
    from ackwell.replay.events import Event

SCHEMA: Final = table_schemas.arrow_schema(table_schemas.EVENTS)


def table_of(events: list[Event]) -> pa.Table:
    rows = [{**event._asdict(), "kind": event.kind.value} for event in events]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def parquet(events: list[Event], folder: Path, **options: Any) -> None:
    pq.write_table(table_of(events), folder / "part-0.parquet", **options)


def small_row_groups(events: list[Event], folder: Path) -> None:
    for number in range(3):
        path = folder / f"part-{number}.parquet"
        pq.write_table(table_of(events[number::3]), path, row_group_size=5)


def empty_file(events: list[Event], folder: Path) -> None:
    parquet(events, folder)
    (folder / "part-1.parquet").write_bytes(b"")
    (folder / "_SUCCESS").write_bytes(b"")


def upper_case(events: list[Event], folder: Path) -> None:
    table = table_of(events)
    names = [name.upper() for name in table.schema.names]
    pq.write_table(table.rename_columns(names), folder / "part-0.parquet")


def delta_byte_array(events: list[Event], folder: Path) -> None:
    encodings = dict.fromkeys(("topic", "subscription", "kind", "file"), "DELTA_BYTE_ARRAY")
    parquet(events, folder, use_dictionary=False, column_encoding=encodings)


def dictionaries_as_deltas(events: list[Event], folder: Path) -> None:
    """Columns with a dictionary in the writer's memory but plain values in the file."""
    table = table_of(events)
    names = ("topic", "subscription", "kind", "file")
    for name in names:
        index = table.schema.get_field_index(name)
        table = table.set_column(index, name, table.column(name).dictionary_encode())
    encodings = dict.fromkeys(names, "DELTA_BYTE_ARRAY")
    pq.write_table(table, folder / "part-0.parquet", use_dictionary=False, column_encoding=encodings)


def null_subscriptions(events: list[Event], folder: Path) -> None:
    """Events of the topic as a whole have a null subscription, in a separate row group."""
    for number, of_topic in enumerate((True, False)):
        few = [event for event in events if (event.subscription == "") == of_topic]
        table = table_of(few)
        if of_topic:
            index = table.schema.get_field_index("subscription")
            table = table.set_column(index, "subscription", pa.nulls(table.num_rows, pa.string()))
        pq.write_table(table, folder / f"part-{number}.parquet", row_group_size=50)


def no_optional_columns(events: list[Event], folder: Path) -> None:
    """Without the columns whose values are all null."""
    table = table_of(events)
    kept = [name for name in table.schema.names if table.column(name).null_count < table.num_rows]
    pq.write_table(table.select(kept), folder / "part-0.parquet")


def narrow_integers(events: list[Event], folder: Path) -> None:
    table = table_of(events)
    for name in ("ledger_id", "entry_id", "batch_index", "batch_size"):
        index = table.schema.get_field_index(name)
        table = table.set_column(index, name, table.column(name).cast(pa.uint32()))
    pq.write_table(table, folder / "part-0.parquet")


def hive(events: list[Event], folder: Path, *columns: str) -> None:
    """Partitioned by columns, whose values are only in the paths."""
    groups: dict[tuple[Any, ...], list[Event]] = {}
    for event in events:
        groups.setdefault(tuple(getattr(event, name) for name in columns), []).append(event)
    for values, group in groups.items():
        parts = [
            f"{name}={'__HIVE_DEFAULT_PARTITION__' if value in (None, '') else value}"
            for name, value in zip(columns, values, strict=True)
        ]
        place = folder.joinpath(*parts)
        place.mkdir(parents=True, exist_ok=True)
        pq.write_table(table_of(group).drop_columns(list(columns)), place / "part-0.parquet")


def by_kind(events: list[Event], folder: Path) -> None:
    hive(events, folder, "kind")


def by_topic(events: list[Event], folder: Path) -> None:
    hive(events, folder, "topic", "kind")


def by_size(events: list[Event], folder: Path) -> None:
    hive(events, folder, "batch_size")


def by_subscription(events: list[Event], folder: Path) -> None:
    """Events of the topic as a whole are in the folder of the null subscription."""
    hive(events, folder, "subscription")


def by_day(events: list[Event], folder: Path) -> None:
    for number in range(2):
        (folder / f"day={number}").mkdir()
        pq.write_table(table_of(events[number::2]), folder / f"day={number}" / "part-0.parquet")


def evolved(events: list[Event], folder: Path) -> None:
    """An older file without the columns of batches, and a newer one with them."""
    later = ["batch_index", "batch_size", "ack_set", "transaction", "detail", "redelivery_count"]
    old = [event for event in events if all(getattr(event, name) is None for name in later)]
    new = [event for event in events if event not in old]
    if old:
        pq.write_table(table_of(old).drop_columns(later), folder / "part-0.parquet")
    if new:
        pq.write_table(table_of(new), folder / "part-1.parquet")


def lines(events: list[Event]) -> str:
    fields = [{k: v for k, v in e._asdict().items() if v is not None and k != "file"} for e in events]
    return "".join(json.dumps(each) + "\n" for each in fields)


def json_lines(events: list[Event], folder: Path) -> None:
    (folder / "events.jsonl").write_text(lines(events))


def zipped_lines(events: list[Event], folder: Path) -> None:
    (folder / "events.jsonl.gz").write_bytes(gzip.compress(lines(events).encode()))


def zstandard_lines(events: list[Event], folder: Path) -> None:
    with pa.output_stream(str(folder / "events.jsonl.zst"), compression="zstd") as out:
        out.write(lines(events).encode())


Layout = Callable[[list["Event"], Path], None]

PARQUET: Final[dict[str, Layout]] = {
    each.__name__: each
    for each in (
        parquet,
        small_row_groups,
        empty_file,
        upper_case,
        delta_byte_array,
        dictionaries_as_deltas,
        null_subscriptions,
        no_optional_columns,
        narrow_integers,
        by_kind,
        by_topic,
        by_size,
        by_subscription,
        by_day,
        evolved,
    )
}
LINES: Final[dict[str, Layout]] = {
    each.__name__: each for each in (json_lines, zipped_lines, zstandard_lines)
}
