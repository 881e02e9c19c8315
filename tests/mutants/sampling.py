"""A seeded sample of mutants, distributed over the files by their number of places."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import islice
from typing import TypeVar

Mutant = TypeVar("Mutant")


def deal(places: Mapping[str, int], count: int) -> dict[str, int]:
    """Return each file's part of `count`: proportional to its number of places, and at least one."""
    places = {name: found for name, found in places.items() if found}
    shares = {name: count * found / sum(places.values()) for name, found in places.items()}
    dealt = {name: max(1, int(share)) for name, share in shares.items()}
    for name in sorted(places, key=lambda name: (int(shares[name]) - shares[name], name)):
        if sum(dealt.values()) >= count:
            break
        dealt[name] += 1
    return dealt


def choose(
    mutants: Mapping[Hashable, Sequence[Mutant]],
    count: int,
    seed: str,
    viable: Callable[[Mutant], bool] = lambda _: True,
) -> list[Mutant]:
    """Return `count` viable mutants at different places, and second mutants of a place if places run out.

    `mutants` maps a place to its mutants. A place has one to eleven, so the place is drawn first.
    """
    draw = random.Random(seed)
    left = {place: draw.sample(list(here), len(here)) for place, here in mutants.items()}
    # The order is fixed, so a larger sample contains the smaller one.
    order = draw.sample(list(left), len(left))
    rounds = max(map(len, left.values()), default=0)
    drawn = (left[place][turn] for turn in range(rounds) for place in order if turn < len(left[place]))
    return list(islice(filter(viable, drawn), count))


def compiles(source: str) -> bool:
    """Return whether this source of a Python module compiles."""
    with warnings.catch_warnings(action="ignore"):
        try:
            compile(source, "mutant", "exec", dont_inherit=True)
        except SyntaxError:
            return False
    return True
