"""pytest as mutants need it: the first failure ends it, and hypothesis neither varies nor shrinks."""

from __future__ import annotations

import resource
import sys

import pytest
from hypothesis import HealthCheck, Phase, settings

# Shrinking takes minutes where only the verdict counts, and a verdict must be the same next time.
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
    # An endless loop ends here, however busy the machine is. A test's own processes have as much each.
    resource.setrlimit(resource.RLIMIT_CPU, (int(cpu_s), int(cpu_s)))
    sys.exit(pytest.main([*OPTIONS.split(), "-m", QUICK, *tests]))
