"""Files and folders that the user may not read or write."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commands import Answer, ackwell, held
from tests.forks import fork

ROOT, OTHER = 0, 65_534
EVENT = {"kind": "publish", "topic": "t", "subscription": "s", "sequence": 1, "ledger_id": 3, "entry_id": 0}
DUMP = {
    "cursors": {"s": {"markDeletePosition": "3:1"}},
    "ledgers": [{"ledgerId": 3, "entries": 9, "size": 9}],
}
READERS = {
    "doctor": "dump.json",
    "inspect": "dump.json",
    "holes": "dump.json",
    "replay": "events.jsonl",
    "history": "events.jsonl",
    "events check": "events.jsonl",
}


@pytest.fixture
def place() -> Iterator[Path]:
    """Return a folder that every user can list. Parents of `tmp_path` belong to this user alone."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        path.chmod(0o755)
        (path / "inner").mkdir()
        for files in (path, path / "inner"):
            (files / "dump.json").write_text(json.dumps(DUMP))
            (files / "events.jsonl").write_text(json.dumps(EVENT))
        yield path
        (path / "inner").chmod(0o755)


def as_other_user(*arguments: str) -> Answer:
    """Run a command in a child process. The child of root is another user, because root may do everything."""
    reader, writer = os.pipe()
    child = fork()
    if not child:
        try:
            os.close(reader)
            if os.geteuid() == ROOT:
                os.setgroups([])
                os.setgid(OTHER)
                os.setuid(OTHER)
            os.write(writer, json.dumps(ackwell(*arguments)).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as answer:
        text = answer.read()
    os.waitpid(child, 0)
    return held(Answer(*json.loads(text)))


@pytest.mark.parametrize("command", READERS)
def test_a_file_or_folder_without_rights_is_an_error_of_one_line(place: Path, command: str) -> None:
    file = READERS[command]
    # The child has all modules, also if it may not read their files.
    held(ackwell(*command.split(), str(place / file)))
    denied = place / "inner" / file
    for changed, given in ((denied, denied), (denied.parent, denied), (denied.parent, place)):
        if given == place and command == "inspect":
            continue
        changed.chmod(0)
        refused = as_other_user(*command.split(), str(given))
        assert refused.code, refused
        # `doctor` lists the files that it could not read with its results.
        assert "Permission denied" in refused.out + refused.err, refused


def test_a_folder_that_is_read_only_gets_no_file(place: Path) -> None:
    save = ("replay", str(place / "events.jsonl"), "--save")
    held(ackwell(*save, str(place / "own.db")))
    before = {file: file.read_bytes() for file in place.iterdir() if file.is_file()}
    for name in ("other.db", "own.db"):
        refused = as_other_user(*save, str(place / name))
        assert (refused.code, name in refused.err) == (1, True), refused
    assert {file: file.read_bytes() for file in place.iterdir() if file.is_file()} == before
