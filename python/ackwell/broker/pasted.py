"""Clean JSON that was pasted by hand.

The text may contain the `>` of quoted mails, `...`, comments, superfluous commas, the colours of `jq -C`, the
lines of `curl -v`, no-break spaces and typographic quotation marks. It may also be the `repr` of a Python
object.

No value is invented. A list that contains `...` is replaced by the text `...`, so a reader that needs the
list reports an error. An object that contains `...` keeps its visible members.
"""

from __future__ import annotations

import json
import re
from ast import literal_eval
from typing import Final

PASTED_CHARS_MAX: Final = 16 << 20
"""The longest text that is treated as pasted by hand."""

_QUOTED: Final = re.compile(r"^(?:[ \t]*>)+[ \t]?", re.MULTILINE)
_COLOURS: Final = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_OF_CURL: Final = re.compile(r"^(?:[*<] .*|[<>]|[{}] \[\d+ bytes data\])[ \t\r]*$", re.MULTILINE)
_TYPOGRAPHIC: Final = str.maketrans({"“": '"', "”": '"', "\u200b": None, "\ufeff": None})
_PYTHON_WORDS: Final = {"True": "true", "False": "false", "None": "null"}
_TOKEN: Final = re.compile(
    r"""
    "(?:[^"\\]|\\.)*" | '(?:[^'\\\n]|\\.)*' | //[^\n]* | /\*.*?\*/ | \.{3,} | \s+ | [\w+-][\w.+-]* | .
    """,
    re.DOTALL | re.VERBOSE,
)
_LEFT_OUT: Final = '"..."'


def clean_pasted(text: str) -> str:
    r"""Convert pasted text to JSON: remove mail quoting, comments and superfluous commas, and replace `...`.

    O(characters).

    >>> clean_pasted('{"a": [1, ...], "b": 2, // so\n ...}')
    '{"a": "...", "b": 2 \n }'
    """
    written = _JsonWriter()
    text = _COLOURS.sub("", text).translate(_TYPOGRAPHIC)
    for token in _TOKEN.findall(_QUOTED.sub("", _OF_CURL.sub("", text))):
        if token.isspace():
            written.parts.append(token if token.isascii() else " ")
        elif token.startswith("...") or token == "…":
            written.leave_out()
        elif len(token) > 1 and token[0] == "'":
            written.add(_of_python(token))
        elif not token.startswith(("//", "/*")) and token != "`":
            written.add(_PYTHON_WORDS.get(token, token))
    return "".join(written.parts)


def _of_python(literal: str) -> str:
    """Convert a Python string literal to a JSON string; return it unchanged if Python cannot parse it."""
    try:
        return json.dumps(literal_eval(literal))
    except (SyntaxError, ValueError):
        return literal


class _JsonWriter:
    """A list of the tokens of a JSON text, and of the brackets that are still open."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self._opened: list[int] = []
        self._cut_short: set[int] = set()
        self._last = ""

    def leave_out(self) -> None:
        """Handle an ellipsis (`...`) in the pasted text.

        After a colon, the ellipsis becomes the value of the member. In a list, the ellipsis marks the list as
        cut short. Any other ellipsis is left out.
        """
        if self._last == ":":
            self._put(_LEFT_OUT)
        elif self._opened and self.parts[self._opened[-1]] == "[":
            self._cut_short.add(self._opened[-1])

    def add(self, token: str) -> None:
        """Add a bracket, a comma, a colon or a value."""
        if token == "," and self._last in ("", "{", "[", ","):
            return
        if token in ("{", "["):
            self._opened.append(len(self.parts))
        elif token in ("}", "]"):
            token = self._close(token)
        self._put(token)

    def _close(self, bracket: str) -> str:
        if self._last == ",":
            self.parts[len(self.parts) - 1 - self.parts[::-1].index(",")] = ""
        start = self._opened.pop() if self._opened else None
        if start not in self._cut_short:
            return bracket
        self._cut_short.remove(start)
        del self.parts[start:]
        return _LEFT_OUT

    def _put(self, token: str) -> None:
        self.parts.append(token)
        self._last = token
