"""Replay recorded traces on Spark, and compare every snapshot in them with the broker's answer.

Run by `make demo`. The traces in `examples/traces` were recorded from a real Apache Pulsar 4.2.4.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812
from rich.console import Console

from ackwell import spark
from ackwell.cli.subscription_table import print_cursor_rows
from ackwell.replay.events import Event, Kind
from examples.agreement import RESTARTS, Verdict, agreements

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TRACES = Path(__file__).parent / "traces"
out = Console()


def at_snapshots(events: DataFrame) -> DataFrame:
    """Give every snapshot a separate subscription with only the events before it."""
    snapshots = events.where(F.col("kind") == Kind.SNAPSHOT).select(
        "topic", "subscription", F.col("sequence").alias("until")
    )
    moment = F.concat_ws("@", "subscription", "until")
    return (
        events.join(F.broadcast(snapshots), ["topic", "subscription"])
        .where("sequence <= until")
        .withColumn("subscription", moment)
        .drop("until")
    )


def marks(events: DataFrame) -> list[Event]:
    """Return the few events that say when the broker was asked, and when it restarted."""
    kinds = [kind.value for kind in (Kind.SNAPSHOT, *RESTARTS)]
    rows = events.where(F.col("kind").isin(kinds)).orderBy("file", "sequence").collect()
    fields = ("topic", "subscription", "sequence", "detail", "file")
    return [Event(kind=Kind(row.kind), **{name: row[name] for name in fields}) for row in rows]


def main() -> int:
    """Print the table of subscriptions and the comparison; the exit code tells whether all agree."""
    session = spark.local_session()
    events = spark.read_events(session, str(TRACES)).cache()
    out.print(f"replaying {events.count():,} events of {len(list(TRACES.glob('*.jsonl*')))} traces on Spark")
    print_cursor_rows([state.row() for state in spark.collect_states(spark.replay(events))])
    out.print("snapshots below: by the settings of each trace (`config` in its first line)")
    states = {(s.topic, s.subscription): s for s in spark.collect_states(spark.replay(at_snapshots(events)))}
    compared = list(
        agreements(marks(events), lambda mark: states[mark.topic, f"{mark.subscription}@{mark.sequence}"])
    )
    agree = sum(agreement.verdict is Verdict.AGREES for agreement in compared)
    forgot = [agreement for agreement in compared if agreement.verdict is Verdict.FORGOT]
    if forgot:
        out.print(f"\n{len(forgot)} snapshots were taken after the broker had lost acknowledged messages:")
    for agreement in forgot:
        out.print(f"  {agreement.snapshot}: {agreement.forgotten_messages:,} forgotten")
    out.print(f"\nagrees with the broker: {agree} of {len(compared) - len(forgot)} snapshots")
    return 0 if agree == len(compared) - len(forgot) else 1


if __name__ == "__main__":
    sys.exit(main())
