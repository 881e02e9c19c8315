"""Draw the figures of the site from the records of the benches, as SVG."""

from __future__ import annotations

import json
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


def write_figures(records: Path, folder: Path) -> None:
    """Write every figure from the newest record of its area."""
    for figure in FIGURES:
        newest = max(records.glob(f"{figure.area}-*.json"), key=lambda path: path.stem[-len("2026-11-21") :])
        (folder / f"{figure.name}.svg").write_text(draw(figure, json.loads(newest.read_text())))
