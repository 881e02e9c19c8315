"""`ackwell record` as a process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def recording(broker_url: str, folder: Path, *options: str) -> Iterator[str]:
    """Record the traffic to a broker during a `with` block; yield the address for clients."""
    command = [sys.executable, "-m", "ackwell", "record", "--broker", broker_url]
    command += ["--listen", "127.0.0.1:0", "-o", str(folder), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().split()[1]
        finally:
            process.terminate()
            process.wait()
