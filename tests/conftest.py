"""Settings of the whole test tree."""

import pytest
from hypothesis import HealthCheck, settings

from tests.samples import EXAMPLES

# The public suites live in the package; their asserts should explain themselves as those here do.
pytest.register_assert_rewrite("ackwell.testing")

# No test fails because a machine is slow. `make check` selects the profile "check", `make proof` "proof".
# A test that needs another number of examples takes `examples(n)` of `tests/samples.py`.
settings.register_profile(
    "ackwell", deadline=None, max_examples=EXAMPLES, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("check", settings.get_profile("ackwell"), max_examples=10)
settings.register_profile("proof", settings.get_profile("ackwell"), max_examples=200)
settings.load_profile("ackwell")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the Spark tests first. They are the longest, so two workers finish at about the same time."""
    items.sort(key=lambda item: item.get_closest_marker("spark") is None)
