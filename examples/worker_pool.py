"""A pool of workers on an append-only log, which loses nothing when it is killed and restarted.

    python examples/worker_pool.py FOLDER MESSAGES [WORKERS]

The log is a text file with one message in each line. Workers finish in any order, so acknowledgments arrive
out of order. Some workers fail, and their messages are redelivered after a back-off. The acknowledgments are
saved to SQLite, next to the log. A worker writes a line to `done.txt` before its acknowledgment. Kill this
process at any time and start it again: every message is done at least once, and none is repeated after its
acknowledgment was saved. `docs/tutorial.md` builds this example step by step.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time
from pathlib import Path

from ackwell import Ledgers, Position
from ackwell.store import SqliteStore
from ackwell.subscription import RedeliveryBackoff, Subscription, SubscriptionSettings

LEDGER_ID = 1
SAVE_EVERY_SECONDS = 0.02
SETTINGS = SubscriptionSettings(nack_backoff=RedeliveryBackoff(min_ms=5, max_ms=50))


class Pool:
    """Workers, their log, and the subscription that they share."""

    def __init__(self, folder: Path, workers: int) -> None:
        self.messages = (folder / "log.txt").read_text().splitlines()
        self.done = (folder / "done.txt").open("a")
        self.acked = (folder / "acked.txt").open("a")
        self.store = SqliteStore(folder / "state.db")
        ledgers = Ledgers({LEDGER_ID: len(self.messages)})
        self.subscription = Subscription.load("Shared", self.store, ledgers, settings=SETTINGS)
        self.queues = {f"worker-{number}": asyncio.Queue[Position]() for number in range(workers)}
        self.unsaved: list[Position] = []
        for name in self.queues:
            self.subscription.add_consumer(name)
            self.subscription.flow(name, 10)

    async def run(self) -> None:
        """Work until everything is acknowledged and saved."""
        workers = [asyncio.create_task(self.work(name)) for name in self.queues]
        saved_at = time.monotonic()
        while self.subscription.cursor.backlog_entries:
            self.dispatch()
            await asyncio.sleep(0.001)
            if time.monotonic() - saved_at > SAVE_EVERY_SECONDS:
                self.save()
                saved_at = time.monotonic()
        self.save()
        for worker in workers:
            worker.cancel()

    def dispatch(self) -> None:
        """Read the next messages, and deliver each to the consumer that the subscription chooses."""
        now_ms = time.monotonic_ns() // 1_000_000
        for position in self.subscription.next_reads(100, now_ms):
            name = self.subscription.dispatch(position, now_ms=now_ms).consumer
            if isinstance(name, str):
                self.queues[name].put_nowait(position)

    async def work(self, name: str) -> None:
        """Do one message after the other. A few fail at the first try."""
        while True:
            position = await self.queues[name].get()
            await asyncio.sleep(random.random() / 500)
            if random.random() < 0.05:
                now_ms = time.monotonic_ns() // 1_000_000
                self.subscription.nack(name, position, now_ms=now_ms)
            else:
                self.done.write(self.messages[position.entry_id] + "\n")
                self.done.flush()
                self.subscription.ack(name, position)
                self.unsaved.append(position)
            self.subscription.flow(name, 1)

    def save(self) -> None:
        """Save the acknowledgments, then report them (here: as lines in `acked.txt`)."""
        acknowledged, self.unsaved = self.unsaved, []
        self.subscription.save(self.store)
        self.acked.writelines(self.messages[position.entry_id] + "\n" for position in acknowledged)
        self.acked.flush()


def main(folder: Path, messages: int, workers: int = 4) -> None:
    """Write the log if it does not exist, and process it."""
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "log.txt"
    if not log.exists():
        log.write_text("".join(f"message {number}\n" for number in range(messages)))
    pool = Pool(folder, workers)
    owed = pool.subscription.cursor.backlog_entries
    print(f"{len(pool.messages)} messages, {owed} not acknowledged yet", flush=True)
    asyncio.run(pool.run())
    print(f"all done; mark-delete position {pool.subscription.durable_mark_delete_position}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
