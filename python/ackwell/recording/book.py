"""What the connections of a recording share: subscriptions seen, open transactions, the order of events."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ackwell.replay.events import Event, Kind

if TYPE_CHECKING:
    from ackwell.protocol.command_ack import TransactionId


@dataclass(slots=True)
class Parts:
    """The topics and subscriptions that take part in a transaction."""

    topics: set[str] = field(default_factory=set)
    subscriptions: set[tuple[str, str]] = field(default_factory=set)


class Book:
    """Records events; `write` gets each, with its number in the order of all."""

    def __init__(self, write: Callable[[Event], None]) -> None:
        self._write = write
        self._sequence = 0
        self.known: set[tuple[str, str]] = set()
        """The subscriptions whose position is known: their events are complete from there."""
        self.transactions: dict[TransactionId, Parts] = {}

    def record(
        self,
        topic: str,
        subscription: str,
        kind: Kind,
        position: tuple[int, int] | None = None,
        **fields: Any,
    ) -> None:
        """Record one event, now."""
        self._sequence += 1
        ledger_id, entry_id = position or (None, None)
        self._write(
            Event(
                topic,
                subscription,
                self._sequence,
                kind,
                time.time_ns() // 1_000_000,
                ledger_id=ledger_id,
                entry_id=entry_id,
                **fields,
            )
        )

    def gap(self, what: str, topic: str = "") -> None:
        """Record what was not seen."""
        self.record(topic or "*", "", Kind.GAP, detail=what)
