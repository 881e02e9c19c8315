"""The payloads of a recording, in files next to its events. Readers of events skip these files.

A line is a JSON array: `[topic, ledger id, entry id, entry in base64]`. The entry is metadata and payload, as
published.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections import defaultdict
from pathlib import Path
from typing import Final

from ackwell.position import Position

PREFIX: Final = "_payloads-"
"""The prefix of each file name. Spark and ackwell skip files with a leading underscore."""


def payload_line(topic: str, position: tuple[int, int], data: bytes) -> str:
    r"""Return an entry as a line.

    >>> payload_line("t", (3, 5), b"data")
    '["t", 3, 5, "ZGF0YQ=="]\n'
    """
    return json.dumps([topic, *position, b64encode(data).decode()]) + "\n"


def read_payloads(folder: Path) -> dict[str, dict[Position, bytes]]:
    """Return the entries of a recording's folder, by topic and position. A torn last line is skipped."""
    found: dict[str, dict[Position, bytes]] = defaultdict(dict)
    for path in sorted(folder.rglob(f"{PREFIX}*.jsonl")):
        for line in path.read_bytes().split(b"\n"):
            try:
                topic, ledger_id, entry_id, data = json.loads(line)
                found[topic][Position(ledger_id, entry_id)] = b64decode(data, validate=True)
            except ValueError:
                continue
    return found
