"""Write a self-contained HTML page about diagnosed subscriptions, without network access.

The page needs the extra `ackwell[report]` (Bokeh, which includes its JavaScript, and Jinja). The page has a
map of the backlog for the worst subscriptions. The first maps are drawn in full detail, up to a budget of
bytes. The other maps are drawn coarsely, so that the page opens quickly. The page shows for each map whether
the map is detailed. The page supports phones and dark mode.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ackwell.broker.codes import with_names
from ackwell.broker.writes import RESTART_NAMES
from ackwell.diagnosis.delivery import DeliveryVerdict
from ackwell.extras import require
from ackwell.object_paths import local_path
from ackwell.regular_files import write_file
from ackwell.sources import SourceKind

if TYPE_CHECKING:
    from markupsafe import Markup

    from ackwell.diagnosis.checkup import Checkup
    from ackwell.diagnosis.doctor import Diagnosis, Verdict
    from ackwell.diagnosis.remedies import Remedy

FIGURES: Final = 24
"""The maximum number of subscriptions with a drawn map. Every other subscription has a line of block
characters in the table."""

SOURCES: Final = 3
"""The maximum number of sources that the head of the page lists; longer lists are folded."""

DETAIL_RUNS: Final = 60_000
"""The maximum number of runs of entries, over all maps, that the page draws one by one (16 bytes each)."""

DETAIL_RUNS_OF_A_ROW: Final = 300
"""The maximum number of runs that are drawn one by one in a row of a map. In a row with more runs, a run
would be thinner than a pixel."""


def write_report(path: str | Path, checkup: Checkup) -> None:
    """Write the page to `path`. Raises `ModuleNotFoundError`, which names the extra, if Bokeh is missing."""
    # A path of a source, which the page shows, may have bytes that are not UTF-8.
    page = report_html(checkup).encode(errors="backslashreplace")
    write_file(local_path(path), page, replaces=frozenset({SourceKind.HTML}))


def report_html(checkup: Checkup) -> str:
    """Return the page as text."""
    for module in ("bokeh", "jinja2"):
        require(module, "the HTML report")
    from bokeh.resources import INLINE
    from jinja2 import Environment
    from markupsafe import Markup

    subscriptions = list(_subscriptions(checkup))
    figures = _figures(subscriptions)

    def as_json(value: Any) -> Markup:
        # JSON inside a script element: "<" is escaped, so that no text can end the element.
        return Markup(json.dumps(value, separators=(",", ":")).replace("<", "\\u003c"))

    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters["code"] = _code
    template = environment.from_string(files(__name__).joinpath("page.html").read_text(encoding="utf-8"))
    return template.render(
        checkup=checkup,
        many_sources=len(checkup.sources) > SOURCES,
        settings=checkup.broker.changed_settings,
        subscriptions=subscriptions,
        restarts={restart: checkup.messages_lost(restart) for restart in checkup.restarts},
        names=RESTART_NAMES,
        count=_count,
        figures=len(figures),
        figures_json=as_json(figures),
        details_json=as_json(_details(subscriptions)),
        bokeh=_packed(INLINE.js_raw[0]) if figures else "",
    )


def _code(text: str) -> Markup:
    """Convert a text to HTML. Each part between backticks becomes a `<code>` element."""
    from markupsafe import Markup, escape

    parts = text.split("`")
    marked = (
        Markup("<code>{}</code>").format(part) if at % 2 else escape(part) for at, part in enumerate(parts)
    )
    return Markup("").join(marked)


def _count(value: int | None) -> str:
    return "unknown" if value is None else f"{value:,}"


@dataclass(slots=True)
class _SubscriptionHistory:
    """A subscription on the page: its newest diagnosis, and the diagnoses of all its dumps."""

    now: Diagnosis
    history: Sequence[Diagnosis]
    id: str
    """The HTML id of the subscription's row, which links can use as a target. It is the same on every
    page."""
    verdicts: Sequence[Verdict]
    """One verdict for each kind of restart."""
    blocks: Sequence[tuple[str, str]]
    detail: str = ""
    sizes: dict[str, int | None] = field(default_factory=dict)


def _subscriptions(checkup: Checkup) -> Iterator[_SubscriptionHistory]:
    from ackwell.diagnosis.report.backlog import blocks

    for now in checkup.diagnoses:
        name = now.stats.topic, now.stats.subscription
        digest = hashlib.sha256("\0".join(name).encode(errors="surrogatepass")).hexdigest()[:10]
        verdicts = [now.verdict_of(restart) for restart in checkup.restarts]
        yield _SubscriptionHistory(now, checkup.histories[name], digest, verdicts, blocks(now))


def _packed(text: str) -> str:
    """Compress a text for the function `unpacked` in the page's script. The result is deterministic."""
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


def _details(subscriptions: Sequence[_SubscriptionHistory]) -> dict[str, Any]:
    """Return texts about each subscription that is not fine or does not deliver: reasons, remedies and more.

    `texts` contains each text once. Each subscription has a row `[reasons, remedies, notes, delivery]`. Each
    of the four items is a list of indexes into `texts`. Commands contain the placeholders `TOPIC
    SUBSCRIPTION`, so that several rows can share a text.
    """
    numbers: dict[str, int] = {}

    def number(text: str) -> int:
        return numbers.setdefault(text, len(numbers))

    rows = {
        found.id: [
            [number(str(reason)) for reason in found.now.reasons],
            [number(_help(remedy)) for remedy in found.now.remedies],
            [number(note) for note in found.now.notes],
            [number(text) for text in _of_delivery(found.now)],
        ]
        for found in subscriptions
        if found.now.verdict.severity or found.now.delivery.verdict.severity > DeliveryVerdict.IDLE.severity
    }
    return {"texts": list(numbers), "rows": rows}


def _help(remedy: Remedy) -> str:
    return "\n".join((with_names(remedy.text, "TOPIC", "SUBSCRIPTION"), *remedy.settings))


def _of_delivery(now: Diagnosis) -> Iterator[str]:
    """Yield texts about the delivery: the reason, the details, the event that ends the wait, and remedies."""
    delivery = now.delivery
    for code in filter(None, (delivery.code, delivery.suspected)):
        yield f"{code.what} ({', '.join([code.code, *code.issues])})"
    if delivery.consumer is not None:
        yield f"consumer {delivery.consumer}: {', '.join(delivery.details)}"
    elif delivery.details:
        yield ", ".join(delivery.details)
    if delivery.code.until:
        yield with_names(f"until {delivery.code.until}", "TOPIC", "SUBSCRIPTION")
    if delivery.code.do:
        # This text is the same for all subscriptions with the same code. A page of thousands of subscriptions
        # then contains each text once.
        yield "\n".join(["what helps:", *delivery.code.steps("TOPIC", "SUBSCRIPTION")])


def _figures(subscriptions: Sequence[_SubscriptionHistory]) -> dict[str, Any]:
    """Draw the maps and histories of the worst subscriptions; return the figures by name.

    Draw maps of the subscriptions that are not fine, at most `FIGURES`. If all are fine, draw a map of the
    first one only. A subscription has no map if its source shows no entries after the mark-delete position.
    All detailed maps together draw at most `DETAIL_RUNS` runs.
    """
    from bokeh.embed import json_item

    from ackwell.cursor.cursor_state import size_in
    from ackwell.diagnosis.inspection import FORMS
    from ackwell.diagnosis.report.backlog import backlog_figure, history_figure, line_of

    figures: dict[str, Any] = {}
    left = DETAIL_RUNS
    shown = [found for found in subscriptions if found.blocks]
    drawn = [found for found in shown if found.now.verdict.severity][:FIGURES] or shown[:1]
    for number, found in enumerate(drawn):
        ranges = found.now.stats.individually_deleted
        needed = len(ranges)
        in_detail = needed <= left and line_of(found.now).densest_row(ranges) <= DETAIL_RUNS_OF_A_ROW
        left -= needed if in_detail else 0
        found.detail = "every entry" if in_detail else "shares of entries"
        info = found.now.stats.to_position_info()
        found.sizes = {form: size_in(info, form) for form in FORMS}
        figures[f"map-{number}"] = json_item(backlog_figure(found.now, in_detail=in_detail))
        if len(found.history) > 1:
            figures[f"history-{number}"] = json_item(history_figure(found.history))
    return figures
