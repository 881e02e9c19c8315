"""Find the bytes of persisted cursors in the output of other tools.

- `bookkeeper shell -entryformat hex readledger -msg` prints a hex dump for each entry. The dumps of `xxd`,
  `hexdump -C` and `zkCli get -x` are read, too.
- `zkCli get -b` prints base64 between other lines. Plain hexadecimal digits are read, too.
- `pulsar-managed-ledger-admin print-cursor` prints the text form of a Protocol Buffers message, or JSON.

If a tool prints bytes as text, some bytes are lost. Such output is refused with an error that names the
tool's option to print all bytes.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from ackwell.errors import CorruptStateError
from ackwell.json_values import json_value, object_in
from ackwell.sources import SourceKind, source_kind, text_encoding

PRINTED_CHARS_MAX: Final = 64 << 20
"""The maximum length of a text in which printed bytes are searched."""

_ENTRY: Final = re.compile(r"-{3,} *Lid=(\d+), *Eid=(\d+)")
_ROW: Final = re.compile(r"^\s*\|?([0-9A-Fa-f]{8,16})(?:\||:)?[ \t]+(?=[0-9A-Fa-f]{2})")
_BYTES: Final = re.compile(r"([0-9A-Fa-f]{2}(?:[0-9A-Fa-f]{2})?)( *)")
_DIGITS: Final = re.compile(r"^(?:[0-9A-Fa-f]{2})+$")
_BASE64: Final = re.compile(r"^[A-Za-z0-9+/]{4,}={0,2}$")
_FIELD: Final = re.compile(r'\s*(?:([A-Za-z_]\w*)\s*(?:(:)\s*("(?:[^"\\]|\\.)*"|[-\w.]+)|:?\s*(\{))|(\}))')

ROW_BYTES: Final = 16

LOSSY: Final = (
    "the bytes were printed as text, which loses some of them; use `bookkeeper shell -entryformat hex "
    "readledger … -msg`, or `zkCli get -b`"
)


class PrintedValue(NamedTuple):
    """A value that another tool printed."""

    name: str
    """The ledger and the entry of the value, as text; empty if the tool does not print them."""
    data: bytes


def printed_values(data: bytes) -> list[PrintedValue]:
    """Return the values in the output of a tool, in their order; an empty list for other content. O(bytes).

    Raises `CorruptStateError` if the tool printed bytes as text.

    >>> [(each.name, each.data.hex()) for each in printed_values(b"CAMQBQ==")]
    [('', '08031005')]
    """
    kind = source_kind(data)
    if kind not in (SourceKind.TEXT, SourceKind.DECODED_CURSOR) or len(data) > PRINTED_CHARS_MAX:
        return []
    text = data.decode(text_encoding(data), "replace")
    if kind is SourceKind.DECODED_CURSOR:
        return [PrintedValue("", each) for each in _encoded(json_value(text))]
    found = list(_dumps(text)) or [PrintedValue("", each) for each in _lines(text)]
    if not found and re.search(r"\bmarkDeleteLedgerId\s*:", text):
        found = [PrintedValue("", each) for each in _encoded(_message(text))]
    if not found and (_ENTRY.search(text) or "\ufffd" in text):
        raise CorruptStateError(LOSSY, 0)
    return found


def _dumps(text: str) -> Iterator[PrintedValue]:
    """Yield the values in hex dumps. A header of an entry, or a row with offset 0, begins a new value."""
    name, value = "", bytearray()
    for line in text.splitlines():
        header = _ENTRY.search(line)
        row = None if header else _ROW.match(line)
        begins = header is not None or (row is not None and int(row[1], 16) == 0)
        if begins and value:
            yield PrintedValue(name, bytes(value))
            value.clear()
        if header is not None:
            name = f"ledger {header[1]}, entry {header[2]}"
        elif row is not None and int(row[1], 16) == len(value):
            value += _row_bytes(line[row.end() :])
    if value:
        yield PrintedValue(name, bytes(value))


def _row_bytes(text: str) -> bytes:
    """Return the bytes in a row of a hex dump.

    The bytes end at two or more blanks. Two blanks in the middle of a row do not end the bytes.
    """
    found = bytearray()
    for group in _BYTES.finditer(text):
        if group.start() and text[group.start() - 1] != " ":
            break
        found += bytes.fromhex(group[1])
        in_the_middle = len(found) == ROW_BYTES // 2 and len(group[2]) == 2
        if len(found) >= ROW_BYTES or (len(group[2]) != 1 and not in_the_middle):
            break
    return bytes(found[:ROW_BYTES])


def _lines(text: str) -> Iterator[bytes]:
    """Yield the values that are printed as base64 or hexadecimal digits. Consecutive lines are one value."""
    block: list[str] = []
    for line in [*text.splitlines(), ""]:
        word = line.strip().strip("'\"")
        if _BASE64.match(word) or _DIGITS.match(word):
            block.append(word)
            continue
        if block:
            yield from _decoded("".join(block))
        block.clear()


def _decoded(word: str) -> Iterator[bytes]:
    """Decode hexadecimal or base64 digits; yield the bytes if they begin like a persisted cursor."""
    candidates = [bytes.fromhex(word)] if _DIGITS.match(word) else []
    with suppress(binascii.Error):
        candidates.append(base64.b64decode(word, validate=True))
    yield from [each for each in candidates if source_kind(each) is SourceKind.CURSOR][:1]


def _message(text: str) -> dict[str, Any]:
    """Parse the text form of a Protocol Buffers message. Map each field to the list of its values."""
    message: dict[str, Any] = {}
    stack = [message]
    for name, colon, value, opens, closes in _FIELD.findall(text):
        if closes:
            if len(stack) > 1:
                stack.pop()
        elif opens:
            inner: dict[str, Any] = {}
            stack[-1].setdefault(name, []).append(inner)
            stack.append(inner)
        elif colon:
            stack[-1].setdefault(name, []).append(json.loads(value) if value[0] == '"' else value)
    return message


def _encoded(message: Any) -> Iterator[bytes]:
    """Encode a cursor that a tool printed as text. Yield the bytes that the metadata store has for it."""
    from ackwell import ManagedCursorInfo, PositionInfo

    try:
        at_ledger, at_entry = (_one(message, name) for name in ("markDeleteLedgerId", "markDeleteEntryId"))
        ranges = [
            (*_position(each, "lowerEndpoint"), *_position(each, "upperEndpoint"))
            for each in _all(message, "individualDeletedMessages")
        ]
        if any(first != last for first, _, last, _ in ranges):
            raise CorruptStateError("a range over the end of a ledger in a decoded cursor: give the bytes", 0)
        ack_sets = {
            _position(each, "position"): [int(word) for word in _all(each, "deleteSet")]
            for each in _all(message, "batchedEntryDeletionIndexInfo")
        }
        properties = {_text(each, "name"): int(_text(each, "value")) for each in _all(message, "properties")}
        state = None
        if at_ledger is not None and at_entry is not None:
            state = PositionInfo(
                int(at_ledger),
                int(at_entry),
                individually_deleted=[(ledger, lower, upper) for ledger, lower, _, upper in ranges],
                batch_deleted=ack_sets,
                properties=properties,
            )
        ledger_id = _one(message, "cursorsLedgerId")
        yield ManagedCursorInfo(-1 if ledger_id is None else int(ledger_id), state).encode()
    except (TypeError, ValueError, OverflowError) as error:
        raise CorruptStateError(f"not a decoded cursor: {error}", 0) from None


def _all(message: Mapping[str, Any], name: str) -> Sequence[Any]:
    value = message.get(name) or []
    return value if isinstance(value, list) else [value]


def _one(message: Mapping[str, Any], name: str) -> Any:
    found = _all(message, name) if message.get(name) != 0 else [0]
    return found[0] if found else None


def _text(message: Mapping[str, Any], name: str) -> str:
    return str(_one(message, name))


def _position(message: Mapping[str, Any], name: str) -> tuple[int, int]:
    position = object_in(_one(message, name))
    return int(_text(position, "ledgerId")), int(_text(position, "entryId"))
