"""What became of each mutant, the survivors that are known to be equivalent, and the count of all."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from tests.mutants.judges import room_of

EQUIVALENT = Path(__file__).with_name("equivalent.md")
KILLED_MIN = 0.9


def core_of(diff: str) -> tuple[str, ...]:
    """Return the lines of a diff without what changes when lines elsewhere do: names and line numbers."""
    lines = [line.rstrip() for line in diff.splitlines()]
    return tuple(line for line in lines if line and not line.startswith(("---", "+++", "@@")))


def equivalents() -> set[tuple[str, ...]]:
    """Return the diffs that `equivalent.md` lists."""
    return {core_of(diff) for diff in re.findall(r"^```diff\n(.*?)^```", EQUIVALENT.read_text(), re.M | re.S)}


@dataclass
class Verdicts:
    """Counts by file, printed as they come."""

    known: set[tuple[str, ...]] = field(default_factory=equivalents)
    by_file: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))

    def add(self, module: str, verdict: str, name: str, diff: str) -> None:
        """Count and print a mutant; `verdict` is killed, survived, or unviable where it does not compile."""
        if verdict == "survived" and core_of(diff) in self.known:
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
