"""Try the queue: python examples/queue/worker.py FOLDER JOBS. Kill it at any time and start it again."""

from __future__ import annotations

import asyncio
import os
import random
import sys
from pathlib import Path

from jobs import JobQueue


async def work(queue: JobQueue, name: str, done: Path) -> None:
    """Do jobs. Each writes a line to `done.txt`; every tenth fails."""
    async for job in queue.jobs(name):
        await asyncio.sleep(0)
        if random.random() < 0.1 and job.tries < 3:
            job.retry()
            continue
        with done.open("ab") as file:
            file.write(job.payload + b"\n")
        await job.done()
        print("done", job.payload.decode(), flush=True)


async def main(folder: Path, jobs: int) -> None:
    """Put new jobs, and work until all jobs are done."""
    async with JobQueue(folder, retry_seconds=0.01, segment_bytes=4096) as queue:
        workers = [asyncio.create_task(work(queue, f"worker {n}", folder / "done.txt")) for n in range(4)]
        for number in range(jobs):
            job = f"{os.getpid()}-{number}"
            await queue.put(job.encode(), key=f"key {number % 10}")
            print("put", job, flush=True)
        while queue.subscription.cursor.backlog_entries:
            await asyncio.sleep(0.05)
        for worker in workers:
            worker.cancel()
    print("all done")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
