"""Minimal histories that were once folded wrongly, one for each topic. Every engine replays them."""

from __future__ import annotations

from typing import Any, Final

from ackwell.replay.events import Event, Kind


def _of(topic: str, *rows: tuple[Kind, dict[str, Any]]) -> list[Event]:
    """Return events of one subscription, or of the topic for rows with `subscription=""`."""
    return [
        Event(topic, sequence=sequence, kind=kind, **{"subscription": "sub", **fields})
        for sequence, (kind, fields) in enumerate(rows)
    ]


def _at(entry_id: int, **fields: Any) -> dict[str, Any]:
    return {"ledger_id": 3, "entry_id": entry_id, **fields}


_LAST_OF_64: Final = -(2**63)
"""The word with only the highest bit set equals the number that represents null in other columns."""

NO_EVENT: Final = "an acknowledgment that was not committed is one of a position"
"""The topic of an invalid row, which a trace cannot contain."""

CASES: Final[dict[str, list[Event]]] = {
    case[0].topic: case
    for case in (
        _of("entry 63 alone", (Kind.PUBLISH, _at(70)), (Kind.ACK, _at(63))),
        _of("entry 63 alone, twice", (Kind.PUBLISH, _at(200)), (Kind.ACK, _at(63)), (Kind.ACK, _at(191))),
        _of(
            "index 63 alone is left",
            (Kind.PUBLISH, _at(0, batch_size=64)),
            (Kind.ACK, _at(0, ack_set=(_LAST_OF_64,))),
        ),
        _of(
            "index 127 alone is left",
            (Kind.PUBLISH, _at(0, batch_size=128)),
            (Kind.ACK, _at(0, ack_set=(0, _LAST_OF_64))),
            (Kind.ACK, _at(0, batch_index=3)),
        ),
        _of(
            "an acknowledgment that was not committed tells of its batch",
            (Kind.PUBLISH, _at(4, subscription="")),
            (Kind.ACK, _at(1, batch_index=1, batch_size=3, transaction="1:2")),
        ),
        _of(
            NO_EVENT,
            (Kind.PUBLISH, _at(4)),
            (Kind.ACK, {"transaction": "1:2"}),
        ),
        _of(
            "a transaction without a name is none",
            (Kind.PUBLISH, _at(4)),
            (Kind.ACK, _at(1, transaction="")),
        ),
        _of(
            "a backlog cleared before anything was published",
            (Kind.CLEAR_BACKLOG, {}),
            (Kind.PUBLISH, _at(4)),
        ),
        _of(
            "a backlog cleared before anything was published, and a seek",
            (Kind.CLEAR_BACKLOG, {}),
            (Kind.PUBLISH, _at(4)),
            (Kind.SEEK, _at(2)),
        ),
        _of(
            "a ledger that is trimmed before anything of it was seen",
            (Kind.PUBLISH, _at(0)),
            (Kind.TRIM, {"ledger_id": 5, "entry_id": 0}),
            (Kind.PUBLISH, {"ledger_id": 5, "entry_id": 0}),
        ),
        _of(
            "a seek to an entry of which nothing is left",
            (Kind.PUBLISH, _at(1, batch_index=0)),
            (Kind.SEEK, _at(1, ack_set=(0,))),
        ),
        _of(
            "a seek to a ledger that was trimmed",
            (Kind.PUBLISH, _at(0)),
            (Kind.PUBLISH, {"ledger_id": 5, "entry_id": 0}),
            (Kind.TRIM, {"ledger_id": 5, "entry_id": 0}),
            (Kind.SEEK, _at(0)),
        ),
        _of(
            "a batch that turns out to be larger once all of it was acknowledged",
            (Kind.PUBLISH, _at(0, batch_index=0)),
            (Kind.ACK, _at(0, batch_index=0)),
            (Kind.PUBLISH, _at(0, batch_index=1)),
        ),
        _of(
            "a batch whose size comes after its acknowledgment",
            (Kind.PUBLISH, _at(0)),
            (Kind.ACK, _at(0, batch_index=0)),
            (Kind.DISPATCH, _at(0, batch_size=2, consumer="c")),
        ),
        _of(
            "an acknowledgment before its publish",
            (Kind.PUBLISH, _at(0)),
            (Kind.ACK, _at(1)),
            (Kind.PUBLISH, _at(1)),
        ),
        _of("nothing but the topic", (Kind.PUBLISH, _at(4, subscription="")), (Kind.CONSUMER_OPEN, {})),
    )
}
EVENTS: Final = [event for case in CASES.values() for event in case]
