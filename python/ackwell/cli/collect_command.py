"""`ackwell collect` saves the statistics of a cluster's topics. Each run writes to its own dated folder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ackwell.broker.dates import clock_ms
from ackwell.cli import options
from ackwell.cli.console import EXIT_UNREAD, out, progress, report_unread

if TYPE_CHECKING:
    from ackwell.cluster.admin import Admin
    from ackwell.object_paths import AnyPath


@options.with_required_admin
def collect(
    admin: Admin,
    topics: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TOPIC]…", help="Tenants, namespaces (tenant/namespace) or topics; all by default."
        ),
    ] = None,
    output: Annotated[
        str,
        typer.Option(
            "-o",
            "--output",
            metavar="FOLDER",
            help="The folder in which each run creates a dated folder; also s3://, gs:// or abfs://.",
        ),
    ] = "stats",
) -> None:
    """Write a dated, compressed dump of every topic's statistics, for `doctor` and for Spark.

    Examples
    --------
        ackwell collect --admin http://broker:8080 -o stats/
        ackwell collect --admin https://broker:8443 --token-file token tenant
        ackwell doctor stats/

    The command is safe in cron, because two runs never share a folder, the
    next run resumes an interrupted one, and each file is written atomically. In
    an object store, the next run starts from the beginning.

    Exit code: 0 all collected, 5 some topics could not be read, 1 an error,
    2 a wrong command line.
    """
    from ackwell.cluster.collect import collect as collect_dumps
    from ackwell.object_paths import any_path

    written, unread = 0, 0
    run: AnyPath | None = None
    steps = collect_dumps(admin, any_path(output), topics or (), time_ms=clock_ms())
    for step in progress(steps, "collecting"):
        if step.unread is not None:
            unread += 1
            report_unread(step.unread)
        elif step.written is not None:
            written, run = written + 1, step.written.parent
    where = "" if run is None else f" in {run}"
    out.print(f"{written:,} topic{'' if written == 1 else 's'} collected{where}", highlight=False)
    if unread:
        raise typer.Exit(EXIT_UNREAD)
