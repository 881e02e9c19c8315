"""Run pytest on a mutant: stop at the first failure, with fixed Hypothesis examples that do not shrink."""

from __future__ import annotations

import resource
import sys

import pytest
from hypothesis import HealthCheck, Phase, settings

# Only the verdict counts, so shrinking would waste minutes. A verdict must be the same in the next run.
settings.register_profile(
    "mutants",
    deadline=None,
    max_examples=20,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)

OPTIONS = "-q -x --no-header --tb=no -p no:cacheprovider --benchmark-disable --hypothesis-profile mutants"
QUICK = "not slow and not launch and not pulsar and not faults and not proof"

if __name__ == "__main__":
    cpu_s, *tests = sys.argv[1:]
    # This ends an endless loop on a machine of any load. Each process of a test has the same limit.
    resource.setrlimit(resource.RLIMIT_CPU, (int(cpu_s), int(cpu_s)))
    sys.exit(pytest.main([*OPTIONS.split(), "-m", QUICK, *tests]))
