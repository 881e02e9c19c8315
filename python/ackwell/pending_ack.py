"""The values of `PendingAcks`, and the handlers that are called on changes; shared by both engines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol, TypeAlias

from ackwell.position import Position


class PendingAck(NamedTuple):
    """What is known of an entry sent and not yet acknowledged.

    `remaining` messages of its batch are unacknowledged, 0 to 2**31 - 1; `sticky_key_hash` is 32
    signed bits.

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
    """Asked before an entry is added; a false answer refuses it."""

    def __call__(self, ledger_id: int, entry_id: int, sticky_key_hash: int, /) -> object:
        """Answer whether the entry may be added."""


class RemoveHandler(Protocol):
    """Called with every entry that leaves, as Pulsar's `PendingAcksRemoveHandler`."""

    def handle_removing(
        self, ledger_id: int, entry_id: int, sticky_key_hash: int, closing: bool, /
    ) -> object:
        """Take note of an entry that leaves; `closing` if the map is closed."""

    def start_batch(self) -> object:
        """Prepare for the entries of one call that may remove more than one."""

    def end_batch(self) -> object:
        """Finish that call. It is also called if a handler or callback has raised."""


class EntryCallback(Protocol):
    """Called with an entry of `PendingAcks`."""

    def __call__(self, ledger_id: int, entry_id: int, remaining: int, sticky_key_hash: int, /) -> object:
        """Take note of the entry."""
