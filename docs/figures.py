"""Draw the charts of the site from the records of the benches, and write the page with all measurements."""

from __future__ import annotations

import json
import re
from html import escape
from pathlib import Path
from typing import Any, Final, NamedTuple


class Figure(NamedTuple):
    """Rows of one record that are drawn as one chart of bars."""

    name: str
    area: str
    title: str
    unit: str
    scale: float
    rows: tuple[str, ...]


FIGURES: Final = (
    Figure(
        "pending_acks_bytes",
        "pending_acks",
        "Pending acknowledgments: bytes each",
        "B",
        1,
        ("bytes an entry, 50,000 in 1 ledger", "… 16,384 ledgers × 64"),
    ),
    Figure(
        "delayed_time",
        "delayed",
        "Delayed messages: add all, then pop all",
        "ms",
        1e-6,
        ("bulk add + pop all, 500000, ns", "bulk add + pop all, 2000000, ns"),
    ),
    Figure(
        "position_info_time",
        "position_info",
        "A million acknowledged ranges as bytes",
        "ms",
        1e-6,
        ("1 M ranges: encode, ns", "1 M ranges: decode, ns"),
    ),
    Figure(
        "range_set_time",
        "range_set",
        "Acknowledged positions: CPU time of one call",
        "ns",
        1,
        ("add in order, every second entry", "contains at random, alternating"),
    ),
)
PEERS: Final = {
    "v424": "Pulsar 4.2.4",
    "v501": "Pulsar 5.0.1",
    "m1": "Pulsar 5.0.0-M1",
    "flat": "flat heap",
    "port": "hash-map plan",
    "open": "Pulsar (open set)",
    "default": "Pulsar (default set)",
    "position": "Pulsar 5.0.1",
    "best": "the fastest peer",
    "ackwell, rows": "ackwell (rows)",
    "SQL words, by name": "SQL words by name",
}
WIDTH: Final = 640
LABEL: Final = 150
BAR: Final = 18
# Readable on a light and on a dark page; text takes the colour that the reader's scheme asks for.
STYLE: Final = (
    "text{font:13px system-ui,sans-serif;fill:#24292f}.row{font-weight:600}"
    ".ours{fill:#2f6fde}.peer{fill:#9aa4b2}"
    "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.ours{fill:#6ea8fe}.peer{fill:#6b7686}}"
)


def bars_of(record: dict[str, Any], row: str) -> list[tuple[str, float]]:
    """Return the names and the values of a row: first ackwell, then each peer."""
    (bar,) = [bar for bar in record["bars"] if bar["row"] == row][:1] or [None]
    if bar is None:
        raise KeyError(f"the record of {record['area']} has no row {row!r}")
    return [
        ("ackwell", bar["ours"]),
        *((PEERS.get(peer, peer), value) for peer, value in bar["peers"].items()),
    ]


def draw(figure: Figure, record: dict[str, Any]) -> str:
    """Return the chart of one figure as SVG."""
    rows = [(row, bars_of(record, row)) for row in figure.rows]
    most = max(value for _, bars in rows for _, value in bars) * figure.scale
    parts, y = [], 8
    for row, bars in rows:
        y += 20
        parts.append(
            f'<text class="row" x="0" y="{y}">{escape(row.removesuffix(", ns").lstrip("… "))}</text>'
        )
        for name, value in bars:
            y += BAR + 6
            shown = value * figure.scale
            length = max(2, (WIDTH - LABEL - 90) * shown / most)
            kind = "ours" if name == "ackwell" else "peer"
            parts.append(f'<text x="{LABEL - 8}" y="{y}" text-anchor="end">{escape(name)}</text>')
            parts.append(
                f'<rect class="{kind}" x="{LABEL}" y="{y - 14}" width="{length:.1f}" height="{BAR}" rx="2"/>'
            )
            text = f"{shown:,.0f}" if shown >= 1000 else f"{shown:.3g}"
            parts.append(f'<text x="{LABEL + length + 6:.1f}" y="{y}">{text} {figure.unit}</text>')
        y += 12
    title, box = escape(figure.title), f"0 0 {WIDTH} {y + 8}"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{box}" role="img" aria-label="{title}">'
    return f"{head}<title>{title}</title><style>{STYLE}</style>{''.join(parts)}</svg>\n"


AREAS: Final = {
    "replay": (
        "Replay of Parquet files, one thread",
        """ackwell and DuckDB read the same files, with one event per row. The first column names the events:

| name | events |
|---|---|
| *plain* | entries without batches |
| *plain columns* | the same without Parquet's dictionary encoding |
| *file column* | the events of eight recorded files, with the column `file` |
| *dispatch, receive* | as *plain*, with an additional event for each delivery |
| *seek* | as *plain*, with one seek in the middle |
| *transactions* | acknowledgments in transactions of 100; one transaction in 50 stays open |
| *default fleet* | 200 subscriptions with all kinds of acknowledgment, 25 % of the messages delayed |
| *N mixed* | N subscriptions of equal size, with their events in the order of time |
| *batches* | batches of ten messages, 60 % of them acknowledged in a random order |
| *batches shuffled* | the same; in each window of 20 s, the events of all subscriptions are in random order |
| *batches in order* | batches of ten messages, 97 % of them acknowledged, mostly in order |
| *batches left open* | batches of ten, 27 % acknowledged in part, 10 % not at all; the result lists both |
| *batches of N* | one subscription with batches of N messages, 90 % of them acknowledged one by one |
| *ack sets of N* | entries acknowledged by ack sets of N words of 64 bits |
| *ack sets, one in twenty* | 5 % of the entries acknowledged by ack sets, and the other entries as a whole |
| *mixed kinds* | acknowledgments by batch index and by ack set |
""",
    ),
    "spark": (
        "The pipeline on Spark",
        """The first column names the events, or the measured step:

| name | events or step |
|---|---|
| *files* | the strategy `files`, on subscriptions of different sizes |
| *every kind of acknowledgment* | generated events, some of them in batches |
| *recorded traffic* | the events of a client that publishes in batches |
| *batches left open* | batches of ten messages, 27 % of them acknowledged in part, 10 % not at all |
| *finish of the hot subscription* | the merge of the partials of the largest subscription |
| *critical path* | the longest task of each stage, added up |
| *copies* | the events of the row *files* several times, under different file names |
| *small files* | events in many files |
| *N mixed* | N subscriptions of equal size, with their events in the order of time |
| *no JVM* | `ackwell replay`, without Spark |
| *worker* | the peak memory of a Python worker of Spark |

The peers are:

| name | peer |
|---|---|
| *ackwell (rows)* | the strategy `rows` |
| *SQL words* | a query in Spark SQL that counts acknowledged entries, 64 in one integer |
| *SQL words by name* | the same, grouped by the names instead of their hashes |
| *SQL windows* | a query in Spark SQL that finds the acknowledged ranges by window functions |
| *SQL with batches* | a query in Spark SQL that also supports batches |
| *scan* | Spark reads the columns without a query |
| *even data* | ackwell, on subscriptions of equal size |
| *200 mixed* | ackwell, on 200 subscriptions of equal size (see *N mixed*) |
| *DuckDB words*, *Polars words* | the query *SQL words*, in DuckDB or Polars |
| *DuckDB ranges*, *Polars ranges* | the query *SQL windows*, in DuckDB or Polars |
""",
    ),
    "pending_acks": (
        "Pending acknowledgments",
        """These rows measure the map of unacknowledged deliveries. *hash-map plan* is the structure that
apache/pulsar#26024 proposes. The peers in Java hold a lock, which costs about 8 ns of each
call. ackwell is measured without a lock.

| name | meaning |
|---|---|
| `LxE` | a map with L ledgers and E entries in total, which are consecutive in each ledger |
| *in order*, *at random* | the order in which the calls name the entries |
| *remaining* | the number of unacknowledged messages of an entry |
| *populate* | build the whole map |
| *for each* | visit every entry of the map |
| *remove half* | remove the older half of the entries |
| *equal values* | all entries have the same hash and count |
| *hashes of 32 mixed bits* | every hash is different |
| *every tenth entry* | the other entries of the ledger are not in the map |
| *from Python* | the calls through the Python class |
| *bare call* | a native call that does nothing |
""",
    ),
    "range_set": (
        "Acknowledged positions",
        """These rows measure the set of acknowledged positions.

| name | meaning |
|---|---|
| *every second entry* | a set with one million ranges |
| *7 of 10* | a set with 70 % of two million entries, added in a random order |
| *Pulsar (open set)* | the set of 4.2.4 that consists of bitmaps |
| *Pulsar (default set)* | the set of 4.2.4 that is a tree of ranges |
""",
    ),
    "position_info": (
        "Persisted states",
        """The state of a cursor is encoded to bytes, and decoded from them.

| name | meaning |
|---|---|
| *1 M ranges* | every second entry is acknowledged |
| *2 M entries* | 70 % of the entries are acknowledged, at random |
| *long array* | the form with bitmaps; all other rows use the form with ranges |
| *recover* | also create the broker's set of ranges |
| *protobuf* | Google's library for Python |
""",
    ),
    "delayed": (
        "Delayed messages",
        """These rows measure the structures for delayed messages.

| name | meaning |
|---|---|
| *flat heap* | a Java heap on arrays of integers |
| *tracker* | Pulsar's tracker of delayed messages |
| *bulk add + pop all, N* | add N messages to a `TripleLongHeap`, then remove all |
| *interleaved* | add up to 1,000 messages and remove 500, in turn |
| *steady state* | the same, with about 10,000 messages in the heap |
| `(x,y)` | 10 million messages in log order, x in each ms; the lower y bits of the times are cut off |
| `(rand,t)` | 10 million messages with random times in seven days, rounded to t ms |
| *buckets* | `TimeBuckets` |
| *wheel* | `TimeWheel`; its ticks have 2^y ms for `(x,y)`, and t ms for `(rand,t)` |
| *exact wheel* | `TimeWheel` with ticks of 1 ms |
| *while filling* | the memory after the last message was added, before the first one is removed |
| *drain* | remove all messages |
| *from Python* | one call of the Python class |
| *bare call* | a native call that does nothing |
""",
    ),
    "long_map": (
        "The hash map",
        """These rows measure a `LongMap` of 50,000 entries. The peers are the same map with other
keys or another history.

| name | meaning |
|---|---|
| *random* (peer) | the same call with random keys |
| *fresh* (peer) | a map without earlier changes |
| *miss* | a search for a key that is not in the map |
| *equal low bits* | keys that differ only in their higher bits |
| *cycle* | a removal of the oldest key and an insertion of another one |
""",
    ),
}
INTRODUCTION: Final = """<!-- Written by docs/figures.py. -->
# Figures

The tables show the newest measurements of each area. *ackwell* and *peers* are the measured values, in
the unit of the row. *target* is the limit for ackwell's value, in bold if ackwell misses it. The first
table has no targets: its ratio is bold if ackwell takes more CPU time than DuckDB. The *fastest peer* is
the peer with the least CPU time in that row.

All values of a row were measured in turn on one machine. Times are CPU time; *CPU-s* is a second of CPU
time. Compare values only within a row.
[`benches/record`](https://github.com/ackwell/ackwell/tree/main/benches/record) lists other measured
values, and explains how to repeat the measurements.
"""

NAMES: Final = {
    ("… a tenth of it open at random", ""): "finish of the hot subscription, a tenth of it unacknowledged",
    ("every pattern, batches too, beside SQL of the same", "ackwell, rows"): "every kind of acknowledgment",
    ("recorded traffic, beside SQL of the same", "ackwell, rows"): "recorded traffic",
    ("batches left open, beside SQL of the same", "ackwell, rows"): "batches left open",
    ("no JVM, a billion events of every pattern", ""): "no JVM, a billion events of every kind",
    ("… memory", ""): "no JVM, a billion events of every kind: memory",
    ("bytes an entry, 50,000 in 1 ledger", "v424"): "memory, 1x50000",
    ("… 16,384 ledgers × 64", "v424"): "memory, 16384x1048576",
    ("… equal values", ""): "memory, 1x50000, equal values",
    ("… hashes of 32 mixed bits", ""): "memory, 1x50000, hashes of 32 mixed bits",
    ("… 50,000 at a tenth of a dense window", ""): "memory, 1x50000, every tenth entry",
    ("… … hashes of 32 mixed bits", ""): "memory, 1x50000, every tenth entry, hashes of 32 mixed bits",
    ("… 57,000 at random in 2^40", ""): "memory, 57,000 entries at random in 2^40",
    ("remove half of 50,000, ns", "v424"): "remove half, 1x50000",
    ("… from Python: encode", "open"): "1 M ranges, from Python: encode",
    ("… from Python: decode", "open"): "1 M ranges, from Python: decode",
    ("… decoded and in a cursor", "open"): "1 M ranges, from Python: decode into a cursor",
    ("… encode", "protobuf"): "1 M ranges, from Python: encode",
    ("… decode", "protobuf"): "1 M ranges, from Python: decode",
    ("2 M, random 70 %: encode", "open"): "2 M entries: encode",
    ("… decode", "open"): "2 M entries: decode",
    ("… long array: encode", "open"): "2 M entries, long array: encode",
    ("… long array: decode and recover", "open"): "2 M entries, long array: decode and recover",
    ("1 M ranges of 5.0.1: encode, ns", "position"): "1 M ranges: encode",
    ("… of 5.0.1: decode and recover", "position"): "1 M ranges: decode and recover",
    ("2 M of 5.0.1, random 70 %: encode", "position"): "2 M entries: encode",
    ("… long array of 5.0.1: encode", "position"): "2 M entries, long array: encode",
    ("… long array of 5.0.1: decode and recover", "position"): "2 M entries, long array: decode and recover",
    ("7 days at random, exact: 10 M × 4.5 B", ""): "(rand,1) wheel, while filling",
    ("… ticks of 1 s: 10 M × 3.1 B", ""): "(rand,1000) wheel, while filling",
}
"""The name on the page of a row whose name in the record is unclear or continues the row above (`…`).

The key is the name in the record, and the first peer of the row.
"""

UNITS: Final = {
    "spark": (
        ("memory|^worker", "MB"),
        ("^finish|a tenth of it|critical path", "CPU-s"),
        ("", "CPU-s per million events"),
    ),
    "pending_acks": (
        ("^bytes|^…", "B per entry"),
        ("^(remove half|populate|for each)", "ns for all entries"),
        (r"remove \+ add", "ns per two calls"),
        ("batch of", "ns per entry"),
        ("", "ns per call"),
    ),
    "range_set": (("^bytes", "B per range"), ("^walk", "ns per range"), ("", "ns per call")),
    "position_info": (("", "ns"),),
    "delayed": (
        ("^bytes", "B per message"),
        ("filling|7 days|ticks", "B"),
        (", s$", "s"),
        ("in batches", "ns per message"),
        ("^from Python", "ns per call"),
        ("", "ns for all messages"),
    ),
    "long_map": (
        ("^bytes", "B per entry"),
        ("remove and insert", "ns per two calls"),
        ("", "ns per call"),
    ),
}
"""The units by area: pairs of a pattern and a unit. A row has the unit of the first pattern in its name."""


def unit_of(area: str, row: str) -> str:
    """Return the unit of a row."""
    return next(unit for pattern, unit in UNITS[area] if re.search(pattern, row))


def newest(records: Path, area: str) -> dict[str, Any]:
    """Return the newest record of an area."""
    path = max(records.glob(f"{area}-*.json"), key=lambda path: path.stem[-len("2026-11-21") :])
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def shown(value: float) -> str:
    """Return a number as text, with three significant digits or as an integer."""
    return f"{value:,.0f}" if value >= 1_000 else f"{value:.3g}"


def layout_rows(record: dict[str, Any]) -> list[str]:
    """Return a table with a row for each file layout in the record of the replay.

    A row has the CPU time and the memory of ackwell and of DuckDB.
    """
    medians = {(row["workload"], row["side"], row["operation"]): row["median"] for row in record["figures"]}
    rows = [
        "| events | ackwell, CPU-s per million events | DuckDB, the same | ackwell : DuckDB "
        "| ackwell, MB | DuckDB, MB |",
        "|---|---|---|---|---|---|",
    ]
    for layout in dict.fromkeys(workload for workload, *_ in medians):
        ours, peer, our_mb, peer_mb = (
            medians[layout, side, operation]
            for operation in ("CPU-s a million", "MB")
            for side in ("ackwell", "DuckDB")
        )
        mark = "**" if ours > peer else ""
        ratio = f"{mark}{ours / peer:.2f}{mark}"
        rows.append(
            f"| {layout} | {shown(ours)} | {shown(peer)} | {ratio} | {shown(our_mb)} | {shown(peer_mb)} |"
        )
    return rows


PEERS_IN: Final = re.compile(rf"\b({'|'.join(PEERS)})\b")


def target_of(bar: dict[str, Any]) -> str:
    """Return the target of a bar, in bold if it is missed."""
    text = PEERS_IN.sub(lambda name: PEERS[name[0]], bar["bar"])
    text = re.sub(r"(?<=^. )[\d.e+]+", lambda number: shown(float(number[0])), text)
    return text if bar["reached"] else f"**{text}**"


def name_of(bar: dict[str, Any]) -> str:
    """Return the name of a row on the page, which contains neither the unit nor the peer of the target."""
    row = bar["row"]
    name = NAMES.get((row, next(iter(bar["peers"]), "")), row)
    name = re.sub(r"(,? beside .*|, Pulsar 5\.0\.1|, n?s)$", "", name)
    name = re.sub(
        "^bytes an? (element|entry|range)", "memory", name.replace("alternating", "every second entry")
    )
    return re.sub(r"\b\d{5,}\b", lambda number: f"{int(number[0]):,}", name)


def bar_rows(record: dict[str, Any]) -> list[str]:
    """Return a table: a row for each measured value of a record, with all peers and targets of the value."""
    found: dict[tuple[str, str, str], tuple[dict[str, str], list[str]]] = {}
    for bar in record["bars"]:
        if bar["ours"] is not None:
            key = name_of(bar), unit_of(record["area"], bar["row"]), shown(bar["ours"])
            peers, targets = found.setdefault(key, ({}, []))
            peers.update((PEERS.get(peer, peer), shown(value)) for peer, value in bar["peers"].items())
            targets.append(target_of(bar))
    rows = ["| row | unit | ackwell | peers | target |", "|---|---|---|---|---|"]
    for key, (peers, targets) in found.items():
        cells = (*key, "; ".join(f"{peer}: {value}" for peer, value in peers.items()), "; ".join(targets))
        rows.append(f"| {' | '.join(cells)} |")
    return rows


def figures_page(records: Path) -> str:
    """Return the page of all measured values."""
    parts = [INTRODUCTION]
    for area, (title, meaning) in AREAS.items():
        record = newest(records, area)
        rows = layout_rows(record) if area == "replay" else bar_rows(record)
        parts.append(
            f"\n## {title}\n\n{meaning}\nMeasured on {record['machine']}, {record['taken'][:10]}.\n\n"
            + "\n".join(rows)
            + "\n"
        )
    return "".join(parts)


def write_figures(records: Path, folder: Path) -> None:
    """Write every chart, from the newest record of its area."""
    for figure in FIGURES:
        (folder / f"{figure.name}.svg").write_text(draw(figure, newest(records, figure.area)))


def write_page(records: Path, folder: Path) -> None:
    """Write the page of all measured values."""
    (folder / "figures.md").write_text(figures_page(records))


if __name__ == "__main__":
    HERE: Final = Path(__file__).parent
    RECORDS: Final = HERE.parent / "benches/record"
    write_figures(RECORDS, HERE / "images")
    write_page(RECORDS, HERE)
