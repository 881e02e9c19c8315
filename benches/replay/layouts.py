"""Events in common layouts, as Parquet files. A layout is written once, and always has the same events."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benches.fleet import Fleet, chunk_events, chunks

if TYPE_CHECKING:
    from numpy.typing import NDArray

PLAIN: Final = ("holes", "random", "oldest", "drained")
FEW: Final = 33
"""The number of subscriptions of most layouts."""
ENTRIES: Final = 1_300_000
"""The number of entries of a layout without batches. A layout of batches of ten has an eighth of it."""
_FILES: Final = 2
_ROW_GROUP: Final = 1 << 20


def write(folder: Path, name: str) -> Path:
    """Write one layout, unless it exists; return its folder."""
    place = folder / name.replace(" ", "-")
    if not (place / "_SUCCESS").exists():
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        table = LAYOUTS[name]()
        rows = -(-table.num_rows // _FILES)
        for number in range(_FILES):
            pq.write_table(
                table.slice(number * rows, rows),
                place / f"{number}.parquet",
                compression="zstd",
                row_group_size=_ROW_GROUP,
                use_dictionary=name != "plain columns",
            )
        (place / "_SUCCESS").touch()
    return place


def events_in(place: Path) -> int:
    """Count the events of a layout."""
    return sum(pq.read_metadata(path).num_rows for path in place.glob("*.parquet"))


def _fleet(entries: int, patterns: tuple[str, ...] = PLAIN, **more: Any) -> pa.Table:
    fleet = Fleet(**{"subscriptions": FEW, "delayed_share": 0, **more}, entries=entries, patterns=patterns)
    return pa.Table.from_batches(chunk_events(fleet, chunk) for chunk in chunks(fleet)).combine_chunks()


def _with(table: pa.Table, name: str, values: pa.Array) -> pa.Table:
    index = table.schema.get_field_index(name)
    return table.set_column(index, name, values.cast(table.schema.field(name).type))


def _all(value: str, rows: int) -> pa.Array:
    return pa.array([value]).take(pa.array(np.zeros(rows, np.int32)))


def _is(table: pa.Table, kind: str) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = pc.equal(table["kind"], kind).to_numpy()
    return found


def _batches() -> pa.Table:
    """Return the batches of `benches.fleet`: ten messages each, of which 60 % are acknowledged at random."""
    return _fleet(ENTRIES // 8, ("batches",))


def _shuffled() -> pa.Table:
    """Return batches of subscriptions of equal size, with the events of every twenty seconds shuffled."""
    table = _fleet(ENTRIES // 8, ("batches",), hot_share=1 / FEW)
    window = table["time_ms"].to_numpy() // 20_000
    draw = np.random.default_rng(1).random(table.num_rows)
    return table.take(pa.array(np.lexsort((draw, window))))


def _in_order() -> pa.Table:
    """Return batches of ten messages, of which 97 % are acknowledged, mostly in order."""
    table = _fleet(ENTRIES // 8, ("batches",))
    published = table.filter(pa.array(_is(table, "publish")))
    acked = published.filter(pa.array(np.random.default_rng(1).random(published.num_rows) < 0.97))
    acked = _with(acked, "kind", _all("ack", acked.num_rows))
    acked = _with(acked, "time_ms", pc.add(acked["time_ms"], 100))
    order = [(name, "ascending") for name in ("subscription", "topic", "time_ms")]
    return pa.concat_tables([published, acked]).sort_by(order)


def _much_open() -> pa.Table:
    """Return batches of ten messages in order: 63 % wholly, 27 % partly and 10 % not acknowledged."""
    table = _fleet(ENTRIES // 8, ("batches",))
    published = table.filter(pa.array(_is(table, "publish")))
    draw = np.random.default_rng(6)
    state = draw.random(1 << 20)[published["entry_id"].to_numpy() % (1 << 20)]
    is_acked = (state < 0.63) | ((state < 0.9) & (draw.random(published.num_rows) < 0.6))
    acked = published.filter(pa.array(is_acked))
    acked = _with(acked, "kind", _all("ack", acked.num_rows))
    acked = _with(acked, "time_ms", pc.add(acked["time_ms"], 100))
    order = [(name, "ascending") for name in ("subscription", "topic", "time_ms")]
    return pa.concat_tables([published, acked]).sort_by(order)


def _ack_sets(words: int, share: float = 1.0) -> pa.Table:
    """Return events in which a share of the acknowledgments has an ack set of random bits."""
    table = _fleet(ENTRIES)
    draw = np.random.default_rng(2)
    has_set = _is(table, "ack") & (draw.random(table.num_rows) < share)
    ends = np.concatenate(([0], np.cumsum(np.where(has_set, words, 0)))).astype(np.int32)
    bits = draw.integers(0, 2**62, int(ends[-1]), dtype=np.int64)
    sets = pa.ListArray.from_arrays(pa.array(ends), pa.array(bits), mask=pa.array(~has_set))
    table = _with(table, "ack_set", sets)
    return _with(table, "batch_size", pa.array(np.full(table.num_rows, 64 * words - 2)))


def _transactions() -> pa.Table:
    """Return acknowledgments in transactions of a hundred each. At the end, 49 in 50 are committed."""
    table = _fleet(ENTRIES)
    is_ack = _is(table, "ack")
    number = np.cumsum(is_ack) // 100
    names = pa.array([f"({each % 16},{each})" for each in range(int(number.max()) + 1)])
    named = pa.DictionaryArray.from_arrays(pa.array(number.astype(np.int32), mask=~is_ack), names)
    table = _with(table, "transaction", named.cast(pa.string()))
    topics = table["topic"].combine_chunks().dictionary_encode().indices.to_numpy()
    rows = np.flatnonzero(is_ack)
    _, first = np.unique(topics[rows].astype(np.int64) << 32 | number[rows], return_index=True)
    commits = table.take(pa.array(rows[first]))
    commits = commits.filter(pa.array(np.arange(commits.num_rows) % 50 != 0))
    commits = _with(commits, "kind", _all("commit", commits.num_rows))
    for name in ("ledger_id", "entry_id"):
        commits = _with(commits, name, pa.nulls(commits.num_rows))
    return pa.concat_tables([table, _with(commits, "sequence", pc.add(commits["sequence"], 10**9))])


def _seek() -> pa.Table:
    """Return events with a seek of the largest subscription in the middle."""
    table = _fleet(ENTRIES)
    middle = table.num_rows // 2
    seek = _with(table.slice(middle, 1), "kind", pa.array(["seek"]))
    table = pa.concat_tables([table.slice(0, middle), seek, table.slice(middle)]).combine_chunks()
    return _with(table, "sequence", pa.array(np.arange(table.num_rows)))


def _files() -> pa.Table:
    """Return events with a column `file`, which names one of eight files."""
    table = _fleet(ENTRIES)
    names = pa.array([f"s3a://bucket/file-{number}" for number in range(8)])
    numbers = np.arange(table.num_rows) * 8 // table.num_rows
    return _with(table, "file", names.take(pa.array(numbers)))


def _dispatched() -> pa.Table:
    """Return events in which each entry is also dispatched or received."""
    table = _fleet(ENTRIES * 2 // 3, receives=True)
    is_dispatch = _is(table, "receive") & (np.random.default_rng(3).random(table.num_rows) < 0.5)
    return _with(table, "kind", pc.if_else(pa.array(is_dispatch), "dispatch", table["kind"]))


def _mixed(subscriptions: int, patterns: tuple[str, ...] = PLAIN) -> pa.Table:
    """Return the events of subscriptions of equal size, in the order of time."""
    entries = ENTRIES if patterns == PLAIN else ENTRIES // 8
    table = _fleet(entries, patterns, subscriptions=subscriptions, hot_share=1 / subscriptions)
    return table.sort_by([("time_ms", "ascending")])


def _sized(size: int) -> pa.Table:
    """Return batches of one size in one subscription, with nine messages in ten acknowledged by index."""
    entries = max(2, 2 * ENTRIES // size)
    draw = np.random.default_rng(5)
    entry, index = np.repeat(np.arange(entries), size), np.tile(np.arange(size), entries)
    acked = draw.random(len(entry)) < 0.9
    entry, index = entry[acked], index[acked]
    order = np.argsort(entry + draw.integers(0, 3, len(entry)), kind="stable")
    rows = entries + len(entry)
    index = np.concatenate((np.full(entries, -1), index[order]))
    kinds = pa.array(["publish", "ack"]).take(pa.array(np.arange(rows) >= entries).cast(pa.int32()))
    columns = {
        "topic": _all("persistent://fleet/default/topic", rows),
        "subscription": _all("subscription", rows),
        "sequence": pa.array(np.arange(rows)),
        "kind": kinds,
        "ledger_id": pa.array(np.full(rows, 7)),
        "entry_id": pa.array(np.concatenate((np.arange(entries), entry[order]))),
        "batch_index": pa.array(index, mask=index < 0),
        "batch_size": pa.array(np.full(rows, size)),
    }
    schema = _fleet(FEW).schema
    return pa.table([columns.get(field.name, pa.nulls(rows, field.type)) for field in schema], schema=schema)


def _mixed_kinds() -> pa.Table:
    """Return acknowledgments by batch index and by ack sets of three words, mixed."""
    half = ENTRIES // 2
    batches, sets = _batches().slice(0, half), _ack_sets(3, 0.3).slice(0, half)
    table = pa.concat_tables([batches.cast(sets.schema), sets])
    place = np.arange(table.num_rows) % half + 3_000 * np.random.default_rng(9).random(table.num_rows)
    return table.take(pa.array(np.argsort(place)))


LAYOUTS: Final[dict[str, Callable[[], pa.Table]]] = {
    "warm": partial(_fleet, 20_000, Fleet().patterns),
    "plain": partial(_fleet, ENTRIES),
    "plain columns": partial(_fleet, ENTRIES),
    "file column": _files,
    "batches left open": _much_open,
    "dispatch, receive": _dispatched,
    "seek": _seek,
    "transactions": _transactions,
    "default fleet": partial(_fleet, ENTRIES // 2, Fleet().patterns, subscriptions=200, delayed_share=0.25),
    "5000 mixed": partial(_mixed, 5_000),
    "100000 mixed": partial(_mixed, 100_000),
    "batches": _batches,
    "batches shuffled": _shuffled,
    "batches in order": _in_order,
    "batches, 5000 mixed": partial(_mixed, 5_000, ("batches",)),
    "batches, 100000 mixed": partial(_mixed, 100_000, ("batches",)),
    **{f"batches of {size}": partial(_sized, size) for size in (1, 7, 64, 65, 1_000, 1 << 20)},
    **{f"ack sets of {words}": partial(_ack_sets, words) for words in (1, 4, 16)},
    "ack sets, one in twenty": partial(_ack_sets, 2, 0.05),
    "mixed kinds": _mixed_kinds,
}
