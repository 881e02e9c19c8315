"""The queue of `examples/queue` keeps the promises of its page, in one process."""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ackwell.errors import FencedError

QUEUE = Path(__file__).parents[2] / "examples" / "queue"


@pytest.fixture(autouse=True)
def modules() -> Iterator[None]:
    sys.path.insert(0, str(QUEUE))
    yield
    sys.path.remove(str(QUEUE))
    for name in ("jobs", "segments"):
        sys.modules.pop(name, None)


def queue_of(folder: Path, **options: Any) -> Any:
    jobs = importlib.import_module("jobs")
    return jobs.JobQueue(folder, retry_seconds=0, **options)


async def take(queue: Any, worker: str, count: int) -> list[Any]:
    """Return the next jobs, each done before the next."""
    taken = []
    async for job in queue.jobs(worker):
        taken.append(job)
        await job.done()
        if len(taken) == count:
            return taken
    raise AssertionError


def payloads(jobs: list[Any]) -> list[bytes]:
    return [job.payload for job in jobs]


def test_jobs_that_are_not_done_survive_a_restart(tmp_path: Path) -> None:
    async def first() -> None:
        async with queue_of(tmp_path) as queue:
            for number in range(4):
                await queue.put(b"%d" % number)
            assert payloads(await take(queue, "a", 2)) == [b"0", b"1"]

    async def second() -> None:
        async with queue_of(tmp_path) as queue:
            assert payloads(await take(queue, "b", 2)) == [b"2", b"3"]
            assert queue.subscription.cursor.backlog_entries == 0

    asyncio.run(first())
    asyncio.run(second())


def test_a_job_that_is_given_back_holds_back_its_key_and_no_other(tmp_path: Path) -> None:
    async def run() -> list[tuple[bytes, int]]:
        async with queue_of(tmp_path) as queue:
            for payload, key in ((b"a1", "a"), (b"a2", "a"), (b"b1", "b")):
                await queue.put(payload, key=key)
            seen = []
            async for job in queue.jobs("worker"):
                seen.append((job.payload, job.tries))
                if len(seen) == 1:
                    job.retry()
                else:
                    await job.done()
                if len(seen) == 4:
                    return seen
        raise AssertionError

    seen = asyncio.run(run())
    assert seen[0] == (b"a1", 1)
    assert [each for each in seen if each[0][:1] == b"a"] == [(b"a1", 1), (b"a1", 2), (b"a2", 1)]


@pytest.mark.slow
def test_a_delayed_job_comes_at_its_time_and_others_pass_it(tmp_path: Path) -> None:
    async def run() -> list[bytes]:
        async with queue_of(tmp_path) as queue:
            await queue.put(b"late", delay_seconds=2)
            await queue.put(b"now")
            return payloads(await take(queue, "a", 2))

    assert asyncio.run(run()) == [b"now", b"late"]


def test_a_job_tried_too_often_is_a_dead_letter_and_its_key_goes_on(tmp_path: Path) -> None:
    async def run() -> None:
        async with queue_of(tmp_path, tries=2) as queue:
            await queue.put(b"poison", key="a")
            await queue.put(b"next", key="a")
            tries = []
            async for job in queue.jobs("worker"):
                tries.append(job.payload)
                if job.payload == b"next":
                    await job.done()
                    break
                job.retry()
            assert tries == [b"poison", b"poison", b"next"]
            assert queue.dead.read(queue.dead.number, 0).payload == b"poison"
            assert queue.subscription.cursor.backlog_entries == 0

    asyncio.run(run())


@pytest.mark.slow
def test_a_lease_that_ends_gives_the_job_to_another_and_one_that_is_extended_does_not(tmp_path: Path) -> None:
    async def run() -> None:
        async with queue_of(tmp_path, lease_seconds=0.4, ordered=False) as queue:
            await queue.put(b"long")
            owner = queue.jobs("a")
            job = await anext(owner)
            for _ in range(4):
                await asyncio.sleep(0.15)
                job.extend()
            assert queue.subscription.holder(*job.position) == "a"
            # The worker hangs; after its lease another one gets the job.
            assert payloads(await take(queue, "b", 1)) == [b"long"]
            await owner.aclose()

    asyncio.run(run())


def test_who_opens_the_folder_takes_it_over_and_the_one_before_can_confirm_nothing(tmp_path: Path) -> None:
    async def run() -> None:
        async with queue_of(tmp_path) as old:
            await old.put(b"0")
            async with queue_of(tmp_path) as new:
                with pytest.raises(FencedError):
                    await old.put(b"lost, and never confirmed")
                with pytest.raises(FencedError):
                    await anext(old.jobs("a"))
                assert payloads(await take(new, "b", 1)) == [b"0"]
                assert new.subscription.cursor.backlog_entries == 0

    asyncio.run(run())


def test_segments_of_which_all_is_done_are_deleted(tmp_path: Path) -> None:
    async def run(retained: int) -> int:
        folder = tmp_path / str(retained)
        async with queue_of(folder, segment_bytes=200, retained=retained) as queue:
            for number in range(40):
                await queue.put(b"job %3d" % number)
            before = len(list((folder / "jobs").iterdir()))
            await take(queue, "a", 40)
            return before - len(list((folder / "jobs").iterdir()))

    assert asyncio.run(run(0)) >= 3
    assert asyncio.run(run(100)) == 0


def test_a_torn_last_record_is_left_out_and_damage_before_it_is_named(tmp_path: Path) -> None:
    segments = importlib.import_module("segments")
    make, record = segments.Segments, segments.Record
    first = make(tmp_path)
    for payload in (b"one", b"two"):
        first.append(record(payload, "", 0))
    first.sync()
    first.close()
    path = tmp_path / f"{1:012}.segment"
    whole = path.read_bytes()

    path.write_bytes(whole[:-1])
    torn = make(tmp_path)
    assert torn.entries[1] == 1
    torn.close()

    path.write_bytes(whole[:12] + b"x" + whole[13:])
    with pytest.raises(segments.DamagedSegmentError, match="at byte 0"):
        make(tmp_path)


@pytest.mark.parametrize("ordered", [True, False])
def test_a_job_that_ends_its_worker_is_a_dead_letter_after_its_tries(tmp_path: Path, ordered: bool) -> None:
    async def work(queue: Any, name: str, tried: list[tuple[bytes, int]]) -> None:
        async for job in queue.jobs(name):
            tried.append((job.payload, job.tries))
            if job.payload == b"poison":
                raise ArithmeticError
            await job.done()

    async def run() -> list[tuple[bytes, int]]:
        tried: list[tuple[bytes, int]] = []
        async with queue_of(tmp_path, tries=3, ordered=ordered) as queue:
            for payload in (b"before", b"poison", b"after"):
                await queue.put(payload, key="a")
            for number in range(3):
                with pytest.raises(ArithmeticError):
                    await work(queue, f"worker {number}", tried)
            last = asyncio.create_task(work(queue, "last", tried))
            while queue.subscription.cursor.backlog_entries:
                await asyncio.sleep(0.01)
            last.cancel()
            assert queue.dead.read(queue.dead.number, 0).payload == b"poison"
            return tried

    tried = asyncio.run(run())
    assert [each for each in tried if each[0] == b"poison"] == [(b"poison", n) for n in (1, 2, 3)]
    assert [each for each in tried if each[0] != b"poison"] == [(b"before", 1), (b"after", 1)]


DIES = """
import asyncio, os, signal, sys
from pathlib import Path
from jobs import JobQueue

async def main():
    async with JobQueue(Path(sys.argv[1]), tries=3) as queue:
        if not any(queue.segments.entries.values()):
            await queue.put(b"poison", key="a")
        async for job in queue.jobs("worker"):
            print(job.payload.decode(), job.tries, flush=True)
            os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


@pytest.mark.slow
def test_a_job_that_kills_its_process_is_a_dead_letter_after_its_tries(tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(QUEUE), os.environ.get("PYTHONPATH", "")]),
    }
    printed = ""
    for _ in range(3):
        command = [sys.executable, "-c", DIES, str(tmp_path)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == -signal.SIGKILL, done.stderr
        printed += done.stdout
    assert printed == "poison 1\npoison 2\npoison 3\n"

    async def buried() -> bytes:
        async with queue_of(tmp_path, tries=3) as queue:
            waiter = asyncio.create_task(take(queue, "worker", 1))
            while queue.subscription.cursor.backlog_entries:
                await asyncio.sleep(0.01)
            waiter.cancel()
            payload: bytes = queue.dead.read(queue.dead.number, 0).payload
            return payload

    assert asyncio.run(buried()) == b"poison"


WORKER = """
import json, os, socket, sys
connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
with connection, connection.makefile("rw") as lines:
    print('"work"', file=lines, flush=True)
    for line in lines:
        job = json.loads(line)
        first = job["tries"] == 1
        if first and job["payload"] == "kills":
            os._exit(1)
        answer = "retry" if first and job["payload"] == "fails" else "done"
        print(json.dumps(answer), file=lines, flush=True)
        print(job["payload"], flush=True)
"""


def test_workers_in_other_processes_share_the_queue_of_a_server(tmp_path: Path) -> None:
    """The second server continues, and a worker that dies with a job loses nothing."""
    sent = ["kills", "fails", *map(str, range(10))]

    @contextmanager
    def spawned(*command: object) -> Iterator[Any]:
        process = subprocess.Popen([sys.executable, *map(str, command)], stdout=subprocess.PIPE, text=True)
        with process:
            yield process
            process.kill()

    with spawned(QUEUE / "server.py", tmp_path) as server:
        port = int(server.stdout.readline())
        with socket.create_connection(("127.0.0.1", port)) as connection, connection.makefile("rw") as lines:
            for payload in sent:
                print(json.dumps({"put": payload, "key": payload}), file=lines, flush=True)
                assert lines.readline() == '"ok"\n'
    with spawned(QUEUE / "server.py", tmp_path) as server:
        port = int(server.stdout.readline())
        with spawned("-c", WORKER, port) as worker:
            assert worker.wait(timeout=60) == 1
        with spawned("-c", WORKER, port) as worker:
            done = [worker.stdout.readline().strip() for _ in [*sent, "fails again"]]
    assert sorted(done) == sorted([*sent, "fails"])
