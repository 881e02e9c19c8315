"""Display values as HTML in notebooks, and with Rich in terminals.

A `Drawing` has the displayed content of a value: numbers, the rows of a table, and the acknowledged entries
for a map. `ledger_map` draws the map. The HTML report of `ackwell doctor` also uses `ledger_map`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ackwell._native import PositionRangeSet
    from ackwell.drawing.ledger_map import Line


class DrawableValue:
    """A base class for values with a `drawing`. It shows the drawing in notebooks, and with Rich.

    Notebooks call `_repr_html_`, and Rich calls `__rich__`.
    """

    __slots__ = ()

    def drawing(self) -> Drawing:
        """Return the content to display for the value."""
        raise NotImplementedError

    def _repr_html_(self) -> str:
        return self.drawing().html()

    def __rich__(self) -> RenderableType:
        return self.drawing().on_a_terminal()


@dataclass(frozen=True, slots=True)
class Drawing:
    """The content to display for a value: a title, numbers, a map of ledgers and a table.

    >>> print(Drawing("Cursor at 3:0", {"ranges": 2}).html())
    <div><b>Cursor at 3:0</b><table><tr><td>ranges</td><td>2</td></tr></table></div>
    """

    title: str
    numbers: Mapping[str, object]
    line: Line | None = None
    """The entries that the map shows; None if the drawing has no map."""
    ranges: PositionRangeSet | None = None
    """The acknowledged positions. The map shows those that are on `line`."""
    rows: Sequence[Mapping[str, object]] = ()
    """The rows of a table below the map; all rows have the same keys."""

    def html(self) -> str:
        """Return the drawing as HTML. Texts have the colours of the surrounding page. O(ranges)."""
        parts = [f"<b>{_html(self.title)}</b>"]
        parts.append(_table([(f"<td>{_html(key)}</td>", [value]) for key, value in self.numbers.items()]))
        if self.line is not None and self.ranges is not None:
            from ackwell.drawing import ledger_map

            parts.append(ledger_map.html(self.line, self.ranges))
        if self.rows:
            heads = "".join(f"<th>{_html(key)}</th>" for key in self.rows[0])
            parts.append(_table([(heads, []), *(("", list(row.values())) for row in self.rows)]))
        return f"<div>{''.join(parts)}</div>"

    def on_a_terminal(self) -> RenderableType:
        """Return the drawing as an object that Rich prints. O(ranges)."""
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        parts: list[RenderableType] = [Text(_printable(self.title), "bold")]
        parts += [Text(f"  {key}: {_printable(value)}") for key, value in self.numbers.items()]
        if self.line is not None and self.ranges is not None:
            from ackwell.drawing.ledger_map import rows_of_blocks

            parts += [
                Text.assemble(f"  {name:>12} ", (blocks, "green on bright_black"))
                for name, blocks in rows_of_blocks(self.line, self.ranges)
            ]
        if self.rows:
            table = Table(*self.rows[0], box=None, padding=(0, 2, 0, 0))
            for row in self.rows:
                table.add_row(*(Text(_printable(value)) for value in row.values()))
            parts.append(table)
        return Group(*parts)


def of_ranges(ranges: PositionRangeSet) -> Drawing:
    """Return the drawing of a range set.

    The map shows each ledger from its first entry in the ranges to its last entry in the ranges.
    """
    from ackwell.drawing.ledger_map import Line

    title = f"PositionRangeSet of {ranges.cardinality:,} entries"
    numbers = {"ranges": len(ranges), "ledgers": len(ranges.ledger_ids())}
    return Drawing(title, numbers, Line.within(ranges), ranges)


def _table(rows: Sequence[tuple[str, Sequence[Any]]]) -> str:
    lines = (f"<tr>{head}{''.join(f'<td>{_html(each)}</td>' for each in cells)}</tr>" for head, cells in rows)
    return f"<table>{''.join(lines)}</table>"


def _html(value: object) -> str:
    return escape(_printable(value))


def _printable(value: object) -> str:
    """Return the text of a value. Control characters, which names of clients may contain, are escaped."""
    text = f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
    return text if text.isprintable() else repr(text)
