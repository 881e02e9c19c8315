"""One self-contained HTML page over diagnosed subscriptions: no network, phone and dark mode included.

Needs the extra `ackwell[report]` (Bokeh, which brings its own JavaScript along, and Jinja). What is at
the top of the table is drawn in full detail, the rest coarser, within a budget of bytes that keeps the
page quick to open; the page says which is which.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from ackwell.diagnosis.doctor import Diagnosis

FIGURES: Final = 24
"""Subscriptions with a drawn map; every other one has its map as a line of blocks in the table."""

DETAIL_RUNS: Final = 60_000
"""Runs of entries drawn one by one, over the whole page (16 bytes each)."""


def write_report(path: str | Path, diagnoses: Iterable[Diagnosis]) -> None:
    """Write the page to `path`; raises `ModuleNotFoundError`, naming the extra, where Bokeh is missing."""
    Path(path).write_text(report_html(diagnoses), encoding="utf-8")


def report_html(diagnoses: Iterable[Diagnosis]) -> str:
    """Return the page as text.

    Several diagnoses of one subscription, from dumps of different times, become its history; the newest
    stands in the table.
    """
    try:
        from bokeh.resources import INLINE
        from jinja2 import Environment
        from markupsafe import Markup
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"the HTML report needs {error.name}: pip install 'ackwell[report]'", name=error.name
        ) from None
    subscriptions = sorted(_by_subscription(diagnoses), key=_Subscription.risk)
    figures = _figures(subscriptions)
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(files(__name__).joinpath("page.html").read_text(encoding="utf-8"))
    scripts = INLINE.js_raw[0] if figures else ""
    return template.render(
        subscriptions=subscriptions,
        counts=_counts(subscriptions),
        figures=len(figures),
        # JSON inside a script element: "<" is written so that no text can end the element.
        figures_json=Markup(json.dumps(figures, separators=(",", ":")).replace("<", "\\u003c")),
        bokeh=Markup(scripts),
    )


@dataclass(slots=True)
class _Subscription:
    """A subscription on the page: its newest diagnosis, and those before."""

    now: Diagnosis
    history: Sequence[Diagnosis]
    blocks: str = ""
    detail: str = ""
    sizes: dict[str, int] = field(default_factory=dict)

    def risk(self) -> tuple[int, int, float, int, str, str]:
        """Order by verdict, what is lost, the nearest limit, and backlog."""
        now = self.now
        return (
            -now.verdict.severity,
            -now.messages_lost.at_least,
            -max((usage.share for usage in now.usage), default=0.0),
            -now.stats.backlog_entries,
            now.stats.topic,
            now.stats.subscription,
        )


def _by_subscription(diagnoses: Iterable[Diagnosis]) -> Iterator[_Subscription]:
    from ackwell.diagnosis.report.backlog import blocks

    grouped: dict[tuple[str, str], list[Diagnosis]] = {}
    for diagnosis in diagnoses:
        grouped.setdefault((diagnosis.stats.topic, diagnosis.stats.subscription), []).append(diagnosis)
    for history in grouped.values():
        history.sort(key=lambda diagnosis: diagnosis.stats.time_ms or 0)
        yield _Subscription(history[-1], history, blocks(history[-1]))


def _counts(subscriptions: Sequence[_Subscription]) -> dict[str, int]:
    from ackwell.diagnosis.doctor import Verdict

    return {
        verdict: sum(found.now.verdict is verdict for found in subscriptions)
        for verdict in sorted(Verdict, key=lambda verdict: -verdict.severity)
    }


def _figures(subscriptions: Sequence[_Subscription]) -> dict[str, Any]:
    """Draw the maps of the first subscriptions, in detail while the budget of runs lasts."""
    from bokeh.embed import json_item

    from ackwell.diagnosis.doctor import state_bytes
    from ackwell.diagnosis.inspection import FORMS
    from ackwell.diagnosis.report.backlog import backlog_figure, history_figure, runs

    figures: dict[str, Any] = {}
    left = DETAIL_RUNS
    for number, found in enumerate(subscriptions[:FIGURES]):
        needed = runs(found.now)
        in_detail = needed <= left
        left -= needed if in_detail else 0
        found.detail = "every entry" if in_detail else "shares of entries"
        found.sizes = {form: state_bytes(found.now.stats, form) for form in FORMS}
        figures[f"map-{number}"] = json_item(backlog_figure(found.now, in_detail=in_detail))
        if len(found.history) > 1:
            figures[f"history-{number}"] = json_item(history_figure(found.history))
    return figures
