"""The Java client's checks on the dev broker, if `make lab-test-pulsar` has built Pulsar's jars."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from ackwell.devbroker import Broker
from tests.pulsar import kit

PROGRAMS = Path(__file__).parent / "java"
HOME = Path(os.environ.get("ACKWELL_PULSAR_HOME", Path.home() / ".cache" / "ackwell-pulsar"))


@pytest.fixture
def classpath() -> str:
    found = sorted(HOME.glob("build-4.2*/classpath"))
    if shutil.which("java") is None or not found:
        pytest.skip("needs Java, and the kit of Pulsar 4.2 that make lab-test-pulsar builds")
    return found[-1].read_text(encoding="utf-8").strip()


def run(classpath: str, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = ["java", "-cp", classpath, str(PROGRAMS / program), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)


@pytest.mark.pulsar
def test_the_java_client_finds_a_broker_like_any_other(classpath: str) -> None:
    with Broker() as broker:
        done = run(classpath, "Check.java", broker.url)
        assert done.stdout.count("ok     ") == 8, done.stdout + done.stderr
        broker.validate()


@pytest.mark.pulsar
def test_the_java_client_notes_the_same_for_a_real_broker_and_the_dev_broker(
    classpath: str, tmp_path: Path
) -> None:
    with Broker() as ours:
        notes = notes_of(run(classpath, "Notes.java", ours.url, ours.admin_url))
        ours.validate()
    with kit.running_broker(tmp_path, transactionCoordinatorEnabled="true") as real:
        admin_url = f"http://127.0.0.1:{real.ports.admin}"
        theirs = notes_of(run(classpath, "Notes.java", real.service_url, admin_url))
    assert len(theirs) > 60
    assert notes == theirs


def notes_of(done: subprocess.CompletedProcess[str]) -> list[str]:
    """Return the notes of the program without the client's log lines."""
    assert done.returncode == 0, done.stdout + done.stderr
    return [line for line in done.stdout.splitlines() if line.startswith("> ")]
