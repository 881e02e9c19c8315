"""The Java client's checks on the dev broker, where `make test-pulsar` built the kit of Pulsar's jars."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from ackwell.devbroker import Broker

CHECK = Path(__file__).parent / "java" / "Check.java"
HOME = Path(os.environ.get("ACKWELL_PULSAR_HOME", Path.home() / ".cache" / "ackwell-pulsar"))


@pytest.mark.pulsar
def test_the_java_client_finds_a_broker_like_any_other() -> None:
    found = sorted(HOME.glob("build-4.2*/classpath"))
    if shutil.which("java") is None or not found:
        pytest.skip("needs Java, and the kit of Pulsar 4.2 that make test-pulsar builds")
    with Broker() as broker:
        command = ["java", "-cp", found[-1].read_text(encoding="utf-8").strip(), str(CHECK), broker.url]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
        assert done.stdout.count("ok     ") == 8, done.stdout + done.stderr
        broker.validate()
