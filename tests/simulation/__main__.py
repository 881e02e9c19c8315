"""The command: `python -m tests.simulation SEED`, or `FIRST COUNT` for many seeds."""

from __future__ import annotations

import sys
from collections import Counter
from time import process_time

from tests.simulation.disk import FAULTS
from tests.simulation.life import OUTCOMES, Life


def main(arguments: list[str]) -> None:
    """Replay one seed with a trace, or run many and print the counts of events."""
    if len(arguments) == 1:
        seen = Life(int(arguments[0]), trace=print).live()
    else:
        first, count = map(int, arguments)
        start_s = process_time()
        seen = Counter[str]()
        for seed in range(first, first + count):
            seen.update(Life(seed).live())
        print(f"{count:,} seeds in {process_time() - start_s:.1f} s of CPU")
    for name in ("operations", "crashes", *OUTCOMES, *FAULTS):
        print(f"{seen[name]:12,} {name}")


if __name__ == "__main__":
    main(sys.argv[1:])
