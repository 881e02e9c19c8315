"""The audit file, with one JSON line for each change. The line is on the disk before the change is sent."""

from __future__ import annotations

import json
import os
from pathlib import Path

from ackwell.broker.dates import clock_ms
from ackwell.object_paths import local_path
from ackwell.regular_files import append_to


class AuditFile:
    """The audit file of a `Connection`. The connection calls it before each change."""

    def __init__(self, path: str | Path) -> None:
        self._path = local_path(path)

    def __call__(
        self, what: str, topic: str, subscription: str, *, positions: int = 0, digest: str = ""
    ) -> None:
        """Append a line for a change, and flush the line to the disk."""
        line = {"timeMs": clock_ms(), "what": what, "topic": topic, "subscription": subscription}
        if positions:
            line |= {"positions": positions, "sha256": digest}
        with append_to(self._path) as sink:
            if sink.seek(0, os.SEEK_END):
                sink.seek(-1, os.SEEK_END)
                if sink.read(1) != b"\n":
                    # The last line is torn, because the disk was full or the process was killed. End it.
                    sink.write(b"\n")
            sink.write(json.dumps(line).encode() + b"\n")
            sink.flush()
            os.fsync(sink.fileno())
