"""Mutants of the Rust core: cargo-mutants lists them; each is built and tested in a copy of the sources.

The core's Rust tests run first. For a mutant that passes them, the tests through Python compare the core with
the reference engine and with other oracles.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.mutants.copies import PYTHON, ROOT, copied
from tests.mutants.judges import CORE_JUDGES
from tests.mutants.sampling import choose, deal

if TYPE_CHECKING:
    from tests.mutants.verdicts import Verdicts

CORE = Path("rust/core")
# Checks of invariants, and texts for people: no test breaks an invariant to see its check fail.
OTHER = re.compile(r"(^|::)validate$|fmt::(Debug|Display)|Debug for|Display for")
PROGRAMS = ("model", "hostile", "allocations")
BUILT = ROOT / "target" / "mutants"
# Always the same folder, so that cargo builds only changed files.
COPY = BUILT / "sources"
ENVIRONMENT = {
    **os.environ,
    # Symbols for debuggers would double the time of each build.
    "CARGO_PROFILE_DEV_DEBUG": "false",
    "CARGO_TARGET_DIR": str(BUILT),
    # The files of an interrupted build may compile and not link, for any mutant.
    "CARGO_INCREMENTAL": "0",
    # Do not shrink a failure, keep nothing for the next mutant, and give each mutant the same cases.
    "PROPTEST_MAX_SHRINK_ITERS": "0",
    "PROPTEST_DISABLE_FAILURE_PERSISTENCE": "1",
    "PROPTEST_RNG_SEED": "1",
    # As maturin builds a module for Python.
    "PYO3_BUILD_EXTENSION_MODULE": "1",
    "PYO3_PYTHON": str(PYTHON),
    "PYTHONPATH": str(COPY / "python"),
}
# The clock ends an endless loop.
TIMEOUT_S = 300


def run(modules: list[str], sample: int, seed: str, verdicts: Verdicts) -> None:
    """Run `sample` mutants of `modules`."""
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
    if not built(*PROGRAMS) or any(map(fails, PROGRAMS)) or fails_in_python():
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
    """Return the verdict on the mutant in the copy. The tests of its part of the core run first, then all."""
    if not built("model"):
        if _succeeds(["cargo", "check", "--quiet", "--package=ackwell-core"], COPY):
            sys.exit("the core compiles, and its tests do not")
        return "unviable"
    part = Path(module).relative_to(CORE / "src").parts[0].removesuffix(".rs")
    if fails("model", part) or (built(*PROGRAMS) and any(map(fails, PROGRAMS))):
        return "killed"
    return "killed" if fails_in_python() else "survived"


def built(*programs: str) -> bool:
    """Build test programs; return whether they compile."""
    return _succeeds(
        ["cargo", "test", "--quiet", "--package=ackwell-core", "--no-run"]
        + [f"--test={program}" for program in programs],
        COPY,
    )


def fails(program: str, *names: str) -> bool:
    """Return whether a test fails whose name contains one of `names`, or any test without `names`."""
    files = (BUILT / "debug" / "deps").glob(f"{program}-*")
    newest = max((file for file in files if not file.suffix), key=lambda file: file.stat().st_mtime)
    return not _succeeds([newest, "--quiet", *names], COPY / CORE)


def fails_in_python() -> bool:
    """Return whether one of `CORE_JUDGES` fails with the native module built from the copy."""
    if not _succeeds(["cargo", "build", "--quiet", "--package=ackwell-python"], COPY):
        sys.exit("the native module does not build")
    shutil.copy(BUILT / "debug" / "lib_native.so", COPY / "python" / "ackwell" / "_native.abi3.so")
    return not _succeeds([PYTHON, "-m", "tests.mutants.quietly", str(TIMEOUT_S), *CORE_JUDGES], COPY)


def _succeeds(command: list[Any], place: Path) -> bool:
    """Run a command until the timeout; return whether it succeeds."""
    try:
        done = subprocess.run(
            command, cwd=place, env=ENVIRONMENT, check=False, capture_output=True, timeout=TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0
