"""Answers of brokers that the tests of operators' commands judge."""

from __future__ import annotations

import json
from typing import Any

from ackwell.broker.stats import SubscriptionStats, parse_stats
from tests.broker.test_stats import internal, stats


def holes(count: int) -> str:
    return "[" + ",".join(f"(3:{2 * n}..3:{2 * n + 1}]" for n in range(count)) + "]"


def answer(ranges: str, *, entries: int = 100_000, **memory: Any) -> dict[str, Any]:
    told = internal(
        entriesAddedCounter=2 * entries,
        numberOfEntries=2 * entries,
        currentLedgerEntries=entries,
        lastConfirmedEntry=f"4:{entries - 1}",
        ledgers=[{"ledgerId": 3, "entries": entries, "size": 0}, {"ledgerId": 4, "entries": 0, "size": 0}],
    )
    told["cursors"]["sub"] |= {
        "markDeletePosition": "3:-1",
        "individuallyDeletedMessages": ranges,
    }
    return {"internalStats": told, "stats": stats(2 * entries)} | ({"cursor": memory} if memory else {})


def subscription(ranges: str, **memory: Any) -> SubscriptionStats:
    (found,) = parse_stats(json.dumps(answer(ranges, **memory)).encode(), "answer.json")
    return found
