"""The pytest plugin of ackwell: the fixture `pulsar_broker`, a Pulsar broker for one test.

A package of its own, because pytest imports every plugin when it starts: nothing of ackwell is imported
before a test uses the fixture.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ackwell.devbroker import Broker


@pytest.fixture
def pulsar_broker_options() -> dict[str, Any]:
    """Return the arguments of the broker, none by default; override this fixture to give some."""
    return {}


@pytest.fixture
def pulsar_broker(pulsar_broker_options: dict[str, Any]) -> Iterator[Broker]:
    """Run a Pulsar broker on 127.0.0.1 and a free port: `pulsar_broker.url` is its address."""
    from ackwell.devbroker import Broker

    with Broker(**pulsar_broker_options) as broker:
        yield broker
