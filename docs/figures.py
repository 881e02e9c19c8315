"""Draw the figures of the site from the records of the benches, and write the page that has them all."""

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
    "open": "Pulsar, open set",
    "default": "Pulsar, default set",
    "position": "Pulsar 5.0.1",
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
    """Return ackwell's value of a row and its peers'."""
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
    "replay": "Replay of Parquet files, one thread",
    "spark": "The pipeline on Spark",
    "pending_acks": "Pending acknowledgments",
    "range_set": "Acknowledged positions",
    "position_info": "Persisted states",
    "delayed": "Delayed messages",
    "long_map": "The hash map",
}
INTRODUCTION: Final = """<!-- Written by docs/figures.py. -->
# Figures

The tables show the newest measurements of each area. Each row is one case of a bench, named as in its
source in `benches`. A name that starts with `…` is a variant of the row above. *ackwell* and *peers* are
the measured values, and *bar* is the target value. The unit is in the name of the row, in the head of a
column, or in the column *bar*. A row is bold if ackwell is worse than a peer, or misses its bar.

All sides of a row ran in turn on one machine, and times are CPU time. Compare values only within a row.
[`benches/record`](https://github.com/ackwell/ackwell/tree/main/benches/record) lists other measured
values, and explains how to repeat the measurements.
"""


def newest(records: Path, area: str) -> dict[str, Any]:
    """Return the newest record of an area."""
    path = max(records.glob(f"{area}-*.json"), key=lambda path: path.stem[-len("2026-11-21") :])
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def shown(value: float) -> str:
    """Return a figure with three digits that count."""
    return f"{value:,.0f}" if value >= 1_000 else f"{value:.3g}"


def layout_rows(record: dict[str, Any]) -> list[str]:
    """Return a row for each layout of the replay's record: CPU and memory beside DuckDB's."""
    medians = {(row["workload"], row["side"], row["operation"]): row["median"] for row in record["figures"]}
    rows = [
        "| events | ackwell, CPU-s a million | DuckDB | ratio | ackwell, MB | DuckDB, MB |",
        "|---|---|---|---|---|---|",
    ]
    for layout in dict.fromkeys(workload for workload, *_ in medians):
        ours, peer, our_mb, peer_mb = (
            medians[layout, side, operation]
            for operation in ("CPU-s a million", "MB")
            for side in ("ackwell", "DuckDB")
        )
        mark = "**" if ours > peer else ""
        cells = [layout, shown(ours), shown(peer), f"{ours / peer:.2f}", shown(our_mb), shown(peer_mb)]
        rows.append("| " + " | ".join(f"{mark}{cell}{mark}" for cell in cells) + " |")
    return rows


PEERS_IN: Final = re.compile(rf"\b({'|'.join(PEERS)})\b")


def bar_rows(record: dict[str, Any]) -> list[str]:
    """Return a row for each bar of a record."""
    rows = ["| row | ackwell | peers | bar |", "|---|---|---|---|"]
    for bar in record["bars"]:
        if bar["ours"] is None:
            continue
        peers = ", ".join(f"{PEERS.get(peer, peer)} {shown(value)}" for peer, value in bar["peers"].items())
        mark = "" if bar["reached"] else "**"
        cells = [bar["row"], shown(bar["ours"]), peers, PEERS_IN.sub(lambda name: PEERS[name[0]], bar["bar"])]
        rows.append("| " + " | ".join(f"{mark}{cell}{mark}" if cell else "" for cell in cells) + " |")
    return rows


def figures_page(records: Path) -> str:
    """Return the page of all figures."""
    parts = [INTRODUCTION]
    for area, title in AREAS.items():
        record = newest(records, area)
        rows = layout_rows(record) if area == "replay" else bar_rows(record)
        parts.append(
            f"\n## {title}\n\n{record['machine']}, {record['taken'][:10]}.\n\n" + "\n".join(rows) + "\n"
        )
    return "".join(parts)


def write_figures(records: Path, folder: Path) -> None:
    """Write every figure from the newest record of its area."""
    for figure in FIGURES:
        (folder / f"{figure.name}.svg").write_text(draw(figure, newest(records, figure.area)))


def write_page(records: Path, folder: Path) -> None:
    """Write the page of all figures."""
    (folder / "figures.md").write_text(figures_page(records))


if __name__ == "__main__":
    HERE: Final = Path(__file__).parent
    RECORDS: Final = HERE.parent / "benches/record"
    write_figures(RECORDS, HERE / "images")
    write_page(RECORDS, HERE)
