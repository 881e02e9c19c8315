"""The Go client's checks on the dev broker, if Go and the client's module are available."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from ackwell.devbroker import Broker

PROGRAM = Path(__file__).parent / "go"


@pytest.mark.pulsar
def test_the_go_client_finds_a_broker_like_any_other(tmp_path: Path) -> None:
    if shutil.which("go") is None:
        pytest.skip("needs Go")
    check = tmp_path / "check"
    built = subprocess.run(
        ["go", "build", "-o", check, "."], cwd=PROGRAM, capture_output=True, text=True, check=False
    )
    if built.returncode and "dial tcp" in built.stderr:
        pytest.skip(f"the Go client's module cannot be fetched: {built.stderr}")
    assert not built.returncode, built.stderr
    with Broker() as broker:
        done = subprocess.run([check, broker.url], capture_output=True, text=True, check=False)
        assert done.stdout.count("ok     ") == 9, done.stdout + done.stderr
        broker.validate()
