"""Mutants of the Rust core: cargo-mutants makes them, in a copy of the sources, and runs the core's tests."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.mutants.sampling import choose, deal

if TYPE_CHECKING:
    from tests.mutants.verdicts import Verdicts

ROOT = Path(__file__).parents[2]
# Checks of our own invariants, and texts for people: no test breaks an invariant to see its check fail.
OTHER = re.compile(r"(^|::)validate$|fmt::(Debug|Display)|Debug for|Display for")
TESTS = ("--cargo-arg=--test=model", "--cargo-arg=--test=hostile")
BUILT = ROOT / "target" / "mutants"
VERDICTS = {"CaughtMutant": "killed", "Timeout": "killed", "MissedMutant": "survived", "Unviable": "unviable"}


def run(modules: list[str], sample: int, seed: str, verdicts: Verdicts) -> None:
    """Judge `sample` mutants of `modules`."""
    found: dict[str, dict[object, list[Any]]] = {module: defaultdict(list) for module in modules}
    for mutant in json.loads(_mutants("--list", "--json").stdout):
        function = mutant["function"] or {"function_name": ""}
        if mutant["file"] in found and not OTHER.search(function["function_name"]):
            found[mutant["file"]][json.dumps(mutant["span"])].append(mutant)
    dealt = deal({module: len(there) for module, there in found.items()}, sample)
    chosen = [
        mutant["name"]
        for module, count in dealt.items()
        for mutant in choose(found[module], count, f"{seed} {module}")
    ]
    with tempfile.TemporaryDirectory(prefix="ackwell-mutants-") as out:
        names = [part for name in chosen for part in ("--re", f"^{re.escape(name)}$")]
        # Two exits are no failures: 2 says that mutants survived, 3 that some timed out.
        options = ["--output", out, "--jobs", "1", "--no-config", "--colors", "never", *names]
        if (done := _mutants(*options, echo=True)).returncode not in (0, 2, 3):
            sys.exit(f"cargo mutants failed with {done.returncode}")
        folder = Path(out, "mutants.out")
        for outcome in json.loads((folder / "outcomes.json").read_text())["outcomes"]:
            if outcome["scenario"] != "Baseline":
                mutant = outcome["scenario"]["Mutant"]
                diff = (folder / outcome["diff_path"]).read_text()
                verdicts.add(mutant["file"], VERDICTS[outcome["summary"]], mutant["name"], diff)


def _mutants(*options: str, echo: bool = False) -> subprocess.CompletedProcess[str]:
    """Run cargo-mutants on the core.

    Symbols for debuggers would double the time of each build. The copies share one target folder, so that
    what the core depends on is built once.
    """
    environment = {**os.environ, "CARGO_PROFILE_DEV_DEBUG": "false", "CARGO_TARGET_DIR": str(BUILT)}
    command = ["cargo", "mutants", "--package", "ackwell-core", *options, *TESTS]
    return subprocess.run(
        command, cwd=ROOT, env=environment, check=False, stdout=None if echo else subprocess.PIPE, text=True
    )
