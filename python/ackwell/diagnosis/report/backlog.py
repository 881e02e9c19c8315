"""The map of a backlog: which entries are acknowledged, and which of them come back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from bokeh.plotting import figure as Figure  # noqa: N812
    from numpy.typing import NDArray

    from ackwell import PositionRangeSet
    from ackwell.arrays import Int64s
    from ackwell.diagnosis.doctor import Diagnosis


# Colours that keep their distance from each other, also without red and green, and from both a white
# and a black page; text and grid are a grey that is readable on either.
UNACKED: Final = "#8a8f9c"
KEPT: Final = "#2a9d8f"
COMES_BACK: Final = "#e4572e"
GREY: Final = "#7b8088"

BLOCKS: Final = " ▁▂▃▄▅▆▇█"
BLOCK_COUNT: Final = 20
ROWS: Final = 32
BINS: Final = 160
"""Columns of a coarse map."""


@dataclass(frozen=True, slots=True)
class _Axis:
    """The entries of the backlog in one line: ledger after ledger, from the mark-delete position on."""

    ledger_ids: Int64s
    first: Int64s
    """The first entry of each ledger that is in the backlog."""
    starts: Int64s
    """Where each ledger starts in the line; one more than there are ledgers."""

    @classmethod
    def of(cls, diagnosis: Diagnosis) -> _Axis:
        stats = diagnosis.stats
        mark_delete = stats.mark_delete_position
        rows = [
            (ledger_id, mark_delete.entry_id + 1 if ledger_id == mark_delete.ledger_id else 0, entries)
            for ledger_id, entries in stats.ledgers
            if ledger_id >= mark_delete.ledger_id
        ]
        rows = [row for row in rows if row[1] < row[2]]
        ids, first, ends = np.array(rows, dtype=np.int64).reshape(-1, 3).T
        return cls(ids, first, np.concatenate(([0], np.cumsum(ends - first))))

    @property
    def length(self) -> int:
        return int(self.starts[-1])

    def runs(self, ranges: PositionRangeSet) -> tuple[Int64s, Int64s]:
        """Place ranges on the line, as starts and ends; what is not on it is left out."""
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


def blocks(diagnosis: Diagnosis) -> list[tuple[str, str]]:
    """Return the share of acknowledged entries along the backlog as runs of blocks: (kind, blocks).

    The kind is `lost` where acknowledged entries come back, else `kept`.
    """
    axis = _Axis.of(diagnosis)
    if not axis.length:
        return []
    edges = np.linspace(0, axis.length, BLOCK_COUNT + 1)
    share = _covered(*axis.runs(diagnosis.stats.individually_deleted), edges)
    # Only what is wholly acknowledged, or not at all, is drawn as full, or empty.
    steps = np.where(share <= 0, 0, np.where(share >= 1, 8, np.clip(np.rint(share * 8), 1, 7)))
    marks = "".join(BLOCKS[step] for step in steps.astype(np.int64).tolist())
    coming_back = _coming_back(diagnosis)
    if coming_back is None:
        return [("kept", marks)]
    lost = _covered(*axis.runs(coming_back), edges) > 0
    runs = groupby(zip(lost.tolist(), marks, strict=True), key=itemgetter(0))
    return [("lost" if some else "kept", "".join(mark for _, mark in run)) for some, run in runs]


def _coming_back(diagnosis: Diagnosis) -> PositionRangeSet | None:
    """Return the entries that the worst of the restarts brings back; None if no restart brings any."""
    worst = max(diagnosis.restarts, key=lambda loss: loss.entries, default=None)
    return worst.ranges if worst is not None and worst.entries else None


def densest_row(diagnosis: Diagnosis) -> int:
    """Return how many runs the fullest row of the map has."""
    axis = _Axis.of(diagnosis)
    left, _ = axis.runs(diagnosis.stats.individually_deleted)
    if not len(left):
        return 0
    row = np.searchsorted(_row_starts(axis), left, side="right")
    return int(np.bincount(row).max())


def runs(diagnosis: Diagnosis) -> int:
    """Return how many rectangles a map in full detail takes."""
    return len(diagnosis.stats.individually_deleted)


def backlog_figure(diagnosis: Diagnosis, *, in_detail: bool) -> Figure:
    """Draw the map: a row a ledger (or several, where they are many), coloured by what happens to it."""
    from bokeh.models import ColumnDataSource, FactorRange, HoverTool, NumeralTickFormatter, Quad, Range1d
    from bokeh.plotting import figure

    axis = _Axis.of(diagnosis)
    row_starts = _row_starts(axis)
    names = _row_names(axis, row_starts)
    widest = int(np.diff(row_starts).max(initial=1))
    plot = figure(
        y_range=FactorRange(factors=names[::-1]),
        x_range=Range1d(start=0, end=widest),
        height=70 + 22 * max(len(names), 1),
        sizing_mode="stretch_width",
        tools="xwheel_zoom,xpan,reset",
        toolbar_location=None,
        output_backend="canvas",
    )
    layers = [_Layer("not acknowledged", UNACKED, row_starts[:-1], row_starts[1:])]
    layers += _acknowledged(diagnosis, axis)
    if not in_detail:
        edges = np.linspace(0, axis.length, min(BINS * len(names), axis.length) + 1).astype(np.int64)
        layers = [layers[0], *_stacked(layers[1:], edges)]
    for layer in layers:
        left, right, (bottom, top) = _split(layer.left, layer.right, (layer.bottom, layer.top), row_starts)
        row = np.searchsorted(row_starts, left, side="right") - 1
        # A row is 0.8 high; a share of it is drawn as height, for a mixed colour would say nothing.
        ground = len(names) - row - 0.9
        source = ColumnDataSource(
            {
                "bottom": (ground + 0.8 * bottom).astype(np.float32),
                "top": (ground + 0.8 * top).astype(np.float32),
                "left": (left - row_starts[row]).astype(np.int32),
                "right": (right - row_starts[row]).astype(np.int32),
            }
        )
        # `plot.quad` would make three more glyphs, for selections, which the page does not have.
        glyph = Quad(
            left="left",
            right="right",
            bottom="bottom",
            top="top",
            fill_color=layer.colour,
            line_color=None,
        )
        plot.add_glyph(source, glyph, name=layer.label)
    plot.add_tools(HoverTool(tooltips=[("", "$name"), ("entries", "@left{0,0} to @right{0,0}")]))
    plot.xaxis.formatter = NumeralTickFormatter(format="0,0")
    plot.xaxis.axis_label = "entries of the row, from the mark-delete position on"
    plot.ygrid.visible = False
    _dress(plot)
    return plot


def history_figure(history: Sequence[Diagnosis]) -> Figure:
    """Draw how ranges, backlog and what a restart brings back went over the dumps."""
    from bokeh.models import NumeralTickFormatter
    from bokeh.plotting import figure

    times = [diagnosis.stats.time_ms for diagnosis in history if diagnosis.stats.time_ms is not None]
    timed = len(times) == len(history)
    x = np.array(times if timed else range(1, len(history) + 1), dtype=np.float64)
    plot = figure(
        height=220,
        x_axis_type="datetime" if timed else "linear",
        sizing_mode="stretch_width",
        toolbar_location=None,
        tools="",
    )
    lines = (
        ("backlog entries", UNACKED, [d.stats.backlog_entries for d in history]),
        ("ranges", KEPT, [len(d.stats.individually_deleted) for d in history]),
        ("come back on a restart", COMES_BACK, [d.messages_lost.at_least for d in history]),
    )
    for label, colour, values in lines:
        y = np.array(values, dtype=np.float64)
        plot.line(x, y, line_color=colour, line_width=2, legend_label=label)
        plot.scatter(x, y, fill_color=colour, line_color=None, size=7)
    plot.yaxis.formatter = NumeralTickFormatter(format="0,0")
    if not timed:
        plot.xaxis.axis_label = "dump"
    _dress(plot)
    return plot


@dataclass(frozen=True, slots=True)
class _Layer:
    """Runs of the line that are drawn in one colour, each from one share of the row's height to another."""

    label: str
    colour: str
    left: Int64s
    right: Int64s
    bottom: NDArray[np.float64] = field(default_factory=lambda: np.zeros(1))
    top: NDArray[np.float64] = field(default_factory=lambda: np.ones(1))


def _stacked(layers: Sequence[_Layer], edges: Int64s) -> Iterator[_Layer]:
    """Draw the bins between edges instead: in each the shares of the layers, one above the other."""
    bottom = np.zeros(len(edges) - 1)
    for layer in layers:
        top = bottom + _covered(layer.left, layer.right, edges)
        some = top > bottom
        yield _Layer(layer.label, layer.colour, edges[:-1][some], edges[1:][some], bottom[some], top[some])
        bottom = top


def _acknowledged(diagnosis: Diagnosis, axis: _Axis) -> Iterator[_Layer]:
    """Return what survives, and what comes back: whole ranges are forgotten, never parts of one."""
    left, right = axis.runs(diagnosis.stats.individually_deleted)
    lost = np.zeros(len(left), np.bool_)
    coming_back = _coming_back(diagnosis)
    if coming_back is not None:
        lost = np.isin(right, axis.runs(coming_back)[1])
    yield _Layer("acknowledged", KEPT, left[~lost], right[~lost])
    if lost.any():
        yield _Layer("acknowledged, comes back", COMES_BACK, left[lost], right[lost])


def _dress(plot: Figure) -> None:
    """Make a figure readable on light and dark pages: no background, grey text."""
    plot.background_fill_alpha = plot.border_fill_alpha = 0
    plot.outline_line_color = None
    plot.grid.grid_line_color = GREY
    plot.grid.grid_line_alpha = 0.25
    for axis in plot.axis:
        axis.axis_line_color = axis.major_tick_line_color = GREY
        axis.minor_tick_line_color = None
        axis.major_label_text_color = axis.axis_label_text_color = GREY
        axis.axis_label_text_font_style = "normal"
    for legend in plot.legend:
        legend.background_fill_alpha = 0
        legend.border_line_color = None
        legend.label_text_color = GREY
        legend.location = "top_left"


def _row_starts(axis: _Axis) -> Int64s:
    """Cut the line into rows: a row a ledger, or as many ledgers together as it takes for `ROWS` rows."""
    ledgers = len(axis.ledger_ids)
    step = -(-ledgers // ROWS) or 1
    return np.append(axis.starts[:-1][::step], axis.starts[-1]) if ledgers else np.zeros(1, np.int64)


def _row_names(axis: _Axis, row_starts: Int64s) -> list[str]:
    step = -(-len(axis.ledger_ids) // ROWS) or 1
    names = []
    for row in range(len(row_starts) - 1):
        ids = axis.ledger_ids[row * step : (row + 1) * step]
        names.append(str(ids[0]) if len(ids) == 1 else f"{ids[0]}…{ids[-1]}")
    return names


def _split(
    left: Int64s, right: Int64s, heights: tuple[NDArray[np.float64], NDArray[np.float64]], row_starts: Int64s
) -> tuple[Int64s, Int64s, tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Cut at the ends of rows what crosses them."""
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


def _covered(left: Int64s, right: Int64s, edges: NDArray[np.float64] | Int64s) -> NDArray[np.float64]:
    """Return the covered share of each bin between edges; the runs are in order and do not touch."""
    marks = np.empty(2 * len(left) + 1, np.float64)
    totals = np.zeros(2 * len(left) + 1, np.float64)
    marks[0] = -1
    marks[1::2], marks[2::2] = left, right
    np.cumsum(right - left, out=totals[2::2])
    totals[1::2] = totals[0:-1:2]
    covered = np.interp(edges, marks, totals)
    widths = np.diff(edges)
    return np.divide(np.diff(covered), widths, out=np.zeros(len(widths)), where=widths > 0)
