"""The values of `PendingAcks`, and the protocols of the callbacks that it calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol, TypeAlias

from ackwell.position import Position


class PendingAck(NamedTuple):
    """An entry that was delivered and is not yet acknowledged.

    `remaining` is the number of unacknowledged messages of its batch, 0 to 2**31 - 1. `sticky_key_hash` is a
    signed 32-bit integer.

    >>> PendingAck(remaining=10, sticky_key_hash=-7)
    PendingAck(remaining=10, sticky_key_hash=-7)
    """

    remaining: int
    sticky_key_hash: int


# For type checkers, the key type of a mapping is invariant. So a mapping of `Position` is not a mapping of
# pairs, and both are listed.
PendingEntries: TypeAlias = (
    Mapping[Position, PendingAck]
    | Mapping[tuple[int, int], tuple[int, int]]
    | Iterable[tuple[tuple[int, int], tuple[int, int]]]
)


class AddHandler(Protocol):
    """A callback that runs before an entry is added. If its result is false, the entry is not added."""

    def __call__(self, ledger_id: int, entry_id: int, sticky_key_hash: int, /) -> object:
        """Return whether the entry may be added."""


class RemoveHandler(Protocol):
    """A handler that is called for every removed entry, like Pulsar's `PendingAcksRemoveHandler`."""

    def handle_removing(
        self, ledger_id: int, entry_id: int, sticky_key_hash: int, closing: bool, /
    ) -> object:
        """Handle the removal of an entry. `closing` is true if the map is being closed."""

    def start_batch(self) -> object:
        """Prepare for a call that can remove several entries."""

    def end_batch(self) -> object:
        """End the call for which `start_batch` was called, also if a handler or callback raised an error."""


class EntryCallback(Protocol):
    """A callback that `PendingAcks` calls with an entry."""

    def __call__(self, ledger_id: int, entry_id: int, remaining: int, sticky_key_hash: int, /) -> object:
        """Handle the entry."""
