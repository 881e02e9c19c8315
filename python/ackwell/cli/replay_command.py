"""`ackwell replay`: event files to cursor state."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from ackwell.cli.console import file_progress, print_json, warn
from ackwell.cli.subscription_table import print_subscriptions

if TYPE_CHECKING:
    from ackwell.broker.stats import SubscriptionStats
    from ackwell.replay.cursor_rows import CursorRow
    from ackwell.replay.states import SubscriptionState
    from ackwell.store import Store


def replay(
    sources: Annotated[
        list[Path],
        typer.Argument(metavar="FILE…", help="Traces (.jsonl, .jsonl.gz, .jsonl.zst, .parquet), or folders."),
    ],
    spark: Annotated[bool, typer.Option("--spark", help="Replay with Spark on this machine.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, an array.")] = False,
    save: Annotated[
        Path | None, typer.Option(metavar="DB", help="Save every cursor to this SQLite file.")
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="With --save: replace cursors that the file already holds.")
    ] = False,
    at: Annotated[int | None, typer.Option(min=0, metavar="N", help="Stop after the first N events.")] = None,
    start_from: Annotated[
        list[Path] | None,
        typer.Option(metavar="DUMP", help="The broker's stats-internal from before the first event."),
    ] = None,
    keep_going: Annotated[
        bool, typer.Option("--keep-going", help="Report bad subscriptions, replay the others; exit code 1.")
    ] = False,
    threads: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="How many threads share out files and row groups; one a core by default."
        ),
    ] = None,
) -> None:
    """Replay recorded events: the cursor of each subscription at the end, or after event N.

    Examples
    --------
        ackwell replay examples/traces
        ackwell replay --spark --save cursors.db examples/traces
        ackwell replay --json --at 1000 trace.jsonl.gz
    """
    # Arrow returns memory to the system 10 ms after its last use, and threads wait for that.
    # It reads this variable when it is loaded.
    os.environ.setdefault("MIMALLOC_PURGE_DELAY", "-1")

    from ackwell.errors import EventError
    from ackwell.replay.cursor_rows import cursor_rows
    from ackwell.replay.files import event_files, fold_files
    from ackwell.replay.states import located_errors, starting_from, states_of

    if spark and (keep_going or start_from):
        raise typer.BadParameter("give --keep-going and --start-from without --spark")
    files = event_files(sources)
    errors: dict[tuple[str, str], str] = {}
    with file_progress(files, "replaying") as progress:
        if spark:
            from ackwell.spark import replay_files as replay_on_spark

            states = replay_on_spark(files, at=at)
            rows = [state.row() for state in states]
        else:
            noted = errors if keep_going else None
            with located_errors(files, at, noted):
                fold = fold_files(
                    files,
                    at=at,
                    on_file=lambda _: progress.advance(progress.task_ids[0]),
                    begin=starting_from(_dumps(start_from or [])),
                    threads=threads,
                )
                rows = list(cursor_rows(fold, noted))
                states = states_of(fold, noted) if save is not None else []
    if save is not None:
        save_states(states, save, replace=replace)
    if as_json:
        print_json([row.to_json() for row in rows])
    else:
        print_rows(rows)
    for message in errors.values():
        warn(f"not replayed: {' '.join(message.splitlines())}")
    if errors:
        raise EventError(f"{len(errors):,} of {len(errors) + len(rows):,} subscriptions were not replayed")


def _dumps(paths: list[Path]) -> list[SubscriptionStats]:
    from ackwell.broker.stats import read_stats

    return [stats for path in paths for stats in read_stats(path)]


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
    with _whole(path) as opened:
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
def _whole(path: Path) -> Iterator[Callable[[str], Store]]:
    """Open ledgers by name, of a file that exists or of a new one; it gets all writes or none."""
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
    # SQLite would take it for the log of the new file.
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


def print_rows(rows: Iterable[CursorRow]) -> None:
    """Print each cursor, and the messages that a restart with the default limits of 4.2 would redeliver."""
    headings = ("mark-delete", "ranges", "partial entries", "backlog", "acked, comes back")
    print_subscriptions(headings, ((row.topic, row.subscription, _values(row)) for row in rows))


def _values(row: CursorRow) -> list[str]:
    return [
        row.mark_delete,
        f"{row.range_count:,}",
        f"{len(row.batch_deleted):,}",
        f"{row.backlog_entries:,}",
        str(row.lost),
    ]
