"""A process that follows a stream until its input ends or it is killed.

`python -m tests.faults.streamer EVENTS PLACE` reads the folder `EVENTS` and writes only in `PLACE`.

Prints `sink N` once the N-th micro-batch's rows are handed to the sink, which keeps them by that number.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ackwell.spark import cursor_stream, local_session
from ackwell.spark.schema import EVENTS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def main() -> None:
    """Follow a folder, a file a micro-batch."""
    events, place = map(Path, sys.argv[1:])
    spark = local_session("local[2]", conf={"spark.sql.shuffle.partitions": "2"})

    def keep(batch: DataFrame, number: int) -> None:
        print("sink", number, flush=True)
        batch.write.mode("overwrite").parquet(str(place / "out" / f"{number:06}"))

    stream = spark.readStream.schema(EVENTS).option("maxFilesPerTrigger", 1).parquet(str(events))
    query = (
        cursor_stream(stream)
        .writeStream.outputMode("update")
        .option("checkpointLocation", str(place / "checkpoint"))
        .foreachBatch(keep)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()
