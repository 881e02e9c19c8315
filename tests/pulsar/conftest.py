"""Everything here runs Apache Pulsar's own code: `make lab-test-pulsar`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.pulsar import kit

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    reason = None
    ours = [item for item in items if HERE in item.path.parents]
    if ours:
        reason = kit.missing()
    for item in ours:
        item.add_marker("pulsar")
        if reason is not None:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kit.Broker]:
    with kit.running_broker(tmp_path_factory.mktemp("broker")) as running:
        yield running
