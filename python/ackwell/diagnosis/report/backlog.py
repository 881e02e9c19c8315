"""Draw the map of a backlog: acknowledged entries, and entries whose acknowledgment a restart loses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Final

import numpy as np

from ackwell.drawing import ledger_map
from ackwell.drawing.ledger_map import ACKED, UNACKED, Layer, Line, covered, rectangles

if TYPE_CHECKING:
    from bokeh.plotting import figure as Figure  # noqa: N812

    from ackwell import PositionRangeSet
    from ackwell.diagnosis.doctor import Diagnosis

COMES_BACK: Final = "#e4572e"
GREY: Final = "#7b8088"
"""The colour of text and grid, which is readable on a white page and on a black one."""

BLOCK_COUNT: Final = 20


def line_of(diagnosis: Diagnosis) -> Line:
    """Return a `Line` of the existing entries after the mark-delete position."""
    return Line.beyond(diagnosis.stats.ledgers, diagnosis.stats.mark_delete_position)


def blocks(diagnosis: Diagnosis) -> list[tuple[str, str]]:
    """Return block characters that show the share of acknowledged entries along the backlog.

    The characters are in groups `(kind, characters)`. The kind is `lost` if a restart loses acknowledgments
    in this part of the backlog, else `kept`.
    """
    line = line_of(diagnosis)
    if not line.length:
        return []
    edges = np.linspace(0, line.length, BLOCK_COUNT + 1)
    marks = ledger_map.blocks(covered(*line.runs(diagnosis.stats.individually_deleted), edges))
    coming_back = _coming_back(diagnosis)
    if coming_back is None:
        return [("kept", marks)]
    lost = covered(*line.runs(coming_back), edges) > 0
    runs = groupby(zip(lost.tolist(), marks, strict=True), key=itemgetter(0))
    return [("lost" if some else "kept", "".join(mark for _, mark in run)) for some, run in runs]


def _coming_back(diagnosis: Diagnosis) -> PositionRangeSet | None:
    """Return the entries whose acknowledgments the worst restart loses; None if no restart loses any."""
    worst = max(diagnosis.restarts, key=lambda loss: loss.entries, default=None)
    return worst.ranges if worst is not None and worst.entries else None


def backlog_figure(diagnosis: Diagnosis, *, in_detail: bool) -> Figure:
    """Draw the map: each row is one ledger, or several ledgers, and each entry is coloured by its state."""
    from bokeh.models import ColumnDataSource, FactorRange, HoverTool, NumeralTickFormatter, Quad, Range1d
    from bokeh.plotting import figure

    line = line_of(diagnosis)
    names = line.row_names
    widest = int(np.diff(line.row_starts).max(initial=1))
    plot = figure(
        y_range=FactorRange(factors=names[::-1]),
        x_range=Range1d(start=0, end=widest),
        height=70 + 22 * max(len(names), 1),
        sizing_mode="stretch_width",
        tools="xwheel_zoom,xpan,reset",
        toolbar_location=None,
        output_backend="canvas",
    )
    for layer in rectangles(line, list(_acknowledged(diagnosis, line)), in_detail=in_detail):
        ground = len(names) - layer.row - 0.9
        source = ColumnDataSource(
            {
                "bottom": (ground + 0.8 * layer.bottom).astype(np.float32),
                "top": (ground + 0.8 * layer.top).astype(np.float32),
                "left": layer.left.astype(np.int32),
                "right": layer.right.astype(np.int32),
            }
        )
        # `plot.quad` would add three more glyphs for selections. The page has no selections.
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
    _style(plot)
    return plot


def history_figure(history: Sequence[Diagnosis]) -> Figure:
    """Draw the number of ranges, the backlog and the predicted loss over the times of the dumps."""
    from bokeh.models import DatetimeTickFormatter, NumeralTickFormatter
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
        ("ranges", ACKED, [d.stats.range_count for d in history]),
        ("redelivered after a restart", COMES_BACK, [d.messages_lost.at_least for d in history]),
    )
    for label, colour, values in lines:
        y = np.array(values, dtype=np.float64)
        plot.line(x, y, line_color=colour, line_width=2, legend_label=label)
        plot.scatter(x, y, fill_color=colour, line_color=None, size=7)
    plot.yaxis.formatter = NumeralTickFormatter(format="0,0")
    if timed:
        time, second = "%d %b %H:%M", "%H:%M:%S"
        plot.xaxis.formatter = DatetimeTickFormatter(
            seconds=second,
            minsec=second,
            minutes=time,
            hourmin=time,
            hours=time,
            days="%d %b %Y",
            months="%b %Y",
        )
    else:
        plot.xaxis.axis_label = "dump"
    _style(plot)
    return plot


def _acknowledged(diagnosis: Diagnosis, line: Line) -> Iterator[Layer]:
    """Yield two layers of acknowledged ranges: those that a restart keeps, and those that it loses."""
    left, right = line.runs(diagnosis.stats.individually_deleted)
    lost = np.zeros(len(left), np.bool_)
    coming_back = _coming_back(diagnosis)
    if coming_back is not None:
        lost = np.isin(right, line.runs(coming_back)[1])
    yield Layer("acknowledged", ACKED, left[~lost], right[~lost])
    if lost.any():
        yield Layer("acknowledged, redelivered after a restart", COMES_BACK, left[lost], right[lost])


def _style(plot: Figure) -> None:
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
