"""Measure how long the dev broker takes to start: `python -m benches.devbroker.start`.

The steps are the import, which is compared with `import pulsar`, the call `Broker()`, and the first message
through the official client. The tests of the tutorial are measured together. The figures are medians of
several processes.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROUNDS = 3

IMPORT = """
import time
import {first}
middle, cpu = time.perf_counter(), time.process_time()
import {second}
print(1000 * (time.perf_counter() - middle))
print(1000 * (time.process_time() - cpu))
"""

START = """
import time
import pulsar
from ackwell.devbroker import Broker
logger = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
began = time.perf_counter()
with Broker() as broker:
    print(1000 * (time.perf_counter() - began))
    client = pulsar.Client(broker.url, logger=logger)
    consumer = client.subscribe("t", "s")
    client.create_producer("t").send(b"x")
    consumer.receive(5000)
    print(1000 * (time.perf_counter() - began))
    client.close()
"""


def numbers(script: str) -> list[float]:
    """Run a script in a new process; return the numbers that it prints."""
    with_bytecode = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        [sys.executable, "-c", script], env=with_bytecode, capture_output=True, text=True, check=True
    )
    return [float(line) for line in done.stdout.split()]


def tutorial_s() -> float:
    """Return the time that pytest reports for the tests of the tutorial."""
    import re

    text = (ROOT / "docs" / "test-your-consumer.md").read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        module = Path(folder, "test_tutorial.py")
        blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
        module.write_text("\n\n".join(blocks), encoding="utf-8")
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "--durations=0",
            "--durations-min=0.001",
            str(module),
        ]
        env = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        done = subprocess.run(
            [*command, "-p", "pytest_ackwell", "-p", "no:cacheprovider"],
            cwd=folder,
            env=env,
            capture_output=True,
            text=True,
            check=True,
        )
        return sum(
            float(seconds) for seconds in re.findall(r"^([\d.]+)s (?:call|setup|teardown)", done.stdout, re.M)
        )


def main() -> None:
    """Print the medians."""
    script = IMPORT.format(first="pulsar", second="ackwell.devbroker")
    numbers(script)
    imports = [numbers(script) for _ in range(ROUNDS)]
    imported, cpu = (statistics.median(column) for column in zip(*imports, strict=True))
    rows = [numbers(START) for _ in range(ROUNDS)]
    started, first = (statistics.median(column) for column in zip(*rows, strict=True))
    print(f"import over import pulsar     {imported:7.1f} ms, {cpu:.1f} ms of CPU")
    print(f"Broker() until it listens     {started:7.1f} ms")
    print(f"first message received        {first:7.1f} ms")
    print(f"the tutorial's tests together {tutorial_s():7.2f} s")


if __name__ == "__main__":
    main()
