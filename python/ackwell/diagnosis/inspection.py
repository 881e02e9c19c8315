"""Decode the bytes of a persisted cursor. The form of the bytes is detected.

There are four forms: a PositionInfo (an entry of a cursor ledger); a ManagedCursorInfo (a value of the
metadata store, possibly compressed); several entries that contain one large state, followed by a footer entry
that describes them (PIP-381); and ackwell's compact form. The bytes contain neither the topic, nor the
subscription, nor the numbers of entries in the ledgers. `Inspection.cannot_say` lists the missing facts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from ackwell.broker.batch_sizes import BatchSizes
from ackwell.broker.restart import RestartLoss, restart_loss
from ackwell.broker.writes import RESTARTS, Restart
from ackwell.cursor.cursor_state import CursorState, size_in
from ackwell.diagnosis.printed import printed_values
from ackwell.errors import CorruptStateError
from ackwell.protocol.constants import COMPRESSIONS as COMPRESSION_TYPES
from ackwell.saving import parts
from ackwell.saving.chunks import decompress, is_footer, join
from ackwell.sources import (
    CURSOR_INFO_MAGIC,
    STATE_KINDS,
    STATE_MAGIC,
    SourceKind,
    is_cursor_info,
    source_kind,
    wrong_kind,
)

if TYPE_CHECKING:
    from ackwell import ManagedCursorInfo, PositionInfo
    from ackwell.broker.broker_settings import BrokerSettings
    from ackwell.position import Position

#: The names of the compressions that an entry may have.
COMPRESSIONS: Final = COMPRESSION_TYPES[1:]

FORMS: Final = ("pulsar-ranges", "pulsar-long-array", "compact")

_STATE_NAMES: Final = ("markDeletePosition", "individuallyDeletedMessages", "batchDeletedIndexes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """One decoded state, with its source and its form."""

    source: str
    kind: Literal["PositionInfo", "ManagedCursorInfo"]
    size_bytes: int
    """The total size of all stored entries, as they are stored (compressed or not)."""
    entries: int
    """The number of entries in which the state is stored, including a footer."""
    compression: str | None
    cursor_ledger_id: int | None
    """The id of the cursor ledger that contains the newest state, from a ManagedCursorInfo; None if these
    bytes contain the newest state."""
    info: PositionInfo | None
    """The decoded state; None for a ManagedCursorInfo that contains only the id of a cursor ledger."""

    @property
    def form(self) -> str | None:
        """The form in which the acknowledged positions are stored; None if there are no such positions."""
        if self.info is None or not len(self.info.individually_deleted):
            return None
        # In the metadata store, the form is always the ranges form.
        return "pulsar-ranges" if self.kind == "ManagedCursorInfo" else self.info.form

    def sizes(self) -> dict[str, int | None]:
        """Maps each form to the size of this state in bytes; None if the form cannot hold the whole state."""
        return {} if self.info is None else {form: size_in(self.info, form) for form in FORMS}

    def restart_losses(
        self, settings: BrokerSettings | None = None, restarts: Sequence[Restart] = RESTARTS
    ) -> tuple[RestartLoss, ...]:
        """Predict the loss of each kind of restart, for a broker that has just written this state."""
        if self.info is None:
            return ()
        state = CursorState.of(self.info)
        return tuple(
            restart_loss(state, settings, restart, cursor_ledger="open", batch_sizes=BatchSizes(each=None))
            for restart in restarts
        )

    @property
    def oldest_unacked(self) -> Position | None:
        """The entry after the mark-delete position; None if there is no state.

        If the mark-delete position is the last entry of its ledger, the oldest unacknowledged entry is in the
        next ledger. The bytes do not show this.
        """
        return None if self.info is None else self.info.position._replace(entry_id=self.info.entry_id + 1)

    @property
    def cannot_say(self) -> tuple[str, ...]:
        """List the facts that the bytes do not contain."""
        missing = ["topic", "subscription", "backlogEntries", "entries of ledgers", "batch sizes"]
        if self.cursor_ledger_id is not None:
            missing.append(f"the newest state: it is in cursor ledger {self.cursor_ledger_id}")
        return tuple(missing)

    def to_json(self) -> dict[str, Any]:
        """Return the state as JSON values, under the names of Pulsar's tools; unknown facts are null."""
        info = self.info
        return {
            "file": self.source,
            "topic": None,
            "subscription": None,
            **(dict.fromkeys(_STATE_NAMES) if info is None else CursorState.of(info).to_json()),
            "backlogEntries": None,
            "kind": self.kind,
            "form": self.form,
            "bytes": self.size_bytes,
            "entries": self.entries,
            "compression": self.compression,
            "cursorLedger": self.cursor_ledger_id,
            "properties": {} if info is None else dict(info.properties),
            "cannotSay": list(self.cannot_say),
        }


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """One stored value and its source."""

    source: str
    data: bytes = field(repr=False)


def inspect(data: bytes, *, source: str = "", compression: str | None = None) -> Inspection:
    """Read one stored value.

    `compression` (one of `COMPRESSIONS`) is needed for a compressed entry of PIP-381, because such an entry
    does not contain the name of its compression. Raises `CorruptStateError` for bytes that are not a state.

    If `data` is the output of a tool with several values, the last one is read, because it is the newest.

    >>> inspect(bytes.fromhex("0803 1005")).info.position
    Position(ledger_id=3, entry_id=5)
    """
    if compression is None and (printed := printed_values(data)):
        data = printed[-1].data
    return _inspect(data, source, 1, compression)


def inspect_entries(entries: Sequence[StoredEntry], *, compression: str | None = None) -> list[Inspection]:
    """Decode several stored values.

    A footer entry of PIP-381 is joined with the entries before it that contain its state. Every other value
    is decoded as a separate state.
    """
    entries = [each for entry in entries for each in _printed(entry, compression)]
    read: list[Inspection] = []
    alone = 0
    for at, entry in enumerate(entries):
        if not is_footer(entry.data):
            continue
        try:
            # Only the footer is checked, because JSON begins like a footer. The entries before the footer are
            # parts of a state, which may begin with any bytes.
            _refuse_other_kinds(entry.data)
        except CorruptStateError as error:
            raise _within(error, entry, "") from None
        try:
            joined, first = join(lambda number: entries[number].data, at)
        except CorruptStateError as error:
            raise _within(error, entry, "; a footer comes after the entries that belong to it") from None
        read += [_alone(each, compression) for each in entries[alone:first]]
        source = f"{entries[first].source} … {entry.source}"
        read.append(_inspect(joined, source, at - first + 1, compression))
        alone = at + 1
    return read + [_alone(each, compression) for each in entries[alone:]]


def _printed(entry: StoredEntry, compression: str | None) -> list[StoredEntry]:
    """Return the values in the printed output of a tool. Any other file is one value."""
    try:
        # Compressed bytes may look like text.
        found = [] if compression is not None else printed_values(entry.data)
    except CorruptStateError as error:
        raise _within(error, entry, "") from None
    if len(found) < 2 and not any(each.name for each in found):
        return [StoredEntry(entry.source, each.data) for each in found] or [entry]
    names = [each.name or f"value {number}" for number, each in enumerate(found, 1)]
    return [
        StoredEntry(f"{entry.source}, {name}", each.data) for name, each in zip(names, found, strict=True)
    ]


def inspect_store(path: Path, ledger: str | None = None) -> list[Inspection]:
    """Read the newest state of each ledger in an SQLite file; if `ledger` is given, only of this ledger.

    The file is opened for reading only. The owner of a ledger can still write to it. Raises `StoreError` for
    a file without ackwell's tables or without this ledger, and the errors of
    `ackwell.saving.recovery.recover`.
    """
    from ackwell.engine import native_engine
    from ackwell.saving.recovery import recover
    from ackwell.store.sqlite import SqliteStore, ledger_names

    found = []
    for name in ledger_names(path) if ledger is None else [ledger]:
        with SqliteStore(path, name, read_only=True) as store:
            recovery = recover(store, native_engine())
        found.append(
            Inspection(
                source=f"{path}, {name}",
                kind="PositionInfo",
                size_bytes=recovery.full_bytes + recovery.delta_bytes,
                entries=recovery.full_last_id - recovery.full_first_id + 1 + recovery.deltas,
                compression=None,
                cursor_ledger_id=None,
                info=recovery.position_info,
            )
        )
    return found


def _alone(entry: StoredEntry, compression: str | None) -> Inspection:
    try:
        return inspect(entry.data, source=entry.source, compression=compression)
    except CorruptStateError as error:
        raise _within(
            error, entry, "; a state in several entries needs them all and the footer last"
        ) from None


def _within(error: CorruptStateError, entry: StoredEntry, hint: str) -> CorruptStateError:
    return CorruptStateError(f"{error.reason} (in {entry.source}){hint}", error.offset)


def _inspect(data: bytes, source: str, entries: int, compression: str | None) -> Inspection:
    from ackwell import PositionInfo

    size = len(data)
    _refuse_other_kinds(data, compression)
    if data[:2] == CURSOR_INFO_MAGIC or (compression is None and is_cursor_info(data)):
        return _cursor_info(data, source)
    if is_footer(data):
        raise CorruptStateError("a footer of PIP-381; give the entries before it too, in their order", 0)
    if data[:1] == STATE_MAGIC:
        data, compression = parts.whole_save(data)
    data = decompress(data, compression or "NONE")
    return Inspection(
        source=source,
        kind="PositionInfo",
        size_bytes=size,
        entries=entries,
        compression=compression,
        cursor_ledger_id=None,
        info=PositionInfo.decode(data),
    )


def _refuse_other_kinds(data: bytes, compression: str | None = None) -> None:
    """Raise `CorruptStateError` for a file that is not a cursor. The message names the command to use."""
    kind = source_kind(data)
    # Compressed bytes may look like text.
    if kind not in STATE_KINDS and (kind is not SourceKind.TEXT or compression is None):
        raise CorruptStateError(wrong_kind(kind, SourceKind.CURSOR), 0)


def _cursor_info(data: bytes, source: str) -> Inspection:
    from ackwell import ManagedCursorInfo

    value: ManagedCursorInfo = ManagedCursorInfo.decode(data)
    elsewhere = value.cursors_ledger_id >= 0
    return Inspection(
        source=source,
        kind="ManagedCursorInfo",
        size_bytes=len(data),
        entries=1,
        compression=value.compression,
        cursor_ledger_id=value.cursors_ledger_id if elsewhere else None,
        info=value.position_info,
    )
