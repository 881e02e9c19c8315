"""Pending acks: Pulsar 4.2.4 and 5.0.1, a port of the hash-map plan of #26024, Python's maps, and ackwell.

The classes of the peers take an uncontended read-write lock, which costs about 8 ns of each operation. The
rows compare them with ackwell's core without a lock. `get…Locked` in the record is the core in a mutex.
"""

from __future__ import annotations

from collections.abc import Iterator

from benches.bars import pending_acks_python
from benches.bars.rows import Against, AgainstBest, AtMost, Row
from benches.bars.sides import ours, peer, read_operations
from benches.bars.workloads import section

WORKLOADS = list(section("pending_acks"))
PEERS = ("v424", "port", "v501")
SHARED = [name for name in WORKLOADS if "x" in name]

SIDES = [
    ours("pending_acks"),
    *(peer(part, label, workloads=SHARED) for label in PEERS for part in ("Amem", "A")),
]
read = read_operations


def measure() -> Iterator[tuple[str, str, str, list[float]]]:
    """Measure in this process: ackwell's class and Python's own types."""
    return pending_acks_python.measure()


ONE = "1x50000"
MANY = "16384x1048576"

BARS: list[Row] = [
    AtMost("bytes an entry, 50,000 in 1 ledger", ONE, "bytes", 9, "B"),
    AtMost("… 16,384 ledgers × 64", MANY, "bytes", 13, "B"),
    AtMost("… equal values", "equal", "bytes", 1, "B"),
    AtMost("… hashes of 32 mixed bits", "hashed", "bytes", 9, "B"),
    AtMost("… 50,000 at a tenth of a dense window", "tenth", "bytes", 16, "B"),
    AtMost("… … hashes of 32 mixed bits", "tenth-hashed", "bytes", 16, "B"),
    AtMost("… 57,000 at random in 2^40", "scattered", "bytes", 24, "B"),
    Against("remove half of 50,000, ns", ONE, "removeAllUpTo", "v501", 1 / 20),
    *(
        AgainstBest(f"{name}, {workload}", workload, operation, factor)
        for workload in SHARED
        for name, operation, factor in (
            ("get in order", "getSeq", 1 / 2),
            ("get at random", "getRandom", 1 / 3 if workload == MANY else 1 / 2),
            ("contains in order", "containsSeq", 1 / 2),
            ("contains at random", "containsRandom", 1 / 2),
            ("add or replace", "addOrReplace", 2 / 3),
            ("update remaining", "updateRemaining", 2 / 3),
            ("remove + add in order", "removeAdd", 1 / 2),
            ("remove + add at random", "removeAddRandom", 1 / 2),
            ("populate", "populate", 2 / 3),
            ("for each", "forEachAll", 1),
        )
    ),
    *(
        Against(f"from Python, {order}: {name}", f"python {order}", name, "bare call", 1.5)
        for order in ("in order", "at random")
        for name in ("contains", "get_remaining", "add", "update_remaining", "remove + add")
    ),
    *(
        AtMost(f"from Python, batch of 10,000 {order}: {name}", f"python {order}", name, limit, "ns")
        for order, limit in (("in order", 8), ("at random", 18))
        for name in ("add_many", "contains_many", "get_many", "remove_many")
    ),
]
