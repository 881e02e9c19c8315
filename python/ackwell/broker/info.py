"""Read the answer of `topics info-internal`: the ledgers and cursors in the metadata store.

For each cursor, the answer contains either the persisted acknowledgments or the id of the cursor ledger that
contains them. The answer does not contain the acknowledgments in the broker's memory, nor the number of
entries in the open ledger.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ackwell.broker.fields import integer, object_of, objects

HOW_TO_INFO: Final = "expected the answer of `pulsar-admin topics info-internal TOPIC`"


def is_info(value: Mapping[str, Any]) -> bool:
    """Return whether a JSON document is an answer of `info-internal`."""
    cursors = value.get("cursors")
    return (
        isinstance(cursors, dict)
        and bool(cursors)
        and all(isinstance(each, dict) and "cursorsLedgerId" in each for each in cursors.values())
    )


def persisted_cursor(cursor: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a persisted cursor under the names that `stats-internal` uses.

    Raises `ValueError` if the acknowledgments are in a cursor ledger, or if a position is incomplete.
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

    The size of the last ledger is unknown. This ledger is assumed to end at the greatest persisted position.

    Raises `ValueError` if a ledger has no id, or if a position in the last ledger is incomplete.
    """
    listed = [dict(each) for each in objects(info, "ledgers")]
    for each in listed:
        each["ledgerId"] = _required(each, "ledgerId")
        each["entries"] = integer(each, "entries", 0)
    if listed:
        last = listed[-1]
        for cursor in object_of(info, "cursors").values():
            ends = [object_of(each, "to") for each in objects(cursor, "individualDeletedMessages")]
            for end in (*ends, object_of(cursor, "markDelete")):
                if end.get("ledgerId") == last["ledgerId"]:
                    last["entries"] = max(last["entries"], _required(end, "entryId") + 1)
    return listed


def _position(values: Mapping[str, Any], name: str) -> str:
    position = object_of(values, name)
    return f"{_required(position, 'ledgerId')}:{_required(position, 'entryId')}"


def _required(values: Mapping[str, Any], name: str) -> int:
    if name not in values:
        raise ValueError(f"no {name!r} in the answer; {HOW_TO_INFO}")
    return integer(values, name)
