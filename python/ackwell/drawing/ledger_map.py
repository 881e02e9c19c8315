"""The map of ledgers. It has one row for each ledger, and shows which entries are acknowledged.

The entries of all ledgers are arranged as one line, ledger after ledger. The map draws each run of
acknowledged entries as a rectangle. If a row has too many runs, the line is divided into bins of equal width,
and each bin shows the share of its entries that are acknowledged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ackwell._native import Ledgers, PositionRangeSet
    from ackwell.arrays import Int64s
    from ackwell.position import Position

# Colour-blind readers can distinguish these colours, on white pages and on black pages.
UNACKED: Final = "#8a8f9c"
ACKED: Final = "#2a9d8f"

BLOCKS: Final = " ▁▂▃▄▅▆▇█"
BLOCK_COUNT: Final = 40
"""The number of block characters in the longest row on a terminal."""
ROWS: Final = 32
"""The maximum number of rows of a map. If there are more ledgers, several ledgers share a row."""
BINS: Final = 160
"""The average number of bins per row, in a map that is divided into bins."""

WIDTH: Final = 720
"""The width of the map in SVG units. A unit is a pixel if the page is wide enough."""
ROW_HEIGHT: Final = 16
"""The height of a row in pixels. The rectangles take 80 % of the height, and the rest separates the rows."""


@dataclass(frozen=True, slots=True)
class Line:
    """The entries of several ledgers as one line. An entry's offset is the number of entries before it."""

    ledger_ids: Int64s
    first: Int64s
    """For each ledger, the id of the first of its entries that are on the line."""
    starts: Int64s
    """For each ledger, the offset at which it starts on the line. The last item is the end of the line."""

    @classmethod
    def of(cls, rows: Iterable[tuple[int, int, int]]) -> Line:
        """Return the line of the entries in `rows`. Each row is `(ledger_id, first, end)`.

        A row has the entries `first` to `end - 1` of a ledger. Rows without entries are skipped.
        """
        some = [row for row in rows if row[1] < row[2]]
        ids, first, ends = np.array(some, dtype=np.int64).reshape(-1, 3).T
        return cls(ids, first, np.concatenate(([0], np.cumsum(ends - first))))

    @classmethod
    def beyond(cls, ledgers: Ledgers, mark_delete: Position) -> Line:
        """Return the line of all entries after the mark-delete position."""
        return cls.of(
            (ledger_id, mark_delete.entry_id + 1 if ledger_id == mark_delete.ledger_id else 0, entries)
            for ledger_id, entries in ledgers
            if ledger_id >= mark_delete.ledger_id
        )

    @classmethod
    def within(cls, ranges: PositionRangeSet) -> Line:
        """Return a line of the ledgers that have entries in the ranges.

        The line has the entries of each ledger from its first to its last entry in the ranges.
        """
        spans: dict[int, tuple[int, int, int]] = {}
        for ledger_id, lower, upper in zip(*(each.tolist() for each in ranges.to_arrays()), strict=True):
            spans[ledger_id] = (ledger_id, spans.get(ledger_id, (0, lower + 1))[1], upper + 1)
        return cls.of(spans.values())

    @property
    def length(self) -> int:
        """The number of entries on the line."""
        return int(self.starts[-1])

    def runs(self, ranges: PositionRangeSet) -> tuple[Int64s, Int64s]:
        """Return two arrays: the offsets at which the ranges start on the line, and those at which they end.

        Positions that are not on the line are skipped.
        """
        ledger_ids, lowers, uppers = ranges.to_arrays()
        if not len(self.ledger_ids) or not len(ledger_ids):
            return np.empty(0, np.int64), np.empty(0, np.int64)
        row = np.searchsorted(self.ledger_ids, ledger_ids).clip(max=len(self.ledger_ids) - 1)
        known = self.ledger_ids[row] == ledger_ids
        size = np.diff(self.starts)[row]
        left = self.starts[row] + (lowers + 1 - self.first[row]).clip(0, size)
        right = self.starts[row] + (uppers + 1 - self.first[row]).clip(0, size)
        some = known & (left < right)
        return left[some], right[some]

    @property
    def row_starts(self) -> Int64s:
        """For each row of the map, the offset at which it starts. The last item is the end of the line.

        A row has one or more whole ledgers. A map has at most `ROWS` rows.
        """
        if not len(self.ledger_ids):
            return np.zeros(1, np.int64)
        return np.append(self.starts[:-1][:: self._step], self.starts[-1])

    @property
    def row_names(self) -> list[str]:
        """The name of each row of the map: its ledger id, or its first and last ledger id."""
        step = self._step
        rows = [self.ledger_ids[start : start + step] for start in range(0, len(self.ledger_ids), step)]
        return [str(ids[0]) if len(ids) == 1 else f"{ids[0]}…{ids[-1]}" for ids in rows]

    @property
    def _step(self) -> int:
        return -(-len(self.ledger_ids) // ROWS) or 1

    def densest_row(self, ranges: PositionRangeSet) -> int:
        """Return the number of runs of `ranges` in the row that has the most runs."""
        left, _ = self.runs(ranges)
        if not len(left):
            return 0
        return int(np.bincount(np.searchsorted(self.row_starts, left, side="right")).max())


@dataclass(frozen=True, slots=True)
class Layer:
    """Runs of entries that are drawn in one colour.

    `left` and `right` are offsets on the line. `bottom` and `top` are shares of the height of a row.
    """

    label: str
    colour: str
    left: Int64s
    right: Int64s
    bottom: NDArray[np.float64] = field(default_factory=lambda: np.zeros(1))
    top: NDArray[np.float64] = field(default_factory=lambda: np.ones(1))


@dataclass(frozen=True, slots=True)
class Rectangles:
    """The rectangles of one layer. A rectangle does not extend over several rows."""

    label: str
    colour: str
    row: Int64s
    left: Int64s
    """The distance of each rectangle's left edge from the start of its row, in entries."""
    right: Int64s
    bottom: NDArray[np.float64]
    """The lower edge of each rectangle, as a share of the row's height. If a bin has several layers, their
    rectangles are one above the other, because a mixed colour would be hard to read."""
    top: NDArray[np.float64]


def rectangles(line: Line, layers: Sequence[Layer], *, in_detail: bool) -> Iterator[Rectangles]:
    """Yield the rectangles of the background, and then the rectangles of each layer.

    With `in_detail`, a layer has one rectangle for each of its runs. Otherwise it has one for each bin.
    """
    starts = line.row_starts
    if not in_detail:
        edges = np.linspace(0, line.length, min(BINS * (len(starts) - 1), line.length) + 1).astype(np.int64)
        layers = list(_stacked(layers, edges))
    for layer in [Layer("not acknowledged", UNACKED, starts[:-1], starts[1:]), *layers]:
        left, right, (bottom, top) = _split(layer.left, layer.right, (layer.bottom, layer.top), starts)
        row = np.searchsorted(starts, left, side="right") - 1
        yield Rectangles(layer.label, layer.colour, row, left - starts[row], right - starts[row], bottom, top)


def html(line: Line, ranges: PositionRangeSet) -> str:
    """Return the map as HTML: the names of the rows and an SVG image. O(ranges).

    The HTML has at most some hundred kilobytes. On a narrow page the image is narrower, but the size of the
    text and the height of the rows stay the same.
    """
    if not line.length:
        return ""
    names, in_detail = line.row_names, line.densest_row(ranges) <= BINS
    scale = WIDTH / int(np.diff(line.row_starts).max())
    parts = []
    for layer in rectangles(line, [Layer("acknowledged", ACKED, *line.runs(ranges))], in_detail=in_detail):
        x, width = layer.left * scale, (layer.right - layer.left) * scale
        top = (layer.row + 0.9 - 0.8 * layer.top) * ROW_HEIGHT
        height = 0.8 * (layer.top - layer.bottom) * ROW_HEIGHT
        columns = (each.tolist() for each in np.broadcast_arrays(x, top, width, height))
        path = "".join(
            f"M{a:.1f} {b:.1f}h{w:.2f}v{h:.1f}h-{w:.2f}z" for a, b, w, h in zip(*columns, strict=True)
        )
        parts.append(f'<path fill="{layer.colour}" d="{path}"><title>{layer.label}</title></path>')
    label, height_px = "every entry" if in_detail else "shares of entries", len(names) * ROW_HEIGHT
    return (
        f'<div style="display:flex;max-width:{WIDTH}px;font:11px/{ROW_HEIGHT}px sans-serif">'
        f'<div style="text-align:right;white-space:nowrap;padding-right:6px">{"<br>".join(names)}</div>'
        f'<svg xmlns="http://www.w3.org/2000/svg" width="100%" height="{height_px}" '
        f'viewBox="0 0 {WIDTH} {height_px}" preserveAspectRatio="none" style="flex:1;min-width:0" '
        f'role="img" aria-label="acknowledged entries by ledger: {label}">'
        f"{''.join(parts)}</svg></div>"
    )


def rows_of_blocks(line: Line, ranges: PositionRangeSet) -> Iterator[tuple[str, str]]:
    """Yield the name of each row and its block characters, which show the share of acknowledged entries."""
    starts, runs = line.row_starts, line.runs(ranges)
    widest = int(np.diff(starts).max(initial=1))
    for name, start, end in zip(line.row_names, starts[:-1].tolist(), starts[1:].tolist(), strict=True):
        count = max(1, round(BLOCK_COUNT * (end - start) / widest))
        yield name, blocks(covered(*runs, np.linspace(start, end, count + 1)))


def blocks(share: NDArray[np.float64]) -> str:
    """Return a text with one block character for each share.

    The block is full only if the share is 1, and empty only if the share is 0.
    """
    steps = np.where(share <= 0, 0, np.where(share >= 1, 8, np.clip(np.rint(share * 8), 1, 7)))
    return "".join(BLOCKS[step] for step in steps.astype(np.int64).tolist())


def covered(left: Int64s, right: Int64s, edges: NDArray[np.float64] | Int64s) -> NDArray[np.float64]:
    """Return one share per bin: the number of its entries that belong to a run, divided by its width.

    A bin is between two successive `edges`. Run `i` is from `left[i]` to `right[i]`. The runs must be sorted
    and must not touch each other.
    """
    marks = np.empty(2 * len(left) + 1, np.float64)
    totals = np.zeros(2 * len(left) + 1, np.float64)
    marks[0] = -1
    marks[1::2], marks[2::2] = left, right
    np.cumsum(right - left, out=totals[2::2])
    totals[1::2] = totals[0:-1:2]
    total = np.interp(edges, marks, totals)
    widths = np.diff(edges)
    return np.divide(np.diff(total), widths, out=np.zeros(len(widths)), where=widths > 0)


def _stacked(layers: Iterable[Layer], edges: Int64s) -> Iterator[Layer]:
    """Convert each layer to a layer with one run per bin.

    The height of a run is the share of the bin's entries that are in the original layer. The runs of
    different layers in the same bin are stacked one above the other.
    """
    bottom = np.zeros(len(edges) - 1)
    for layer in layers:
        top = bottom + covered(layer.left, layer.right, edges)
        some = top > bottom
        yield Layer(layer.label, layer.colour, edges[:-1][some], edges[1:][some], bottom[some], top[some])
        bottom = top


def _split(
    left: Int64s, right: Int64s, heights: tuple[NDArray[np.float64], NDArray[np.float64]], row_starts: Int64s
) -> tuple[Int64s, Int64s, tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Split each run that continues in the next row. Return the starts, ends and heights of all runs."""
    bottom, top = (np.broadcast_to(height, left.shape) for height in heights)
    row = np.searchsorted(row_starts, left, side="right") - 1
    ends = row_starts[np.minimum(row + 1, len(row_starts) - 1)]
    crossing = right > ends
    if not crossing.any():
        return left, right, (bottom, top)
    rest = _split(ends[crossing], right[crossing], (bottom[crossing], top[crossing]), row_starts)
    return (
        np.concatenate((left, rest[0])),
        np.concatenate((np.minimum(right, ends), rest[1])),
        (np.concatenate((bottom, rest[2][0])), np.concatenate((top, rest[2][1]))),
    )
