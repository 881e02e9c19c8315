"""The second verdict on problems that users reported upstream, compared with the answer in each thread.

`tests/vectors/reports.json` has short extracts of `stats` and `stats-internal`, each with its thread. Threads
often show only one of the two answers, or describe single values. Further values that the doctor needs, such
as a backlog, an empty list of consumers or a name, are invented. The last entry of the topic is ten after the
read position, unless `end` gives it. `numbers` states whether the values come from a dump in the thread or
follow from its description. No text of a thread is copied. `code` is null if the thread does not show
enough for a verdict.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ackwell import Position
from ackwell.broker.broker_settings import BrokerSettings
from ackwell.broker.stats import SubscriptionStats, parse_stats
from ackwell.diagnosis.delivery import DeliveryVerdict, delivery_of

REPORTS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "vectors" / "reports.json").read_text(encoding="utf-8")
)


def read(report: dict[str, Any]) -> SubscriptionStats:
    stats, cursor = report.get("stats"), report.get("cursor")
    answer = stats
    if cursor is not None:
        name = next(iter(stats["subscriptions"])) if stats else "sub"
        read_position = Position.parse(cursor.get("readPosition", "5:0"))
        end = report.get("end", str(Position(read_position.ledger_id, read_position.entry_id + 10)))
        last = Position.parse(end)
        internal = {
            "lastConfirmedEntry": end,
            "ledgers": [{"ledgerId": last.ledger_id, "entries": 0}],
            **report.get("internal", {}),
        }
        shown = {
            "markDeletePosition": str(Position(read_position.ledger_id, read_position.entry_id - 1)),
            "readPosition": str(read_position),
            "individuallyDeletedMessages": "[]",
            **cursor,
        }
        answer = {"internalStats": {**internal, "cursors": {name: shown}}, "stats": stats}
    (found,) = parse_stats(json.dumps(answer).encode(), report["issue"])
    return found


def test_there_are_enough_reports() -> None:
    assert len(REPORTS) >= 30
    assert sum(report["code"] is not None for report in REPORTS) >= 28
    assert {report["numbers"] for report in REPORTS} == {"of the thread", "rebuilt"}
    assert sum(report["numbers"] == "of the thread" for report in REPORTS) >= 20


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: report["issue"])
def test_a_report_is_read_and_named_as_its_thread_did(report: dict[str, Any]) -> None:
    now = read(report)
    found = delivery_of(now, BrokerSettings(), version="4.0.7")
    assert found.verdict is not DeliveryVerdict.STALLED
    named = (found.suspected or found.code).code
    if report["code"] is not None:
        assert named == report["code"]
    else:
        assert found.verdict in (DeliveryVerdict.CANNOT_TELL, DeliveryVerdict.IDLE)


def test_a_readers_cursor_of_an_older_broker_is_not_closed() -> None:
    """It is shown as `Uninitialized` all its life (apache/pulsar#7559), and waits for the next entry."""
    (report,) = (report for report in REPORTS if report["issue"] == "apache/pulsar#7559")
    shown = report["stats"]["subscriptions"]["reader"]
    quiet = {**report, "stats": {"subscriptions": {"reader": {**shown, "msgRateOut": 0.0}}}}
    found = delivery_of(read(quiet), BrokerSettings(), read(quiet), version="4.0.7")
    assert found.verdict is not DeliveryVerdict.STALLED
    # The same for a dump that does not show the reads, and not for the cursor of a durable subscription.
    hidden = {
        key: value
        for key, value in report["cursor"].items()
        if key not in ("waitingReadOp", "pendingReadOps")
    }
    codes = {}
    for durable in (True, False):
        reader = {**shown, "msgRateOut": 0.0, "isDurable": durable}
        unseen = read({**report, "stats": {"subscriptions": {"reader": reader}}, "cursor": hidden})
        found = delivery_of(unseen, BrokerSettings(), unseen, version="4.0.7")
        codes[durable] = {code.code for code in (found.code, found.suspected) if code is not None}
    assert "cursor-not-open" in codes[True] - codes[False]


def test_a_rate_of_the_last_minute_is_no_delivery_once_every_consumer_is_at_its_limit() -> None:
    (report,) = (report for report in REPORTS if report["issue"] == "apache/pulsar#21104")
    found = delivery_of(read(report), BrokerSettings())
    assert found.code.code == "consumer-blocked"
    assert found.consumer == "in"
    assert found.to_json(read(report))["until"].startswith(
        "the unacknowledged messages of one of them are at most half"
    )
