"""The HTML report: one small page without network access, safe for any names, drawn by a real browser."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ackwell import Ledgers, Position, PositionRangeSet
from ackwell.broker.batch_sizes import BatchSizes
from ackwell.broker.broker_settings import BrokerSettings
from ackwell.broker.stats import UnreadableSource, parse_stats
from ackwell.diagnosis.checkup import Checkup, JudgedBroker
from ackwell.diagnosis.doctor import diagnose
from tests.broker.answers import answer, holes, subscription

if TYPE_CHECKING:
    from ackwell.broker.stats import SubscriptionStats

report = pytest.importorskip("ackwell.diagnosis.report", reason="needs the extra [report]")
pytest.importorskip("bokeh", reason="needs the extra [report]")

BROKER = JudgedBroker.of("4.0", others_are_defaults=True)


def page(subscriptions: Iterable[SubscriptionStats | UnreadableSource]) -> str:
    html: str = report.report_html(Checkup.of(subscriptions, BROKER, restarts=("graceful",)))
    return html


def names_of(html: str) -> list[str]:
    """The topic and the subscription of each row of the table."""
    return re.findall(r"<tr id=r\w+>(?:<td class=[\w-]+>[\w ]+)+<td>(.*?) <a", html)


def fleet(count: int) -> Checkup:
    """Many subscriptions, made from few: the test measures the page."""
    kinds = [subscription(holes(n)) for n in (3, 40, 9_500, 12_000)]
    return Checkup.of(
        (
            replace(
                kinds[min(n % 50, 3) if n % 7 == 0 else n % 2],
                topic=f"persistent://shop/eu/orders-partition-{n}",
            )
            for n in range(count)
        ),
        BROKER,
        sources=("http://broker:8080",),
    )


@pytest.mark.slow
def test_the_page_needs_nothing_from_the_network() -> None:
    html = page([subscription(holes(12_000))])
    assert "Bokeh" in html
    own = re.sub(r'<script type="text/plain" id="bokeh">.*?</script>', "", html, flags=re.DOTALL)
    assert not re.search(r"<link|<img|<iframe|\bsrc=|@import|url\(", own)


@pytest.mark.slow
def test_names_are_shown_as_text_and_never_run() -> None:
    told = replace(
        subscription(holes(12_000)), topic="</script><script>alert(1)</script>", subscription="<b>&'\""
    )
    html = page([told])
    assert "<script>alert(1)" not in html
    assert "&lt;script&gt;alert(1)" in html


def test_the_parts_of_a_text_between_backticks_are_code() -> None:
    html = page([subscription(holes(12_000))])
    lists = "".join(re.findall(r"<ul>.*?</ul>", html, flags=re.DOTALL))
    assert "`" not in lists
    assert "<code>ackwell rescue hold " in lists


def test_the_worst_come_first() -> None:
    html = page(
        [
            replace(subscription(holes(n)), topic=name)
            for name, n in (("fine", 5), ("bad", 12_000), ("near", 9_500))
        ]
    )
    assert [row.split(" · ")[0] for row in names_of(html)] == ["bad", "near", "fine"]


def test_dumps_of_one_subscription_become_its_history() -> None:
    states = [replace(subscription(holes(n)), time_ms=t) for t, n in ((1, 100), (3, 11_000), (2, 12_000))]
    html = page(states)
    assert len(names_of(html)) == 1
    assert 'id="history-0"' in html
    assert "11,000" in html


def test_a_map_says_whether_it_shows_every_entry() -> None:
    small, large = subscription(holes(100)), subscription(holes(report.DETAIL_RUNS + 1), entries=200_000)
    assert page([small]).count("Map: every entry.") == 1
    assert page([large]).count("Map: shares of entries.") == 1


def test_a_map_is_drawn_of_what_is_not_fine() -> None:
    fine, losing = (replace(subscription(holes(n)), topic=str(n)) for n in (100, 12_000))
    assert page([fine, losing]).count('<div class="figure" id="map-') == 1
    assert page([fine]).count('<div class="figure" id="map-') == 1


def test_remedies_are_texts_of_all_rows_and_name_the_subscription_where_they_can_be_copied() -> None:
    # The name of this one is in the text of a remedy, and that of another place.
    html = page(
        [replace(subscription(holes(12_000)), topic="{subscription}", subscription="plan before.json")]
    )
    assert "rescue snapshot &#39;{subscription}&#39; &#39;plan before.json&#39;</code>, restart" in html
    assert "`ackwell rescue plan before.json`" in html
    details = json.loads(re.findall(r'id="details">(.*?)</script>', html, re.DOTALL)[0])
    (through,) = [text for text in details["texts"] if "rescue hold" in text]
    assert "`ackwell rescue snapshot TOPIC SUBSCRIPTION`" in through
    assert "`ackwell rescue plan before.json`" in through


def test_what_helps_a_delivery_names_no_place_that_was_not_filled() -> None:
    html = page([subscription(holes(3))])
    details = json.loads(re.findall(r'id="details">(.*?)</script>', html, re.DOTALL)[0])
    assert any("what helps:" in text for text in details["texts"])
    assert not [text for text in details["texts"] if "{topic}" in text or "{subscription}" in text]


def test_runs_thinner_than_a_pixel_are_drawn_as_shares_and_never_as_a_mixed_colour() -> None:
    html = page([replace(subscription(holes(2_000)), topic="alternating")])
    assert "Map: shares of entries." in html


def test_the_page_says_date_source_version_settings_and_what_was_assumed() -> None:
    broker = JudgedBroker(
        version="9.9",
        settings=BrokerSettings.of("4.2").with_values(["managedLedgerMaxUnackedRangesToPersist=500"]),
        source="the broker",
        assumed=("version 9.9 was never compared",),
    )
    checkup = Checkup.of(
        [subscription(holes(3))],
        broker,
        sources=("http://broker:8080",),
        time_ms=1_795_000_000_000,
    )
    html = report.report_html(checkup)
    for expected in (
        "2026-11-18",
        "http://broker:8080",
        "broker 9.9",
        "managedLedgerMaxUnackedRangesToPersist=500",
        "version 9.9 was never compared",
        "graceful restart, unload or move",
    ):
        assert expected in html


@pytest.mark.slow
def test_every_row_that_is_not_fine_has_its_why_and_what_helps() -> None:
    html = page([replace(subscription(holes(12_000)), topic=f"topic-{n}") for n in range(60)])
    details = json.loads(re.findall(r'id="details">(.*?)</script>', html, re.DOTALL)[0])
    ids = re.findall(r"<tr id=r(\w+)>", html)
    assert len(ids) == len(set(ids)) == 60
    assert set(ids) == details["rows"].keys()
    for reasons, remedies, *_ in (details["rows"][row] for row in ids):
        assert "apache/pulsar#25540" in details["texts"][reasons[0]]
        assert "managedLedgerMaxUnackedRangesToPersist=50000" in details["texts"][remedies[0]]
    assert len(details["texts"]) < 10


def test_what_could_not_be_read_is_on_the_page() -> None:
    unread = UnreadableSource(
        "http://broker:8080/x", "persistent://shop/eu/gone", "HTTP 404: Topic not found"
    )
    html = page([subscription(holes(3)), unread])
    assert "persistent://shop/eu/gone: HTTP 404: Topic not found" in html


def test_nothing_is_red_where_nothing_comes_back() -> None:
    html = page([subscription(holes(3))])
    for red in ('class="losing"', "class=losing", "<span class=lost>"):
        assert red not in html
        assert red in page([subscription(holes(12_000))])


def test_the_line_of_blocks_shows_shares_and_never_hides_a_hole() -> None:
    from ackwell.diagnosis.report.backlog import blocks

    def text_of(stats: SubscriptionStats) -> str:
        return "".join(text for _, text in blocks(diagnose(stats)))

    nearly = subscription("[(3:0..3:99999]]")
    assert text_of(nearly) == "▇" + "█" * 9 + " " * 10
    assert text_of(subscription("[(3:9..3:10]]")) == "▁" + " " * 19
    done = replace(nearly, mark_delete_position=Position(4, 99_999))
    assert text_of(done) == ""


@pytest.mark.slow
@cache
def large_page() -> str:
    html: str = report.report_html(fleet(5_000))
    return html


# One process makes the large page for both of its tests.
@pytest.mark.slow
@pytest.mark.xdist_group("large-page")
def test_five_thousand_subscriptions_make_a_page_of_at_most_five_megabytes() -> None:
    assert len(large_page().encode()) <= 5_000_000


BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def browse(path: Path, profile: Path, *options: str) -> str:
    assert BROWSER
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
    command += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
    command += ["--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={profile}", *options]
    done = subprocess.run([*command, path.as_uri()], capture_output=True, text=True, check=True)
    return done.stdout


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="no Chromium or Chrome on this machine")
@pytest.mark.xdist_group("large-page")
@pytest.mark.parametrize("count", [1, 5_000])
def test_a_browser_draws_the_page_without_an_error(count: int, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(large_page() if count == 5_000 else report.report_html(fleet(count)))
    dom = browse(path, tmp_path / "profile", "--virtual-time-budget=8000", "--dump-dom")
    assert re.search(r'<div class="figure" id="map-0"[^>]*>\s*<div', dom)
    for name, options in {
        "light": ["--window-size=1200,1400"],
        "dark": ["--window-size=400,2400", "--blink-settings=preferredColorScheme=0"],
    }.items():
        shot = tmp_path / f"{name}.png"
        browse(path, tmp_path / "profile", "--virtual-time-budget=4000", f"--screenshot={shot}", *options)
        _assert_drawn(shot, dark=name == "dark")


def _assert_drawn(shot: Path, *, dark: bool) -> None:
    """The ground is light or dark as asked for, and the colours of the map are on it."""
    from PIL import Image

    with Image.open(shot) as image:
        pixels = image.convert("RGB")
        corner = pixels.getpixel((2, 2))
        assert isinstance(corner, tuple)
        assert (sum(corner) < 150) == dark
        colours = {colour: count for count, colour in pixels.getcolors(maxcolors=1 << 24) or ()}
    assert colours.get((0x8A, 0x8F, 0x9C), 0) > 1_000


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="no Chromium or Chrome on this machine")
def test_the_table_filters_sorts_and_opens_why(tmp_path: Path) -> None:
    steps = """
    const seen = [], first = () => text(document.querySelector(".rows tr"), 5).trim();
    const shown = () => rows.filter(row => !row.hidden).length;
    const only = (words, wanted) => { filter.value = words; verdict.value = wanted; show(); return shown(); };
    seen.push(only("eu partition-29", ""), only("", "losing"), only("nowhere", ""), only("", ""));
    for (const by of ["name", "lost", "lost", "backlog", "ranges", "v0"]) { sort(by); seen.push(first()); }
    toggle(rows.find(row => row.tabIndex === 0));
    seen.push(document.querySelector("tr.why").textContent.includes("What helps"));
    document.title = JSON.stringify(seen);
    """
    path = tmp_path / "report.html"
    html = report.report_html(fleet(300))
    assert html.count("\nopenTarget();\n") == 1
    path.write_text(html.replace("\nopenTarget();\n", f"\nopenTarget();\n{steps}\n"))
    dom = browse(path, tmp_path / "profile", "--virtual-time-budget=2000", "--dump-dom")
    by_verdict = [row for row in fleet(300).diagnoses if row.verdict == "losing"]
    name = "shop/eu/orders-partition-{} · sub # no-permits".format
    assert json.loads(re.findall("<title>(.*?)</title>", dom)[0]) == [
        11, len(by_verdict), 0, 300,
        name(0), name(105), name(0), name(0), name(105), name(105), True,
    ]  # fmt: skip


def test_many_sources_are_folded_and_few_are_listed() -> None:
    few = report.report_html(Checkup.of([subscription(holes(3))], BROKER, sources=("a.json", "b.json")))
    assert "a.json, b.json" in few
    assert "The sources" not in few
    names = [f"file-{n}.json" for n in range(37)]
    many = report.report_html(Checkup.of([subscription(holes(3))], BROKER, sources=names))
    assert re.search(r"<p>[^<]*37 sources", many)
    assert "<details><summary>The sources</summary>file-0.json, file-1.json" in many


def test_a_history_has_times_if_every_dump_has_one() -> None:
    from ackwell.diagnosis.report.backlog import history_figure

    timed = [
        diagnose(replace(subscription(holes(n)), time_ms=n), BrokerSettings.of("4.0")) for n in (100, 200)
    ]
    unknown = diagnose(replace(subscription(holes(100)), time_ms=None), BrokerSettings.of("4.0"))
    (axis,) = history_figure(timed).xaxis
    assert type(axis).__name__ == "DatetimeAxis"
    # Dumps of one day have dates too, not only times of day.
    formats = axis.formatter.properties_with_values()
    assert formats["hours"] == formats["minutes"] == "%d %b %H:%M"
    assert formats["seconds"] == formats["minsec"] == "%H:%M:%S"
    for mixed in ([*timed, unknown], [unknown, unknown]):
        assert [type(each).__name__ for each in history_figure(mixed).xaxis] == ["LinearAxis"]


def test_a_map_has_a_row_for_each_ledger_the_first_at_the_top() -> None:
    from ackwell.diagnosis.report.backlog import backlog_figure

    told = answer(holes(3), entries=10)
    sizes = [{"ledgerId": ledger_id, "entries": 10, "size": 0} for ledger_id in (3, 5, 8)]
    told["internalStats"] |= {
        "ledgers": [*sizes, {"ledgerId": 9, "entries": 0, "size": 0}],
        "lastConfirmedEntry": "9:9",
        "currentLedgerEntries": 10,
    }
    (stats,) = parse_stats(json.dumps(told).encode(), "answer.json")
    for in_detail in (True, False):
        plot: Any = backlog_figure(diagnose(stats, BrokerSettings.of("4.0")), in_detail=in_detail)
        rows = [int(re.findall(r"\d+", name)[0]) for name in plot.y_range.factors]
        assert rows == [9, 8, 5, 3]
        assert (plot.x_range.start, plot.x_range.end) == (0, 10)


def test_the_number_of_messages_is_explained_only_if_it_is_an_interval_of_something() -> None:
    def notes(*, each: int | None, ranges: int) -> bool:
        found = replace(subscription(holes(ranges)), batch_sizes=BatchSizes(each=each))
        judged = diagnose(found, BrokerSettings.of("4.0"), restarts=("graceful",))
        return any("does not prove the number of messages in an entry" in note for note in judged.notes)

    assert notes(each=None, ranges=12_000)
    assert not notes(each=1, ranges=12_000)
    assert not notes(each=None, ranges=5)


def test_a_source_without_entries_has_no_map() -> None:
    alone = replace(
        subscription(holes(3)),
        topic="persistent://shop/eu/orders",
        ledgers=Ledgers(),
        mark_delete_position=Position(0, -1),
        individually_deleted=PositionRangeSet(),
    )
    html = page([alone, subscription(holes(12_000))])
    assert len(names_of(html)) == 2
    assert html.count('class="figure" id="map-') == 1
