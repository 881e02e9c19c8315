"""Compare acknowledgments of parts of batches with those of whole entries: calls, commands, saves and memory.

    python -m benches.partly_acked [--tree NAME=PATH …]

Measures the checkout, or several checkouts in turn, so that the load of the machine affects all of them. Each
number is the median of the rounds, in CPU time of the process.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import process_time_ns

ROUNDS = 5
PARTS = 200_000
CALLS = 20_000
COMMANDS = 15
WORD = (0b11_1110_1111,)
"""The ack set of ten messages, of which one is acknowledged."""


def timed(work: Callable[[], object], count: int) -> float:
    """Return the mean nanoseconds per operation; `work` does `count` operations."""
    start_ns = process_time_ns()
    work()
    return (process_time_ns() - start_ns) / count


def calls() -> dict[str, float]:
    """Measure the acknowledgments of a cursor and of a subscription."""
    import numpy as np

    from ackwell import Cursor, Ledgers, Subscription
    from ackwell.protocol.command_ack import CommandAck, MessageId
    from ackwell.subscription import SubscriptionSettings

    found: dict[str, float] = {}
    settings = SubscriptionSettings(max_unacked_per_consumer=0, max_unacked_per_subscription=0)

    def subscription(entries: int) -> Subscription:
        made = Subscription("Shared", Ledgers({3: 2 * PARTS}), settings=settings)
        made.add_consumer("a")
        made.flow("a", 100 * entries)
        ids = made.next_reads_many(entries + 1, now_ms=0)
        hashes, sizes = np.zeros(entries + 1, np.int64), np.full(entries + 1, 10)
        made.dispatch_many(*ids, now_ms=0, sticky_key_hashes=hashes, batch_sizes=sizes)
        assert len(made.pending("a")) == entries + 1
        return made

    def each(call: Callable[..., object], *rest: object) -> Callable[[], None]:
        def run() -> None:
            for entry_id in range(1, CALLS + 1):
                call(3, entry_id, *rest)

        return run

    def of_subscription(*rest: object) -> Callable[[], None]:
        made = subscription(CALLS)
        return each(lambda *args: made.ack("a", *args), *rest)

    cursor, whole = Cursor(Ledgers({3: 2 * PARTS})), Cursor(Ledgers({3: 2 * PARTS}))
    found["Cursor.ack_batch, ns"] = timed(each(cursor.ack_batch, WORD), CALLS)
    found["Cursor.ack, ns"] = timed(each(whole.ack), CALLS)
    found["Subscription.ack, part, ns"] = timed(of_subscription(WORD), CALLS)
    found["Subscription.ack, whole, ns"] = timed(of_subscription(), CALLS)

    rows = 1_000
    parts = [MessageId(3, entry_id, ack_set=WORD) for entry_id in range(1, rows + 1)]
    command = CommandAck(1, message_ids=tuple(parts)).encode()
    made = [subscription(rows) for _ in range(COMMANDS)]
    # The median, because the scheduler interrupts some commands, which doubles their time.
    found["Subscription.handle, a part of 1,000, ns"] = statistics.median(
        timed(partial(each.handle, "a", command), rows) for each in made
    )
    row_words = np.arange(rows + 1), np.full(rows, WORD[0])
    row_ids = np.full(rows, 3), np.arange(1, rows + 1)
    made = [subscription(rows) for _ in range(COMMANDS)]
    found["Subscription.ack_many, a part of 1,000, ns"] = statistics.median(
        timed(partial(each.ack_many, "a", *row_ids, row_words), rows) for each in made
    )
    columns = np.arange(PARTS + 1), np.full(PARTS, WORD[0])
    many = Cursor(Ledgers({3: 2 * PARTS}))
    ids = np.full(PARTS, 3), np.arange(1, PARTS + 1)
    try:
        found["Cursor.ack_many with ack sets, ns"] = timed(
            lambda: many.ack_many(*ids, ack_sets=columns), PARTS
        )
    except TypeError:
        found["Cursor.ack_many with ack sets, ns"] = float("nan")
    return found


def states() -> dict[str, float]:
    """Measure a cursor with 200,000 partly acknowledged entries: memory, the codec, saves and loads."""
    from ackwell import Cursor, Ledgers, PositionInfo
    from ackwell.cursor.cursor_state import CursorState
    from ackwell.store import MemoryStore

    found: dict[str, float] = {}
    ledgers = Ledgers({3: 2 * PARTS})
    cursor, store = Cursor(ledgers), MemoryStore()
    cursor.save(store)
    tracemalloc.start()
    for entry_id in range(1, 2 * PARTS, 2):
        cursor.ack_batch(3, entry_id, WORD)
    size = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    # Memory of the native engine is not traced.
    size += getattr(cursor.batch_deleted, "nbytes", 0)
    found["memory of an open part, bytes"] = size / PARTS
    infos: list[PositionInfo] = []
    found["Cursor.to_position_info, ns"] = timed(lambda: infos.append(cursor.to_position_info()), PARTS)
    found["Cursor.from_position_info, ns"] = timed(
        lambda: Cursor.from_position_info(infos[0], ledgers), PARTS
    )
    encoded: list[bytes] = []

    def encode(form: str) -> None:
        encoded.append(infos[0].encode(form))

    for form in ("compact", "pulsar-ranges"):
        encoded.clear()
        found[f"encode {form}, ns"] = timed(partial(encode, form), PARTS)
        found[f"decode {form}, ns"] = timed(lambda: PositionInfo.decode(encoded[0], max_bytes=1 << 30), PARTS)
    found["Cursor.save, full, ns"] = timed(lambda: cursor.save(store), PARTS)
    found["Cursor.load, ns"] = timed(lambda: Cursor.load(store, ledgers), PARTS)
    cursor.ack_batch(3, 1, (0b10_1110_1111,))
    found["Cursor.save, one change, µs"] = timed(lambda: cursor.save(store), 1_000)

    def as_json() -> None:
        json.dumps(CursorState.of(infos[0]).to_json())

    found["JSON of the open parts, ns"] = timed(as_json, PARTS)
    return found


def main() -> None:
    """Measure the checkouts in turn and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tree", action="append", default=[], help="NAME=PATH of a checkout")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(calls() | states()))
        return
    trees = dict(each.split("=", 1) for each in options.tree) or {"here": str(Path(__file__).parents[1])}
    rounds: dict[str, list[dict[str, float]]] = {name: [] for name in trees}
    for _ in range(ROUNDS):
        for name, tree in trees.items():
            paths = os.pathsep.join((f"{tree}/python", tree))
            command = [sys.executable, __file__, "--one"]
            done = subprocess.run(
                command, env=os.environ | {"PYTHONPATH": paths}, check=True, capture_output=True, text=True
            )
            rounds[name].append(json.loads(done.stdout))
    print(f"{'':45}" + "".join(f"{name:>12}" for name in trees))
    for row in rounds[next(iter(trees))][0]:
        cells = [statistics.median(each[row] for each in found) for found in rounds.values()]
        print(f"{row:45}" + "".join(f"{cell:12,.1f}" for cell in cells))


if __name__ == "__main__":
    main()
