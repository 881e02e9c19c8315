"""Mutants of Python modules: cosmic-ray makes them, one at a time, in a copy of the sources."""

from __future__ import annotations

import ast
import difflib
import os
import re
import resource
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import cosmic_ray.plugins
from cosmic_ray.commands.init import init
from cosmic_ray.mutating import mutate_code, use_mutation
from cosmic_ray.testing import run_tests
from cosmic_ray.work_db import WorkDB, use_db
from cosmic_ray.work_item import TestOutcome

from tests.mutants.copies import PYTHON, copied
from tests.mutants.judges import judges
from tests.mutants.removal import Provider
from tests.mutants.sampling import choose, compiles, deal

if TYPE_CHECKING:
    from tests.mutants.verdicts import Verdicts

# Equal small integers, strings of the source and None are one object each, so these change nothing.
SAME = {
    "core/ReplaceComparisonOperator_Eq_Is",
    "core/ReplaceComparisonOperator_Is_Eq",
    "core/ReplaceComparisonOperator_NotEq_IsNot",
    "core/ReplaceComparisonOperator_IsNot_NotEq",
}
# A mutant that would fill the memory fails at this limit.
ADDRESS_SPACE_BYTES_MAX = 8 << 30
# Survivors in these modules also run through lives of the simulation.
LIVED = ("python/ackwell/cursor/", "python/ackwell/subscription/", "python/ackwell/saving/")
LIVES = 600
# The test that killed a mutant, in pytest's summary.
FAILED = re.compile(r"(FAILED|ERROR) .*")

Places = dict[object, list[Any]]


def run(modules: list[str], sample: int, seed: str, verdicts: Verdicts) -> None:
    """Run `sample` mutants of `modules`."""
    cosmic_ray.plugins.OPERATOR_PROVIDERS["ackwell"] = Provider()
    with tempfile.TemporaryDirectory(prefix="ackwell-mutants-") as place:
        copied(Path(place))
        os.chdir(place)
        os.environ["PYTHONPATH"] = str(Path(place, "python"))
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE_BYTES_MAX, resource.RLIM_INFINITY))
        found = {module: places(module) for module in modules}
        dealt = deal({module: len(there) for module, there in found.items()}, sample)
        for module, count in dealt.items():
            viable = partial(is_viable, Path(module).read_text())
            judge(module, choose(found[module], count, f"{seed} {module}", viable), verdicts)


def places(module: str) -> Places:
    """Return the mutants of each place of a module, without type annotations."""
    types = list(type_spans(ast.parse(Path(module).read_text())))
    found: Places = defaultdict(list)
    with (
        tempfile.TemporaryDirectory() as folder,
        use_db(f"{folder}/items.sqlite", WorkDB.Mode.create) as items,
    ):
        init([Path(module)], items, {})
        ordered = sorted(items.work_items, key=lambda item: _key(item.mutations[0]))
        for mutation in (item.mutations[0] for item in ordered):
            typed = any(start <= tuple(mutation.start_pos) < end for start, end in types)
            if mutation.operator_name not in SAME and not typed:
                found[tuple(mutation.start_pos), tuple(mutation.end_pos)].append(mutation)
    return found


def _key(mutation: Any) -> tuple[object, ...]:
    return tuple(mutation.start_pos), tuple(mutation.end_pos), mutation.operator_name, mutation.occurrence


Place = tuple[int, int]


def type_spans(tree: ast.Module) -> Iterator[tuple[Place, Place]]:
    """Yield the start and end of code without effect: annotations, and blocks for type checkers."""
    for node in ast.walk(tree):
        spans: list[ast.expr | ast.stmt | None] = []
        if isinstance(node, ast.FunctionDef):
            spans = [node.returns]
        elif isinstance(node, ast.arg | ast.AnnAssign):
            spans = [node.annotation]
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            spans = [node]
        for span in spans:
            if span is not None:
                yield (span.lineno, span.col_offset), (span.end_lineno or 0, span.end_col_offset or 0)


def is_viable(source: str, mutation: Any) -> bool:
    """Return whether the mutant compiles; `def f(+names)`, made from `def f(*names)`, does not."""
    try:
        mutated = mutate_code(source, _operator(mutation), mutation.occurrence)
    except AttributeError:
        # cosmic-ray cannot replace an exception with a dotted name: `except json.JSONDecodeError`.
        return False
    return mutated is not None and compiles(mutated)


def _operator(mutation: Any) -> Any:
    return cosmic_ray.plugins.get_operator(mutation.operator_name)(**mutation.operator_args)


def judge(module: str, mutations: list[Any], verdicts: Verdicts) -> None:
    """Run the module's tests on each mutant."""
    examples, *tests = judges(module)
    for mutation in mutations:
        limits = limits_of(tuple(tests))
        with use_mutation(Path(module), _operator(mutation), mutation.occurrence) as (before, after):
            outcome, output = run_tests(command([*tests, examples], limits.cpu_s), limits.wall_s)
            if outcome is TestOutcome.SURVIVED and module.startswith(LIVED):
                outcome, output = run_tests(f"{PYTHON} -m tests.simulation 0 {LIVES}", limits.wall_s)
        verdict = "survived" if outcome is TestOutcome.SURVIVED else "killed"
        line, column = mutation.start_pos
        name = f"{module}:{line}:{column} {mutation.operator_name.split('/')[1]}"
        failed = FAILED.search(output)
        verdicts.add(module, verdict, f"{name} {failed[0] if failed else ''}", _diff(module, before, after))


class Limits(NamedTuple):
    """The limits of a run in seconds. The limit of the clock ends a run that only waits."""

    cpu_s: float
    wall_s: float


def command(tests: Sequence[str], cpu_s: float) -> str:
    """Return the command that runs tests."""
    return f"{PYTHON} -m tests.mutants.quietly {cpu_s:.0f} {' '.join(tests)}"


@cache
def limits_of(tests: tuple[str, ...]) -> Limits:
    """Return the limits of tests on a mutant: a multiple of a run without one, because the load may rise."""
    begun, cpu_s = time.monotonic(), _cpu_s()
    outcome, output = run_tests(command(tests, 3600), None)
    if outcome is not TestOutcome.SURVIVED:
        sys.exit(f"{' '.join(tests)}: fail without a mutant\n{output}")
    return Limits(15 + 3 * (_cpu_s() - cpu_s), 90 + 5 * (time.monotonic() - begun))


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _diff(module: str, before: str, after: str) -> str:
    lines = difflib.unified_diff(before.split("\n"), after.split("\n"), module, module, lineterm="")
    return "\n".join(lines)
