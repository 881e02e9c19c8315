"""A refused call changes nothing: every public method of structures, cursor and tracker, in both engines."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

import tests.reference
from ackwell import AckwellError, Cursor, DelayedDeliveryTracker, _native

REFUSALS = (TypeError, ValueError, OverflowError, LookupError, AckwellError)

#: Valid arguments by the name of the parameter.
GOOD: dict[str, Any] = {
    "ack_set": (0b10,),
    "acked": 1,
    "additional": 10,
    "bit": 5,
    "bits": [5, 70],
    "callback": lambda *_: None,
    "closed": False,
    "data": b"",
    "default": 7,
    "deliver_at_ms": 5_000,
    "delta": 2,
    "ack_sets": ([0, 1, 2], [5, 5]),
    "end": 9,
    "entries": 20,
    "entry_id": 5,
    "entry_ids": [5, 6],
    "key": 5,
    "keys": [5, 6],
    "ledger_id": 3,
    "ledger_ids": [3, 3],
    "limit": 100,
    "lower_entry_exclusive": 5,
    "lower_exclusive": (3, 1),
    "lowers_exclusive": [5, 6],
    "max": 2,
    "mode": "round_up",
    "now_ms": 7_000,
    "passed": (3, 1),
    "position": (3, 5),
    "properties": {"p": 1},
    "remaining": 2,
    "sets": {(3, 5): [1]},
    "start": 3,
    "starts": [0, 1, 2],
    "sticky_key_hash": 9,
    "sticky_key_hashes": [9, 9],
    "text": "[(3:4..3:5]]",
    "tick_time_ms": 100,
    "upper_entry_inclusive": 9,
    "upper_inclusive": (3, 9),
    "uppers_inclusive": [7, 8],
    "value": 5,
    "values": [5, 6],
    "wide": False,
    "words": [5, 0],
}
COLUMNS = {"deliver_at_ms": [5_000, 6_000], "remaining": [1, 2]}
BAD = [
    None,
    "a",
    b"\xff",
    -1,
    -(2**63) - 1,
    2**63,
    1.5,
    float("nan"),
    [],
    [5],
    [1.5, 2.5],
    ["x", "y"],
    [5, -1],
    [5, 2**64],
    (1.5, 2),
    (1, 2, 3),
    {"p": 1.5},
    {"p": 2**63},
    {7: 1},
    object(),
]
#: Methods whose arguments are ackwell's objects; other tests cover wrong types.
ELSEWHERE = {
    "changed_from",
    "difference",
    "from_position_info",
    "load",
    "pulsar",
    "recovered",
    "remove_ranges",
    "save",
    "union",
}


def _filled(name: str, engine: ModuleType) -> Any:
    match name:
        case "Ledgers":
            return engine.Ledgers({3: 16, 4: 10})
        case "LongMap":
            return engine.LongMap({5: 1, 9: 2})
        case "BitSet":
            filled = engine.BitSet(limit=1_000)
            filled.set_many([5, 64, 70])
            return filled
        case "PendingAcks":
            filled = engine.PendingAcks()
            filled.add_many([3, 3, 4], [5, 6, 1], [2, 1, 1], [9, 9, 9])
            return filled
        case "PositionRangeSet":
            return engine.PositionRangeSet([(3, 4, 9), (4, 1, 2)])
        case "AckSets":
            return engine.AckSets({(3, 5): [6], (3, 6): [5, 0, 7], (4, 1): [1]})
        case "Cursor":
            cursor = Cursor(engine.Ledgers({3: 16, 4: 10}), engine=engine)
            cursor.ack(3, 7)
            cursor.ack_batch(3, 8, (0b110,))
            return cursor
        case "DelayedDeliveryTracker":
            tracker = DelayedDeliveryTracker(strict=True, index=engine.TimeWheel(1))
            tracker.add(9_000, 3, 5, 0)
            return tracker
    index = {"TimeBuckets": (8,), "TimeWheel": (1,)}.get(name, ())
    filled = getattr(engine, name)(*index)
    filled.add_many([5_000, 6_000, 9_000], [3, 3, 4], [5, 6, 1])
    return filled


STRUCTURES = (
    "AckSets",
    "BitSet",
    "Cursor",
    "DelayedDeliveryTracker",
    "Ledgers",
    "LongMap",
    "PendingAcks",
    "PositionRangeSet",
    "TimeBuckets",
    "TimeWheel",
    "TripleLongHeap",
)


def _class(name: str) -> Any:
    if name in ("Cursor", "DelayedDeliveryTracker"):
        return {"Cursor": Cursor, "DelayedDeliveryTracker": DelayedDeliveryTracker}[name]
    return getattr(tests.reference, name)


def _methods(name: str) -> dict[str, list[inspect.Parameter]]:
    """Return the public methods that take an argument, with their parameters."""
    found = {}
    for method, function in inspect.getmembers(_class(name), callable):
        if not method.startswith("_") and method not in ELSEWHERE:
            parameters = [p for p in inspect.signature(function).parameters.values() if p.name != "self"]
            if parameters:
                found[method] = parameters
    return found


def _good(method: str, parameter: str) -> Any:
    if method.endswith(("_many", "from_arrays")) and parameter in COLUMNS:
        return COLUMNS[parameter]
    if method == "update" and parameter == "entries":
        return {5: 6}
    if method == "add_ranges" and parameter == "ledger_ids":
        return [3, 3]
    return GOOD[parameter]


def _call(subject: Any, method: str, values: dict[inspect.Parameter, Any]) -> Callable[[], object]:
    positional = [value for parameter, value in values.items() if parameter.kind != parameter.KEYWORD_ONLY]
    named = {p.name: value for p, value in values.items() if p.kind == p.KEYWORD_ONLY}
    return lambda: getattr(subject, method)(*positional, **named)


@pytest.mark.parametrize("name", STRUCTURES)
def test_a_refused_call_changes_nothing_and_both_engines_refuse_alike(name: str) -> None:
    methods = _methods(name)
    assert methods
    for method, parameters in methods.items():
        good = {parameter: _good(method, parameter.name) for parameter in parameters}
        refused = 0
        for parameter in parameters:
            for bad in BAD:
                values = good | {parameter: bad}
                outcomes = []
                for engine in (_native, tests.reference):
                    subject, before = _filled(name, engine), _filled(name, engine)
                    assert subject == before
                    try:
                        _call(subject, method, values)()
                        outcomes.append("taken")
                    except REFUSALS as error:
                        outcomes.append(type(error).__name__)
                        refused += 1
                        shown = list(values.values())
                        assert subject == before, f"{name}.{method}{shown} was refused and changed something"
                        assert getattr(subject, "closed", None) == getattr(before, "closed", None)
                    subject.validate()
                assert outcomes[0] == outcomes[1], f"{name}.{method}, {parameter.name}={bad!r}: {outcomes}"
        assert refused > 0, f"nothing of {name}.{method} was refused"
