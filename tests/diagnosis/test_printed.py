"""Persisted cursors as the tools of Pulsar, BookKeeper and ZooKeeper print them."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from shutil import which

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackwell import ManagedCursorInfo, PositionInfo
from ackwell.diagnosis.inspection import StoredEntry, inspect, inspect_entries
from ackwell.diagnosis.printed import printed_values
from ackwell.errors import CorruptStateError
from tests.commands import command

STATE = PositionInfo(30, 16, [(30, 17, 27), (31, -1, 4)], batch_deleted={(30, 29): [5]}, properties={"p": 7})
VALUE = ManagedCursorInfo(-1, STATE).encode()


def shown(row: bytes) -> str:
    return "".join(chr(each) if 32 <= each < 127 else "." for each in row)


def rows(data: bytes) -> list[tuple[int, bytes]]:
    return [(at, data[at : at + 16]) for at in range(0, len(data), 16)]


def commons_io(data: bytes) -> str:
    """Return the dump of `readledger` with `-entryformat hex`."""
    lines = [f"{at:08X} {''.join(f'{each:02X} ' for each in row):<48}{shown(row)}" for at, row in rows(data)]
    return "\n".join(lines)


def netty(data: bytes) -> str:
    """Return the dump of `zkCli get -x`."""
    head = "         +-------------------------------------------------+\n         |  0  1  2  3 |\n"
    lines = [f"|{at:08x}| {row.hex(' '):<48}|{shown(row):<16}|" for at, row in rows(data)]
    return head + "\n".join(lines) + "\n+--------+------+"


def canonical(data: bytes) -> str:
    """Return the dump of `hexdump -C`."""
    lines = [
        f"{at:08x}  {row[:8].hex(' '):<23}  {row[8:].hex(' '):<23}  |{shown(row)}|" for at, row in rows(data)
    ]
    return "\n".join([*lines, f"{len(data):08x}"])


def xxd(data: bytes) -> str:
    lines = [f"{at:08x}: {row.hex(' ', -2):<39}  {shown(row)}" for at, row in rows(data)]
    return "\n".join(lines)


def zookeeper(data: bytes) -> str:
    """Return the output of `zkCli get -b -s`."""
    return (
        "Connecting to localhost:2181\nWATCHER::\n\nWatchedEvent state:SyncConnected type:None path:null\n"
        f"{base64.b64encode(data).decode()}\ncZxid = 0x5f\nctime = Fri Nov 27\ndataLength = 9\n"
    )


def wrapped(data: bytes) -> str:
    text = base64.b64encode(data).decode()
    return "\n".join(text[at : at + 76] for at in range(0, len(text), 76))


def text_form(data: bytes) -> str:
    """Return the output of `pulsar-managed-ledger-admin print-cursor`."""
    assert data == VALUE

    def end(name: str, ledger: int, entry: int) -> str:
        return f"  {name} {{\n    ledgerId: {ledger}\n    entryId: {entry}\n  }}\n"

    ranges = "".join(
        f"individualDeletedMessages {{\n{end('lowerEndpoint', *low)}{end('upperEndpoint', *high)}}}\n"
        for low, high in (((30, 17), (30, 27)), ((31, -1), (31, 4)))
    )
    return (
        f"cursorsLedgerId: -1\nmarkDeleteLedgerId: 30\nmarkDeleteEntryId: 16\n{ranges}"
        'properties {\n  name: "p"\n  value: 7\n}\n'
        f"batchedEntryDeletionIndexInfo {{\n{end('position', 30, 29)}  deleteSet: 5\n}}\n"
    )


def json_form(data: bytes) -> str:
    assert data == VALUE

    def end(ledger: int, entry: int) -> dict[str, int]:
        return {"ledgerId": ledger, "entryId": entry}

    return json.dumps(
        {
            "cursorsLedgerId": "-1",
            "markDeleteLedgerId": "30",
            "markDeleteEntryId": "16",
            "individualDeletedMessages": [
                {
                    "lowerEndpoint": {"ledgerId": a, "entryId": b},
                    "upperEndpoint": {"ledgerId": a, "entryId": c},
                }
                for a, b, c in ((30, 17, 27), (31, -1, 4))
            ],
            "properties": [{"name": "p", "value": "7"}],
            "batchedEntryDeletionIndexInfo": [
                {"position": {"ledgerId": 30, "entryId": 29}, "deleteSet": ["5"]}
            ],
        }
    )


FORMS: list[Callable[[bytes], str]] = [commons_io, netty, canonical, xxd, zookeeper, wrapped, bytes.hex]


@pytest.mark.parametrize("form", [*FORMS, text_form, json_form])
def test_what_a_tool_prints_is_read_as_the_bytes(form: Callable[[bytes], str], tmp_path: Path) -> None:
    file, raw = tmp_path / "printed.txt", tmp_path / "cursor.bin"
    file.write_text(f"$ some-tool --option\n{form(VALUE)}\n" if form is not json_form else form(VALUE))
    raw.write_bytes(VALUE)
    assert inspect(file.read_bytes()).info == STATE
    code, output = command("inspect", "--format", "json", file)
    (found,) = json.loads(output)
    assert (code, found["individuallyDeletedMessages"]) == (0, "[(30:17..30:27],(31:-1..31:4]]")
    assert command("diff", file, raw)[0] == 0


@given(st.binary(max_size=70), st.sampled_from([commons_io, netty, canonical, xxd]))
def test_every_dump_has_its_bytes_back(data: bytes, form: Callable[[bytes], str]) -> None:
    data = b"\x08\x03" + data
    assert [each.data for each in printed_values(f"dump:\n{form(data)}\n".encode())] == [data]


@pytest.mark.skipif(which("hexdump") is None or which("xxd") is None, reason="no hexdump or xxd here")
def test_the_dumps_of_this_machine_are_read(tmp_path: Path) -> None:
    raw = tmp_path / "cursor.bin"
    raw.write_bytes(VALUE)
    for tool in (["hexdump", "-C"], ["xxd"]):
        printed = subprocess.run([*tool, str(raw)], capture_output=True, check=True).stdout
        assert inspect(b"dump\n" + printed).info == STATE


def test_several_entries_of_readledger_are_separate_values() -> None:
    older = PositionInfo(30, 3)
    text = "".join(
        f"2026-11-27 INFO - --------- Lid=28, Eid={entry}, EntrySize=9 ---------\n{commons_io(data)}\n"
        for entry, data in ((4, older.encode("pulsar-ranges")), (5, STATE.encode("pulsar-ranges")))
    )
    first, second = inspect_entries([StoredEntry("out.txt", text.encode())])
    assert (first.source, first.info) == ("out.txt, ledger 28, entry 4", older)
    assert (second.source, second.info) == ("out.txt, ledger 28, entry 5", STATE)
    # The last one is the newest.
    assert inspect(text.encode()).info == STATE


@pytest.mark.parametrize(
    "text",
    [
        "--------- Lid=28, Eid=5, EntrySize=9 ---------\nData : \u0008\u0003\u0010\u0005\ufffd\ufffd",
        "WATCHER::\n\n\u0008\ufffd\ufffd\u0001\u0010\u001e",
    ],
)
def test_bytes_that_were_printed_as_text_are_refused_with_the_option_that_helps(text: str) -> None:
    with pytest.raises(CorruptStateError, match="-entryformat hex"):
        inspect(text.encode())


def test_other_text_is_not_a_cursor() -> None:
    for text in ("deadbeef", "a note about persistent://a/b/c", "Q0FOQ0VM\n", "00000000 zz"):
        assert printed_values(text.encode()) == []
    with pytest.raises(CorruptStateError, match="text, not persisted cursor bytes"):
        inspect(b"a note")
    with pytest.raises(CorruptStateError, match="not a decoded cursor"):
        inspect(b"markDeleteLedgerId: x\nmarkDeleteEntryId: 5")
