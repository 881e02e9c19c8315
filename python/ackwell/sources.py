"""The kinds of files that commands read, and the error message for a file of a wrong kind.

The kind depends on the content of the file, not on its name. `source_kind` reads the first bytes, also inside
gzip. It does not check the rest. A damaged file still has its kind, and the reader of this kind reports the
damage.
"""

from __future__ import annotations

import re
import zlib
from codecs import getincrementaldecoder
from enum import StrEnum
from typing import Final

HEAD_BYTES: Final = 1 << 16
"""The number of bytes from the start of a file that `source_kind` needs."""

GZIP_MAGIC: Final = b"\x1f\x8b"
STATE_MAGIC: Final = b"\xd7"
"""The first byte of an entry in ackwell's own format, which `ackwell.saving.parts` writes. As the tag of a
field in Protocol Buffers, it would have the wire type 7, which does not exist. No message of Protocol Buffers
therefore starts with this byte."""
COMPACT_MAGIC: Final = b"\xac"
"""The first byte of a state in the compact form; no Protocol Buffers message begins with it."""
CURSOR_INFO_MAGIC: Final = b"\x47\x78"
"""The first bytes of a compressed ManagedCursorInfo."""

PARQUET_MAGIC: Final = b"PAR1"
"""The first and the last bytes of a Parquet file."""

TRACE_SUFFIXES: Final = (".jsonl", ".jsonl.gz", ".jsonl.zst")
"""The file name suffixes of traces. A command that reads a folder selects its files by their suffix."""
PARQUET_SUFFIX: Final = ".parquet"
EVENT_SUFFIXES: Final = (*TRACE_SUFFIXES, PARQUET_SUFFIX)
ANSWER_SUFFIXES: Final = (".json", ".json.gz")
"""The file name suffixes of the answers of the admin API, and of dumps with them."""
STATE_SUFFIX: Final = ".bin"
"""The file name suffix of persisted cursor bytes."""

_SQLITE_MAGIC: Final = b"SQLite format 3\x00"
_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_UTF_16_MARKS: Final = (b"\xff\xfe", b"\xfe\xff")
"""The byte order marks of UTF-16. PowerShell's `>` writes one of them at the start of a file."""

_POSITION_INFO: Final = b"\x08"
"""The first byte of a PositionInfo, and of a ManagedCursorInfo without compression: the tag of field 1, a
varint."""
_LEDGER_INFO: Final = re.compile(rb"\x0a[\x02-\x7f]\x08")
"""The first bytes of a ManagedLedgerInfo. They begin the message of the first ledger, which begins with the
ledger id."""
_FOOTER: Final = re.compile(rb'\A\{[^{]{0,250}"numParts"\s*:')


class SourceKind(StrEnum):
    """A kind of file. The value describes the kind in messages."""

    CURSOR = "persisted cursor bytes"
    FOOTER = "the footer of a cursor's entries (PIP-381)"
    STORE = "an SQLite file"
    EVENTS = "recorded events"
    STATS = "the answer of `pulsar-admin topics stats-internal`"
    DUMP = "a dump of `ackwell collect` or `ackwell rescue snapshot`"
    PLAN = "a plan of `ackwell rescue plan`"
    JOURNAL = "a journal of `ackwell rescue hold`"
    WINDOW = "a window of `ackwell rescue begin`"
    PREDICTION = "the JSON of `ackwell what-if`"
    LEDGER_INFO = "a ManagedLedgerInfo, the list of a topic's ledgers"
    DECODED_CURSOR = "a decoded cursor in JSON"
    HTML = "an HTML page"
    JSON = "other JSON"
    TEXT = "text"
    BINARY = "other binary data"
    EMPTY = "an empty file"


ANSWER_KINDS: Final = (SourceKind.STATS, SourceKind.DUMP, SourceKind.JSON, SourceKind.TEXT)
"""The kinds of files that may contain answers of the admin API. The JSON decoder reports damaged files."""
STATE_KINDS: Final = (SourceKind.CURSOR, SourceKind.FOOTER, SourceKind.BINARY)
"""The kinds of files that may contain a state. The decoders of states report damaged files."""

_HINTS: Final = {
    SourceKind.CURSOR: "`ackwell inspect` reads it",
    SourceKind.FOOTER: "`ackwell inspect` reads it, together with the entries before it",
    SourceKind.STORE: "`ackwell inspect` reads it, if `ackwell replay --save` or a cursor wrote it",
    SourceKind.EVENTS: "`ackwell replay` reads them",
    SourceKind.STATS: "`ackwell doctor` reads it",
    SourceKind.DUMP: "`ackwell doctor` reads it",
    SourceKind.PLAN: "`ackwell rescue apply` reads it",
    SourceKind.JOURNAL: "`ackwell rescue release` reads it",
    SourceKind.WINDOW: "`ackwell rescue end` reads its folder",
    SourceKind.PREDICTION: "`ackwell what-if --verify` reads it",
    SourceKind.LEDGER_INFO: "the cursor is the value one level below it, …/TOPIC/SUBSCRIPTION",
    SourceKind.DECODED_CURSOR: "`ackwell inspect` reads it",
    SourceKind.HTML: "check the address: a proxy or a login page may have answered instead of the broker",
}

_JSON_KINDS: Final = (
    (SourceKind.PLAN, re.compile(rb'"plans"\s*:\s*\[')),
    (SourceKind.JOURNAL, re.compile(rb'\A\{[^{]*"admin"\s*:[^{]*"before"\s*:')),
    (SourceKind.WINDOW, re.compile(rb'\A\{[^{]*"cluster"\s*:[^{]*"subscriptions"\s*:')),
    (SourceKind.PREDICTION, re.compile(rb'"vanishedEntries"\s*:')),
    (SourceKind.EVENTS, re.compile(rb'\A\{[^{\r\n]*"(?:ev|kind)"\s*:')),
    (SourceKind.DUMP, re.compile(rb'"internalStats"\s*:')),
    (SourceKind.STATS, re.compile(rb'"(?:cursors|entriesAddedCounter|msgRateIn)"\s*:')),
    (SourceKind.DECODED_CURSOR, re.compile(rb'"(?:markDeleteLedgerId|individualDeletedMessages)"\s*:')),
)


def source_kind(data: bytes) -> SourceKind:
    """Return the kind of a file that starts with these bytes.

    >>> str(source_kind(bytes.fromhex("0803 1005")))
    'persisted cursor bytes'
    """
    head = _decompressed(data[:HEAD_BYTES])
    if not head.strip():
        return SourceKind.EMPTY
    if head.startswith(_SQLITE_MAGIC):
        return SourceKind.STORE
    if head.startswith((PARQUET_MAGIC, _ZSTD_MAGIC)):
        return SourceKind.EVENTS
    if head.startswith((STATE_MAGIC, COMPACT_MAGIC, CURSOR_INFO_MAGIC, _POSITION_INFO)):
        return SourceKind.CURSOR
    if _LEDGER_INFO.match(head):
        return SourceKind.LEDGER_INFO
    return _text_kind(head)


def is_cursor_info(data: bytes) -> bool:
    """Return whether the uncompressed bytes of a state are a ManagedCursorInfo and not a PositionInfo.

    Fields 2 and 3 decide. A PositionInfo has int64 fields 1 and 2, and its field 3 is a message (wire type
    2). A ManagedCursorInfo either lacks field 2, or its field 3 is an int64: the entry of the mark-delete
    position.
    """
    number, offset = 1, 0
    while number < 3 and offset < len(data) and data[offset] == number << 3:
        offset += 1
        while offset < len(data) and data[offset] & 0x80:
            offset += 1
        offset += 1
        number += 1
    return number == 2 or (number == 3 and data[offset : offset + 1] == b"\x18")


def wrong_kind(found: SourceKind, *expected: SourceKind, detail: str = "") -> str:
    """Return the error message for a file of the kind `found` if one of the kinds `expected` was expected.

    The message names the command that reads files of the kind `found`, if there is one. If this kind was
    expected, the message states that the file is damaged or incomplete.

    >>> wrong_kind(SourceKind.EVENTS, SourceKind.PLAN)
    'recorded events, not a plan of `ackwell rescue plan`; `ackwell replay` reads them'
    """
    if found in expected:
        return f"damaged or incomplete: not {found}{detail}"
    hint = _HINTS.get(found)
    return f"{found}{detail}, not {' or '.join(expected)}" + (f"; {hint}" if hint else "")


def _decompressed(head: bytes) -> bytes:
    """Return the first decompressed bytes of gzip data. Other data is returned unchanged."""
    if not head.startswith(GZIP_MAGIC):
        return head
    try:
        return zlib.decompressobj(wbits=31).decompress(head, HEAD_BYTES) or head
    except zlib.error:
        # The reader of the expected kind reports the damage.
        return head


def text_encoding(data: bytes) -> str:
    """Return the encoding of a text: UTF-16 if the text begins with its byte order mark, else UTF-8."""
    return "utf-16" if data.startswith(_UTF_16_MARKS) else "utf-8-sig"


def _text_kind(head: bytes) -> SourceKind:
    try:
        # The last bytes may be an incomplete character. An incremental decoder ignores them.
        text = getincrementaldecoder(text_encoding(head))().decode(head).lstrip()
    except UnicodeDecodeError:
        return SourceKind.BINARY
    if text.startswith("<"):
        return SourceKind.HTML
    if not text.startswith(("{", "[")):
        return SourceKind.TEXT
    encoded = text.encode()
    if _FOOTER.match(encoded):
        return SourceKind.FOOTER
    return next((kind for kind, pattern in _JSON_KINDS if pattern.search(encoded)), SourceKind.JSON)
