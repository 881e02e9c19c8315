"""Finds the newest state in a store.

Usually, the last entry of the store completes the newest save. If it belongs to an unfinished save, the
entries of that save are skipped. If the newest save is a delta, one of the two saves on which it builds is
read, too. If that save is also a delta, the search continues until it reaches a full save. If an entry on
this path is damaged, the other save is tried. Both paths give exactly the same state.

If the newest save cannot be read, recovery raises `CorruptStateError`. It uses an older state only if the
caller requests this. In a store whose appends are not atomic (`Store.atomic_appends` is false), a crash can
damage the last entry. Recovery skips such an entry and adds it to `Recovery.skipped`.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from ackwell.errors import CorruptStateError, LimitError, NewerVersionError, StoreError
from ackwell.saving import delta
from ackwell.saving.chunks import decompress
from ackwell.saving.delta import Change
from ackwell.saving.parts import Part, Save
from ackwell.wire import Reader

if TYPE_CHECKING:
    from ackwell._native import PositionInfo
    from ackwell.engine import Engine
    from ackwell.store import Store

#: The number of an unknown field of a state. The field contains the type of the subscription that saved the
#: state.
SAVED_AS_FIELD: Final = 20_602
CURSOR: Final = "cursor"
#: The maximum number of missing entries. If more entries are missing, recovery gives up.
MISSING_MAX: Final = 100_000
#: The default memory limit for loading a state, in bytes. It suffices for eleven million partly acknowledged
#: entries.
LOADED_BYTES_MAX = 1 << 30


class SkippedEntry(NamedTuple):
    """An entry that recovery did not use, and the reason."""

    entry_id: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """The result of a recovery: the state, and which entries were read, skipped or damaged."""

    #: The newest state; None if the store has no save.
    position_info: PositionInfo | None = None
    #: The form of the full save from which the state was read.
    form: str | None = None
    #: The ids of the first and the last entry of this full save, and the total size of its entries in bytes.
    full_first_id: int = -1
    full_last_id: int = -1
    full_bytes: int = 0
    #: The number of deltas that were applied to this full save, and the total size of their entries in bytes.
    deltas: int = 0
    delta_bytes: int = 0
    #: The id of the last entry of the newest save.
    entry_id: int = -1
    #: The id of the last entry of the store. It may belong to an unfinished save.
    last_id: int = -1
    #: The number of entries that were read, and their total size in bytes.
    entries_read: int = 0
    bytes_read: int = 0
    #: The entries after the newest save, the newest one first. They are parts of an unfinished save, or a
    #: torn last entry.
    skipped: tuple[SkippedEntry, ...] = ()
    #: The damaged entries. If `older` is false, the state is the newest one in spite of the damage.
    damaged: tuple[SkippedEntry, ...] = ()
    #: Whether the state is older than the newest save. This is possible only with `take_older`.
    older: bool = False
    #: The type of the subscription that loaded the state, or `cursor` if a cursor loaded it.
    loaded_as: str = CURSOR

    @property
    def saved_as(self) -> str | None:
        """The type of the subscription that saved the state, or `cursor`. None if the store has no save."""
        if self.position_info is None:
            return None
        for field in Reader(self.position_info.unknown_fields).fields():
            if field.number == SAVED_AS_FIELD:
                return field.message().text()
        return CURSOR

    def __str__(self) -> str:
        lines = [f"read {self.entries_read} entries, {self.bytes_read} bytes"]
        if self.position_info is None:
            lines.append("the store has no complete save")
        else:
            lines.append(
                f"the state of entry {self.entry_id}: {self.form}, {self.full_bytes} bytes in entries "
                f"{self.full_first_id} to {self.full_last_id}; {self.deltas} deltas, {self.delta_bytes} bytes"
            )
        if self.saved_as not in (None, self.loaded_as):
            lines.append(f"saved as {self.saved_as}, loaded as {self.loaded_as}")
        if self.older:
            lines.append("an older state was used because the newest save is damaged")
        lines += [f"skipped entry {skip.entry_id}: {skip.reason}" for skip in self.skipped]
        lines += [f"damaged entry {skip.entry_id}: {skip.reason}" for skip in self.damaged]
        return "\n".join(lines)


class Link(NamedTuple):
    """The save before the newest save. The next delta can be applied to each of these two saves."""

    entry_id: int
    change: Change
    """The change from the state of this save to the newest state."""


def recover(
    store: Store, engine: Engine, max_bytes: int = LOADED_BYTES_MAX, *, take_older: bool = False
) -> Recovery:
    """Find the newest state of a store, and return it with details of the search.

    Each save is read at most once: the newest save, and the saves on which it builds. O(entries since the
    last full save).

    Parameters
    ----------
    max_bytes
        The memory limit for decoding one save.
    take_older
        If the newest save is damaged, return the newest undamaged state instead of an error.

    Raises
    ------
    CorruptStateError
        If the newest save is damaged and `take_older` is false. The message names the newest undamaged state.
    NewerVersionError
        If a newer release wrote the newest save or a save on which it builds.
    StoreError
        If the store cannot be read, or if more than 100,000 entries are missing.
    LimitError
        If decoding a save takes more than `max_bytes`.
    """
    reading = _StoreSearch(store, engine, max_bytes)
    skipped: list[SkippedEntry] = []
    damaged: list[SkippedEntry] = []
    found: Recovery | None = None
    first_id, last_id = store.first_id, store.last_id
    for entry_id in range(last_id, first_id - 1, -1):
        try:
            found = reading.state_at(entry_id)
            break
        except _UnfinishedError as reason:
            skipped.append(SkippedEntry(entry_id, str(reason)))
        except NewerVersionError:
            raise
        except CorruptStateError as error:
            skip = SkippedEntry(entry_id, error.reason)
            torn = entry_id == last_id and not store.atomic_appends
            (skipped if torn else damaged).append(skip)
    if damaged and not (take_older and found):
        _refuse(damaged, found)
    if found is None and first_id > 0:
        # There must have been a complete save, because entries are deleted only after a newer state was
        # saved completely.
        raise CorruptStateError(
            f"no complete save in entries {first_id} to {last_id}, and earlier entries were deleted", 0
        )
    # A torn last entry is not damage, because it does not contribute to the state.
    on_the_way = tuple(each for each in reading.damaged if each not in skipped)
    return replace(
        found or Recovery(),
        last_id=last_id,
        entries_read=reading.entries,
        bytes_read=reading.bytes,
        skipped=tuple(skipped),
        damaged=tuple(damaged) or on_the_way,
        older=bool(damaged),
    )


def link(store: Store, engine: Engine, newest: Recovery, max_bytes: int = LOADED_BYTES_MAX) -> Link | None:
    """Return the save before the newest save; None if the next delta cannot build on it."""
    if newest.entry_id < 0 or newest.damaged:
        return None
    if 0 < newest.full_first_id <= store.first_id:
        # The earlier saves are deleted, so all deltas depend on the same full save. This happens if a disk
        # loses a full save, but keeps the deletion that followed it.
        return None
    reading = _StoreSearch(store, engine, max_bytes)
    try:
        save, _ = reading.save_at(newest.entry_id)
        if save.bases:
            return Link(max(save.bases), reading.change(save))
        after = reading.state_at(newest.entry_id).position_info
        for entry_id in range(newest.full_first_id - 1, store.first_id - 1, -1):
            try:
                before = reading.state_at(entry_id).position_info
            except _UnfinishedError:
                continue
            change = delta.difference(before, after) if before and after else None
            return Link(entry_id, change) if change else None
    except (CorruptStateError, LimitError):
        pass
    return None


def _refuse(damaged: list[SkippedEntry], found: Recovery | None) -> None:
    """Raise a `CorruptStateError`. Its message names the damaged entry and the newest undamaged state."""
    newest = damaged[0]
    if found is None or found.position_info is None:
        undamaged = "no save is undamaged; restore the store from a copy, or save with replace=True"
    else:
        undamaged = (
            f"the newest undamaged state is at entry {found.entry_id}, position "
            f"{found.position_info.position}; take_older=True loads it, without the later saves"
        )
    raise CorruptStateError(f"entry {newest.entry_id} is damaged ({newest.reason}); {undamaged}", 0)


class _UnfinishedError(Exception):
    """The error for an undamaged entry that does not complete a save. The message is the reason."""


class _Step(NamedTuple):
    """A delta on the path from the newest save to a full save."""

    entry_id: int
    change: Change
    bases: list[int]
    """The saves to which this delta can be applied and that are not tried yet."""


class _StoreSearch:
    """One search in a store. It counts the entries that it reads, and reads a damaged save only once."""

    def __init__(self, store: Store, engine: Engine, max_bytes: int) -> None:
        self._store = store
        self._engine = engine
        self._max_bytes = max_bytes
        self._broken: dict[int, str] = {}
        self.damaged: list[SkippedEntry] = []
        self.entries = 0
        self.bytes = 0
        self._missing = 0

    def state_at(self, entry_id: int) -> Recovery:
        """Return the state of the save whose last entry is `entry_id`.

        Raises `CorruptStateError` if the state cannot be read because of damage.
        """
        steps: list[_Step] = []
        delta_bytes = 0
        next_id = entry_id
        while True:
            before = self.bytes
            reason = self._broken.get(next_id)
            if reason is None:
                try:
                    save, first_id = self.save_at(next_id)
                    if not save.bases:
                        state = self._decode(save)
                        break
                    steps.append(_Step(next_id, self.change(save), list(save.bases)))
                    delta_bytes += self.bytes - before
                except NewerVersionError as error:
                    raise NewerVersionError(f"{error.reason} (in entry {next_id})", error.offset) from None
                except CorruptStateError as error:
                    reason = self._broken[next_id] = error.reason
                    self.damaged.append(SkippedEntry(next_id, reason))
                except _UnfinishedError as error:
                    if not steps:
                        raise
                    reason = self._broken[next_id] = str(error)
            while steps and not steps[-1].bases:
                reason = f"builds on entry {next_id}: {reason}"
                next_id = steps.pop().entry_id
                self._broken[next_id] = reason
            if not steps:
                raise CorruptStateError(reason or "", 0)
            next_id = steps[-1].bases.pop(0)
        full_bytes = self.bytes - before
        return Recovery(
            position_info=delta.replay(state, [step.change for step in reversed(steps)]) if steps else state,
            form=state.form,
            full_first_id=first_id,
            full_last_id=next_id,
            full_bytes=full_bytes,
            deltas=len(steps),
            delta_bytes=delta_bytes,
            entry_id=entry_id,
        )

    def save_at(self, entry_id: int) -> tuple[Save, int]:
        """Return the save whose last entry is `entry_id`, and the id of its first entry."""
        last = self._part(entry_id)
        if last.number + 1 < last.parts:
            raise _UnfinishedError(f"part {last.number + 1} of {last.parts} of an unfinished save")
        first_id = entry_id - last.number
        pieces = []
        size = 0
        for number, part_id in enumerate(range(first_id, entry_id)):
            part = self._part(part_id)
            if part[1:4] != (number, last.parts, last.checksum):
                raise CorruptStateError(f"entry {part_id} is not part {number + 1} of the save", 0)
            pieces.append(part.save.body)
            size += len(part.save.body)
            if size > self._max_bytes:
                raise LimitError(f"a save of more than {self._max_bytes} bytes; raise max_bytes to read it")
        body = b"".join((*pieces, last.save.body))
        if zlib.crc32(body) != last.checksum:
            raise CorruptStateError("the checksum of the save does not match", 0)
        return last.save._replace(body=body), first_id

    def change(self, save: Save) -> Change:
        """Decode the change that a delta contains."""
        return Change(self._decode(save), save.properties, save.others)

    def _decode(self, save: Save) -> PositionInfo:
        data = decompress(save.body, save.compression, max_bytes=self._max_bytes, engine=self._engine)
        state: PositionInfo = self._engine.PositionInfo.decode(data, max_bytes=self._max_bytes)
        return state

    def _part(self, entry_id: int) -> Part:
        try:
            data = self._store.read(entry_id)
        except KeyError:
            self._missing += 1
            if self._missing > MISSING_MAX:
                raise StoreError(
                    f"more than {MISSING_MAX:,} entries up to entry {entry_id} are missing; "
                    "restore the store from a copy, or save with replace=True"
                ) from None
            raise CorruptStateError(f"entry {entry_id} is missing", 0) from None
        self.entries += 1
        self.bytes += len(data)
        return Part.decode(data, entry_id)
