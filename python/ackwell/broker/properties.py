"""Java properties: the format of `broker.conf` and `client.conf`."""

from __future__ import annotations

import re
from collections.abc import Iterator


def properties(text: str) -> Iterator[tuple[str, str]]:
    r"""Yield the keys and values of Java properties.

    >>> list(properties("# a comment\na=1\nb : two \\\n  lines"))
    [('a', '1'), ('b', 'two lines')]
    """
    lines = iter(re.split(r"\r\n|\r|\n", text))
    for line in lines:
        line = line.strip()
        if not line or line[0] in "#!":
            continue
        while (len(line) - len(line.rstrip("\\"))) % 2:
            line = line[:-1] + next(lines, "").strip()
        match = re.fullmatch(r"((?:\\.|[^\\=:\s])*)\s*[=:]?\s*(.*)", line)
        assert match is not None
        yield _unescaped(match[1]), _unescaped(match[2])


def _unescaped(text: str) -> str:
    names = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}

    def character(match: re.Match[str]) -> str:
        code = match[1]
        return chr(int(code[1:], 16)) if len(code) > 1 else names.get(code, code)

    return re.sub(r"\\(u[0-9a-fA-F]{4}|.)", character, text)
