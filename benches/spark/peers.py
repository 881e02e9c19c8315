"""The same query in Spark SQL alone: the peers of the pipeline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_KEY = ("topic", "subscription")


def words_and_popcount(events: DataFrame) -> DataFrame:
    """Count acknowledged entries with bitmaps of 64 entries. This peer is the fastest and returns the least.

    It groups rows by a 64-bit hash of the names. This is faster than grouping by the names, but hashes may
    collide, and the result has no names. It has no ranges, no mark-delete position and no backlog either.
    """
    acks = events.where("kind = 'ack'").select(F.xxhash64(*_KEY).alias("key"), "ledger_id", _word(), _bit())
    return _count(acks, "key")


def words_by_name(events: DataFrame) -> DataFrame:
    """Count acknowledged entries like `words_and_popcount`, but group rows by the names.

    There are no collisions, and each row has its name.
    """
    acks = events.where("kind = 'ack'").select(*_KEY, "ledger_id", _word(), _bit())
    return _count(acks, *_KEY)


def words_with_batches(events: DataFrame) -> DataFrame:
    """Count acknowledged entries and messages of events with batches.

    The result has for each subscription the number of acknowledged entries, the number of acknowledged
    messages in partly acknowledged batches, and the greatest cumulative position. A batch has at most 64
    messages. The result has no ranges.
    """
    one = F.lit(1).cast("bigint")
    index = F.call_function("shiftleft", one, F.col("batch_index").cast("int"))
    size = F.call_function("shiftleft", one, F.col("size").cast("int")) - 1
    rows = events.where("kind in ('ack', 'ack_cumulative', 'dispatch')").select(
        F.xxhash64(*_KEY).alias("key"),
        *("kind", "ledger_id", "entry_id", "batch_size", _word(), _bit()),
        F.coalesce(index, F.bitwise_not(F.col("ack_set")[0])).alias("indexes"),
    )
    acks = rows.where("kind = 'ack'")
    batches = (
        rows.where("indexes is not null or batch_size > 1")
        .groupBy("key", "ledger_id", "entry_id")
        .agg(
            F.bit_or(F.when(F.col("kind") == "ack", F.col("indexes"))).alias("acked"),
            F.max("batch_size").alias("size"),
        )
        .withColumn("messages", F.bit_count(F.col("acked").bitwiseAND(size)))
    )
    whole = acks.where("indexes is null")
    entries = whole.select("key", "ledger_id", "word", "bit").unionByName(
        batches.where("messages = size").select("key", "ledger_id", _word(), _bit())
    )
    words = entries.groupBy("key", "ledger_id", "word").agg(F.bit_or("bit").alias("bits"))
    acked = words.groupBy("key").agg(F.sum(F.bit_count("bits")).alias("acked"))
    partly = batches.where("messages < size").groupBy("key").agg(F.sum("messages").alias("messages"))
    up_to = (
        rows.where("kind = 'ack_cumulative'")
        .groupBy("key")
        .agg(F.max(F.struct("ledger_id", "entry_id")).alias("up_to"))
    )
    return acked.join(partly, "key", "full").join(up_to, "key", "full")


def _count(acks: DataFrame, *key: str) -> DataFrame:
    words = acks.groupBy(*key, "ledger_id", "word").agg(F.bit_or("bit").alias("bits"))
    return words.groupBy(*key).agg(F.sum(F.bit_count("bits")).alias("acked"))


def _word() -> Column:
    return F.shiftright("entry_id", 6).alias("word")


def _bit() -> Column:
    one = F.lit(1).cast("bigint")
    return F.call_function("shiftleft", one, F.col("entry_id").bitwiseAND(63).cast("int")).alias("bit")


def windows(events: DataFrame) -> DataFrame:
    """Find ranges with window functions, by the "gaps and islands" method."""
    acks = events.where("kind = 'ack'").select(F.xxhash64(*_KEY).alias("key"), "ledger_id", "entry_id")
    order = Window.partitionBy("key", "ledger_id").orderBy("entry_id")
    island = F.col("entry_id") - F.dense_rank().over(order)
    ranges = acks.withColumn("island", island).groupBy("key", "ledger_id", "island")
    return (
        ranges.agg(F.min("entry_id").alias("lower"), F.max("entry_id").alias("upper"))
        .groupBy("key")
        .agg(F.count(F.lit(1)).alias("ranges"), F.sum(F.expr("upper - lower + 1")).alias("acked"))
    )
