"""A cursor with saves: the rules of `ackwell.cursor.rules`, plus `save` and `load`.

**Threads.** Only one thread may use a cursor at a time. Callers with several threads need a lock. If another
thread changes the cursor during a save, the save raises `ProtocolError`. The change is not lost, because
the next save includes it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from ackwell.cursor.rules import CursorRules
from ackwell.cursor.tracked import TrackedState
from ackwell.saving.journal import Journal

if TYPE_CHECKING:
    from ackwell._native import Ledgers
    from ackwell.cursor.cursor_settings import CursorSettings
    from ackwell.engine import Engine
    from ackwell.saving.journal import SaveResult
    from ackwell.saving.recovery import Recovery
    from ackwell.store import Store


class Cursor(CursorRules):
    """The acknowledgments of one subscription in the ledgers of its topic.

    Only one thread may use it at a time.

    Parameters
    ----------
    ledgers : Ledgers
        The topic's ledgers with their numbers of entries. The cursor shares this object with the code that
        adds entries, and never changes it.
    mark_delete : tuple of int, optional
        All entries up to this position are acknowledged. By default, it is the position before the first
        entry.
    settings : CursorSettings, optional
        The rules for acknowledgments; `CursorSettings.pulsar("4.2")` has the rules of a broker of that
        version.
    engine : Engine, optional
        The implementation of the data structures; by default the native one.

    Notes
    -----
    Two cursors are equal if they have equal ledgers, settings, mark-delete positions, ranges, ack sets
    and properties; earlier saves and `messages_consumed` are not compared. `copy.copy`, `copy.deepcopy` and
    `pickle` return an equal cursor that shares nothing with the original, not even its ledgers.

    Examples
    --------
    >>> from ackwell import Cursor, Ledgers
    >>> cursor = Cursor(Ledgers({3: 16, 4: 10}))
    >>> cursor.ack(3, 1), cursor.ack(3, 1)
    (True, False)
    >>> cursor.mark_delete_position, str(cursor.individually_deleted)
    (Position(ledger_id=3, entry_id=-1), '[(3:0..3:1]]')
    >>> cursor.ack(3, 0)
    True
    >>> cursor.mark_delete_position, cursor.backlog_entries
    (Position(ledger_id=3, entry_id=1), 24)
    """

    recovery: Recovery | None = None
    """The result of the recovery in `load`; None for a cursor that was not loaded."""
    journal: Journal | None = None
    """The journal that writes the saves; None before the first save."""

    def save(
        self, store: Store, *, form: str = "compact", compression: str = "NONE", replace: bool = False
    ) -> SaveResult:
        """Save the state in a store; it is durable when this returns.

        With the form `compact`, a save writes only the changes since the previous save or load, as long as
        `store` is the same object. `ackwell.saving.journal` describes saves, `form` and `compression`. The
        cursor of a `Subscription` is saved together with the subscription's fields, but only
        `Subscription.save` returns the receipts of the saved acknowledgments.

        Raises
        ------
        NotLoadedError
            If the store has saves from which this cursor was not loaded, unless `replace` is true.
        ProtocolError
            If another thread changed the cursor during the save. The next save includes the change.
        LimitError
            If the state is so large that `load` would refuse it.
        StoreError
            If the store failed. The store then holds either this save or the previous one.

        If `save` raises `NotLoadedError` or `LimitError`, it has written nothing and fenced no owner.

        Examples
        --------
        >>> from ackwell import Ledgers
        >>> from ackwell.store import MemoryStore
        >>> store, ledgers = MemoryStore(), Ledgers({3: 16})
        >>> cursor = Cursor(ledgers)
        >>> [(cursor.ack(3, entry_id), cursor.save(store).kind) for entry_id in (5, 7, 9)]
        [(True, 'full'), (True, 'full'), (True, 'delta')]
        >>> str(Cursor.load(store, ledgers).individually_deleted)
        '[(3:4..3:5],(3:6..3:7],(3:8..3:9]]'
        """
        if self.journal is None or self.journal.store is not store:
            self.journal = Journal(store, form=form, compression=compression, engine=self._engine)
        self.journal.use(form, compression)
        state = TrackedState(self, self._engine, self._ack_sets)
        result = self.journal.save_source(state, replace=replace)
        state.check_unmoved()
        return result

    @classmethod
    def load(
        cls,
        store: Store,
        ledgers: Ledgers,
        *,
        form: str = "compact",
        compression: str = "NONE",
        settings: CursorSettings | None = None,
        take_older: bool = False,
        engine: Engine | None = None,
    ) -> Self:
        """Return the cursor of the newest state in a store; a new cursor if the store has no state.

        The attribute `recovery` of the cursor describes the recovery. `form` and `compression` apply to later
        saves only. `load` reads existing saves in any form. The next save writes back all fields, including
        those of a subscription. Unless the store is read-only, this process becomes its owner; after any of
        the errors below, the previous owner keeps the store.

        Raises
        ------
        CorruptStateError
            If the newest save is damaged; the message names the newest undamaged state. `take_older` loads
            that state instead, and `recovery.older` is true.
        NewerVersionError
            If a newer release saved the state in a version that this release cannot read.
        LimitError
            If the state takes more than 1 GiB of memory.
        StoreError
            If the store cannot be read.
        """
        journal = Journal(store, form=form, compression=compression, engine=engine)
        return journal.load_as(
            lambda found: cls.recovered(found, journal, ledgers, settings=settings, engine=engine),
            take_older=take_older,
        )

    @classmethod
    def recovered(
        cls,
        found: Recovery,
        journal: Journal,
        ledgers: Ledgers,
        *,
        settings: CursorSettings | None = None,
        engine: Engine | None = None,
    ) -> Self:
        """Return the cursor of a recovered state. Its saves continue in the journal of the recovery."""
        info = found.position_info
        if info is None:
            cursor = cls(ledgers, settings=settings, engine=engine)
        else:
            cursor = cls.from_position_info(info, ledgers, settings=settings, engine=engine)
        cursor.recovery, cursor.journal = found, journal
        return cursor

    def __getstate__(self) -> dict[str, Any]:
        # A store belongs to one process, so a copy of a cursor has no journal. The first save of the copy is
        # a full save.
        return super().__getstate__() | {"journal": None}
