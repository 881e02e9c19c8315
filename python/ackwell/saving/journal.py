"""The saves of a cursor, one after another in a store: full states and, between them, what changed.

A *full save* is the state in one of the forms: a single entry where `compact`, which carries its own
checksum, fits into one; else parts and a footer (see `ackwell.saving.snapshot`). A *delta* is one entry
that names the entry it builds on (see `ackwell.saving.delta`); only the form `compact` has deltas. When
the deltas since the last full save outgrow it, the next save is a full one again, and what lies before the
full save before it is deleted: one older state stays, should the newest be damaged.

Every save takes effect with its last entry, by checksum. So a crash anywhere leaves the save before it
or the save itself, and `ackwell.saving.recovery` finds which.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from ackwell import engine as engines
from ackwell.saving import compression as compressions
from ackwell.saving import delta
from ackwell.saving.chunks import ENTRY_BYTES_MAX, STATE_BYTES_MAX
from ackwell.saving.recovery import Recovery, recover
from ackwell.saving.snapshot import EntrySettings, encode_entries

if TYPE_CHECKING:
    from ackwell._native import PositionInfo
    from ackwell.engine import Engine
    from ackwell.store import Store

# Loading reads a full save and its deltas. Below this size, reading deltas costs less than writing the
# state again would; above it, they may take as much as the full save itself.
DELTA_BYTES_MIN = 1 << 16
# An entry costs more than its bytes, so the number of deltas is bounded, too.
DELTAS_MAX = 1000


class Saved(NamedTuple):
    """What a save wrote: its kind (`full`, `delta` or `unchanged`), and how much."""

    kind: str
    entries: int
    bytes: int


class Journal:
    """The saves of one cursor in `store`, which holds nothing else.

    Parameters
    ----------
    store : Store
        Where the entries go.
    form : str
        The form of full saves: `compact`, or one of Pulsar's, in which every save is a full one.
    entry_bytes_max : int
        Larger states are saved in parts; PIP-381's `persistentUnackedRangesMaxEntrySize`. Pulsar and
        BookKeeper refuse entries of more than 5 MB.
    compression : str
        PIP-381's `cursorInfoCompressionType`: NONE, LZ4, ZLIB, ZSTD or SNAPPY, for Pulsar's forms; `compact`
        compresses itself. The store's metadata tells it to readers.
    max_bytes : int
        The most that loading a state may take in memory; `LimitError` where one takes more.

    Examples
    --------
    >>> from ackwell import PositionInfo
    >>> from ackwell.store import MemoryLedger, MemoryStore
    >>> ledger = MemoryLedger()
    >>> journal = Journal(MemoryStore(ledger))
    >>> journal.save(PositionInfo(3, 5, [(3, 7, 9)])).kind
    'full'
    >>> journal.save(PositionInfo(3, 5, [(3, 7, 10)])).kind
    'delta'
    >>> recovery = Journal(MemoryStore(ledger)).load()
    >>> str(recovery.position_info.individually_deleted), recovery.form, recovery.deltas
    ('[(3:7..3:10]]', 'compact', 1)
    """

    def __init__(
        self,
        store: Store,
        *,
        form: str = "compact",
        entry_bytes_max: int = ENTRY_BYTES_MAX,
        compression: str = compressions.COMPRESSIONS[0],
        max_bytes: int = STATE_BYTES_MAX,
        engine: Engine | None = None,
    ) -> None:
        if form == "compact" and compression != compressions.COMPRESSIONS[0]:
            raise ValueError(f"compression {compression}: the form compact compresses itself")
        self.store = store
        self.form = form
        self._settings = EntrySettings(
            multiple_entries=True, max_entry_bytes=entry_bytes_max, compression=compression
        )
        self._max_bytes = max_bytes
        self._engine = engine or engines.native()
        # What the newest save is made of; nothing is known of the store before the first save or load.
        self._newest = Recovery()

    def writes(self, store: Store, form: str, compression: str) -> bool:
        """Return whether it saves just so."""
        return (self.store, self.form, self._settings.compression) == (store, form, compression)

    def load(self) -> Recovery:
        """Find the newest whole state, and say how; saves continue from it. See `recover`."""
        self._newest = recover(self.store, self._engine, self._max_bytes)
        return self._newest

    def save(self, state: PositionInfo) -> Saved:
        """Save `state`; once this returns, no crash takes it back.

        Writes what changed since the save before, or the whole where that is not larger or where nothing is
        known of the save before. After an error the store holds this save or the one before, and the
        next save is a full one.
        """
        newest, self._newest = self._newest, Recovery()
        if state == newest.position_info:
            self._newest = newest
            return Saved("unchanged", 0, 0)
        change = self._change(newest, state)
        if change is None:
            data = state.encode(self.form)
            entries = encode_entries(
                data, self._settings, generation=self.store.generation, engine=self._engine
            )
            self._declare_compression()
            ids = [self.store.append(entry) for entry in entries]
            self._newest = Recovery(state, self.form, ids[0], ids[-1], len(data), entry_id=ids[-1])
            # The full save before this one stays; without one, this one does.
            keep_id = newest.full_first_id if newest.full_first_id >= 0 else ids[0]
            self.store.delete_up_to(keep_id - 1)
            return Saved("full", len(entries), sum(map(len, entries)))
        entry_id = self.store.append(change)
        self._newest = replace(
            newest,
            position_info=state,
            entry_id=entry_id,
            deltas=newest.deltas + 1,
            delta_bytes=newest.delta_bytes + len(change),
        )
        return Saved("delta", 1, len(change))

    def _declare_compression(self) -> None:
        store = self.store
        metadata = compressions.changed(
            store.metadata, self._settings.compression, store.last_id + 1, store.first_id
        )
        if metadata is not None:
            store.set_metadata(metadata)

    def _change(self, newest: Recovery, state: PositionInfo) -> bytes | None:
        """Return a delta on the newest save, or None where a full save is due."""
        if newest.position_info is None or self.form != newest.form or self.form != "compact":
            return None
        change = delta.difference(newest.position_info, state)
        if change is None or newest.deltas >= DELTAS_MAX:
            return None
        data = change.encode(newest.entry_id)
        bound = max(newest.full_bytes, DELTA_BYTES_MIN)
        return None if newest.delta_bytes + len(data) > bound else data
