"""What a broker keeps for the next start: one seam through which every promise of a receipt passes.

A `KeptMap` is a dictionary whose every change is in the broker's file, so nothing that one holds can be
forgotten by whoever changes it. Beside them the file has what grows with traffic: entries, which a log
appends, and cursors, which are saved once a round (`Shared.changed`). All of it is committed before any
answer of the round is sent (`Shared.run_woken`).
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

if TYPE_CHECKING:
    from ackwell.devbroker.broker_file import BrokerFile

V = TypeVar("V")

PERSISTENT_ATTRIBUTES: Final = {
    "Shared": {"policies", "counters"},
    "BrokerState": {"topic_names", "partitioned", "made_tenants"},
    "Schemas": {"versions"},
    "Coordinator": {"open"},
    "TopicContent": {"log", "facts"},
    "Producers": {"last_sequence_ids"},
    "Topic": {"subscriptions"},
    "TopicSubscription": {"subscription", "properties"},
}
"""By class, the attributes that a start finds again; a test compares it with what the classes have."""


class PersistentMap(dict[str, V]):
    """A dictionary of one kind of fact; values are whatever JSON can write, and are replaced, not changed.

    `scope` is the topic that they belong to, empty for the broker. Without a file they are in memory.
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

    # Those of a dictionary change it without the two above.
    pop = MutableMapping.pop
    popitem = MutableMapping.popitem
    setdefault = MutableMapping.setdefault
    update = MutableMapping.update
    clear = MutableMapping.clear

    def __ior__(self, others: Any) -> Self:  # type: ignore[override,misc]
        self.update(others)
        return self
