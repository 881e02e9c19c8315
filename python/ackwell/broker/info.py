"""Read the answer of `topics info-internal`: the ledgers and cursors in the metadata store.

For each cursor, the answer contains either the persisted acknowledgments or the id of the cursor ledger that
contains them. It does not contain the acknowledgments in the broker's memory, nor the number of entries in
the open ledger.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ackwell.broker.fields import integer, object_of, objects


def is_info(value: Mapping[str, Any]) -> bool:
    """Return whether a JSON document is an answer of `info-internal`."""
    cursors = value.get("cursors")
    return (
        isinstance(cursors, dict)
        and bool(cursors)
        and all(isinstance(each, dict) and "cursorsLedgerId" in each for each in cursors.values())
    )


def persisted_cursor(cursor: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a persisted cursor by their names in `stats-internal`.

    Raises `ValueError` if the acknowledgments are in a cursor ledger.
    """
    ledger_id = integer(cursor, "cursorsLedgerId", -1)
    if ledger_id >= 0:
        raise ValueError(
            f"the persisted acknowledgments are in cursor ledger {ledger_id}; `ackwell inspect` reads them"
        )
    mark_delete = object_of(cursor, "markDelete")
    ranges = (
        f"({_position(each, 'from')}..{_position(each, 'to')}]"
        for each in objects(cursor, "individualDeletedMessages")
    )
    return {
        "markDeletePosition": _position(cursor, "markDelete") if mark_delete else "-1:-1",
        "individuallyDeletedMessages": f"[{','.join(ranges)}]",
        "cursorLedger": -1,
    }


def ledgers_of(info: Mapping[str, Any]) -> list[dict[str, Any]]:
    """List the ledgers, each with its number of entries.

    The size of the last ledger is unknown: it is assumed to end at the greatest persisted position.
    """
    listed = [dict(each) for each in objects(info, "ledgers")]
    for each in listed:
        each["entries"] = integer(each, "entries", 0)
    if listed:
        last = listed[-1]
        for cursor in object_of(info, "cursors").values():
            ends = [object_of(each, "to") for each in objects(cursor, "individualDeletedMessages")]
            for end in (*ends, object_of(cursor, "markDelete")):
                if end.get("ledgerId") == last["ledgerId"]:
                    last["entries"] = max(last["entries"], integer(end, "entryId") + 1)
    return listed


def _position(values: Mapping[str, Any], name: str) -> str:
    position = object_of(values, name)
    return f"{integer(position, 'ledgerId')}:{integer(position, 'entryId')}"
