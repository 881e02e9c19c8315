"""Settings of the whole test tree."""

import pytest

# The public suites live in the package; their asserts should explain themselves as those here do.
pytest.register_assert_rewrite("ackwell.testing")
