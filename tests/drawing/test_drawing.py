"""Cursors, ranges, summaries and replayed states in a notebook and a terminal."""

from __future__ import annotations

import io
import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from rich.console import Console

from ackwell import Cursor, Ledgers, Position, PositionRangeSet, Subscription
from ackwell.drawing import Drawing
from ackwell.drawing.ledger_map import BINS, ROWS, Line
from ackwell.replay.events import Event, Kind
from ackwell.replay.states import Replay


def cursor() -> Cursor:
    """A quarter of ledger 3 and the second half of ledger 4 are acknowledged; the first entry is not."""
    made = Cursor(Ledgers({3: 40, 4: 20}))
    for ledger_id, first, end in ((3, 20, 30), (4, 10, 20)):
        for entry_id in range(first, end):
            made.ack(ledger_id, entry_id)
    return made


def html_of(value: object) -> str:
    html: str = value._repr_html_()  # type: ignore[attr-defined]
    HTMLParser().feed(html)
    return html


def on_a_terminal(value: object) -> str:
    out = io.StringIO()
    Console(file=out, width=100).print(value)
    return out.getvalue()


def drawn(html: str) -> list[tuple[str, str]]:
    """Return the colour and the path of each layer of the map."""
    (svg,) = re.findall("<svg.*?</svg>", html)
    paths = ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}path")
    return [(path.attrib["fill"], path.attrib["d"]) for path in paths]


def test_a_cursor_shows_its_numbers_and_a_map_of_its_ledgers() -> None:
    html = html_of(cursor())
    assert "<b>Cursor at 3:-1</b>" in html
    assert "<tr><td>backlog entries</td><td>40</td></tr>" in html
    ground, acked = drawn(html)
    # Ledger 3 fills the row of 720 units; ledger 4 has half as many entries.
    assert ground == ("#8a8f9c", "M0.0 1.6h720.00v12.8h-720.00zM0.0 17.6h360.00v12.8h-360.00z")
    assert acked == ("#2a9d8f", "M360.0 1.6h180.00v12.8h-180.00zM180.0 17.6h180.00v12.8h-180.00z")
    assert "every entry" in html


def test_on_a_narrow_page_the_map_gets_narrower_and_its_names_and_rows_keep_their_size() -> None:
    html = html_of(cursor())
    assert ">3<br>4</div>" in html
    assert 'height="32" viewBox="0 0 720 32" preserveAspectRatio="none"' in html
    assert "<text" not in html


def test_a_terminal_shows_the_same_as_blocks() -> None:
    lines = on_a_terminal(cursor()).splitlines()
    assert lines[0] == "Cursor at 3:-1"
    assert "  backlog entries: 40" in lines
    assert lines[-2].strip() == "3 " + 20 * " " + 10 * "█"
    assert lines[-1].strip() == "4 " + 10 * " " + 10 * "█"


def test_the_map_begins_behind_the_mark_delete_position() -> None:
    line = Line.beyond(Ledgers({3: 40, 4: 20}), Position(3, 29))
    assert (line.first.tolist(), line.length) == ([30, 0], 30)
    done = Cursor(Ledgers({3: 1}))
    done.ack(3, 0)
    assert "<svg" not in html_of(done)
    assert on_a_terminal(done)


def test_ranges_show_the_part_of_each_ledger_that_they_name() -> None:
    ranges = PositionRangeSet.parse("[(3:4..3:9],(3:14..3:19],(7:-1..7:0]]")
    html = html_of(ranges)
    assert "<b>PositionRangeSet of 11 entries</b>" in html
    line = Line.within(ranges)
    assert (line.ledger_ids.tolist(), line.first.tolist(), line.length) == ([3, 7], [5, 0], 16)
    assert "PositionRangeSet of 11 entries" in on_a_terminal(ranges)
    assert "<svg" not in html_of(PositionRangeSet())


def test_a_large_map_stays_small() -> None:
    ranges = PositionRangeSet((ledger, 2 * n, 2 * n + 1) for ledger in range(100) for n in range(1_000))
    html = html_of(ranges)
    assert "shares of entries" in html
    assert html.count("<br>") + 1 == 100 / -(-100 // ROWS)
    assert len(html) < 40 * BINS * ROWS


def test_a_coarse_map_has_160_bins_for_each_row() -> None:
    rows, entries = 8, 8 * BINS
    ranges = PositionRangeSet(
        (ledger, 2 * n - 1, 2 * n) for ledger in range(rows) for n in range(entries // 2)
    )
    (_, acked) = drawn(html_of(ranges))
    # Each bin is acknowledged in part, so each is drawn.
    assert acked[1].count("M") == rows * BINS


def test_a_summary_shows_its_numbers_and_consumers() -> None:
    subscription = Subscription("Shared", Ledgers({3: 10}))
    subscription.add_consumer("<b>\x1b[31mred")
    summary = subscription.summary(now_ms=0)
    html = html_of(summary)
    assert "<td>backlog entries</td><td>10</td>" in html
    assert "<th>permits</th>" in html
    assert "<b>\x1b" not in html
    assert "&lt;b&gt;\\x1b[31mred" in html
    shown = on_a_terminal(summary)
    assert "'<b>\\x1b[31mred'" in shown
    assert "\x1b" not in shown


def test_a_summary_says_in_words_why_nothing_is_read() -> None:
    subscription = Subscription("Shared", Ledgers({3: 10}))
    subscription.add_consumer("a")
    shown = on_a_terminal(subscription.summary(now_ms=0))
    assert "Subscription with 1 consumer\n" in shown
    assert "no consumer that may get it has permits" in shown


def test_a_replayed_state_shows_its_names_and_its_cursor() -> None:
    replay = Replay()
    for sequence, (kind, entry_id) in enumerate(((Kind.PUBLISH, 9), (Kind.ACK, 4))):
        replay.feed(Event("a topic", "[bold]sub", sequence, kind, ledger_id=3, entry_id=entry_id))
    (state,) = replay.states()
    html = html_of(state)
    assert "<b>[bold]sub of a topic</b>" in html
    assert "<td>Cursor at 3:-1</td>" in html
    assert "<svg" in html
    assert on_a_terminal(state).startswith("[bold]sub of a topic\n")


@pytest.mark.parametrize("value", [True, 12_345, "a\nb"])
def test_values_are_shown_on_one_line(value: object) -> None:
    expected = {True: "True", 12_345: "12,345", "a\nb": "&#x27;a\\nb&#x27;"}[value]
    assert f"<td>{expected}</td>" in Drawing("a value", {"it": value}).html()


def test_a_line_has_the_ledgers_alone_of_which_there_is_an_entry() -> None:
    line = Line.of([(3, 0, 0), (4, 0, 2), (5, 2, 2), (7, 1, 3)])
    assert (line.ledger_ids.tolist(), line.starts.tolist()) == ([4, 7], [0, 2, 4])
    for ledger_id in (3, 5, 6, 8):
        assert [each.tolist() for each in line.runs(PositionRangeSet([(ledger_id, -1, 2)]))] == [[], []]
    assert [each.tolist() for each in line.runs(PositionRangeSet([(7, -1, 5)]))] == [[2], [4]]


def test_a_coarse_map_begins_with_the_first_entry() -> None:
    ranges = PositionRangeSet((3, 2 * n - 1, 2 * n) for n in range(2 * BINS))
    (ground, acked) = drawn(html_of(ranges))
    assert ground[1].startswith("M0.0 ")
    assert acked[1].startswith("M0.0 ")


@pytest.mark.parametrize(("runs", "shown"), [(BINS, "every entry"), (BINS + 1, "shares of entries")])
def test_runs_are_drawn_one_by_one_as_long_as_they_are_no_more_than_bins(runs: int, shown: str) -> None:
    html = html_of(PositionRangeSet((3, 3 * n - 1, 3 * n) for n in range(runs)))
    assert f"acknowledged entries by ledger: {shown}" in html
