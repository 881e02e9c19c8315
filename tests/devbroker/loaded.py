"""The state in `stats-internal`: the part that must be equal in a dump and in the broker that loaded it."""

from __future__ import annotations

from typing import Any

from ackwell import PositionRangeSet

TOPIC = "persistent://public/default/orders"
OF_TOPIC = ("numberOfEntries", "totalSize", "currentLedgerEntries", "currentLedgerSize", "lastConfirmedEntry")
OF_LEDGER = ("ledgerId", "entries", "size")


def dump(ranges: str, *, entries: int = 10, mark_delete: str = "3:-1", **more: Any) -> dict[str, Any]:
    """Return the dump of a topic with one ledger and one subscription; `more` are further parts of it."""
    internal = {
        "numberOfEntries": entries,
        "totalSize": 100 * entries,
        "currentLedgerEntries": entries,
        "currentLedgerSize": 100 * entries,
        "lastConfirmedEntry": f"3:{entries - 1}",
        "state": "LedgerOpened",
        "ledgers": [{"ledgerId": 3, "entries": 0, "size": 0}],
        "cursors": {
            "billing": {
                "markDeletePosition": mark_delete,
                "readPosition": f"3:{entries}",
                "individuallyDeletedMessages": ranges,
                "cursorLedger": 4,
                "state": "Open",
            }
        },
    }
    return {"internalStats": internal, **more}


def unread(answer: dict[str, Any]) -> set[str]:
    """Return the subscriptions without a consumer and without deliveries since their topic was loaded."""
    cursors = answer.get("internalStats", answer)["cursors"]
    shown = answer.get("stats", {}).get("subscriptions", {})
    return {
        name
        for name, cursor in cursors.items()
        if not cursor["active"] and not shown.get(name, {"msgOutCounter": 1})["msgOutCounter"]
    }


def state_of(answer: dict[str, Any], unread: set[str]) -> dict[str, Any]:
    """Return the state in an answer: `stats-internal`, or the same with `stats` and a memory dump.

    It leaves out counters since the topic was loaded, times, ids of cursor ledgers, and non-durable
    subscriptions. It includes the read position only of the `unread` subscriptions.
    """
    internal = answer.get("internalStats", answer)
    shown = answer.get("stats", {}).get("subscriptions", {})
    return {
        **{name: internal[name] for name in OF_TOPIC},
        "terminated": internal["state"] == "Terminated",
        "ledgers": [{name: each[name] for name in OF_LEDGER} for each in internal["ledgers"]],
        "cursors": {
            name: _cursor(name, each, shown, answer.get("cursor", {}), is_unread=name in unread)
            for name, each in internal["cursors"].items()
            if shown.get(name, {}).get("isDurable", True)
        },
    }


def _cursor(
    name: str, cursor: dict[str, Any], shown: dict[str, Any], memory: dict[str, Any], *, is_unread: bool
) -> dict[str, Any]:
    ranges = PositionRangeSet.parse(cursor["individuallyDeletedMessages"])
    state = {
        "markDeletePosition": cursor["markDeletePosition"],
        "individuallyDeletedMessages": str(ranges),
        "totalNonContiguousDeletedMessagesRange": cursor["totalNonContiguousDeletedMessagesRange"],
        "properties": cursor["properties"],
        "ledger": "none" if cursor["cursorLedger"] < 0 else cursor["state"],
        "subscriptionProperties": shown.get(name, {}).get("subscriptionProperties", {}),
    }
    if memory and memory.get("name") == name and "batchDeletedIndexes" in memory:
        state["batchDeletedIndexes"] = memory["batchDeletedIndexes"]
    if is_unread:
        state["readPosition"] = cursor["readPosition"]
        state["sinceFirstUnacked"] = cursor["numberOfEntriesSinceFirstNotAckedMessage"]
    return state
