"""The cursor of a subscription: the rules of `ackwell.cursor.rules`, and saves in a store.

**Threads.** A cursor belongs to one thread at a time; callers with more threads put one lock around it. A
save whose state is changed under it raises `ProtocolError`, and loses nothing: the next save has it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from ackwell.cursor.rules import CursorRules
from ackwell.cursor.tracked import Tracked
from ackwell.saving.journal import Journal

if TYPE_CHECKING:
    from ackwell._native import Ledgers
    from ackwell.cursor.settings import CursorSettings
    from ackwell.engine import Engine
    from ackwell.saving.journal import Saved
    from ackwell.saving.recovery import Recovery
    from ackwell.store import Store


class Cursor(CursorRules):
    """The acknowledgment state of one subscription over the ledgers of its topic. For one thread at a time.

    Parameters
    ----------
    ledgers : Ledgers
        The ledger directory. It is shared with the code that publishes, and the cursor never changes it.
    mark_delete : tuple of int, optional
        Everything up to this position is acknowledged. The default is before the first entry.
    settings : CursorSettings, optional
        How it treats acknowledgments; `CursorSettings.pulsar("4.2")` is as a broker does.
    engine : Engine, optional
        The structures to use; the native ones by default.

    Notes
    -----
    Two cursors are equal if they have equal ledgers, settings, mark-delete positions, ranges, ack sets
    and properties; what was saved or consumed before does not count. `copy.copy`, `copy.deepcopy` and
    `pickle` give an equal cursor that shares nothing with the original, its ledgers included.

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
    """What `load` found in the store, and how; None for a cursor that was not loaded."""
    journal: Journal | None = None
    """What writes the saves; None before the first one."""

    def save(
        self, store: Store, *, form: str = "compact", compression: str = "NONE", replace: bool = False
    ) -> Saved:
        """Save the state in a store; once this returns, it is durable.

        In the form `compact` only what changed since the save or load before is written, as long as
        the store stays the same object; see `ackwell.saving.journal`, also for `compression`. The cursor of
        a `Subscription` is saved with the subscription's part, but only `Subscription.save` returns receipts.

        Raises
        ------
        NotLoadedError
            If the store holds saves that this cursor was not loaded from, unless `replace` is true.
        ProtocolError
            If another thread changed the cursor during the save: what changed is in the next one.
        LimitError
            If the state is larger than `load` reads.
        StoreError
            If the store failed. It then holds this save or the one before.

        Except for the last two, nothing was written and no owner was fenced.

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
        state = Tracked(self, self._engine, self._ack_sets.changed)
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
        """Return the cursor of the newest state in a store; a new cursor if none was saved.

        The cursor's `recovery` says how it was found. `form` and `compression` are those of saves to come;
        what is there is read in any. The next save writes all of it back, also what a subscription saved.
        Unless the store is read-only, it is owned by this process now; none of the errors below takes it from
        its owner.

        Raises
        ------
        CorruptStateError
            If the newest save is damaged; the message names what is whole. With `take_older` the newest
            whole state is taken instead, and `recovery.older` is true.
        NewerVersionError
            If a newer release saved it, in a version that this one does not read.
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
        """Return the cursor of what a journal found, whose saves continue there."""
        info = found.position_info
        if info is None:
            cursor = cls(ledgers, settings=settings, engine=engine)
        else:
            cursor = cls.from_position_info(info, ledgers, settings=settings, engine=engine)
        cursor.recovery, cursor.journal = found, journal
        return cursor

    def __getstate__(self) -> dict[str, Any]:
        # A store belongs to a process, too; a copy has none, and saves the whole state.
        return super().__getstate__() | {"journal": None}
