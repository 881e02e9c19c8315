"""`ackwell record` as a process: it says where it listens, records, and ends with what it wrote."""

from __future__ import annotations

import subprocess
import sys
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
