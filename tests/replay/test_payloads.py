"""The payloads of a recording are read back; a torn line is skipped."""

from __future__ import annotations

from pathlib import Path

from ackwell.replay.payloads import PREFIX, payload_line, read_payloads


def test_payloads_come_back_but_for_torn_and_strange_lines(tmp_path: Path) -> None:
    whole = payload_line("t", (3, 5), b"data")
    lines = [whole, payload_line("u", (3, 6), b"")[:-8] + "\n", '["t", 3]\n', '["t", 3, 7, "?"]\n']
    (tmp_path / f"{PREFIX}0.jsonl").write_text("".join(lines) + payload_line("t", (4, 0), b"")[:5])
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / f"{PREFIX}1.jsonl").write_text(payload_line("t", (4, 1), b"more"))
    (tmp_path / "events-0.jsonl").write_text(payload_line("t", (9, 9), b"no payload"))
    assert read_payloads(tmp_path) == {"t": {(3, 5): b"data", (4, 1): b"more"}}
