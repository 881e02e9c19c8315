"""Print the table of apache/pulsar#23611 with measured sizes: `python -m benches.bars.delayed_model`.

The author's model gives the bytes per message from M, the number of messages in a bucket: 2 up to 4,096 (an
array), 8192 / M below 50,000, the size of a ledger (a bit set), and 0.163 from there on. The model does not
include run containers.
"""

from __future__ import annotations

import numpy as np
from rich.console import Console
from rich.table import Table

from ackwell import TimeBuckets, TimeWheel

MESSAGES = 10_000_000
ENTRIES_PER_LEDGER = 50_000
MIB = 1 << 20
# The author's rows, then both sides of the model's two steps.
ROWS = ((1, 10), (4, 10), (8, 10), (8, 15), (3, 10), (5, 10), (6, 13), (7, 13))


def modelled(per_bucket: int) -> float:
    """Return the bytes per message by the author's model, for a number of messages in a bucket."""
    if per_bucket <= 4096:
        return 2
    return 8192 / per_bucket if per_bucket < ENTRIES_PER_LEDGER else 0.163


def main() -> None:
    """Fill the indexes with the messages of every row, and print the table of their sizes."""
    table = Table(title="10 million messages, 50,000 a ledger, x a ms, y bits cut off; MiB")
    for heading in ("x, y", "M", "heap", "model", "TimeBuckets", "TimeWheel(2**y)", "TimeWheel(1)"):
        table.add_column(heading, justify="right")
    number = np.arange(MESSAGES)
    ledgers, entries = 10_000 + number // ENTRIES_PER_LEDGER, number % ENTRIES_PER_LEDGER
    for per_ms, bits in ROWS:
        times = 1_700_000_000_001 + number // per_ms
        sizes = []
        for index in (TimeBuckets(bits), TimeWheel(1 << bits), TimeWheel(1)):
            index.add_many(times, ledgers, entries)
            sizes.append(f"{index.nbytes / MIB:.4f}")
        per_bucket = per_ms << bits
        model = f"{MESSAGES * modelled(per_bucket) / MIB:.2f}"
        heap = f"{MESSAGES * 24 / MIB:.0f}"
        table.add_row(f"{per_ms}, {bits}", f"{per_bucket:,}", heap, model, *sizes)
    Console().print(table)


if __name__ == "__main__":
    main()
