"""The files with the payloads of a recording, next to its event files. Readers of events skip these files.

A line is a JSON array: `[topic, ledger id, entry id, entry in base64]`. An entry consists of the metadata and
payload as they were published.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from ackwell.errors import FrameError
from ackwell.json_values import json_value
from ackwell.position import Position
from ackwell.protocol.payload import read_payload
from ackwell.regular_files import read_regular

PREFIX: Final = "_payloads-"
"""The prefix of the names of payload files. Because of the underscore, readers of events skip these files."""


def payload_line(topic: str, position: tuple[int, int], data: bytes) -> str:
    r"""Return an entry as a line of a payload file.

    >>> payload_line("t", (3, 5), b"data")
    '["t", 3, 5, "ZGF0YQ=="]\n'
    """
    return json.dumps([topic, *position, b64encode(data).decode()]) + "\n"


class Payloads(NamedTuple):
    """The entries in payload files, and the lines that are not entries."""

    entries: dict[str, dict[Position, bytes]]
    damaged: list[str]
    """A text for each damaged line, with its file and line number. A torn last line is not listed, because a
    killed recorder may leave one."""


def read_payloads(folders: Iterable[Path]) -> Payloads:
    """Read the payload files in the folders of recordings.

    Subfolders are not read, because a recording has its events and payloads in one folder. Raises `OSError`
    for a folder that cannot be listed.
    """
    found = Payloads(defaultdict(dict), [])
    paths = (path for folder in folders for path in folder.iterdir() if path.match(f"{PREFIX}*.jsonl"))
    for path in sorted(paths):
        *lines, torn = read_regular(path).split(b"\n")
        for number, line in enumerate([*lines, torn], start=1):
            try:
                topic, position, data = _entry_of(json_value(line))
            except (ValueError, FrameError):
                if number <= len(lines):
                    found.damaged.append(f"{path}, line {number}: not an entry of a recording")
                continue
            found.entries[topic][position] = data
    return found


def _entry_of(value: object) -> tuple[str, Position, bytes]:
    """Return the topic, position and bytes of the entry in a parsed line.

    Raises `ValueError` or `FrameError` if the line is not an entry, or if its checksum does not match.
    """
    match value:
        case [str(topic), int(ledger_id), int(entry_id), str(data)]:
            # `int(…)` also matches `True` and `False`.
            if bool not in (type(ledger_id), type(entry_id)) and min(ledger_id, entry_id) >= 0:
                entry = b64decode(data, validate=True)
                if read_payload(entry).checksum_holds:
                    return topic, Position(ledger_id, entry_id), entry
    raise ValueError("expected a topic, a ledger id, an entry id and an entry in Base64")
