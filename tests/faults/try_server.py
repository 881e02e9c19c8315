"""Serve jobs to worker processes on a Unix socket: `python -m tests.faults.try_server FOLDER TYPE JOBS`.

A worker gets up to `PREFETCH` jobs in advance, and starts one only after `start`, which is sent after the
state that has the job in hand is saved. Messages are lines of JSON.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import socket
import sys
import time
from pathlib import Path
from typing import Any

from ackwell import Ledgers
from ackwell.store import SqliteStore
from ackwell.subscription import AutoSplit, Subscription, SubscriptionSettings, SubscriptionType

PREFETCH = 100
TRIES = 3
KEYS = 20
LEDGER = 1


def log(folder: Path, *words: object) -> None:
    """Append one line, which no other process can interrupt."""
    with (folder / "log.txt").open("ab", buffering=0) as file:
        file.write((" ".join(map(str, words)) + "\n").encode())


class Server:
    """The subscription and the connected workers."""

    def __init__(self, folder: Path, kind: str, jobs: int) -> None:
        self.folder = folder
        self.store = SqliteStore(folder / "state.db", "jobs")
        selector = AutoSplit() if kind == "Key_Shared" else None
        settings = SubscriptionSettings(max_redeliver_count=TRIES - 1, round_robin_batch_size=PREFETCH)
        self.subscription = Subscription.load(
            SubscriptionType(kind), self.store, Ledgers({LEDGER: jobs}), settings=settings, selector=selector
        )
        self.workers: dict[str, socket.socket] = {}
        self.started: dict[str, tuple[int, int]] = {}
        self.selector = selectors.DefaultSelector()
        log(folder, "loaded", self.subscription.cursor.backlog_entries)

    def run(self, path: str) -> None:
        """Serve until all jobs are done or dead letters."""
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(path)
        listening.listen()
        self.selector.register(listening, selectors.EVENT_READ)
        while self.subscription.cursor.backlog_entries:
            for key, _ in self.selector.select(1):
                if key.fileobj is listening:
                    self.accept(listening)
                else:
                    self.receive(key.data, key.fileobj)  # type: ignore[arg-type]
            self.turn()
        log(self.folder, "empty")

    def accept(self, listening: socket.socket) -> None:
        """Add a worker, which sends its name first."""
        connection, _ = listening.accept()
        name = connection.makefile("r").readline().strip()
        if not name:
            connection.close()
            return
        self.workers[name] = connection
        self.subscription.add_consumer(name, concurrency=1)
        self.subscription.flow(name, PREFETCH)
        self.selector.register(connection, selectors.EVENT_READ, name)

    def receive(self, name: str, connection: socket.socket) -> None:
        """Apply the report of a worker; remove the worker if its process has ended."""
        try:
            data = connection.recv(1 << 16)
        except ConnectionError:
            data = b""
        for word, job in map(str.split, data.decode().splitlines()):
            if word == "done":
                self.subscription.ack(name, LEDGER, int(job))
            else:
                later = self.subscription.later_of_key(name, LEDGER, int(job))
                self.subscription.redeliver(name, [(LEDGER, int(job))])
                self.subscription.redeliver(name, later, counted=False)
                self.subscription.flow(name, len(later))
            self.subscription.flow(name, 1)
        if not data:
            self.selector.unregister(connection)
            connection.close()
            del self.workers[name]
            self.started.pop(name, None)
            self.subscription.remove_consumer(name)

    def turn(self) -> None:
        """Dispatch, save, and then hand out."""
        subscription, now_ms = self.subscription, time.time_ns() // 1_000_000
        jobs: list[tuple[str, int]] = []
        for position in subscription.next_reads(2 * PREFETCH, now_ms):
            hashed = subscription.sticky_key_hash(f"key {position.entry_id % KEYS}")
            outcome = subscription.dispatch(position, now_ms=now_ms, sticky_key_hash=hashed)
            if isinstance(outcome.consumer, str):
                jobs.append((outcome.consumer, position.entry_id))
        for position in subscription.dead_letters:
            log(self.folder, "dead", position.entry_id, subscription.redelivery_count(*position))
            subscription.ack(None, *position)
        subscription.save(self.store)
        for worker, job in jobs:
            self.send(worker, prefetched=job)
        for worker in [*self.workers]:
            for position in subscription.in_hand(worker):
                start = position.entry_id, subscription.redelivery_count(*position) + 1
                if self.started.get(worker) != start:
                    self.started[worker] = start
                    self.send(worker, start=start)

    def send(self, worker: str, **message: Any) -> None:
        """Send a message; the end of a process is found when its connection is read."""
        with contextlib.suppress(ConnectionError):
            self.workers[worker].sendall(json.dumps(message).encode() + b"\n")


def main() -> None:
    """Serve a folder."""
    folder, kind, jobs = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    path = folder / "socket"
    path.unlink(missing_ok=True)
    os.chdir(folder)
    Server(folder, kind, jobs).run("socket")


if __name__ == "__main__":
    main()
