"""The pytest plugin of ackwell: a Pulsar broker for one test, for a session, or in the test's own event loop.

A package of its own, because pytest imports every plugin when it starts: nothing of ackwell is imported
before a test uses the fixture.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ackwell.devbroker import AsyncBroker, Broker


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


@pytest.fixture
def async_pulsar_broker(pulsar_broker_options: dict[str, Any]) -> AsyncBroker:
    """Return a broker for the test's own event loop: `async with async_pulsar_broker as broker`."""
    from ackwell.devbroker import AsyncBroker

    return AsyncBroker(**pulsar_broker_options)


@pytest.fixture(scope="session")
def pulsar_session_broker_options() -> dict[str, Any]:
    """Return the arguments of the session's broker; override this fixture to give some."""
    return {}


@pytest.fixture(scope="session")
def pulsar_session_broker(pulsar_session_broker_options: dict[str, Any]) -> Iterator[Broker]:
    """Run one broker for all tests of a session; `shared_pulsar_broker` resets it for each."""
    from ackwell.devbroker import Broker

    with Broker(**pulsar_session_broker_options) as broker:
        yield broker


@pytest.fixture
def shared_pulsar_broker(pulsar_session_broker: Broker) -> Broker:
    """Return the broker of the session, as it was at the start: its address stays, all else is gone."""
    pulsar_session_broker.reset()
    return pulsar_session_broker
