"""`LongMap` compared with itself: on keys that are hard to hash, and after a million changes."""

from __future__ import annotations

from benches.bars.rows import AgainstOurs, Row
from benches.bars.sides import ours, read_operations
from benches.bars.workloads import section

KEYS = list(section("long_map"))
WORKLOADS = [*KEYS, "cycles"]
SIDES = [ours("long_map")]
read = read_operations

USED = "after 10^6 cycles"
# "The same speed": medians of one run still differ by this much.
NOISE = 1.1
# A run that once passed the array's end keeps its slots: a few of 57,000.
SPILL = 1.001

BARS: list[Row] = [
    *(
        AgainstOurs(f"{operation}, {keys}", keys, operation, "random", 3)
        for keys in KEYS
        if keys != "random"
        for operation in ("get", "miss", "remove and insert")
    ),
    AgainstOurs(f"remove and insert another, {USED}", USED, "remove and insert another", "fresh", NOISE),
    AgainstOurs(f"bytes an entry, {USED}", USED, "bytes", "fresh", SPILL),
]
