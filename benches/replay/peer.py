"""The same query in DuckDB: acknowledged entries, and acknowledged messages of other batches.

For `batches left open` it also lists the open batches, with their acknowledged messages.

The query returns neither ranges nor a mark-delete position nor bytes. It counts an entry twice that is
acknowledged by batch indexes and by ack sets.
"""

from __future__ import annotations

import sys
from typing import Final

_KEY: Final = "topic, subscription, ledger_id, entry_id"
OPEN: Final = "batches left open"
_BIT: Final = "(1::UBIGINT << ({} & 63)::UBIGINT)"


def query(place: str, layout: str) -> str:
    """Return the SQL query for a layout. It reads only the required columns."""
    events = f"read_parquet('{place}/*.parquet')"
    acks = f"select * from {events} where kind = 'ack'"
    if layout == "seek":
        where = "where kind = 'seek' group by all"
        seeks = f"select topic, subscription, max(sequence) as sought from {events} {where}"
        acks = (
            f"select acks.* from ({acks}) acks left join ({seeks}) using (topic, subscription) "
            "where sequence > coalesce(sought, -1)"
        )
    if layout == "transactions":
        commits = f"select distinct topic, subscription, transaction from {events} where kind = 'commit'"
        acks = (
            f"select acks.* from ({acks}) acks semi join ({commits}) using (topic, subscription, transaction)"
        )
    has_indexes = "batches" in layout or layout in ("default fleet", "mixed kinds")
    has_sets = "ack sets" in layout or layout == "mixed kinds"
    whole = " and ".join(["true", *["batch_index is null"] * has_indexes, *["ack_set is null"] * has_sets])
    done = [f"select {_KEY} from acks where {whole}"]
    steps = [f"acks as ({acks})"]
    if has_indexes:
        steps.append(
            f"indexes as (select {_KEY}, batch_index >> 6 as place, "
            f"bit_or({_BIT.format('batch_index')}) as bits, max(batch_size) as size from acks "
            "where batch_index is not null group by all)"
        )
        steps.append(
            f"batches as (select {_KEY}, sum(bit_count(bits)) as acked, max(size) as size "
            "from indexes group by all)"
        )
        done.append(f"select {_KEY} from batches where acked >= size")
    if has_sets:
        steps.append(
            f"words as (select {_KEY}, place, bit_and(word) as word from (select {_KEY}, "
            "unnest(ack_set) as word, unnest(range(len(ack_set))) as place "
            "from acks where ack_set is not null) group by all)"
        )
        steps.append(f"sets as (select {_KEY}, sum(bit_count(word)) as left_over from words group by all)")
        done.append(f"select {_KEY} from sets where left_over = 0")
    partly = [
        *["(select sum(acked) from batches where acked < size)"] * has_indexes,
        *["(select sum(left_over) from sets)"] * has_sets,
    ]
    if layout == OPEN:
        steps.append(
            "opened as (select topic, subscription, "
            "list(struct_pack(ledger_id, entry_id, place, bits)) as parts from indexes "
            f"semi join (select {_KEY} from batches where acked < size) using ({_KEY}) group by all)"
        )
        partly.append(
            "(select any_value(parts) from opened where opened.topic = found.topic "
            "and opened.subscription = found.subscription)"
        )
    steps.append(
        "found as (select topic, subscription, ledger_id, entry_id >> 6 as place, "
        f"bit_or({_BIT.format('entry_id')}) as bits from ({' union all '.join(done)}) group by all)"
    )
    columns = ", ".join(["topic", "subscription", "sum(bit_count(bits))", *partly])
    return f"with {', '.join(steps)} select {columns} from found group by topic, subscription"


def run(place: str, layout: str, threads: int) -> int:
    """Run the query, and return the number of subscriptions in its answer."""
    import duckdb

    connection = duckdb.connect(config={"threads": threads})
    connection.execute("set enable_progress_bar = false")
    if layout == OPEN:
        return len(connection.sql(query(place, layout)).to_arrow_table())
    return len(connection.execute(query(place, layout)).fetchall())


if __name__ == "__main__":
    print(query(*sys.argv[1:]))
