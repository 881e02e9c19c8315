"""`ackwell history` checks the deliveries to consumers: order per key, no loss, no duplicates."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from ackwell.cli import options  # Typer reads annotations
from ackwell.cli.console import file_progress, out, print_json, warn


def history(
    sources: options.Traces,
    at_rest: Annotated[
        bool,
        typer.Option(
            "--at-rest", help="Also report messages that were never delivered by the end of the recording."
        ),
    ] = False,
    in_flight_ms: Annotated[
        int,
        typer.Option(
            min=0,
            metavar="MS",
            help="For a recording by a proxy: ignore violations within this time after a command, "
            "because a delivery may be on its way.",
        ),
    ] = 0,
    output: options.Format = options.OutputFormat.TABLE,
) -> None:
    """Check recorded events for messages out of order per key, and for redelivered acknowledged messages.

    Examples
    --------
        ackwell history events/
        ackwell history --in-flight-ms 500 recorded/
        ackwell history --at-rest --format json trace.jsonl.gz

    Exit code: 0 without a violation or without a check, 3 with violations.
    """
    from ackwell.replay.files import event_files, read_events
    from ackwell.replay.history_check import NO_DELIVERY, HistoryChecker

    checker = HistoryChecker(in_flight_ms)
    files = event_files(sources)
    with file_progress(files, "reading") as progress:
        for event in read_events(files, on_file=lambda _: progress.advance(progress.task_ids[0])):
            checker.feed(event)
    at_rest_checked = checker.check_rest() if at_rest else 0
    found, unchecked = checker.found, [*checker.unchecked()]
    for sentence in unchecked:
        warn(sentence)
    if output is options.OutputFormat.JSON:
        print_json([each.to_json() for each in found])
    elif found:
        for each in found:
            out.print(Text(str(each)), soft_wrap=True)
    elif not checker.deliveries and not at_rest_checked:
        out.print(f"nothing is checked: {NO_DELIVERY}")
    else:
        out.print("nothing is wrong" + (" in the checks that the events permit" if unchecked else ""))
    raise typer.Exit(3 if found else 0)
