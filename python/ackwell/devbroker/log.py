"""The log of a topic: its entries by ledger, and the directory of its ledgers that cursors use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackwell import Ledgers, Position
from ackwell.devbroker.placeholders import LoadedLedger

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ackwell.devbroker.broker_file import BrokerFile
    from ackwell.devbroker.entry import LogEntry
    from ackwell.devbroker.namespace_policies import Retention
    from ackwell.devbroker.shared import SharedState

    Ledger = list[LogEntry] | LoadedLedger


class Log:
    """The entries of one topic.

    When a ledger has `entries_per_ledger` entries, the next entry closes it and opens the next ledger, as in
    a Pulsar broker. A ledger that takes a considerable part of the free memory is closed, too, because only
    closed ledgers can be deleted. Ledger ids increase.

    `ledgers` are existing ledgers. If `is_open` is true, the last of them is the open ledger.
    """

    def __init__(
        self,
        topic: str,
        shared: SharedState,
        file: BrokerFile | None,
        ledgers: Mapping[int, Ledger] | None = None,
        *,
        is_open: bool = False,
    ) -> None:
        self._topic = topic
        self._shared = shared
        self._file = file
        self.entries: dict[int, Ledger] = dict(ledgers or {})
        self.ledgers = Ledgers({ledger_id: len(entries) for ledger_id, entries in self.entries.items()})
        self.delays = any(map(_delays, self.entries.values()))
        """Whether any entry has a delivery time."""
        self.sizes = {ledger_id: _bytes_of(entries)[0] for ledger_id, entries in self.entries.items()}
        """The size of each ledger in bytes, by ledger id."""
        self._begun_ms = self._opened_ms = shared.clock.now_ms()
        self._closed_ms = {
            ledger_id: _last_published_ms(entries) for ledger_id, entries in self.entries.items()
        }
        """The time at which each closed ledger was closed. For a ledger that was loaded, it is the publish
        time of its last entry."""
        self.held_bytes = sum(_bytes_of(entries)[1] for entries in self.entries.values())
        """The number of bytes of the entries that are in memory."""
        self.last_confirmed: Position | None = None
        """The position of the last published entry, even if its ledger is deleted. None if it is unknown."""
        self.rolled = False
        """Whether the last `append` closed a full ledger and opened the next one."""
        self.largest_entry_bytes = max(map(_largest_bytes, self.entries.values()), default=0)
        """An upper bound of the size in bytes of the largest entry."""
        self._open: Ledger = []
        self._open_id = -1
        self._open_bytes = 0
        """The number of bytes that were appended to the open ledger since it was opened."""
        if is_open and self.entries:
            self._open_id, self._open = max(self.entries.items(), key=lambda each: each[0])
            self.ledgers.grow(self._open_id, len(self._open))
        else:
            self.roll()

    def append(self, entry: LogEntry) -> Position:
        """Append an entry, and return its position."""
        shared = self._shared
        self.rolled = (
            len(self._open) >= shared.settings.entries_per_ledger
            or self._open_bytes >= shared.max_ledger_bytes
        )
        if self.rolled:
            self.roll()
        entry_id = len(self._open)
        self._open.append(entry)
        if entry.deliver_at_ms:
            self.delays = True
        self.ledgers.grow(self._open_id, entry_id + 1)
        size = len(entry.data)
        self.sizes[self._open_id] += size
        self._open_bytes += size
        self.held_bytes += size
        if size > self.largest_entry_bytes:
            self.largest_entry_bytes = size
        if self._file is not None:
            self._file.append(self._topic, self._open_id, entry_id, entry)
        self.last_confirmed = position = Position(self._open_id, entry_id)
        return position

    def read(self, ledger_id: int, entry_id: int) -> LogEntry:
        """Return the entry at a position. `KeyError` or `IndexError` if the entry does not exist."""
        return self.entries[ledger_id][entry_id]

    def roll(self) -> None:
        """Close the open ledger and open the next one. Do nothing if the open ledger has no entries."""
        if self._open_id >= 0 and not self._open:
            return
        if self._open_id >= 0:
            self._closed_ms[self._open_id] = self._shared.clock.now_ms()
        self._open_id = self._shared.next_number("ledger")
        self._open = self.entries[self._open_id] = []
        self.sizes[self._open_id] = self._open_bytes = 0
        self._opened_ms = self._shared.clock.now_ms()
        self.ledgers.add(self._open_id)

    def roll_if_old(self) -> None:
        """Close the open ledger and open the next one, if the open ledger has reached the maximum age."""
        if self._shared.clock.now_ms() - self._opened_ms >= self._shared.settings.ledger_rollover_ms:
            self.roll()

    def closed_ms(self, ledger_id: int) -> int | None:
        """Return the time at which a ledger was closed; None if it is open."""
        return self._closed_ms.get(ledger_id)

    def created_ms(self, ledger_id: int) -> int:
        """Return the time at which a ledger was opened.

        This is also the time at which the previous ledger was closed.
        """
        earlier = [closed_ms for each, closed_ms in self._closed_ms.items() if each < ledger_id]
        return max(earlier, default=self._begun_ms)

    def first_retained(self, before: int, kept: Retention) -> int:
        """Return the id of the first ledger that the retention policy `kept` keeps.

        Only the ledgers with ids below `before` are consumed. The result is `before` if the policy keeps none
        of them.
        """
        rest_bytes, now_ms = self.nbytes, self._shared.clock.now_ms()
        for ledger_id, size_bytes in self.sizes.items():
            if ledger_id >= before:
                break
            rest_bytes -= size_bytes
            if not kept.deletes(now_ms - self._closed_ms[ledger_id], rest_bytes):
                return ledger_id
        return before

    def trim_before(self, ledger_id: int) -> bool:
        """Delete the closed ledgers with ids below `ledger_id`. Return whether any ledger was deleted."""
        ledger_id = min(ledger_id, self._open_id)
        gone = [each for each in self.entries if each < ledger_id]
        for each in gone:
            freed = _bytes_of(self.entries.pop(each))[1]
            del self.sizes[each], self._closed_ms[each]
            self.held_bytes -= freed
            self._shared.release_memory(freed)
        if gone:
            self.ledgers.trim_before(ledger_id)
            if self._file is not None:
                self._file.trim(self._topic, ledger_id)
        return bool(gone)

    @property
    def last_position(self) -> Position:
        """The position of the last entry. In a log without entries, the position before the first entry."""
        return self.ledgers.last_position or Position(self._open_id, -1)

    @property
    def end(self) -> Position:
        """The position of the last entry in the open ledger. Its entry id is -1 if this ledger is empty."""
        return Position(self._open_id, len(self._open) - 1)

    def first_published_at(self, time_ms: int) -> Position:
        """Return the position of the first entry that was published at or after a time.

        Without such an entry, return the position that the next entry gets. O(log entries). Publish times
        come from producers and may be out of order. In that case, the binary search may find a later entry
        than the first one, as in a Pulsar broker.
        """
        positions = [(ledger_id, entries) for ledger_id, entries in self.entries.items() if len(entries)]
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

    @property
    def nbytes(self) -> int:
        """The number of bytes of all entries of the log."""
        return sum(self.sizes.values())


def _delays(entries: Ledger) -> bool:
    if isinstance(entries, LoadedLedger):
        return entries.delays
    return any(entry.deliver_at_ms for entry in entries)


def _largest_bytes(entries: Ledger) -> int:
    if isinstance(entries, LoadedLedger):
        return entries.largest_entry_bytes
    return max((len(entry.data) for entry in entries), default=0)


def _last_published_ms(entries: Ledger) -> int:
    return entries[len(entries) - 1].publish_ms if len(entries) else 0


def _bytes_of(entries: Ledger) -> tuple[int, int]:
    """Return two sizes in bytes: of the whole ledger, and of those entries that are in memory."""
    if isinstance(entries, LoadedLedger):
        return entries.size_bytes, entries.held_bytes
    size = sum(len(entry.data) for entry in entries)
    return size, size


def _at(positions: list[tuple[int, Ledger]], index: int) -> tuple[Position, LogEntry]:
    for ledger_id, entries in positions:
        if index < len(entries):
            return Position(ledger_id, index), entries[index]
        index -= len(entries)
    raise IndexError(index)
