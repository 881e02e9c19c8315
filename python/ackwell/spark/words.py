"""The strategy `words`: Spark SQL folds the rows into words of 64 entries, Python only joins the words.

An acknowledgment is one bit of the word of its entry, `bit_or(1 << (entry & 63))` by
(subscription, ledger, entry >> 6): a hash aggregate over int64 columns, compiled by Spark and combined
before the shuffle. Entries in batches, ack sets and rare kinds are branches of their own, whose filters
skip the row groups of Parquet files that have none. Other sources are read once for each branch:
`cache()` those that are slow to read.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

from ackwell.ack_sets import BATCH_SIZE_MAX, WORDS_MAX
from ackwell.replay.event_columns import NULL
from ackwell.replay.events import ENTRY_ID_MAX, NEED_POSITION, Kind
from ackwell.spark.schema import PARTIALS
from ackwell.spark.tasks import words as tasks

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from ackwell.replay.resets import Resets

_NAMES = ("topic", "subscription")

# What a row does; negative for a flaw, by its number.
_NOTHING, _EXISTS, _ACK, _PARTLY, _UP_TO, _PARTLY_UP_TO, _CLEAR, _PLACED, _TRIM, _DELETE = range(10)

_CODES = {kind: _PLACED if kind in NEED_POSITION else _NOTHING for kind in Kind} | {
    Kind.ACK: _ACK,
    Kind.PUBLISH: _EXISTS,
    Kind.DISPATCH: _EXISTS,
    Kind.RECEIVE: _EXISTS,
    Kind.ACK_CUMULATIVE: _UP_TO,
    Kind.SKIP: _UP_TO,
    Kind.EXPIRE: _UP_TO,
    Kind.CLEAR_BACKLOG: _CLEAR,
    Kind.TRIM: _TRIM,
    Kind.UNSUBSCRIBE: _DELETE,
}
_FREQUENT = (Kind.ACK, Kind.PUBLISH, Kind.DISPATCH, Kind.RECEIVE)


def fold(events: DataFrame, resets: Resets, *, ordered: bool = True, strict: bool = False) -> DataFrame:
    """Fold events, with the columns of the table `EVENTS`, into partials; `ordered` as in `Fold`."""
    rows = (
        events.withColumn("file", F.coalesce("file", F.lit("")))
        .withColumn("subscription", F.coalesce("subscription", F.lit("")))
        .withColumn("what", _what())
    )
    rows = _mark_void(rows, resets).withColumn("code", _code())
    reduced = [_named(rows, _plain(rows, ordered=ordered)), _sizes(rows), _ack_sets(rows), _rare(rows)]
    branches = [_branch(number, table) for number, table in enumerate(reduced)]
    joined = reduce(lambda left, right: left.unionByName(right), branches)
    return joined.repartition(*_NAMES, "ledger_id").mapInArrow(
        tasks.Assemble(resets, strict=strict), PARTIALS
    )


def _branch(number: int, table: DataFrame) -> DataFrame:
    """Complete the columns of a branch to those of all."""
    texts = {*_NAMES, "file", "detail"}
    values = {"branch": F.lit(number)} | {name: F.col(name) for name in table.columns}
    columns = [
        values.get(name, F.lit(None)).cast("string" if name in texts else "bigint").alias(name)
        for name in tasks.COLUMNS
    ]
    return table.select(*columns)


def _hash() -> Column:
    return F.xxhash64(*_NAMES, "file")


def _named(rows: DataFrame, folded: DataFrame) -> DataFrame:
    """Put the names back: rows are grouped by a 64-bit hash of them, a tenth of the work.

    Two names of one hash would be mixed up silently; they are refused instead.
    """
    names = (
        rows.select(*_NAMES, "file")
        .distinct()
        .groupBy(_hash().alias("key"))
        .agg(F.collect_list(F.struct(*_NAMES, "file")).alias("names"))
    )
    one = F.when(F.size("names") == 1, F.col("names")[0]).otherwise(
        F.raise_error(F.concat(F.lit("names of one 64-bit hash: "), F.to_json("names")))
    )
    return folded.join(F.broadcast(names.select("key", one.alias("name"))), "key").select(
        "name.*", *(name for name in folded.columns if name != "key")
    )


def _mark_void(rows: DataFrame, resets: Resets) -> DataFrame:
    """Add `acks`: the row acknowledges something after its subscription's last seek, and is not undone."""
    what = F.col("what")
    # A cleared backlog without position is among the resets.
    placed = F.col("ledger_id").isNotNull() & F.col("entry_id").isNotNull()
    acks = what.isin([_ACK, _UP_TO]) | ((what == _CLEAR) & placed)
    counts = (F.coalesce("transaction", F.lit("")) == "") | (what == _CLEAR)
    if resets.committed:
        committed = rows.sparkSession.createDataFrame(
            sorted(resets.committed), "topic string, subscription string, transaction string"
        ).withColumn("committed", F.lit(True))
        rows = rows.join(F.broadcast(committed), [*_NAMES, "transaction"], "left")
        counts = counts | F.col("committed").isNotNull()
    acks = acks & counts
    if not resets.seeks:
        return rows.withColumn("acks", acks)
    seeks = rows.sparkSession.createDataFrame(
        [(*name, *seek.order) for name, seek in resets.seeks.items()],
        "topic string, subscription string, seek_file string, seek_sequence bigint",
    )
    order = F.struct("file", "sequence")
    seek = F.struct(F.col("seek_file").alias("file"), F.col("seek_sequence").alias("sequence"))
    after = F.col("seek_sequence").isNull() | (order > seek)
    joined = rows.join(F.broadcast(seeks), list(_NAMES), "left")
    return joined.withColumn("acks", acks & after)


def _whole() -> Column:
    """Return whether an acknowledgment leaves nothing of its entry."""
    # Not F.forall: a lambda would take the whole query out of compiled code.
    smallest, greatest = F.array_min("ack_set"), F.array_max("ack_set")
    nothing_set = F.coalesce((smallest == 0) & (greatest == 0), F.lit(True))
    return F.when(F.col("ack_set").isNotNull(), nothing_set).otherwise(F.col("batch_index").isNull())


def _what() -> Column:
    """Return a row's kind as a small integer, the frequent ones first; null for an unknown kind."""
    kind = F.when(F.col("kind") == Kind.ACK.value, F.lit(_ACK))
    for known in sorted(Kind, key=lambda each: each not in _FREQUENT):
        kind = kind.when(F.col("kind") == known.value, F.lit(_CODES[known]))
    return kind


def _code() -> Column:
    """Return what a row does, or below 0 what is wrong with it: computed once, and not in every sum."""
    what, acks = F.col("what"), F.col("acks")
    unnamed = [F.col(name).isNull() for name in ("topic", "kind", "sequence")]
    unnamed.append((F.col("subscription") == "") & what.isin([_ACK, _UP_TO, _CLEAR, _PLACED, _DELETE]))
    placed = F.col("ledger_id").isNotNull() & F.col("entry_id").isNotNull()
    counts = ("ledger_id", "entry_id", "sequence", "batch_index", "batch_size")
    negative = [F.col(name) < 0 for name in counts]
    too_large = [
        F.col("batch_index") >= BATCH_SIZE_MAX,
        F.col("batch_size") > BATCH_SIZE_MAX,
        F.size("ack_set") > WORDS_MAX,
    ]
    partly = ~_whole()
    return (
        F.when(reduce(or_, unnamed), -1)
        .when(what.isNull(), -2)
        .when(~placed & what.isin([_ACK, _EXISTS, _UP_TO, _PLACED, _TRIM]), -3)
        .when(reduce(or_, negative) | (F.col("entry_id") > ENTRY_ID_MAX), -4)
        .when(reduce(or_, too_large), -5)
        .when(what == _EXISTS, _EXISTS)
        .when(~acks, _NOTHING)
        .when(what == _ACK, F.when(partly, _PARTLY).otherwise(_ACK))
        .otherwise(F.when(partly, _PARTLY_UP_TO).otherwise(_UP_TO))
    )


def _plain(rows: DataFrame, *, ordered: bool) -> DataFrame:
    """Fold whole entries: acknowledged, existing, acknowledged cumulatively; and find flaws."""
    entry, code, sequence = F.col("entry_id"), F.col("code"), F.col("sequence")
    bit = F.call_function("shiftleft", F.lit(1).cast("bigint"), entry.bitwiseAND(63).cast("int"))
    acking = F.when(code >= _ACK, sequence)
    order = [F.min(acking).alias("first"), F.max(acking).alias("last")] if ordered else []
    up_to = F.when(code == _UP_TO, entry).when(code == _PARTLY_UP_TO, entry - 1)
    flaw_at = F.when(code < 0, F.coalesce(sequence, F.lit(NULL)))
    return (
        rows.select(_hash().alias("key"), "ledger_id", "entry_id", "sequence", "code")
        .withColumn("at", F.shiftright(entry, 6))
        .groupBy("key", "ledger_id", "at")
        .agg(
            F.bit_or(F.when(code == _ACK, bit)).alias("bits"),
            F.max(F.when(code == _EXISTS, entry)).alias("exists"),
            F.max(up_to).alias("up_to"),
            *order,
            F.min_by(-1 - code, flaw_at).alias("flaw"),
            F.min(flaw_at).alias("flaw_at"),
        )
    )


def _sizes(rows: DataFrame) -> DataFrame:
    """Find how many messages the entries that hold a batch hold."""
    what = F.col("what")
    published = F.when(what == _EXISTS, F.col("batch_index") + 1)
    return (
        rows.where(F.col("batch_size").isNotNull() | F.col("batch_index").isNotNull())
        .where(what.isin([_EXISTS, _ACK, _UP_TO, _CLEAR]) & (F.col("code") >= 0))
        .where(F.col("ledger_id").isNotNull() & F.col("entry_id").isNotNull())
        .withColumn("at", F.col("entry_id"))
        .groupBy(*_NAMES, "ledger_id", "at")
        .agg(F.max(F.coalesce("batch_size", published)).alias("bits"))
    )


def _ack_sets(rows: DataFrame) -> DataFrame:
    """Fold acknowledgments of parts of a batch: AND of what each leaves, word by word."""
    index, is_ack = F.col("batch_index"), F.col("what") == _ACK
    within = F.shiftright(index, 6)
    bit = index.bitwiseAND(63).cast("int")
    one = F.lit(1).cast("bigint")
    single = F.bitwise_not(F.call_function("shiftleft", one, bit))
    # Java shifts by 64 as by 0, hence the two steps.
    beyond = F.call_function(
        "shiftleft", F.call_function("shiftleft", F.lit(-1).cast("bigint"), bit), F.lit(1)
    )

    def masks(word: Column) -> Column:
        last = F.when(is_ack, single).otherwise(beyond)
        first = F.when(is_ack, F.lit(-1)).otherwise(F.lit(0))
        return F.when(word == within, last).otherwise(first).cast("bigint")

    left = F.when(F.col("ack_set").isNotNull(), F.col("ack_set")).otherwise(
        F.transform(F.sequence(F.lit(0).cast("bigint"), within), masks)
    )
    return (
        rows.where(F.col("ack_set").isNotNull() | F.col("batch_index").isNotNull())
        .where(F.col("acks") & ~_whole() & (F.col("code") >= 0))
        .withColumn("words", F.size("ack_set").cast("bigint"))
        .withColumn("words", F.when(F.col("words") >= 0, F.col("words")))
        .select(*_NAMES, "file", "ledger_id", "entry_id", "words", F.posexplode(left))
        .groupBy(*_NAMES, "file", "ledger_id", F.col("entry_id").alias("at"), F.col("pos").alias("word"))
        .agg(F.bit_and("col").alias("bits"), F.min("words").alias("exists"))
    )


def _rare(rows: DataFrame) -> DataFrame:
    """Take trimmed ledgers, deletions and settings, each once."""
    what = F.col("what")
    branch = (
        F.when(what == _TRIM, tasks.TRIMMED).when(what == _DELETE, tasks.DELETED).otherwise(tasks.SETTINGS)
    )
    kinds = [Kind.TRIM.value, Kind.UNSUBSCRIBE.value, Kind.META.value]
    return (
        rows.where(F.col("kind").isin(kinds) & (F.col("code") >= 0))
        .where((F.col("kind") != Kind.META.value) | F.col("detail").isNotNull())
        .select(
            branch.alias("branch"),
            *_NAMES,
            "file",
            F.when(what == _TRIM, F.col("ledger_id")).alias("ledger_id"),
            F.when(what != _TRIM, F.col("sequence")).alias("at"),
            F.when(F.col("kind") == Kind.META.value, F.col("detail")).alias("detail"),
        )
        .distinct()
    )
