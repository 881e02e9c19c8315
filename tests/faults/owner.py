"""A process that competes for a cursor: `python -m tests.faults.owner PATH FIRST COUNT`.

It acknowledges the entries FIRST, FIRST + 2, … and prints each after a save with it has returned. It
loads the cursor again if another owner took the store.
"""

from __future__ import annotations

import random
import sys

from ackwell import Cursor, FencedError, Ledgers, StoreError
from ackwell.store import SqliteStore

LEDGERS = Ledgers({3: 100_000})


def main() -> None:
    """Acknowledge and save until all is saved."""
    path, first, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    chance = random.Random(first)
    wanted = list(range(first, first + 2 * count, 2))
    fenced = 0
    while wanted:
        try:
            with SqliteStore(path, timeout_s=60) as store:
                cursor = Cursor.load(store, LEDGERS)
                for _ in range(chance.randint(1, 8)):
                    batch = wanted[: chance.randint(1, 3)]
                    for entry_id in batch:
                        cursor.ack(3, entry_id)
                    cursor.save(store)
                    for entry_id in batch:
                        print(entry_id, flush=True)
                    wanted = wanted[len(batch) :]
        except FencedError:
            fenced += 1
        except StoreError as error:
            if "locked" not in str(error):
                raise
    print(f"fenced {fenced}", flush=True)


if __name__ == "__main__":
    main()
