"""The same question asked of Spark SQL alone: the peers that the pipeline is measured against."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_KEY = ("topic", "subscription")


def words_and_popcount(events: DataFrame) -> DataFrame:
    """Count acknowledged entries by words of 64; the strongest peer, though it gives no ranges.

    By a 64-bit hash of the names, which is faster than by the names and may collide.
    """
    bit = F.call_function("shiftleft", F.lit(1).cast("bigint"), F.col("entry_id").bitwiseAND(63).cast("int"))
    word = F.shiftright("entry_id", 6).alias("word")
    acks = events.where("kind = 'ack'").select(
        F.xxhash64(*_KEY).alias("key"), "ledger_id", word, bit.alias("bit")
    )
    words = acks.groupBy("key", "ledger_id", "word").agg(F.bit_or("bit").alias("bits"))
    return words.groupBy("key").agg(F.sum(F.bit_count("bits")).alias("acked"))


def windows(events: DataFrame) -> DataFrame:
    """Find ranges as gaps and islands."""
    acks = events.where("kind = 'ack'").select(F.xxhash64(*_KEY).alias("key"), "ledger_id", "entry_id")
    order = Window.partitionBy("key", "ledger_id").orderBy("entry_id")
    island = F.col("entry_id") - F.dense_rank().over(order)
    ranges = acks.withColumn("island", island).groupBy("key", "ledger_id", "island")
    return (
        ranges.agg(F.min("entry_id").alias("lower"), F.max("entry_id").alias("upper"))
        .groupBy("key")
        .agg(F.count(F.lit(1)).alias("ranges"), F.sum(F.expr("upper - lower + 1")).alias("acked"))
    )
