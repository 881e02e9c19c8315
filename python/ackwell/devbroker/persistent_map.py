"""The facts that survive a restart of the broker.

A `PersistentMap` is a dictionary that writes every change to the broker's file. Entries and cursors are not
facts: a log appends its entries to the file, and `Shared.changed` schedules the save of a cursor. All changes
are committed before the answers to the commands are sent (`Shared.run_woken`).
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

if TYPE_CHECKING:
    from ackwell.devbroker.broker_file import BrokerFile

V = TypeVar("V")

PERSISTENT_ATTRIBUTES: Final = {
    "Shared": {"policies", "topic_policies", "counters"},
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
"""Maps a class to its attributes that survive a restart; a test compares them with the classes."""


class PersistentMap(dict[str, V]):
    """A dictionary of one kind of fact. Values are JSON values; replace them, do not mutate them.

    `scope` is the topic of the facts; it is empty for facts about the broker. Without a file, the facts are
    in memory only.
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
        """Remove a fact and return its value; if it is missing, return the default or raise `KeyError`."""
        if name not in self and default:
            return default[0]
        value = self[name]
        del self[name]
        return value

    # The methods of `dict` would bypass the methods above.
    popitem = MutableMapping.popitem
    setdefault = MutableMapping.setdefault
    update = MutableMapping.update
    clear = MutableMapping.clear

    def __ior__(self, others: Any) -> Self:  # type: ignore[override,misc]
        self.update(others)
        return self
