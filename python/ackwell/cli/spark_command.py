"""`ackwell spark …`: the functions of `ackwell.spark` as commands. They also work under `spark-submit`.

Each command reads a table, calls the function of the same name in `ackwell.spark` and writes the result as a
table. Then it prints a summary of the result, which Spark computes during the write.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich import box
from rich.table import Table

from ackwell.cli import options
from ackwell.cli.command import Command
from ackwell.cli.console import err, out, print_json
from ackwell.errors import AckwellError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


class SparkCommand(Command):
    """A command of `ackwell spark`. An error of Spark is printed as one line."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command. Convert an error of Spark to an `AckwellError` of one line."""
        from ackwell.extras import require

        require("pyspark", "ackwell spark")
        from ackwell.spark.versions import spark_errors

        try:
            return super().invoke(ctx)
        except spark_errors() as error:
            raise AckwellError(_sentence(str(error))) from error
        except RuntimeError as error:
            # PySpark raises this error if Java is not installed.
            raise AckwellError(str(error)) from error


def _sentence(error: str) -> str:
    lines = [line for line in error.splitlines() if line.strip()]
    line = lines[0]
    if line.startswith("[PATH_ALREADY_EXISTS]"):
        return f"{line}; or give another --output or --mode overwrite"
    if line.startswith("An error occurred while calling"):
        # The error is an exception of Py4J. Its causes follow the stack of the exception.
        line = next((each for each in reversed(lines) if each.startswith("Caused by: ")), lines[-1])
        line = line.removeprefix("Caused by: ")
    for start, each in enumerate(lines):
        if each.endswith("Traceback (most recent call last):"):
            # The error is from Python code in a task. Its message follows the stack.
            line = next((after for after in lines[start + 1 :] if not after.startswith(" ")), line)
    return line


app = typer.Typer(
    name="spark",
    no_args_is_help=True,
    help="Replay, audit and size whole fleets of subscriptions on Spark.",
)

Input = Annotated[
    list[str],
    typer.Option("--input", "-i", metavar="PATH", help="Files or folders to read; repeatable."),
]
Output = Annotated[str, typer.Option("--output", "-o", metavar="PATH", help="The folder to write.")]
Master = Annotated[
    str | None,
    typer.Option("--master", metavar="URL", help="The Spark master; by default all cores of this machine."),
]
WriteFormat = Annotated[
    str,
    typer.Option(
        "--write-format", metavar="NAME", help="The format to write; any that the Spark session has."
    ),
]
Mode = Annotated[
    Literal["error", "overwrite", "append", "ignore"],
    typer.Option("--mode", help="What to do if the output exists."),
]
# The same type is in `ackwell.spark`, which is not imported here because it needs Spark.
Strategy = Literal["auto", "files", "rows"]


@dataclass
class Target:
    """The options of a command for its output table and for the Spark session."""

    output: Output
    master: Master = None
    write_format: WriteFormat = "parquet"
    mode: Mode = "error"
    summary_format: options.Format = options.OutputFormat.TABLE

    def session(self) -> SparkSession:
        """Return a Spark session with the master of these options."""
        return _session(self.master)

    def write(self, table: DataFrame, summary: dict[str, Column]) -> None:
        """Write a table, and print a summary of it.

        `summary` maps the name of each printed value to its expression. Spark computes the values during the
        write.
        """
        from pyspark.sql import Observation

        observation = Observation("ackwell")
        columns = [column.alias(name) for name, column in summary.items()]
        observed = table.observe(observation, *columns)
        observed.write.mode(self.mode).format(self.write_format).save(self.output)
        if self.summary_format is options.OutputFormat.JSON:
            print_json({**observation.get, "output": self.output})
            return
        shown = Table(box=box.SIMPLE_HEAD, caption=f"written to {self.output}", show_header=False)
        shown.add_column()
        shown.add_column(justify="right")
        for name, value in observation.get.items():
            shown.add_row(name, "-" if value is None else f"{value:,}")
        out.print(shown)


with_target_options = options.options_from(Target, "target")


@app.command(cls=SparkCommand)
@with_target_options
def replay(
    target: Target,
    source: Input,
    strategy: Annotated[
        Strategy,
        typer.Option(
            help="files: the tasks read Parquet files themselves; rows: Spark passes the rows of "
            "any table; auto: files if possible.",
        ),
    ] = "auto",
) -> None:
    """Replay events (traces or Parquet) into the cursor of each subscription.

    Examples
    --------
        ackwell spark replay --input events/ --output cursors/
        ackwell spark replay -i in/ -o out/ --mode overwrite --format json
    """
    from pyspark.sql import functions as F  # noqa: N812

    from ackwell.spark import read_events
    from ackwell.spark import replay as replay_events

    spark = target.session()
    table = replay_events(read_events(spark, *source), strategy=strategy)
    target.write(
        table,
        {
            "subscriptions": F.count(F.lit(1)),
            "ranges": F.sum("range_count"),
            "backlog entries": F.sum("backlog_entries"),
            "unacked messages": F.sum("unacked_messages"),
            "lose on a restart": F.count_if(F.col("restart_loses") > 0),
            "bytes, compact": F.sum("compact_bytes"),
        },
    )


@app.command("restart-audit", cls=SparkCommand)
@with_target_options
def audit(
    target: Target,
    source: Input,
    broker_version: options.BrokerVersion = None,
    broker_setting: options.BrokerSetting = None,
) -> None:
    """Show the losses of a restart, from events, replayed cursors or stats-internal dumps.

    Examples
    --------
        ackwell spark restart-audit --input events/ --output audit/
        ackwell spark restart-audit -i dumps/ -o audit/ --broker-version 4.0
    """
    from pyspark.sql import functions as F  # noqa: N812

    from ackwell.spark import restart_audit

    settings = options.broker_settings(broker_version, broker_setting)
    spark = target.session()
    table = restart_audit(_cursors(spark, source), settings)
    lossy = F.col("lost_messages_min") > 0
    target.write(
        table,
        {
            "subscriptions and restarts": F.count(F.lit(1)),
            "lose messages": F.count_if(lossy),
            "messages, at least": F.sum("lost_messages_min"),
            "most of one": F.max("lost_messages_min"),
        },
    )


@app.command("delayed-sizing", cls=SparkCommand)
@with_target_options
def sizing(
    target: Target,
    source: Input,
    width: Annotated[
        list[int] | None,
        typer.Option("--width", metavar="MS", help="A bucket width to compare, in milliseconds; repeatable."),
    ] = None,
) -> None:
    """Show how large an index of the delayed messages would be, and which bucket width is the best.

    Examples
    --------
        ackwell spark delayed-sizing --input events/ --output sizing/
        ackwell spark delayed-sizing -i events/ -o sizing/ --width 1024
    """
    from pyspark.sql import functions as F  # noqa: N812

    from ackwell.spark import delayed_sizing, read_events

    spark = target.session()
    table = delayed_sizing(read_events(spark, *source), width or None)
    target.write(
        table,
        {
            "subscriptions and widths": F.count(F.lit(1)),
            "bytes, heap": F.sum("heap_bytes"),
            "bytes, buckets": F.sum("buckets_bytes"),
            "bytes, wheel": F.sum("wheel_bytes"),
        },
    )


@app.command("cursor-stream", cls=SparkCommand)
def stream(
    source: Annotated[str, typer.Option("--input", "-i", metavar="PATH", help="The folder to follow.")],
    output: Output,
    checkpoint: Annotated[
        str, typer.Option(metavar="PATH", help="The folder for the progress and the state of the stream.")
    ],
    master: Master = None,
    write_format: WriteFormat = "parquet",
    once: Annotated[bool, typer.Option(help="Read the existing files, then stop.")] = False,
    files: Annotated[
        int, typer.Option(min=1, metavar="N", help="The maximum number of files in a micro-batch.")
    ] = 8,
) -> None:
    """Follow a folder of events (traces or Parquet), and write the cursors after each micro-batch.

    Examples
    --------
        ackwell spark cursor-stream -i events/ -o out/ --checkpoint done/ --once
        ackwell spark cursor-stream -i events/ -o out/ --checkpoint done/
    """
    from ackwell.spark import cursor_stream, register
    from ackwell.spark.data_sources import EventTrace, contains
    from ackwell.spark.schema import EVENTS

    spark = _session(master)
    register(spark)
    reader = (
        spark.readStream.format("ackwell_trace").option("limit.max_files", files)
        if contains(source, EventTrace.suffixes)
        else spark.readStream.schema(EVENTS).option("maxFilesPerTrigger", files).format("parquet")
    )

    def keep(batch: DataFrame, number: int) -> None:
        # The folder has the number of the micro-batch. If the micro-batch runs again after a crash, it
        # replaces its earlier output.
        place = f"{output}/batch={number:012}"
        batch.write.mode("overwrite").format(write_format).save(place)

    writer = cursor_stream(reader.load(source)).writeStream.outputMode("update")
    writer = writer.option("checkpointLocation", checkpoint).foreachBatch(keep)
    query = (writer.trigger(availableNow=True) if once else writer).start()
    query.awaitTermination()


def _session(master: str | None) -> SparkSession:
    from ackwell.spark import local_session

    progress = str(err.is_terminal).lower()
    return local_session(master, conf={"spark.ui.showConsoleProgress": progress})


def _cursors(spark: SparkSession, source: list[str]) -> DataFrame:
    """Return a table of cursors. Dumps and replayed cursors are read; events are replayed first."""
    from ackwell.spark import read_events, read_files
    from ackwell.spark import replay as replay_events
    from ackwell.spark.data_sources import PulsarStats, contains

    suffixes = PulsarStats.suffixes
    if any(path.endswith(suffixes) or contains(path, suffixes) for path in source):
        return read_files(spark, "pulsar_stats", *source)
    table = read_events(spark, *source)
    return table if "individually_deleted" in table.columns else replay_events(table)


if __name__ == "__main__":
    sys.exit(app())
