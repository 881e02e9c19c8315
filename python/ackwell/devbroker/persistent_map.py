"""Dictionaries for the facts of a broker, which survive a restart.

A `PersistentMap` is a dictionary that writes every change to the broker's file. Entries and cursors do not
use it: a log writes its entries to the file itself, and `SharedState.schedule_save` schedules the save of a
cursor. The broker commits all changes before it sends the answers to the commands
(`SharedState.run_woken`).
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

if TYPE_CHECKING:
    from ackwell.devbroker.broker_file import BrokerFile

V = TypeVar("V")

PERSISTENT_ATTRIBUTES: Final = {
    "SharedState": {"policies", "topic_policies", "counters"},
    "BrokerState": {
        "topic_names",
        "partitioned",
        "made_tenants",
        "saved_clock",
        "dynamic_settings",
        "resources",
    },
    "Schemas": {"versions"},
    "Coordinator": {"open"},
    "TopicContent": {"log", "facts", "replicated"},
    "Producers": {"last_sequence_ids"},
    "Topic": {"subscriptions"},
    "TopicSubscription": {"subscription", "properties"},
}
"""Maps the name of a class to those of its attributes that survive a restart. A test compares the names with
the classes."""


class PersistentMap(dict[str, V]):
    """A dictionary of one kind of fact. Values are JSON values. To change a value, assign a new one.

    `scope` is the topic that the facts describe. It is empty for facts about the broker. Without a file, the
    facts are only in memory.
    """

    def __init__(self, file: BrokerFile | None, kind: str, scope: str = "") -> None:
        super().__init__({} if file is None else file.facts(kind, scope))
        self._file = file
        self._kind = kind
        self._scope = scope

    def __setitem__(self, name: str, value: V) -> None:
        super().__setitem__(name, value)
        if self._file is not None:
            self._file.put(self._kind, self._scope, name, value)

    def __delitem__(self, name: str) -> None:
        super().__delitem__(name)
        if self._file is not None:
            self._file.delete(self._kind, self._scope, name)

    def pop(self, name: str, *default: Any) -> Any:
        """Remove a fact and return its value. If it is missing, return the default or raise `KeyError`."""
        if name not in self and default:
            return default[0]
        value = self[name]
        del self[name]
        return value

    # The inherited methods of `dict` would not call the methods above, so their changes would not be saved.
    popitem = MutableMapping.popitem
    setdefault = MutableMapping.setdefault
    update = MutableMapping.update
    clear = MutableMapping.clear

    def __ior__(self, others: Any) -> Self:  # type: ignore[override,misc]
        self.update(others)
        return self
