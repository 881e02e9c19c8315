"""Saves the successive states of a cursor in a store, as full saves and deltas.

A *full* save contains the whole state. A *delta* contains a change, and can be applied to either of the two
saves before it. These two saves depend on different entries. If a single entry is damaged later, every save
except the newest one can therefore still be read without a loss. The next save then protects the newest one
in the same way.

A save is full in three cases: there are fewer than two earlier saves; a `Change` cannot express how the state
differs from these two saves (see `ackwell.saving.delta`); or the deltas since the last full save are too many
or too large. After a full save, the entries before the previous full save are deleted. Deltas exist only in
the form `compact`.

A save takes effect when its last entry is written. After a crash during a save, the newest save in the store
is either the previous one or this one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ackwell.engine import native_engine
from ackwell.errors import CorruptStateError, LimitError, NotLoadedError, ProtocolError
from ackwell.protocol.constants import COMPRESSIONS
from ackwell.saving import delta
from ackwell.saving.chunks import check_compression, compress, decompress
from ackwell.saving.parts import Save, cut
from ackwell.saving.recovery import LOADED_BYTES_MAX, Link, Recovery, link, recover
from ackwell.saving.source import FixedSource

if TYPE_CHECKING:
    from collections.abc import Callable

    from ackwell._native import PositionInfo
    from ackwell.engine import Engine
    from ackwell.saving.delta import Change
    from ackwell.saving.source import Source
    from ackwell.store import Store

T = TypeVar("T")

# A load reads a full save and the deltas after it. Up to this total size of the deltas, reading them costs
# less than writing the state again. If the full save is larger than this size, the deltas may take as many
# bytes as the full save.
DELTA_BYTES_MIN = 1 << 16
# The maximum number of deltas after a full save. Each entry has a fixed cost, in addition to its bytes.
DELTAS_MAX = 1000
# An upper bound of the memory in bytes of one ack set, count, property or ledger (see `_certainly_fits`).
ITEM_BYTES_MAX = 400


class SaveResult(NamedTuple):
    """The result of a save: its kind (`full`, `delta` or `unchanged`), its entries and its bytes."""

    kind: str
    entries: int
    bytes: int


class Journal:
    """Saves and loads the state of one cursor in `store`. The store must have no other entries.

    Only one thread may use a journal at a time.

    Parameters
    ----------
    store : Store
        The store of the entries.
    form : str
        The form of full saves: `compact`, or a form of Pulsar. With a form of Pulsar, every save is full.
    entry_bytes_max : int, optional
        The maximum size in bytes of the part of a save that one entry contains. A larger save is written in
        several entries. Each entry also has a header of at most 50 bytes. The default is
        `store.entry_bytes_max`.
    compression : str
        NONE, LZ4, ZLIB, ZSTD or SNAPPY, for the forms of Pulsar. The form `compact` is already compressed.
    max_bytes : int
        The memory limit for decoding one save, 1 GiB by default. `load` and `save` raise `LimitError` for a
        larger state, so `save` never writes a state that `load` cannot read.

    Examples
    --------
    >>> from ackwell import PositionInfo
    >>> from ackwell.store import MemoryLedger, MemoryStore
    >>> ledger = MemoryLedger()
    >>> journal = Journal(MemoryStore(ledger))
    >>> [journal.save(PositionInfo(3, 5, [(3, 7, upper)])).kind for upper in (9, 10, 11, 11)]
    ['full', 'full', 'delta', 'unchanged']
    >>> recovery = Journal(MemoryStore(ledger)).load()
    >>> str(recovery.position_info.individually_deleted), recovery.form, recovery.deltas
    ('[(3:7..3:11]]', 'compact', 1)
    """

    def __init__(
        self,
        store: Store,
        *,
        form: str = "compact",
        entry_bytes_max: int | None = None,
        compression: str = COMPRESSIONS[0],
        max_bytes: int = LOADED_BYTES_MAX,
        engine: Engine | None = None,
    ) -> None:
        if not hasattr(store, "append"):
            raise TypeError(f"{type(store).__name__} is not a store; expected one such as SqliteStore(path)")
        if entry_bytes_max is None:
            entry_bytes_max = store.entry_bytes_max
        if entry_bytes_max < 1:
            raise ValueError(f"entry_bytes_max {entry_bytes_max}: expected at least 1")
        self.use(form, compression)
        self._store = store
        self._entry_bytes_max = entry_bytes_max
        self._max_bytes = max_bytes
        self._engine = engine or native_engine()
        #: Whether this journal loaded the saves in the store, or replaced them.
        self._known = False
        #: The newest save without its state; None if it is unknown, for example after an error.
        self._newest: Recovery | None = None
        #: The newest saved state, or what its source returned as `baseline`. The next save is compared with
        #: it.
        self._baseline: Any = None
        self._link: Link | None = None
        self._deltas = 0
        self._delta_bytes = 0
        self._turn = [None]
        """A lock: a list with one element. A save or a load takes the element. If a second thread finds the
        list empty, it raises an error."""

    @property
    def store(self) -> Store:
        """The store of the entries."""
        return self._store

    def use(self, form: str, compression: str = COMPRESSIONS[0]) -> None:
        """Set the form and the compression of all later saves."""
        check_compression(compression)
        if form == "compact" and compression != COMPRESSIONS[0]:
            raise ValueError(f"compression {compression}: the form compact compresses itself")
        self._form, self._compression = form, compression

    def load(self, *, take_older: bool = False) -> Recovery:
        """Load the newest state, and become the owner of the store.

        Later saves build on this state. Raises the errors of `recover`.
        """
        return self.load_as(lambda found: found, take_older=take_older)

    def load_as(self, build: Callable[[Recovery], T], *, take_older: bool = False) -> T:
        """Load the newest state, call `build` with it, and return the result of `build`.

        `build` may raise an error to refuse the state. If the present owner of the store saves at the same
        time, `build` is called again with the newer state. This journal becomes the owner only after `build`
        returns, so a refusal does not fence the present owner. A load from a read-only store never changes
        the owner.
        """
        self._begin()
        try:
            return self._load(build, take_older)
        finally:
            self._turn.append(None)

    def _load(self, build: Callable[[Recovery], T], take_older: bool) -> T:
        while True:
            ids = self._store.first_id, self._store.last_id
            try:
                found = recover(self._store, self._engine, self._max_bytes, take_older=take_older)
            except CorruptStateError:
                # During this read, the owner may have saved a state and deleted entries. Then read again.
                if ids != (self._store.first_id, self._store.last_id):
                    continue
                raise
            built = build(found)
            if not self._store.read_only:
                self._store.own()
            # The previous owner may have saved a state before this process became the owner. Then read again.
            if self._store.last_id == found.last_id:
                break
        self._known = True
        self._newest = replace(found, position_info=None)
        self._baseline = found.position_info
        self._link = None
        self._deltas = found.entry_id - found.full_last_id
        # The load reads only every second delta, so their size is doubled.
        self._delta_bytes = 2 * found.delta_bytes
        return built

    def save(self, state: PositionInfo, *, replace: bool = False) -> SaveResult:
        """Save `state`. The state is durable when this method returns.

        Raises `NotLoadedError` if the store has entries that this journal neither loaded nor wrote, unless
        `replace` is true. Raises `LimitError` if loading the state would take more than `max_bytes`. A save
        that raises one of these two errors writes nothing and fences no owner. After any other error, the
        newest save in the store is this one or the previous one, and the next save is full.
        """
        if self._newest is not None and not self._newest.damaged and state == self._baseline:
            self._known_newest(replace)
            return SaveResult("unchanged", 0, 0)
        return self.save_source(FixedSource(state), replace=replace)

    def save_source(self, source: Source, *, replace: bool = False) -> SaveResult:
        """Save the state of a source. The source computes the change of its state since its last save."""
        self._begin()
        try:
            return self._save(source, replace=replace)
        finally:
            self._turn.append(None)

    def _begin(self) -> None:
        """Take the lock for a save or a load; `ProtocolError` if another thread has the lock."""
        try:
            self._turn.pop()
        except IndexError:
            raise ProtocolError(
                "another thread saves or loads at the same time: use a journal from one thread at a time"
            ) from None

    def _save(self, source: Source, *, replace: bool) -> SaveResult:
        newest = self._known_newest(replace)
        known = newest is not None and self._baseline is not None
        change = source.change_since(self._baseline) if known else None
        # If an entry is damaged or an older state was loaded, write the state again even if it is unchanged.
        if newest is not None and not newest.damaged and change is not None and change.empty:
            return SaveResult("unchanged", 0, 0)
        save = self._delta(newest, change)
        if save is None:
            state = source.whole()
            body = compress(state.encode(self._form), self._compression, self._engine)
            save = Save(body, compression=self._compression)
            if not self._fits(state, save):
                raise LimitError(
                    f"loading this state would take more than {self._max_bytes} bytes of memory; "
                    "raise max_bytes, for saves and loads"
                )
        before_id = self._store.last_id
        self._store.own()
        if self._store.last_id != before_id:
            raise self._not_loaded("was written to by another owner during this save")
        first_id = before_id + 1
        entries = cut(save, first_id, self._entry_bytes_max)
        # The newest save is unknown until the last entry is written.
        self._known, self._newest, self._link = True, None, None
        for entry in entries:
            self._store.append(entry)
        self._baseline = source.baseline()
        return self._record_save(newest, change, save, first_id, entries)

    def _known_newest(self, replace: bool) -> Recovery | None:
        """Return the newest save; None if the next save has to be full.

        Raises `NotLoadedError` if the store has saves that this journal did not load.
        """
        if self._newest is not None and self._store.last_id != self._newest.last_id:
            if self._store.generation:
                # This raises `FencedError` if a newer owner took the store.
                self._store.own()
            if not replace:
                raise self._not_loaded("was written to since the last save or load")
            return None
        if not (self._known or replace) and self._store.last_id >= 0:
            raise self._not_loaded("holds saves that were not loaded")
        return self._newest

    def _not_loaded(self, detail: str) -> NotLoadedError:
        return NotLoadedError(
            f"the store {detail} (its last entry is {self._store.last_id}); "
            "load it and save on from there, or save with replace=True"
        )

    def _delta(self, newest: Recovery | None, change: Change | None) -> Save | None:
        """Return a delta that can be applied to each of the two newest saves.

        Return None if a full save is required.
        """
        if newest is None or change is None or newest.damaged or self._deltas >= DELTAS_MAX:
            return None
        if self._form != "compact" or newest.form != "compact":
            return None
        if self._link is None:
            self._link = link(self._store, self._engine, newest, self._max_bytes)
        if self._link is None:
            return None
        both = delta.merge(self._link.change, change)
        # The first base is preferred. With the older save as first base, a load reads only every second
        # delta. If the newest save is full, it is the better first base.
        bases = (self._link.entry_id, newest.entry_id)
        bases = bases[::-1] if newest.entry_id == newest.full_last_id else bases
        save = Save(both.changes.encode("compact"), bases, both.properties, both.others)
        bound = max(newest.full_bytes, DELTA_BYTES_MIN)
        fits = self._delta_bytes + len(save.body) <= bound and self._fits(both.changes, save)
        return save if fits else None

    def _record_save(
        self,
        newest: Recovery | None,
        change: Change | None,
        save: Save,
        first_id: int,
        entries: list[bytes],
    ) -> SaveResult:
        """Record a durable save. Delete the entries that are no longer needed. Return the result."""
        size = sum(map(len, entries))
        last_id = first_id + len(entries) - 1
        link_now = Link(newest.entry_id, change) if newest is not None and change is not None else None
        if save.bases and newest is not None:
            self._newest = replace(newest, entry_id=last_id, last_id=last_id)
            self._link = link_now
            self._deltas += 1
            self._delta_bytes += size
            return SaveResult("delta", len(entries), size)
        self._newest = Recovery(
            form=self._form,
            full_first_id=first_id,
            full_last_id=last_id,
            full_bytes=size,
            entry_id=last_id,
            last_id=last_id,
        )
        self._link = link_now
        self._deltas = self._delta_bytes = 0
        if newest is not None and newest.full_first_id >= 0:
            # Delete everything before the previous full save. This save and the deltas after it stay.
            self._store.delete_up_to(newest.full_first_id - 1)
        return SaveResult("full", len(entries), size)

    def _fits(self, state: PositionInfo, save: Save) -> bool:
        """Return whether `load` can read this save with the same `max_bytes`."""
        if len(save.body) <= self._max_bytes and self._certainly_fits(state, save):
            return True
        try:
            data = decompress(save.body, save.compression, max_bytes=self._max_bytes, engine=self._engine)
            self._engine.PositionInfo.decode(data, max_bytes=self._max_bytes)
        except LimitError:
            return False
        return len(save.body) <= self._max_bytes

    def _certainly_fits(self, state: PositionInfo, save: Save) -> bool:
        """Return whether the state is so small that `_fits` does not have to decode the save."""
        acked = state.individually_deleted
        batches = state.batch_deleted
        items = len(batches) + len(state.redelivery_counts) + len(state.properties) + len(acked.ledger_ids())
        words = len(batches.to_arrays()[3])
        ranges = acked.nbytes + 64 * len(acked)
        total = ITEM_BYTES_MAX * (items + 10) + 8 * words + ranges + len(state.unknown_fields)
        return 4 * total + 256 * len(save.body) <= self._max_bytes
