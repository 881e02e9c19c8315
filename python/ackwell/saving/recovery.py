"""Finding the newest whole state among the entries of a store, and saying how it was found.

The last entry should complete the newest save. If it does not (a crash cut it, or the place damaged it),
the entry before it is tried, and so on. An entry completes a state when it is a state of its own,
the footer of one in parts, or a delta whose chain of older deltas ends at one; each of them carries a
checksum, so a mix of two saves is no state.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ackwell.errors import CorruptStateError, NewerVersionError
from ackwell.saving import delta
from ackwell.saving.chunks import STATE_BYTES_MAX
from ackwell.saving.compression import compression_at
from ackwell.saving.delta import Delta
from ackwell.saving.snapshot import EntrySettings, Skipped, state_at

if TYPE_CHECKING:
    from ackwell._native import PositionInfo
    from ackwell.engine import Engine
    from ackwell.store import Store


@dataclass(frozen=True, slots=True)
class Recovery:
    """What was found, and what it took."""

    #: The newest whole state; None where none was ever saved.
    position_info: PositionInfo | None = None
    #: The form of the full save.
    form: str | None = None
    #: The first and the last entry of the full save, and the bytes of its state.
    full_first_id: int = -1
    full_last_id: int = -1
    full_bytes: int = 0
    #: The deltas between the full save and the state, and their bytes.
    deltas: int = 0
    delta_bytes: int = 0
    #: The entry that completes the state.
    entry_id: int = -1
    #: All that was read, also in vain.
    entries_read: int = 0
    bytes_read: int = 0
    #: Entries newer than the state that complete none, newest first.
    skipped: tuple[Skipped, ...] = ()

    def __str__(self) -> str:
        lines = [f"read {self.entries_read} entries, {self.bytes_read} bytes"]
        if self.position_info is None:
            lines.append("no state was ever saved whole")
        else:
            lines.append(
                f"the state of entry {self.entry_id}: {self.form}, {self.full_bytes} bytes in entries "
                f"{self.full_first_id} to {self.full_last_id}; {self.deltas} deltas, {self.delta_bytes} bytes"
            )
        lines += [f"skipped entry {skip.entry_id}: {skip.reason}" for skip in self.skipped]
        return "\n".join(lines)


def recover(store: Store, engine: Engine, max_bytes: int = STATE_BYTES_MAX) -> Recovery:
    """Find the newest whole state.

    Reads the newest save and its deltas once, and what is damaged after them. `CorruptStateError` where
    states were saved but none is whole. No reason to pass over an entry are `StoreError`, where the store
    cannot be read, and `NewerVersionError`, where a newer release has saved a state that is whole.
    """
    reading = _Reading(store, engine, max_bytes)
    skipped: list[Skipped] = []
    for entry_id in range(store.last_id, store.first_id - 1, -1):
        try:
            found = reading.state_at(entry_id)
        except _NoState as reason:
            skipped.append(Skipped(entry_id, str(reason)))
            continue
        return replace(found, entries_read=reading.entries, bytes_read=reading.bytes, skipped=tuple(skipped))
    if store.first_id > 0:
        # Entries are deleted only once a newer state stands whole.
        reasons = "; ".join(f"entry {skip.entry_id}: {skip.reason}" for skip in skipped[:5])
        raise CorruptStateError(
            f"no whole state in entries {store.first_id} to {store.last_id}: {reasons}", 0
        )
    return Recovery(entries_read=reading.entries, bytes_read=reading.bytes, skipped=tuple(skipped))


class _NoState(Exception):  # noqa: N818 - not an error: the reason to try the entry before
    """Why an entry completes no state."""


class _Reading:
    """One pass over a store: counts what it reads, and walks no broken chain twice."""

    def __init__(self, store: Store, engine: Engine, max_bytes: int) -> None:
        self._store = store
        self._metadata = store.metadata
        self._engine = engine
        self._max_bytes = max_bytes
        self._broken: dict[int, str] = {}
        self._last: tuple[int, bytes] = (-1, b"")
        self.entries = 0
        self.bytes = 0

    def state_at(self, entry_id: int) -> Recovery:
        """Return the state that an entry completes, or raise `_NoState`."""
        changes: list[Delta] = []
        delta_bytes = 0
        walked = [entry_id]
        try:
            while (data := self._read(walked[-1]))[:1] == delta.MAGIC:
                previous_id, change = Delta.decode(data, self._engine)
                if previous_id >= walked[-1]:
                    raise CorruptStateError(f"a delta on entry {previous_id}, which is not before it", 3)
                changes.append(change)
                delta_bytes += len(data)
                walked.append(previous_id)
            # Of the settings, all that matters to a reader is how the entries are compressed.
            settings = EntrySettings(compression=compression_at(self._metadata, walked[-1]))
            state, full_data, full_first_id, full_last_id, _ = state_at(
                self._read, walked[-1], self._store.first_id, settings, self._max_bytes, self._engine
            )
        except NewerVersionError as error:
            message = str(error).partition(": ")[2]
            raise NewerVersionError(f"{message} (in entry {walked[-1]})", error.offset) from None
        except (CorruptStateError, _NoState) as error:
            *above, broken_id = walked
            self._broken |= dict.fromkeys(above, f"builds on entry {broken_id}: {error}")
            self._broken[broken_id] = str(error)
            raise _NoState(self._broken[entry_id]) from error
        return Recovery(
            delta.replay(state, reversed(changes)) if changes else state,
            form=state.form,
            full_first_id=full_first_id,
            full_last_id=full_last_id,
            full_bytes=len(full_data),
            deltas=len(changes),
            delta_bytes=delta_bytes,
            entry_id=entry_id,
        )

    def _read(self, entry_id: int) -> bytes:
        if entry_id in self._broken:
            raise _NoState(self._broken[entry_id])
        if entry_id != self._last[0]:
            try:
                self._last = (entry_id, self._store.read(entry_id))
            except KeyError:
                raise _NoState("the entry is missing") from None
            self.entries += 1
            self.bytes += len(self._last[1])
        return self._last[1]
