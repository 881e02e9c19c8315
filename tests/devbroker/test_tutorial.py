"""The tutorial's tests run as printed, with the plugin that pytest loads."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pulsar")

ROOT = Path(__file__).parents[2]
INCIDENT = ROOT / "examples" / "traces" / "shared_small_holes.live.stats.json"
TUTORIAL = ROOT / "docs" / "test-your-consumer.md"


def run_pytest(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(folder)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "python"), *sys.path])}
    env["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    return subprocess.run(
        [*command, "-p", "pytest_ackwell", *arguments],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_every_test_of_the_tutorial_passes(tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", TUTORIAL.read_text(encoding="utf-8"), flags=re.DOTALL)
    module = tmp_path / "test_tutorial_of_the_docs.py"
    module.write_text("\n\n".join(blocks), encoding="utf-8")
    shutil.copy(INCIDENT, tmp_path / "orders.stats.json")
    done = run_pytest(tmp_path, str(module))
    assert "11 passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.slow
def test_the_plugin_does_not_import_ackwell_before_a_fixture_is_used(tmp_path: Path) -> None:
    module = tmp_path / "test_nothing.py"
    module.write_text("import sys\n\n\ndef test_it():\n    assert 'ackwell' not in sys.modules\n")
    done = run_pytest(tmp_path, str(module))
    assert "1 passed" in done.stdout, done.stdout + done.stderr
