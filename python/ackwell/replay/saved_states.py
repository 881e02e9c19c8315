"""Save replayed cursors to an SQLite file: either all of them or none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackwell.errors import StoreError
from ackwell.store.sqlite import one_transaction, real_file
from ackwell.store.witness import confirmed_writes, witness_path

if TYPE_CHECKING:
    from pathlib import Path

    from ackwell.replay.states import SubscriptionState


def save_states(states: list[SubscriptionState], path: Path, *, replace: bool = False) -> None:
    """Save each cursor to its own ledger in an SQLite file. `ledger_name` returns the name of the ledger.

    `Cursor.load(SqliteStore(path, "topic subscription"), ledgers)` loads a saved cursor. Raises
    `NotLoadedError` if the file already has one of the ledgers and `replace` is false. After an error, no
    cursor is saved, and a new file is empty.
    """
    from ackwell.errors import NotLoadedError

    _require_own_logs(real_file(path))
    names = [ledger_name(state.topic, state.subscription) for state in states]
    with one_transaction(path) as opened:
        stores = [opened(name) for name in names]
        # Until this transaction ends, no other process can save to the file.
        held = [name for name, store in zip(names, stores, strict=True) if store.last_id >= 0]
        if held and not replace:
            raise NotLoadedError(
                f"{path} already holds {len(held)} of these cursors, such as {held[0]!r}; "
                "add --replace to replace them, or name another file"
            )
        for state, store in zip(states, stores, strict=True):
            with store:
                state.cursor.save(store, replace=replace)


def ledger_name(topic: str, subscription: str) -> str:
    """Return the name of a subscription's ledger. Spaces and `%` in the topic or subscription are encoded.

    >>> ledger_name("persistent://public/default/orders", "billing")
    'persistent://public/default/orders billing'
    >>> ledger_name("a b", "c"), ledger_name("a", "b c")
    ('a%20b c', 'a b%20c')
    """
    return " ".join(name.replace("%", "%25").replace(" ", "%20") for name in (topic, subscription))


def _require_own_logs(path: Path) -> None:
    """Raise `StoreError` if the folder of an SQLite file is missing, or has files of an earlier SQLite file.

    If the SQLite file at `path` is missing, its log must not exist. If the SQLite file is missing or empty,
    its witness file (`ackwell.store.witness`) must not exist.
    """
    if not path.parent.is_dir():
        raise StoreError(f"{path.parent}: no such folder")
    if (not path.exists() or not path.stat().st_size) and confirmed_writes(path):
        raise StoreError(f"{witness_path(path)} belongs to a file that is gone: restore that, or delete it")
    for log in (path.with_name(f"{path.name}-{kind}") for kind in ("wal", "journal")):
        # SQLite would apply the log to the new file. Check for the log first, then for the file: another
        # process may create both in between, the file before the log.
        if log.exists() and not path.exists():
            raise StoreError(f"{log} belongs to a file that is gone: restore that, or delete it")
