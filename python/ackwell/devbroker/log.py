"""A topic's log: its entries, ledger by ledger, and the ledger directory that cursors read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackwell import Ledgers, Position

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ackwell.devbroker.broker_file import BrokerFile
    from ackwell.devbroker.entry import Entry
    from ackwell.devbroker.shared import Shared


class Log:
    """The entries of one topic.

    A ledger is closed when it holds `entries_per_ledger`, and the next one opened with the next entry, as the
    broker does; its id is greater than that of every ledger before.
    """

    def __init__(
        self,
        topic: str,
        shared: Shared,
        file: BrokerFile | None,
        ledgers: dict[int, list[Entry]] | None = None,
    ) -> None:
        self._topic = topic
        self._shared = shared
        self._file = file
        self.entries: dict[int, list[Entry]] = ledgers or {}
        self.ledgers = Ledgers({ledger_id: len(entries) for ledger_id, entries in self.entries.items()})
        self.delays = any(entry.deliver_at_ms for entry in self._all())
        """Whether any entry is delayed."""
        self.nbytes = sum(len(entry.data) for entry in self._all())
        self.rolled = False
        """Whether the last entry closed a full ledger and opened the next."""
        self._open: list[Entry] = []
        self._open_id = -1
        self.roll()

    def append(self, entry: Entry) -> Position:
        """Add an entry behind the last one."""
        self.rolled = len(self._open) >= self._shared.settings.entries_per_ledger
        if self.rolled:
            self.roll()
        entry_id = len(self._open)
        self._open.append(entry)
        if entry.deliver_at_ms:
            self.delays = True
        self.ledgers.grow(self._open_id, entry_id + 1)
        self.nbytes += len(entry.data)
        if self._file is not None:
            self._file.append(self._topic, self._open_id, entry_id, entry)
        return Position(self._open_id, entry_id)

    def read(self, ledger_id: int, entry_id: int) -> Entry:
        """Return an entry; `KeyError` or `IndexError` for one that does not exist."""
        return self.entries[ledger_id][entry_id]

    def roll(self) -> None:
        """Close the open ledger and open the next one; an empty one stays open."""
        if self._open_id >= 0 and not self._open:
            return
        self._open_id = self._shared.next_number("ledger")
        self._open = self.entries[self._open_id] = []
        self.ledgers.add(self._open_id)

    def trim_before(self, ledger_id: int) -> int:
        """Delete the ledgers before one, never the open one; return how many."""
        ledger_id = min(ledger_id, self._open_id)
        gone = [each for each in self.entries if each < ledger_id]
        for each in gone:
            self.nbytes -= sum(len(entry.data) for entry in self.entries.pop(each))
        if gone:
            self.ledgers.trim_before(ledger_id)
            if self._file is not None:
                self._file.trim(self._topic, ledger_id)
        return len(gone)

    @property
    def last_position(self) -> Position:
        """The last entry, or the position before the first one."""
        return self.ledgers.last_position or Position(self._open_id, -1)

    @property
    def end(self) -> Position:
        """The position before the next entry: in the open ledger."""
        return Position(self._open_id, len(self._open) - 1)

    def first_published_at(self, time_ms: int) -> Position:
        """Return the first entry published at or after a time; past the end if there is none. O(log entries).

        Publish times come from producers and need not be in order; like the broker, a binary search finds
        one.
        """
        positions = [(ledger_id, entries) for ledger_id, entries in self.entries.items() if entries]
        low, high = 0, sum(len(entries) for _, entries in positions)
        while low < high:
            middle = (low + high) // 2
            if _at(positions, middle)[1].publish_ms < time_ms:
                low = middle + 1
            else:
                high = middle
        if low == sum(len(entries) for _, entries in positions):
            return Position(self._open_id, len(self._open))
        return _at(positions, low)[0]

    def _all(self) -> Iterable[Entry]:
        return (entry for entries in self.entries.values() for entry in entries)


def _at(positions: list[tuple[int, list[Entry]]], index: int) -> tuple[Position, Entry]:
    for ledger_id, entries in positions:
        if index < len(entries):
            return Position(ledger_id, index), entries[index]
        index -= len(entries)
    raise IndexError(index)
