"""Saves replayed cursors to an SQLite file, all or none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ackwell.replay.states import SubscriptionState
    from ackwell.store import Store


def save_states(states: list[SubscriptionState], path: Path, *, replace: bool = False) -> None:
    """Save each cursor to its ledger in an SQLite file; `ledger_name` names the ledger.

    `Cursor.load(SqliteStore(path, "topic subscription"), ledgers)` loads it. If the file already holds one of
    them, nothing is saved (`NotLoadedError`), unless `replace` is true. All are saved, or none.
    """
    from ackwell.errors import NotLoadedError

    names = [ledger_name(state.topic, state.subscription) for state in states]
    held = [] if replace or not path.exists() else [name for name in names if _holds(path, name)]
    if held:
        raise NotLoadedError(
            f"{path} already holds {len(held)} of these cursors, such as {held[0]!r}; "
            "add --replace to replace them, or name another file"
        )
    with _atomic_ledgers(path) as opened:
        for state, name in zip(states, names, strict=True):
            with opened(name) as store:
                state.cursor.save(store, replace=replace)


def ledger_name(topic: str, subscription: str) -> str:
    """Return the name of a subscription's ledger; a space or `%` in a name is percent-encoded.

    >>> ledger_name("persistent://public/default/orders", "billing")
    'persistent://public/default/orders billing'
    >>> ledger_name("a b", "c"), ledger_name("a", "b c")
    ('a%20b c', 'a b%20c')
    """
    return " ".join(name.replace("%", "%25").replace(" ", "%20") for name in (topic, subscription))


@contextmanager
def _atomic_ledgers(path: Path) -> Iterator[Callable[[str], Store]]:
    """Yield a function that opens a ledger by name; the file gets all writes or none."""
    from ackwell.errors import StoreError
    from ackwell.store.sqlite import SqliteStore, one_transaction
    from ackwell.store.witness import confirmed_writes, witness_path

    if path.exists() and path.stat().st_size:
        with one_transaction(path) as opened:
            yield opened
        return
    if not path.parent.is_dir():
        raise StoreError(f"{path.parent}: no such folder")
    if confirmed_writes(path):
        raise StoreError(f"{witness_path(path)} belongs to a file that is gone: restore that, or delete it")
    # SQLite would apply it to the new file.
    for log in (path.with_name(f"{path.name}-{kind}") for kind in ("wal", "journal")):
        if log.exists():
            raise StoreError(f"{log} belongs to a file that is gone: restore that, or delete it")
    with TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as folder:
        yield partial(SqliteStore, Path(folder, path.name))
        for made in sorted(Path(folder).iterdir()):
            made.replace(path.with_name(made.name))


def _holds(path: Path, name: str) -> bool:
    """Return whether a ledger of the file has entries."""
    from ackwell.store import SqliteStore

    with SqliteStore(path, name) as store:
        return store.last_id >= 0
