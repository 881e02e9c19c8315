"""The codes of the doctor's findings, with explanations and remedies, from `codes.toml`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from shlex import quote
from typing import TYPE_CHECKING, Any, Final

from ackwell.releases import release_number

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """One entry of `codes.toml`; the comment at the head of that file describes the fields."""

    code: str
    verdict: str
    what: str
    why: str = ""
    until: str = ""
    issues: tuple[str, ...] = ()
    do: tuple[str, ...] = ()
    save: str = ""
    when: tuple[str, ...] = ()
    fixed_in: tuple[str, ...] = ()

    def has(self, version: str) -> bool:
        """Return whether a broker of this version may have the defect with this code.

        >>> lost = codes()["read-lost-active"]
        >>> [lost.has(version) for version in ("4.0.7", "4.0.13", "4.2.4", "5.0.0-M1", "5.0.1")]
        [True, False, False, True, False]
        """
        number = release_number(version)
        return not any(
            number[:2] == fixed[:2] and number >= fixed for fixed in map(release_number, self.fixed_in)
        )

    def steps(self, topic: str, subscription: str) -> list[str]:
        """Return the remedies as lines to copy; names with special characters are quoted."""
        return [with_names(each, topic, subscription) for line in self.do for each in _without_a_loss(line)]


UNLOAD: Final = (
    "ackwell rescue unload --admin URL {topic} --yes",
    "  (it unloads the topic and restores the entries that the unload forgets. `pulsar-admin topics unload` "
    "alone loses the acknowledgments beyond the limits. Both may lose acknowledgments inside batches)",
)
"""The commands for an unload that loses no acknowledgment, and a warning about the plain unload."""

RESTART: Final = (
    "{setting} in broker.conf, with a restart between these commands:",
    "  ackwell rescue begin --admin URL -o window {topic} --yes",
    "  ackwell rescue end window --admin URL --yes",
    "  (a restart alone loses the acknowledgments beyond the limits)",
)
"""The commands for a restart that loses no acknowledgment, and a warning about the plain restart."""


def _without_a_loss(line: str) -> tuple[str, ...]:
    """Return the steps that one remedy of a code consists of.

    A remedy is a line of the list in `codes.toml`. The lines `{unload}` and `{restart …}` are placeholders
    for several steps that lose no acknowledgment. Any other line is one step.
    """
    if line == "{unload}":
        return UNLOAD
    if line.startswith("{restart "):
        setting = line.removeprefix("{restart ").removesuffix("}")
        return (RESTART[0].replace("{setting}", setting), *RESTART[1:])
    return (line,)


def with_names(text: str, topic: str, subscription: str) -> str:
    """Replace `{topic}` and `{subscription}` by the names, quoted for a shell.

    >>> with_names("ackwell holes {topic}", "a topic", "sub")
    "ackwell holes 'a topic'"
    """
    if "{" not in text:
        return text
    names = {"{topic}": quote(topic), "{subscription}": quote(subscription)}
    return re.sub(r"\{(?:topic|subscription)\}", lambda place: names[place[0]], text)


@cache
def codes() -> Mapping[str, Code]:
    """Return every code by its name, in the order of the file."""
    import tomllib

    text = files("ackwell.broker").joinpath("codes.toml").read_text(encoding="utf-8")
    found = {}
    for name, entry in tomllib.loads(text).items():
        fields: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()
        }
        found[name] = Code(code=name, **fields)
    return found
