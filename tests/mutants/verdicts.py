"""The verdict on each mutant, the list of equivalent mutants, and the counts."""

from __future__ import annotations

import tomllib
from collections import Counter, defaultdict
from collections.abc import Container
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tests.mutants.judges import room_of

EQUIVALENT = Path(__file__).with_name("equivalent.toml")
KILLED_MIN = 0.9


class Change(NamedTuple):
    """The lines of a file that a mutant changes, each without superfluous white space."""

    before: tuple[str, ...]
    after: tuple[str, ...]

    @classmethod
    def of(cls, diff: str) -> Change:
        """Return the change of a diff. If lines are only removed, the next line belongs to it."""
        # Names of files come before the first `@@`; cargo-mutants adds a comment to each change.
        body = diff.replace("/* ~ changed by cargo-mutants ~ */", "").partition("\n@@")[2].splitlines()[1:]
        lines = [(line[:1], " ".join(line[1:].split())) for line in body]
        lines = [(sign, text) for sign, text in lines if text]
        before = [text for sign, text in lines if sign == "-"]
        after = [text for sign, text in lines if sign == "+"]
        if before and not after:
            last = max(number for number, (sign, _) in enumerate(lines) if sign == "-")
            after = [text for _, text in lines[last + 1 : last + 2]]
            before += after
        return cls(tuple(before), tuple(after))


def equivalents() -> dict[tuple[str, Change], str]:
    """Return the mutants that `equivalent.toml` lists, each with its reason."""
    listed = tomllib.loads(EQUIVALENT.read_text())["mutant"]
    return {
        (each["file"], Change(tuple(each["before"].splitlines()), tuple(each["after"].splitlines()))): each[
            "why"
        ]
        for each in listed
    }


@dataclass
class Verdicts:
    """Counts of verdicts by file. Each verdict is printed when it is added."""

    known: Container[tuple[str, Change]] = field(default_factory=equivalents)
    by_file: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))

    def add(self, module: str, verdict: str, name: str, diff: str) -> None:
        """Count and print a mutant; `verdict` is killed, survived, or unviable (invalid Rust)."""
        if verdict == "survived" and (module, Change.of(diff)) in self.known:
            verdict = "equivalent"
        self.by_file[module][verdict] += 1
        print(f"{verdict:10} {name}", flush=True)
        if verdict == "survived":
            print(diff, flush=True)

    def close(self) -> int:
        """Print the tables; return 0 if enough were killed in every room."""
        rooms: dict[str, Counter[str]] = defaultdict(Counter)
        for module, counts in sorted(self.by_file.items()):
            rooms[room_of(module)].update(counts)
            print(f"{_share(counts):7.1%} {_said(counts)}  {module}")
        for room, counts in sorted(rooms.items()):
            print(f"{_share(counts):7.1%} {_said(counts)}  in {room}")
        return 0 if all(_share(counts) >= KILLED_MIN for counts in rooms.values()) else 1


def _share(counts: Counter[str]) -> float:
    judged = counts["killed"] + counts["survived"]
    return counts["killed"] / judged if judged else 1.0


def _said(counts: Counter[str]) -> str:
    said = ", ".join(f"{counts[name]} {name}" for name in ("killed", "survived", "equivalent", "unviable"))
    return f"of {counts['killed'] + counts['survived'] + counts['equivalent']} mutants: {said}"
