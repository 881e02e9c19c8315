"""A durable job queue in one folder, shared by the workers of one process.

    async with JobQueue(Path("queue")) as queue:
        await queue.put(b"an order", key="customer 7", delay_seconds=60)
        async for job in queue.jobs("worker 1"):
            await job.done()            # returns when it is durable; or job.retry(), job.extend()

Jobs of one key are done in order, one at a time, and a key stays with its worker until that worker ends. With
`ordered=False` any free worker gets any job. A job that is neither done nor returned within `lease_seconds`
is redelivered; after `tries` it is a dead letter. A try counts also if the worker or its process ends with
the job, because a job is handed out only after the state that has it in hand is saved. When `put` and `done`
return, their effect survives `kill -9`. A second process that opens the folder takes it over: calls of the
first process then raise `FencedError`.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, TypeVar

from segments import Record, Segments

from ackwell import DelayedDeliveryTracker, Ledgers, Position
from ackwell.store import SqliteStore
from ackwell.subscription import RedeliveryBackoff, Subscription, SubscriptionSettings

T = TypeVar("T")


@dataclass
class Job:
    """A message that is delivered to a worker."""

    queue: JobQueue = field(repr=False)
    worker: str
    position: Position
    payload: bytes
    key: str
    tries: int

    async def done(self) -> None:
        """Acknowledge the job; return when the acknowledgment is durable."""
        self.queue.subscription.ack(self.worker, self.position)
        await self.queue.durable()

    def retry(self) -> None:
        """Return the job. It is redelivered after a back-off; later jobs of its key wait for it."""
        self.queue.subscription.nack(self.worker, self.position, now_ms=now_ms())

    def extend(self) -> None:
        """Restart the lease of a long job."""
        self.queue.subscription.extend(self.worker, [self.position], now_ms=now_ms())


class JobQueue:
    """The jobs in a folder. `tries` is the number of deliveries before a job is a dead letter."""

    def __init__(
        self, folder: Path, *, lease_seconds: float = 30, retry_seconds: float = 1, tries: int = 5,
        ordered: bool = True, segment_bytes: int = 16 << 20, retained: int = 0,
    ) -> None:  # fmt: skip
        folder.mkdir(parents=True, exist_ok=True)
        self.store = SqliteStore(folder / "state.db", "jobs")
        # Take over the folder first, so that no other process appends to a segment while it is read.
        self.store.own()
        self.segments = Segments(folder / "jobs", segment_bytes)
        self.dead = Segments(folder / "dead", segment_bytes)
        self.retained = retained
        self.ledgers = Ledgers(self.segments.entries, trimmed_before=min(self.segments.offsets))
        backoff = RedeliveryBackoff(int(retry_seconds * 1000), int(retry_seconds * 60_000))
        settings = SubscriptionSettings(
            nack_backoff=backoff, ack_timeout_ms=int(lease_seconds * 1000), ack_timeout_tick_ms=100,
            max_redeliver_count=tries - 1,
        )  # fmt: skip
        self.subscription = Subscription.load(
            "Key_Shared" if ordered else "Shared", self.store, self.ledgers, settings=settings,
            delayed=DelayedDeliveryTracker(strict=True),
        )  # fmt: skip
        self.waiting: dict[str, asyncio.Queue[Job]] = {}
        self.written: asyncio.Future[None] | None = None
        self.changed = asyncio.Event()

    async def put(self, payload: bytes, *, key: str = "", delay_seconds: float = 0) -> Position:
        """Add a job; return its position when it is durable."""
        deliver_at_ms = now_ms() + int(delay_seconds * 1000) if delay_seconds else 0
        ledger_id, entry_id = self.segments.append(Record(payload, key, deliver_at_ms))
        await self.durable()
        return Position(ledger_id, entry_id)

    async def jobs(self, worker: str) -> AsyncIterator[Job]:
        """Yield the jobs of a worker, one at a time. If it ends with a job, that counts as a try."""
        self.waiting[worker] = asyncio.Queue()
        self.subscription.add_consumer(worker, concurrency=1)
        try:
            while True:
                self.subscription.flow(worker, 1)
                self.changed.set()
                yield await self._or_end(self.waiting[worker].get())
        finally:
            unseen = self.waiting.pop(worker)
            while not unseen.empty():
                self.subscription.redeliver(worker, [unseen.get_nowait().position], counted=False)
            self.subscription.remove_consumer(worker)
            self.changed.set()

    async def durable(self) -> None:
        """Return when all changes so far are on disk. Many callers share one write."""
        if self.written is None:
            self.written = asyncio.get_running_loop().create_future()
        self.changed.set()
        await self._or_end(asyncio.shield(self.written))

    async def __aenter__(self) -> Self:
        self.running = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        self.running.cancel()
        await asyncio.wait([self.running])
        if not self.running.cancelled() and self.running.exception() is None:
            self._write()
        self.segments.close()
        self.dead.close()
        self.store.close()

    async def _or_end(self, wanted: asyncio.Future[T] | Coroutine[Any, Any, T]) -> T:
        """Wait for a result, or raise the error that ended the queue."""
        task = asyncio.ensure_future(wanted)
        await asyncio.wait([task, self.running], return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            task.cancel()
            self.running.result()
        return await task

    async def _run(self) -> None:
        while True:
            self._write()
            wakeup_ms = self.subscription.next_wakeup_ms()
            seconds = None if wakeup_ms is None else max(wakeup_ms - now_ms(), 0) / 1000
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self.changed.wait()
            self.changed.clear()

    def _write(self) -> None:
        """Write new jobs, dispatch, save once; then hand out the jobs and wake the callers of `durable`."""
        written, self.written = self.written, None
        if written is not None:
            self.segments.sync()
            # Check after the jobs are on disk. A process that took over before may not have read them.
            self.store.own()
            for ledger_id, entries in self.segments.entries.items():
                self.ledgers.grow(ledger_id, entries)
        jobs = self._dispatch()
        buried = self._bury()
        if written is not None or jobs or buried:
            self.subscription.save(self.store)
            self._trim()
        if written is not None:
            written.set_result(None)
        for job in jobs:
            self.waiting[job.worker].put_nowait(job)

    def _bury(self) -> bool:
        """Write the jobs that failed too often to the dead letters, and acknowledge them."""
        letters = list(self.subscription.dead_letters)
        for position in letters:
            self.dead.append(self.segments.read(*position))
        if letters:
            self.dead.sync()
            for position in letters:
                self.subscription.ack(None, position)
        return bool(letters)

    def _trim(self) -> None:
        """Delete the segments whose jobs are all done, except the newest `retained` ones."""
        number = self.subscription.durable_mark_delete_position.ledger_id - self.retained
        if number > min(self.segments.offsets):
            self.segments.trim_before(number)
            self.ledgers.trim_before(number)

    def _dispatch(self) -> list[Job]:
        """Choose the worker of each job; the jobs are handed out after the save."""
        jobs, now = [], now_ms()
        positions = self.subscription.next_reads(100, now)
        for position in positions:
            record = self.segments.read(*position)
            # A job without a key gets a unique one.
            name, sequence_id = str(position.ledger_id), position.entry_id
            key_hash = self.subscription.sticky_key_hash(
                record.key or None, producer_name=name, sequence_id=sequence_id
            )
            worker = self.subscription.dispatch(
                position, now_ms=now, sticky_key_hash=key_hash, deliver_at_ms=record.deliver_at_ms
            ).consumer
            if isinstance(worker, str):
                tries = self.subscription.redelivery_count(position) + 1
                jobs.append(Job(self, worker, position, record.payload, record.key, tries))
        if positions:
            self.changed.set()
        return jobs


def now_ms() -> int:
    """Return the wall-clock time in milliseconds: the only clock that continues after a restart."""
    return time.time_ns() // 1_000_000
