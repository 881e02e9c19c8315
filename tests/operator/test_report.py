"""The HTML report: one page, no network, small, safe from what names contain, and drawn by a real browser."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ackwell import Position
from ackwell.broker.restart import BrokerSettings
from ackwell.diagnosis.doctor import Diagnosis, diagnose
from tests.operator.test_doctor import holes, subscription

if TYPE_CHECKING:
    from ackwell.broker.stats import SubscriptionStats

report = pytest.importorskip("ackwell.diagnosis.report", reason="needs the extra [report]")
pytest.importorskip("bokeh", reason="needs the extra [report]")

RANGES_FORM = BrokerSettings.of("4.0")


def page(subscriptions: Iterable[SubscriptionStats]) -> str:
    html: str = report.report_html(diagnose(stats, RANGES_FORM) for stats in subscriptions)
    return html


def fleet(count: int) -> list[Diagnosis]:
    """Many subscriptions, made from few: what is measured is the page."""
    kinds = [diagnose(subscription(holes(n)), RANGES_FORM) for n in (3, 40, 9_500, 12_000)]
    return [
        replace(kind, stats=replace(kind.stats, topic=f"persistent://shop/eu/orders-partition-{n}"))
        for n in range(count)
        for kind in (kinds[min(n % 50, 3) if n % 7 == 0 else n % 2],)
    ]


def test_the_page_needs_nothing_from_the_network() -> None:
    html = page([subscription(holes(12_000))])
    assert "Bokeh" in html
    own = re.sub(r'<script type="text/plain" id="bokeh">.*?</script>', "", html, flags=re.DOTALL)
    assert not re.search(r"<link|<img|<iframe|\bsrc=|@import|url\(", own)


def test_names_are_shown_as_text_and_never_run() -> None:
    told = replace(
        subscription(holes(12_000)), topic="</script><script>alert(1)</script>", subscription="<b>&'\""
    )
    html = page([told])
    assert "<script>alert(1)" not in html
    assert "&lt;script&gt;alert(1)" in html


def test_the_worst_come_first() -> None:
    html = page(
        [
            replace(subscription(holes(n)), topic=name)
            for name, n in (("fine", 5), ("bad", 12_000), ("near", 9_500))
        ]
    )
    rows = re.findall(r'<td class="name">(\w+)', html)
    assert rows == ["bad", "near", "fine"]


def test_dumps_of_one_subscription_become_its_history() -> None:
    states = [replace(subscription(holes(n)), time_ms=t) for t, n in ((1, 100), (3, 11_000), (2, 12_000))]
    html = page(states)
    assert html.count('<td class="name">') == 1
    assert 'id="history-0"' in html
    assert "11,000" in html


def test_a_map_says_whether_it_shows_every_entry() -> None:
    small, large = subscription(holes(100)), subscription(holes(report.DETAIL_RUNS + 1), entries=200_000)
    html = page([replace(small, topic="small"), replace(large, topic="large")])
    assert html.count("Map: every entry.") == 1
    assert html.count("Map: shares of entries.") == 1


def test_the_line_of_blocks_shows_shares_and_never_hides_a_hole() -> None:
    from ackwell.diagnosis.report.backlog import blocks

    nearly = subscription("[(3:0..3:99999]]")
    assert blocks(diagnose(nearly)) == "▇" + "█" * 9 + " " * 10
    assert blocks(diagnose(subscription("[(3:9..3:10]]"))) == "▁" + " " * 19
    done = replace(nearly, mark_delete_position=Position(4, 99_999))
    assert blocks(diagnose(done)) == ""


def test_five_thousand_subscriptions_make_a_page_of_at_most_five_megabytes() -> None:
    assert len(report.report_html(fleet(5_000)).encode()) <= 5_000_000


BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def browse(path: Path, profile: Path, *options: str) -> str:
    assert BROWSER
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
    command += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
    command += ["--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={profile}", *options]
    done = subprocess.run([*command, path.as_uri()], capture_output=True, text=True, timeout=120, check=True)
    return done.stdout


@pytest.mark.skipif(BROWSER is None, reason="no Chromium or Chrome on this machine")
@pytest.mark.parametrize("count", [1, 5_000])
def test_a_browser_draws_the_page_without_an_error(count: int, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    report.write_report(path, fleet(count))
    dom = browse(path, tmp_path / "profile", "--virtual-time-budget=8000", "--dump-dom")
    assert re.search(r'<div class="figure" id="map-0"[^>]*>\s*<div', dom)
    for name, options in {
        "light": ["--window-size=1200,900"],
        "dark": ["--window-size=400,900", "--blink-settings=preferredColorScheme=0"],
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
