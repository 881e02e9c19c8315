"""Work for `try_server`: `python try_worker.py FOLDER NAME POISON,… FLAKY,…`. Uses the standard library only.

A poison job kills its process. A flaky job fails at its first try.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
from pathlib import Path


def log(*words: object) -> None:
    """Append one line, which no other process can interrupt."""
    with Path("log.txt").open("ab", buffering=0) as file:
        file.write((" ".join(map(str, words)) + "\n").encode())


def work(connection: socket.socket, poison: set[int], flaky: set[int]) -> None:
    """Do each job that the server starts, until the connection ends."""
    prefetched: set[int] = set()
    for line in connection.makefile("r"):
        if not line.endswith("\n"):
            return
        message = json.loads(line)
        if "prefetched" in message:
            prefetched.add(message["prefetched"])
            continue
        job, number = message["start"]
        assert job in prefetched, f"job {job} was started, and not delivered"
        prefetched.discard(job)
        log("start", job, number, len(prefetched))
        if job in poison:
            os.kill(os.getpid(), signal.SIGKILL)
        word = "failed" if job in flaky and number == 1 else "done"
        log(word, job, number)
        connection.sendall(f"{word} {job}\n".encode())


def main() -> None:
    """Connect again whenever the server has been killed."""
    folder, name, poison, flaky = sys.argv[1:]
    os.chdir(folder)
    jobs = [{int(job) for job in each.split(",") if job} for each in (poison, flaky)]
    connected = 0
    while not Path("stop").exists():
        with socket.socket(socket.AF_UNIX) as connection:
            try:
                connection.connect("socket")
                connected += 1
                connection.sendall(f"{name}.{connected}\n".encode())
                work(connection, *jobs)
            except OSError:
                time.sleep(0.01)


if __name__ == "__main__":
    main()
