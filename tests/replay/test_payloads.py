"""The payloads of a recording are read back; a torn line is skipped."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ackwell.protocol import messages
from ackwell.protocol.payload import write_payload
from ackwell.replay.payloads import PREFIX, payload_line, read_payloads


def entry(body: bytes) -> bytes:
    return write_payload(messages.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1), body)


DATA, MORE = entry(b"data"), entry(b"more")
MIDDLE = len(DATA) // 2


def test_payloads_come_back_but_for_torn_and_strange_lines(tmp_path: Path) -> None:
    whole = payload_line("t", (3, 5), DATA)
    lines = [whole, payload_line("u", (3, 6), b"")[:-8] + "\n", '["t", 3]\n', '["t", 3, 7, "?"]\n']
    (tmp_path / f"{PREFIX}0.jsonl").write_text("".join(lines) + payload_line("t", (4, 0), b"")[:5])
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / f"{PREFIX}1.jsonl").write_text(payload_line("t", (4, 1), MORE))
    (tmp_path / "events-0.jsonl").write_text(payload_line("t", (9, 9), b"no payload"))
    found = read_payloads([tmp_path, tmp_path / "sub"])
    assert found.entries == {"t": {(3, 5): DATA, (4, 1): MORE}}
    path = tmp_path / f"{PREFIX}0.jsonl"
    assert found.damaged == [f"{path}, line {number}: not an entry of a recording" for number in (2, 3, 4)]


def test_a_folder_that_cannot_be_listed_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str) -> object:
        raise PermissionError(13, "Permission denied", os.fspath(path))

    for name in ("listdir", "scandir"):
        monkeypatch.setattr(os, name, refuse)
    with pytest.raises(PermissionError):
        read_payloads([tmp_path])


@pytest.mark.parametrize(
    "line",
    [
        "null",
        "5",
        '["t", 3, 5, 7]',
        payload_line("t", (3, 5), DATA).replace("3", "true", 1),
        payload_line("t", (-2, 5), DATA),
        payload_line("t", (3, 5), b""),
        payload_line("t", (3, 5), DATA[:MIDDLE]),
        payload_line("t", (3, 5), DATA[:-1] + b"b"),
        "[" * 60_000,
        "",
    ],
)
def test_a_line_that_is_not_an_entry_is_named(line: str, tmp_path: Path) -> None:
    path = tmp_path / f"{PREFIX}0.jsonl"
    path.write_text(f"{line.rstrip()}\n{payload_line('t', (4, 1), MORE)}")
    found = read_payloads([tmp_path])
    assert found.entries == {"t": {(4, 1): MORE}}
    assert found.damaged == [f"{path}, line 1: not an entry of a recording"]
