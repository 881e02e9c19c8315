"""The values of `PendingAcks`, and the protocols of the handlers that it calls on changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol, TypeAlias

from ackwell.position import Position


class PendingAck(NamedTuple):
    """An entry that was sent and is not yet acknowledged.

    `remaining` is the number of unacknowledged messages of its batch, 0 to 2**31 - 1; `sticky_key_hash` is a
    signed 32-bit integer.

    >>> PendingAck(remaining=10, sticky_key_hash=-7)
    PendingAck(remaining=10, sticky_key_hash=-7)
    """

    remaining: int
    sticky_key_hash: int


# A mapping's key type is invariant, so a mapping of `Position` is not a mapping of pairs.
PendingEntries: TypeAlias = (
    Mapping[Position, PendingAck]
    | Mapping[tuple[int, int], tuple[int, int]]
    | Iterable[tuple[tuple[int, int], tuple[int, int]]]
)


class AddHandler(Protocol):
    """A callback before an entry is added; a false result refuses the entry."""

    def __call__(self, ledger_id: int, entry_id: int, sticky_key_hash: int, /) -> object:
        """Return whether the entry may be added."""


class RemoveHandler(Protocol):
    """A callback for every removed entry, like Pulsar's `PendingAcksRemoveHandler`."""

    def handle_removing(
        self, ledger_id: int, entry_id: int, sticky_key_hash: int, closing: bool, /
    ) -> object:
        """Handle a removed entry. `closing` is true if the map is being closed."""

    def start_batch(self) -> object:
        """Prepare for a call that may remove several entries."""

    def end_batch(self) -> object:
        """Finish the call that `start_batch` announced, also after an error in a handler or callback."""


class EntryCallback(Protocol):
    """A callback for an entry of `PendingAcks`."""

    def __call__(self, ledger_id: int, entry_id: int, remaining: int, sticky_key_hash: int, /) -> object:
        """Handle the entry."""
