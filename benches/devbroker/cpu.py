"""Measure the CPU time, memory and speed of a broker: `python -m benches.devbroker.cpu`.

Messages are published, dispatched and acknowledged. The broker is a separate process. The system reports its
CPU time and its peak memory. The client is the official one. `--beside PID=URL` measures another process of
this machine in the same run, such as a real broker, or `ackwell record` in front of a broker.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

MESSAGES = 20_000
PAYLOAD = b"x" * 100


class Case(NamedTuple):
    """The options of one measurement for the producer and the consumer."""

    name: str
    batch: int
    key_shared: bool = False
    one_at_a_time: bool = False


CASES = (
    Case("one by one", 1),
    Case("batches of 100", 100),
    Case("Key_Shared", 1, key_shared=True),
    Case("one message in flight", 1, one_at_a_time=True),
)


def cpu_seconds(pid: int) -> float:
    """Return the CPU time that all threads of a process have used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def most_mb(pid: int) -> float:
    """Return the peak memory of a process in MB."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024 / 1e6


@contextmanager
def dev_broker() -> Iterator[tuple[int, str]]:
    """Run a dev broker in a process during a `with` block; yield the process id and the address."""
    command = [sys.executable, "-m", "ackwell", "dev-broker", "--port", "0", "--admin-port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().split()[1]
        try:
            yield process.pid, url
        finally:
            process.terminate()


def measure(pid: int, url: str, case: Case, messages: int) -> tuple[float, float]:
    """Return the microseconds of CPU time of the broker per message, and the messages per second."""
    import pulsar

    logger = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    client = pulsar.Client(url, logger=logger)
    topic = f"bench-{time.time_ns()}"
    kind = pulsar.ConsumerType.KeyShared if case.key_shared else pulsar.ConsumerType.Shared
    consumer = client.subscribe(topic, "sub", consumer_type=kind)
    producer = client.create_producer(
        topic,
        batching_enabled=case.batch > 1,
        batching_max_messages=max(case.batch, 2),
        batching_max_publish_delay_ms=100,
        block_if_queue_full=True,
        max_pending_messages=1000,
    )
    run(producer, consumer, case, min(messages, 2_000))
    time.sleep(0.2)
    before, began = cpu_seconds(pid), time.perf_counter()
    run(producer, consumer, case, messages)
    took = time.perf_counter() - began
    time.sleep(0.2)
    cpu = cpu_seconds(pid) - before
    client.close()
    return 1e6 * cpu / messages, messages / took


def run(producer: Any, consumer: Any, case: Case, messages: int) -> None:
    """Send messages and acknowledge every one."""
    if case.one_at_a_time:
        for _ in range(messages):
            producer.send(PAYLOAD)
            consumer.acknowledge(consumer.receive())
        return
    received = 0
    for number in range(messages):
        producer.send_async(PAYLOAD, None, partition_key=f"k{number % 100}" if case.key_shared else None)
        if number % 1000 == 999:
            producer.flush()
            while received <= number:
                consumer.acknowledge(consumer.receive())
                received += 1
    producer.flush()
    while received < messages:
        consumer.acknowledge(consumer.receive())
        received += 1


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=MESSAGES)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--beside", action="append", default=[], metavar="PID=URL")
    options = parser.parse_args()
    beside = [each.partition("=") for each in options.beside]
    with dev_broker() as ours:
        brokers = {"dev broker": ours, **{url: (int(pid), url) for pid, _, url in beside}}
        for case in CASES:
            messages = options.messages // 10 if case.one_at_a_time else options.messages
            for name, (pid, url) in brokers.items():
                rounds = [measure(pid, url, case, messages) for _ in range(options.rounds)]
                cpu, rate = (statistics.median(column) for column in zip(*rounds, strict=True))
                print(
                    f"{case.name:22} {name:40} {cpu:7.1f} µs CPU a message {rate:9,.0f} messages/s"
                    f" {most_mb(pid):7,.0f} MB",
                    flush=True,
                )


if __name__ == "__main__":
    main()
