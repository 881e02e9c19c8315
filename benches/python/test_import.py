"""The cost of `import ackwell` in a new process, compared with an interpreter that imports nothing."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_benchmark.fixture import BenchmarkFixture


@pytest.mark.parametrize("statement", ["pass", "import ackwell"])
def test_import(benchmark: BenchmarkFixture, statement: str) -> None:
    benchmark.group = "import"
    benchmark(subprocess.run, [sys.executable, "-c", statement], check=True)
