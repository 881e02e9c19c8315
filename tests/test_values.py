"""The package's values are immutable, and values with many fields take them by name."""

from __future__ import annotations

import dataclasses
import pkgutil
from importlib import import_module
from typing import Any

import pytest

import ackwell
from ackwell.cursor.cursor_state import CursorState

NEED_SPARK = ("ackwell.spark.", "ackwell.__main__")
"""Modules whose import needs PySpark or runs the command."""
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
    "WatchCounts",
    "_Fault",
    "_SubscriptionHistory",
    "_WaitingMessages",
}
"""Mutable classes; all others are values."""
BY_NAME = {
    "AcceptedCredentials",
    "Answer",
    "BatchSizes",
    "Blockage",
    "BrokerFacts",
    "BrokerSettings",
    "Checkup",
    "ClientConf",
    "Code",
    "ConnectedConsumer",
    "ConsumerStats",
    "CursorSettings",
    "Decision",
    "DeliveryDiagnosis",
    "DevBrokerSettings",
    "Diagnosis",
    "DispatchStats",
    "DumpFields",
    "Endpoint",
    "Inspection",
    "JudgedBroker",
    "KnownEntries",
    "LedgerSize",
    "LoadedCursor",
    "LoadedTopic",
    "MemoryState",
    "MoveEffect",
    "Plan",
    "Producer",
    "Recovery",
    "Report",
    "RestartLoss",
    "State",
    "SubscriptionSettings",
    "SubscriptionStats",
    "SubscriptionUpgrade",
    "Summary",
    "UpgradeCheck",
    "WatchCounts",
}
"""Classes with many fields of equal types, which callers pass by name."""
PARTLY_BY_NAME = {"Request"}
"""Classes whose last fields are passed by name."""
OF_A_CURSOR = {field.name for field in dataclasses.fields(CursorState)}
INHERITED = {"MemoryState": OF_A_CURSOR, "SubscriptionStats": OF_A_CURSOR}
OPEN = {
    "BrokerUpgrade",
    "DevBrokerSettings",
    "DumpFields",
    "Endpoint",
    "MemoryLedger",
    "Request",
    "RestartLoss",
    "Snapshot",
    "Target",
}
"""Values without slots: they cache results or are inspected."""


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
    # Mutable classes have slots, so that a misspelt attribute raises an error.
    assert hasattr(empty, "__dict__") == (short in OPEN)
    # The fields of a value other than a cursor's state are passed by name.
    own = [each for each in (field, *others) if each.name not in INHERITED.get(short, ())]
    assert own
    by_name = {True, False} if short in PARTLY_BY_NAME else {short in BY_NAME}
    assert {each.kw_only for each in own} == by_name


def test_the_lists_name_what_there_is() -> None:
    assert len(VALUES) > 60
    assert {name.rpartition(".")[2] for name in VALUES} >= STATE | BY_NAME | PARTLY_BY_NAME | OPEN
