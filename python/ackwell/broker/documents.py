"""Find the JSON documents of a file, skip the text around them, and explain errors.

A dump may be large, and most of it is the text of ranges. A long text of ranges is not decoded as JSON: it is
parsed in pieces, directly from the bytes of the file. The topics of one document are decoded one after the
other.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from ackwell.broker.pasted import PASTED_CHARS_MAX, clean_pasted
from ackwell.errors import CorruptStateError, StatsError
from ackwell.json_values import unique_keys
from ackwell.regular_files import unzipped
from ackwell.sources import SourceKind, source_kind, text_encoding, wrong_kind

if TYPE_CHECKING:
    from ackwell import PositionRangeSet

HOW_TO: Final = "expected the answer of `pulsar-admin topics stats-internal TOPIC`"

PIECE_BYTES: Final = 1 << 20
"""A longer text of ranges is parsed in pieces of this length."""

_LONG_RANGES: Final = re.compile(rb'("individuallyDeletedMessages"\s*:\s*)"(\[[^"\\]{%d,})"' % PIECE_BYTES)

_JSON_BEGINS: Final = re.compile(r'^(?:\{|\[(?=\s*(?:["{\[\].\d-]|$)))', re.MULTILINE)
"""Matches the start of a JSON document, but not the `[` at the start of a shell prompt."""

_MEMBER_BEGINS: Final = re.compile(r'"?[^"\s]*"\s*:')

_KEY: Final = r'"((?:[^"\\]|\\.)*)"\s*:\s*'
_TOPIC_BEGINS: Final = re.compile(r"\{\s*(?=[^:]*://)" + _KEY)
_MEMBER: Final = re.compile(r"\s*,\s*" + _KEY)

_PLACE: Final = "ackwell:ranges"
"""The key of the object that replaces a long text of ranges while the rest of the document is decoded."""


@dataclass(frozen=True, slots=True)
class LongRanges:
    """A long text of ranges in the bytes of a file, from the offset `start` to `end`."""

    data: bytes
    start: int
    end: int

    @property
    def is_cut_off(self) -> bool:
        """Whether `...` replaces a part of the text."""
        return any(self.data.find(mark, self.start, self.end) >= 0 for mark in (b"...", "…".encode()))

    def text(self) -> str:
        """Return the whole text."""
        return self.data[self.start : self.end].decode(errors="replace")

    def ranges(self) -> PositionRangeSet:
        """Parse the text to a range set. Raises `CorruptStateError` with the offset of an error."""
        from ackwell import PositionRangeSet

        found = PositionRangeSet()
        start = self.start + 1
        try:
            while start < self.end:
                # Each piece ends at the end of a range. The last piece ends with the closing bracket of the
                # whole text.
                end = self.data.find(b"]", min(start + PIECE_BYTES, self.end - 1), self.end) + 1 or self.end
                piece = self.data[start:end].decode().removeprefix(",")
                found |= PositionRangeSet.parse(f"[{piece}" if end == self.end else f"[{piece}]")
                start = end
        except (CorruptStateError, UnicodeDecodeError):
            return PositionRangeSet.parse(self.text())
        return found


def json_document(data: bytes, source: str) -> Any:
    """Return the first JSON document in the bytes of a file; raises `StatsError` if there is none."""
    text = _text(data, source)
    return _decode(json.JSONDecoder(object_pairs_hook=unique_keys), text, _heading(text, 0)[1], source)[0]


def documents_of(data: bytes, source: str, *, pasted: bool = False) -> Iterator[tuple[str | None, Any]]:
    """Yield each JSON document of a file, with the topic in its heading; None without a heading.

    A heading is a line with a topic before the document. If an object maps topics to answers, each answer is
    yielded as a separate document, with the key as its topic. A long text of ranges is yielded as a
    `LongRanges`. With `pasted`, text that is not valid JSON is first cleaned by `clean_pasted`. Raises
    `StatsError` if something is not JSON.
    """
    data, decoder = _without_long_ranges(_unzipped(data, source))
    text = _text(data, source)
    del data
    count = 0
    try:
        for found in _documents(decoder, text, source):
            count += 1
            yield found
    except StatsError as error:
        if not pasted or len(text) > PASTED_CHARS_MAX:
            raise
        try:
            yield from islice(_documents(decoder, clean_pasted(text).strip(), source), count, None)
        except StatsError:
            # The first error names the place in the original text, not in the cleaned text.
            raise error from None


def _documents(decoder: json.JSONDecoder, text: str, source: str) -> Iterator[tuple[str | None, Any]]:
    start = 0
    while start < len(text):
        if start and _is_trailing_text(text, start):
            return
        heading, start = _heading(text, start)
        member = _TOPIC_BEGINS.match(text, start)
        if member is None:
            document, start = _decode(decoder, text, start, source)
            yield heading, document
        while member is not None:
            document, start = _decode(decoder, text, member.end(), source)
            key = json.loads(f'"{member[1]}"', strict=False)
            yield key if "://" in key else heading, document
            member = _MEMBER.match(text, start)
            if member is None:
                start = _skip_object_end(text, start, source)
        start = _blanks(text, start, ",")


def _without_long_ranges(data: bytes) -> tuple[bytes, json.JSONDecoder]:
    """Replace each long text of ranges by a short placeholder.

    Return the changed bytes, and a JSON decoder that returns a `LongRanges` for each placeholder.
    """
    spans: list[LongRanges] = []
    parts: list[bytes] = []
    end = 0
    for found in _LONG_RANGES.finditer(data):
        parts += data[end : found.end(1)], b'{"%b":%d}' % (_PLACE.encode(), len(spans))
        spans.append(LongRanges(data, *found.span(2)))
        end = found.end()
    if not spans:
        return data, json.JSONDecoder(object_pairs_hook=unique_keys)

    def restore(pairs: list[tuple[str, Any]]) -> Any:
        value = unique_keys(pairs)
        number = value.get(_PLACE)
        return spans[number] if isinstance(number, int) and 0 <= number < len(spans) else value

    return b"".join([*parts, data[end:]]), json.JSONDecoder(object_pairs_hook=restore)


def _text(data: bytes, source: str) -> str:
    data = _unzipped(data, source)
    try:
        text = data.decode(text_encoding(data))
    except UnicodeDecodeError:
        raise StatsError(wrong_kind(source_kind(data), SourceKind.STATS), source) from None
    text = text.strip()
    if not text:
        raise StatsError(wrong_kind(SourceKind.EMPTY, SourceKind.STATS), source)
    if text.startswith("<"):
        title = re.search(r"<title[^>]*>(.*?)</title>", text, re.IGNORECASE | re.DOTALL)
        titled = f" titled {' '.join(title[1].split())[:80]!r}" if title else ""
        raise StatsError(wrong_kind(SourceKind.HTML, SourceKind.STATS, detail=titled), source)
    return text


def _decode(decoder: json.JSONDecoder, text: str, start: int, source: str) -> tuple[Any, int]:
    try:
        return decoder.raw_decode(text, start)
    except json.JSONDecodeError as error:
        raise StatsError(_json_error(text, error), source) from None
    except ValueError as error:
        # An object has a duplicate key, or an integer has thousands of digits.
        raise StatsError(f"not JSON that a broker writes: {error}; {HOW_TO}", source) from None
    except RecursionError:
        raise StatsError(f"nested too deeply; {HOW_TO}", source) from None


def _skip_object_end(text: str, start: int, source: str) -> int:
    """Return the offset after the next `}`; raises `StatsError` if the text before it is not blank."""
    start = _blanks(text, start)
    if not text.startswith("}", start):
        raise StatsError(
            _json_error(text, json.JSONDecodeError("Expecting ',' delimiter", text, start)), source
        )
    return start + 1


def _blanks(text: str, start: int, more: str = "") -> int:
    while start < len(text) and text[start] in " \t\r\n" + more:
        start += 1
    return start


def _unzipped(data: bytes, source: str) -> bytes:
    try:
        return unzipped(data)
    except ValueError as error:
        raise StatsError(str(error), source) from None


def _heading(text: str, start: int) -> tuple[str | None, int]:
    """Return the heading of the next JSON document, and the offset of the document.

    The heading is the last line with a topic before the document. It is None if there is no such line.
    """
    found = _JSON_BEGINS.search(text, start)
    if text[start] == "{" or found is None:
        return None, start
    named = [line.strip() for line in text[start : found.start()].splitlines() if "://" in line]
    return named[-1] if named and " " not in named[-1] else None, found.start()


def _is_trailing_text(text: str, start: int) -> bool:
    """Return whether the rest of the text is only a shell prompt or the end of a Markdown block."""
    rest = text[start : start + 1000]
    return start + len(rest) == len(text) and not any(mark in rest for mark in '{}"') and rest[0] in "[`$>%#*"


def _json_error(text: str, error: json.JSONDecodeError) -> str:
    where = f"line {error.lineno}, column {error.colno}"
    rest = text[error.pos :]
    cut_off = error.msg.startswith("Unterminated string") or any(
        word.startswith(rest) for word in ("true", "false", "null", "-")
    )
    if cut_off and text[0] in "{[":
        return f"the JSON ends too early ({where}): the file is cut off; fetch it again"
    if _MEMBER_BEGINS.match(text):
        return "a part of an answer, from its middle: copy it from the first brace to the last"
    return f"not JSON at {where}: {error.msg}; {HOW_TO}"
