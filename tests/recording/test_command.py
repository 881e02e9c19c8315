"""`ackwell record` as a process: it prints its address, records, and ends with the number of events."""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from ackwell.devbroker import Broker
from ackwell.replay.files import read_events

pulsar = pytest.importorskip("pulsar")


@pytest.mark.slow
def test_the_command_records_until_it_is_interrupted(tmp_path: Path) -> None:
    with Broker() as broker:
        command = [sys.executable, "-m", "ackwell", "record", "--broker", broker.url]
        command += ["--listen", "127.0.0.1:0", "-o", str(tmp_path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            try:
                url = process.stdout.readline().split()[1]
                client = pulsar.Client(url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
                client.create_producer("orders").send(b"order 7")
                client.close()
            finally:
                process.terminate()
            rest = process.stdout.read()
    kinds = [str(event.kind) for event in read_events([tmp_path])]
    assert kinds == ["gap", "publish"]
    assert "2 events in" in rest


@pytest.mark.slow
@pytest.mark.parametrize("file_format", ["jsonl", "parquet"])
def test_a_recorder_that_is_killed_loses_no_event_that_was_written(tmp_path: Path, file_format: str) -> None:
    if file_format == "parquet":
        pytest.importorskip("pyarrow")
    with Broker() as broker:
        command = [sys.executable, "-m", "ackwell", "record", "--broker", broker.url, "--format", file_format]
        command += ["--listen", "127.0.0.1:0", "-o", str(tmp_path), "--events-per-file", "10"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            client = pulsar.Client(
                process.stdout.readline().split()[1], logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
            )
            producer = client.create_producer("orders")
            for _ in range(25):
                producer.send(b"order")
            # The last five events are lines of a file that is not full.
            last = tmp_path / "events-000003.jsonl"
            while not last.exists() or last.read_bytes().count(b"\n") < 6:
                time.sleep(0.05)
            process.kill()
            process.wait()
        # The client may have noticed already that its connection is gone.
        with suppress(pulsar.NotConnected):
            client.close()
    events = list(read_events([tmp_path]))
    assert [event.entry_id for event in events if event.kind == "publish"] == list(range(25))
    suffixes = sorted(path.suffix for path in tmp_path.iterdir())
    assert suffixes == [".jsonl", *[f".{file_format}"] * 2]
