"""A synthetic fleet: the events of many subscriptions, the same on every machine.

Each subscription acknowledges in one of the patterns of `PATTERNS`. The first subscription is hot: its topic
has the share `hot_share` of all entries. Events are drawn in chunks of one subscription. Each chunk has its
own seed, so the events do not depend on the number of files or tasks.

    python -m benches.fleet events/ --subscriptions 200 --entries 1000000
"""

from __future__ import annotations

from argparse import ArgumentDefaultsHelpFormatter, ArgumentParser
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ackwell.replay import table_schemas
from ackwell.replay.events import Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

PATTERNS: Final = ("holes", "random", "oldest", "drained", "cumulative", "batches")
"""The patterns of acknowledgments. In their order, they leave these messages unacknowledged: one in 1,000;
one in ten at random; only the first; none; none, by cumulative acknowledgments of 100 messages at a time; and
40 % of the messages of batches of ten."""

CHUNK_ENTRIES: Final = 100_000
"""The number of entries of one chunk, which takes tens of MB of memory while it is drawn."""

BATCH_SIZE: Final = 10
CUMULATIVE_EVERY: Final = 100
_SEQUENCES_PER_ENTRY: Final = 64
_START_MS: Final = 1_760_000_000_000
_ENTRY_MS: Final = 10
_HOUR_MS: Final = 3_600_000

_KINDS: Final = [Kind.PUBLISH, Kind.RECEIVE, Kind.ACK, Kind.ACK_CUMULATIVE]
_PUBLISH, _RECEIVE, _ACK, _CUMULATIVE = range(4)
_SCHEMA: Final = table_schemas.arrow_schema(table_schemas.EVENTS)


@dataclass(frozen=True, slots=True)
class Fleet:
    """The parameters of a fleet.

    `entries` is the number of entries of all subscriptions together. An entry results in up to two events, or
    three with `receives`. An entry of the pattern `batches` results in about 16, or 26 with `receives`.
    """

    subscriptions: int = 200
    entries: int = 1_000_000
    hot_share: float = 0.5
    patterns: tuple[str, ...] = PATTERNS
    receives: bool = False
    entries_per_ledger: int = 50_000
    ack_window: int = 2_000
    """The maximum number of entries between the publish of a message and its acknowledgment."""
    delayed_share: float = 0.25
    """The share of subscriptions whose messages are delayed."""
    consumers: int = 3
    seed: int = 0

    def __post_init__(self) -> None:
        unknown = set(self.patterns) - set(PATTERNS)
        if unknown or not self.patterns:
            raise ValueError(f"unknown patterns {sorted(unknown)}; known are {PATTERNS}")
        if not 0 <= self.hot_share <= 1 or not 0 <= self.delayed_share <= 1:
            raise ValueError("a share is between 0 and 1")
        if min(self.subscriptions, self.entries_per_ledger, self.ack_window, self.consumers) < 1:
            raise ValueError("subscriptions, entries per ledger, window and consumers are >= 1")

    def entries_of(self, subscription: int) -> int:
        """Return the number of entries of one subscription's topic."""
        hot = int(self.entries * self.hot_share) if self.subscriptions > 1 else self.entries
        if subscription == 0:
            return hot
        rest, others = self.entries - hot, self.subscriptions - 1
        return rest // others + (subscription <= rest % others)


class Chunk(NamedTuple):
    """Some entries of one subscription."""

    subscription: int
    first_entry: int
    entries: int


def chunks(fleet: Fleet) -> list[Chunk]:
    """Return all chunks of a fleet."""
    return [
        Chunk(subscription, first, min(CHUNK_ENTRIES, total - first))
        for subscription in range(fleet.subscriptions)
        for total in [fleet.entries_of(subscription)]
        for first in range(0, total, CHUNK_ENTRIES)
    ]


def shares(units: list[Chunk], count: int) -> list[list[Chunk]]:
    """Split the chunks, in their order, into at most `count` shares with about the same number of entries."""
    ends = np.cumsum([unit.entries for unit in units])
    bounds = np.searchsorted(ends, ends[-1] * np.arange(1, count) / count).tolist() if units else []
    split = [units[start:end] for start, end in pairwise([0, *bounds, len(units)])]
    return [share for share in split if share] or [[]]


def write_fleet(fleet: Fleet, folder: Path, *, files: int = 8) -> int:
    """Write a fleet's events as Parquet files, and return the number of events."""
    folder.mkdir(parents=True)
    count = 0
    for number, share in enumerate(shares(chunks(fleet), files)):
        path = folder / f"part-{number:03}.zstd.parquet"
        with pq.ParquetWriter(path, _SCHEMA, compression="zstd") as writer:
            for chunk in share:
                events = chunk_events(fleet, chunk)
                writer.write_batch(events)
                count += events.num_rows
    return count


def chunk_events(fleet: Fleet, chunk: Chunk) -> pa.RecordBatch:
    """Draw the events of one chunk, in order."""
    pattern = fleet.patterns[chunk.subscription % len(fleet.patterns)]
    random = np.random.default_rng([fleet.seed, chunk.subscription, chunk.first_entry])
    entries = np.arange(chunk.first_entry, chunk.first_entry + chunk.entries, dtype=np.int64)
    batched = BATCH_SIZE if pattern == "batches" else 0
    entry = np.repeat(entries, batched or 1)
    batch_index = np.tile(np.arange(batched), chunk.entries) if batched else None

    acked = _acked(pattern, entry, random)
    # The time of an event, in entries published; at equal times the order is publish, receive, ack.
    ack_moment = entry[acked] + random.integers(1, fleet.ack_window + 1, int(acked.sum()))
    ack_kind = _ACK
    if pattern == "cumulative":
        ack_kind, ack_moment = _CUMULATIVE, entry[acked] + 1
    parts = [(_PUBLISH, entry, batch_index, entry)]
    if fleet.receives:
        parts.append((_RECEIVE, entry, batch_index, entry))
    parts.append((ack_kind, entry[acked], _take(batch_index, acked), ack_moment))

    kind = np.concatenate([np.full(len(part[1]), part[0]) for part in parts])
    entry = np.concatenate([part[1] for part in parts])
    index = np.concatenate([part[2] for part in parts]) if batched else None
    moment = np.concatenate([part[3] for part in parts])
    order = np.argsort(moment, kind="stable")
    kind, entry, moment = kind[order], entry[order], moment[order]
    published_ms = _START_MS + entry * _ENTRY_MS
    delays = _delays(fleet, chunk.subscription, entry)
    return _record_batch(
        topic=_constant(f"persistent://fleet/default/topic-{chunk.subscription:05}", len(kind)),
        subscription=_constant("subscription", len(kind)),
        sequence=pa.array(chunk.first_entry * _SEQUENCES_PER_ENTRY + np.arange(len(kind))),
        kind=pa.DictionaryArray.from_arrays(kind.astype(np.int32), _KINDS).cast(pa.string()),
        time_ms=pa.array(_START_MS + moment * _ENTRY_MS),
        consumer=_consumers(fleet, kind, entry),
        ledger_id=pa.array(_first_ledger(chunk.subscription) + entry // fleet.entries_per_ledger),
        entry_id=pa.array(entry % fleet.entries_per_ledger),
        batch_index=None if index is None else pa.array(index[order].astype(np.int64)),
        batch_size=None if index is None else pa.array(np.full(len(kind), BATCH_SIZE)),
        deliver_at_ms=(None if delays is None else pa.array(published_ms + delays, mask=kind != _PUBLISH)),
    )


def _acked(pattern: str, entry: NDArray[np.int64], random: np.random.Generator) -> NDArray[np.bool_]:
    """Return which messages are acknowledged."""
    acked = np.ones(len(entry), dtype=bool)
    if pattern == "holes":
        acked[entry % 1_000 == 0] = False
    elif pattern == "random":
        acked[random.random(len(entry)) >= 0.9] = False
    elif pattern == "oldest":
        acked[entry == 0] = False
    elif pattern == "cumulative":
        acked[entry % CUMULATIVE_EVERY != CUMULATIVE_EVERY - 1] = False
    elif pattern == "batches":
        acked[random.random(len(entry)) >= 0.6] = False
    return acked


def _delays(fleet: Fleet, subscription: int, entry: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """Draw delays in ms. Each subscription has one distribution.

    The delays are fixed, exponential with a mean of an hour, or uniform over seven days. All messages of an
    entry have the same delay, because a batch has one time.
    """
    if (subscription * 61 % 100) >= fleet.delayed_share * 100:
        return None
    uniform = (((entry + 1) * 0x5851F42D4C957F2D) >> 24 & 0xFFFFFFFF) / 2**32
    match subscription % 3:
        case 0:
            return np.full(len(entry), _HOUR_MS // 60, dtype=np.int64)
        case 1:
            return (-np.log1p(-uniform) * _HOUR_MS).astype(np.int64)
        case _:
            return (uniform * 7 * 24 * _HOUR_MS).astype(np.int64)


def _first_ledger(subscription: int) -> int:
    """Return the first ledger id of a topic. No two topics share a ledger."""
    return 1 + subscription * 1_000_000


def _take(values: NDArray[np.int64] | None, mask: NDArray[np.bool_]) -> NDArray[np.int64] | None:
    return None if values is None else values[mask]


def _constant(value: str, length: int) -> pa.Array:
    return pa.array([value]).take(pa.array(np.zeros(length, dtype=np.int32)))


def _consumers(fleet: Fleet, kind: NDArray[np.int64], entry: NDArray[np.int64]) -> pa.Array:
    """Return the consumer of each event, in turn by entry; a publish has none."""
    names = [f"consumer-{number}" for number in range(fleet.consumers)]
    indexes = pa.array((entry % fleet.consumers).astype(np.int32), mask=kind == _PUBLISH)
    return pa.DictionaryArray.from_arrays(indexes, names).cast(pa.string())


def _record_batch(**columns: pa.Array | None) -> pa.RecordBatch:
    """Return a batch of all event columns in their order; columns that are not given are null."""
    length = len(columns["topic"])  # type: ignore[arg-type]
    return pa.record_batch(
        [
            pa.nulls(length, field.type) if (given := columns.get(field.name)) is None else given
            for field in _SCHEMA
        ],
        schema=_SCHEMA,
    )


def main() -> None:
    """Write the fleet that the command line describes."""
    arguments = ArgumentParser(
        description="Write a synthetic fleet.", formatter_class=ArgumentDefaultsHelpFormatter
    )
    arguments.add_argument("folder", type=Path, help="the folder to create")
    arguments.add_argument("--files", type=int, default=8, help="the number of files")
    defaults = Fleet()
    for name in ("subscriptions", "entries", "seed"):
        arguments.add_argument(f"--{name}", type=int, default=getattr(defaults, name))
    arguments.add_argument("--hot-share", type=float, default=defaults.hot_share)
    arguments.add_argument("--receives", action="store_true", help="add the events `receive`")
    given = vars(arguments.parse_args())
    folder, files = given.pop("folder"), given.pop("files")
    print(f"{write_fleet(Fleet(**given), folder, files=files):,} events in {folder}")


if __name__ == "__main__":
    main()
