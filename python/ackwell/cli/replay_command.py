"""`ackwell replay` computes the state of each subscription's cursor from event files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ackwell.cli import options  # Typer reads annotations
from ackwell.cli.console import file_progress, print_json, warn
from ackwell.cli.subscription_table import print_cursor_rows

if TYPE_CHECKING:
    from ackwell.broker.stats import SubscriptionStats


def replay(
    *,
    sources: options.Traces,
    spark: Annotated[bool, typer.Option("--spark", help="Replay with Spark on this machine.")] = False,
    output: options.Format = options.OutputFormat.TABLE,
    save: Annotated[
        Path | None, typer.Option(metavar="DB", help="Save every cursor to this SQLite file.")
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="With --save: replace cursors that the file already contains.")
    ] = False,
    at: Annotated[int | None, typer.Option(min=0, metavar="N", help="Stop after the first N events.")] = None,
    start_from: Annotated[
        list[str] | None,
        typer.Option(metavar="DUMP", help="The broker's stats-internal from before the first event."),
    ] = None,
    keep_going: Annotated[
        bool, typer.Option("--keep-going", help="Report bad subscriptions, replay the others; exit code 1.")
    ] = False,
    threads: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="The number of threads; by default one per core."),
    ] = None,
) -> None:
    """Replay recorded events, and show the cursor of each subscription at the end, or after event N.

    Examples
    --------
        ackwell replay examples/traces
        ackwell replay --spark --save cursors.db examples/traces
        ackwell replay --format json --at 1000 trace.jsonl.gz
    """
    # By default, Arrow's allocator returns memory to the system 10 ms after its last use, and threads wait
    # for this. -1 means never. Arrow reads the variable when it is loaded.
    os.environ.setdefault("MIMALLOC_PURGE_DELAY", "-1")

    from ackwell.errors import EventError
    from ackwell.object_paths import ObjectPath
    from ackwell.replay.cursor_rows import cursor_rows
    from ackwell.replay.files import event_files, fold_files
    from ackwell.replay.states import located_errors, starting_from, states_of

    if spark and (keep_going or start_from):
        raise typer.BadParameter("give --keep-going and --start-from without --spark")
    files = event_files(sources)
    if spark and any(isinstance(file, ObjectPath) for file in files):
        raise typer.BadParameter("Spark has its own object stores: use `ackwell spark replay` with s3a://")
    errors: dict[tuple[str, str], str] = {}
    with file_progress(files, "replaying") as progress:
        if spark:
            from ackwell.spark import replay_files as replay_on_spark

            states = replay_on_spark([str(file) for file in files], at=at)
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
        from ackwell.replay.saved_states import save_states

        save_states(states, save, replace=replace)
    if output is options.OutputFormat.JSON:
        print_json([row.to_json() for row in rows])
    else:
        print_cursor_rows(rows)
    for message in errors.values():
        warn(f"not replayed: {' '.join(message.splitlines())}")
    if errors:
        raise EventError(f"{len(errors):,} of {len(errors) + len(rows):,} subscriptions were not replayed")


def _dumps(paths: list[str]) -> list[SubscriptionStats]:
    from ackwell.broker.stats import read_stats

    return [stats for path in paths for stats in read_stats(path)]
