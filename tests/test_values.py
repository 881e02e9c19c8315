"""Values that the package gives out and takes: they do not change, and many fields are given by name."""

from __future__ import annotations

import dataclasses
import pkgutil
from importlib import import_module
from typing import Any

import pytest

import ackwell
from ackwell.cursor.state import CursorState

NEED_SPARK = ("ackwell.spark.", "ackwell.__main__")
"""Importing one needs PySpark, or runs the command."""
NEED_NO_SPARK = "ackwell.spark.tasks"

STATE = {
    "UpstreamBroker",
    "ConnectedConsumer",
    "Persisted",
    "LoadedTopic",
    "MemoryLedger",
    "TransactionParts",
    "Producer",
    "Request",
    "Service",
    "State",
    "Target",
    "Transaction",
    "_Fault",
    "_Subscription",
    "_Waiting",
}
"""What changes while it lives; all else is a value."""
BY_NAME = {
    "BatchSizes",
    "Blockage",
    "BrokerFacts",
    "BrokerSettings",
    "Checkup",
    "Code",
    "ConnectedConsumer",
    "ConsumerStats",
    "CursorSettings",
    "DeliveryDiagnosis",
    "DevBrokerSettings",
    "Diagnosis",
    "DispatchStats",
    "Endpoint",
    "Inspection",
    "JudgedBroker",
    "KnownEntries",
    "LedgerSize",
    "LoadedCursor",
    "LoadedTopic",
    "MemoryState",
    "Outcome",
    "Plan",
    "Producer",
    "Report",
    "RestartLoss",
    "State",
    "SubscriptionSettings",
    "SubscriptionStats",
}
"""Many fields of like types, so no caller may confuse their order."""
OF_A_CURSOR = {field.name for field in dataclasses.fields(CursorState)}
INHERITED = {"MemoryState": OF_A_CURSOR, "SubscriptionStats": OF_A_CURSOR}
OPEN = {"DevBrokerSettings", "Endpoint", "MemoryLedger", "RestartLoss", "Snapshot", "Target", "Write"}
"""They keep what they worked out, or are there to be looked into."""


def found() -> dict[str, Any]:
    names = [each.name for each in pkgutil.walk_packages(ackwell.__path__, "ackwell.")]
    names = [name for name in names if not name.startswith(NEED_SPARK) or name.startswith(NEED_NO_SPARK)]
    modules = map(import_module, names)
    return {
        f"{module.__name__}.{name}": cls
        for module in modules
        for name, cls in vars(module).items()
        if dataclasses.is_dataclass(cls) and isinstance(cls, type) and cls.__module__ == module.__name__
    }


VALUES = found()


@pytest.mark.parametrize("name", VALUES)
def test_a_value_does_not_change_and_is_built_as_it_says(name: str) -> None:
    cls, short = VALUES[name], name.rpartition(".")[2]
    empty: Any = cls.__new__(cls)
    field, *others = dataclasses.fields(cls)
    if short in STATE:
        setattr(empty, field.name, None)
    else:
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(empty, field.name, None)
    # What is mutable has slots against names that nobody reads.
    assert hasattr(empty, "__dict__") == (short in OPEN)
    # What a value is beside the state of a cursor is given by name.
    own = [each for each in (field, *others) if each.name not in INHERITED.get(short, ())]
    assert own
    assert all(each.kw_only == (short in BY_NAME) for each in own)


def test_the_lists_name_what_there_is() -> None:
    assert len(VALUES) > 60
    assert {name.rpartition(".")[2] for name in VALUES} >= STATE | BY_NAME | OPEN
