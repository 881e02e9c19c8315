"""Mutants of the Rust core: cargo-mutants lists them, each is built in a copy of the sources and tested."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.mutants.copies import ROOT, copied
from tests.mutants.sampling import choose, deal

if TYPE_CHECKING:
    from tests.mutants.verdicts import Verdicts

CORE = Path("rust/core")
# Checks of our own invariants, and texts for people: no test breaks an invariant to see its check fail.
OTHER = re.compile(r"(^|::)validate$|fmt::(Debug|Display)|Debug for|Display for")
PROGRAMS = ("model", "hostile", "allocations")
BUILT = ROOT / "target" / "mutants"
# In one place each time, so that only what a mutant changes is built.
COPY = BUILT / "sources"
ENVIRONMENT = {
    **os.environ,
    # Symbols for debuggers would double the time of each build.
    "CARGO_PROFILE_DEV_DEBUG": "false",
    "CARGO_TARGET_DIR": str(BUILT),
    # A failure is not made smaller, nothing is kept for the next mutant, and each sees the same cases.
    "PROPTEST_MAX_SHRINK_ITERS": "0",
    "PROPTEST_DISABLE_FAILURE_PERSISTENCE": "1",
    "PROPTEST_RNG_SEED": "1",
}
# An endless loop is killed by the clock.
TIMEOUT_S = 300


def run(modules: list[str], sample: int, seed: str, verdicts: Verdicts) -> None:
    """Judge `sample` mutants of `modules`."""
    copied(COPY)
    listed = ["cargo", "mutants", "--package=ackwell-core", "--no-config", "--list", "--json"]
    mutants = json.loads(
        subprocess.run(listed, cwd=COPY, check=True, stdout=subprocess.PIPE, text=True).stdout
    )
    found: dict[str, dict[object, list[Any]]] = {module: defaultdict(list) for module in modules}
    for mutant in mutants:
        function = mutant["function"] or {"function_name": ""}
        if mutant["file"] in found and not OTHER.search(function["function_name"]):
            found[mutant["file"]][json.dumps(mutant["span"])].append(mutant)
    if not built(*PROGRAMS) or any(map(fails, PROGRAMS)):
        sys.exit("the core's tests fail without a mutant")
    dealt = deal({module: len(there) for module, there in found.items()}, sample)
    for module, count in dealt.items():
        before = (COPY / module).read_text()
        for mutant in choose(found[module], count, f"{seed} {module}"):
            try:
                subprocess.run(
                    ["patch", "--quiet", module], cwd=COPY, check=True, input=mutant["diff"], text=True
                )
                verdict = judge(module)
            finally:
                (COPY / module).write_text(before)
            verdicts.add(module, verdict, mutant["name"], mutant["diff"])


def judge(module: str) -> str:
    """Return what becomes of the mutant in the copy: the tests of its part of the core first, then all."""
    if not built("model"):
        return "unviable"
    part = Path(module).relative_to(CORE / "src").parts[0].removesuffix(".rs")
    if fails("model", part):
        return "killed"
    return "killed" if built(*PROGRAMS) and any(map(fails, PROGRAMS)) else "survived"


def built(*programs: str) -> bool:
    """Build test programs; return whether they compile."""
    command = ["cargo", "test", "--quiet", "--package=ackwell-core", "--no-run"]
    command += [f"--test={program}" for program in programs]
    done = subprocess.run(command, cwd=COPY, env=ENVIRONMENT, check=False, capture_output=True)
    return done.returncode == 0


def fails(program: str, *names: str) -> bool:
    """Return whether a test fails, of those whose names have one of `names` in them."""
    files = (BUILT / "debug" / "deps").glob(f"{program}-*")
    newest = max((file for file in files if not file.suffix), key=lambda file: file.stat().st_mtime)
    try:
        done = subprocess.run(
            [newest, "--quiet", *names],
            cwd=COPY / CORE,
            env=ENVIRONMENT,
            check=False,
            capture_output=True,
            timeout=TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        return True
    return done.returncode != 0
