"""Serve the queue to other processes: python examples/queue/server.py FOLDER.

This process owns the folder. It prints its port; a connection speaks lines of JSON. A producer sends
`{"put": "text", "key": "k"}`, which is answered by `"ok"` when the job is durable. A worker sends `"work"`,
gets one job at a time, and answers each with `"done"` or `"retry"`. A worker that ends with a job has used a
try of it, so a job that kills its workers becomes a dead letter.
"""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio import FIRST_COMPLETED, StreamReader, StreamWriter, ensure_future
from contextlib import aclosing, suppress
from itertools import count
from pathlib import Path
from typing import Any

from jobs import JobQueue


def encode(value: Any) -> bytes:
    """Return a line."""
    return json.dumps(value).encode() + b"\n"


class Server:
    """Each connection is a producer or one worker."""

    def __init__(self, queue: JobQueue) -> None:
        self.queue = queue
        self.numbers = count(1)

    async def connected(self, reader: StreamReader, writer: StreamWriter) -> None:
        """Serve one connection until its process ends."""
        with suppress(ConnectionError):
            while line := await reader.readline():
                request = json.loads(line)
                if request == "work":
                    await self.work(f"worker {next(self.numbers)}", reader, writer)
                    break
                await self.queue.put(request["put"].encode(), key=request.get("key", ""))
                writer.write(encode("ok"))
                await writer.drain()
        writer.close()

    async def work(self, name: str, reader: StreamReader, writer: StreamWriter) -> None:
        """Hand out jobs until the connection ends, also while no job is there."""
        async with aclosing(self.queue.jobs(name)) as jobs:
            while True:
                answer, next_job = ensure_future(reader.readline()), ensure_future(anext(jobs))
                await asyncio.wait([answer, next_job], return_when=FIRST_COMPLETED)
                if not next_job.done():
                    next_job.cancel()
                    await asyncio.wait([next_job])
                    return
                job = next_job.result()
                writer.write(encode({"payload": job.payload.decode(), "key": job.key, "tries": job.tries}))
                await writer.drain()
                match await answer:
                    case b'"done"\n':
                        await job.done()
                    case b'"retry"\n':
                        job.retry()
                    case _:
                        return


async def main(folder: Path) -> None:
    """Serve until the process is killed; the next process that opens the folder continues."""
    async with JobQueue(folder, retry_seconds=0.01) as queue:
        server = await asyncio.start_server(Server(queue).connected, "127.0.0.1", 0)
        print(server.sockets[0].getsockname()[1], flush=True)
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
