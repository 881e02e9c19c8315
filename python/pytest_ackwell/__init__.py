"""The pytest plugin of ackwell: a Pulsar broker per test, per session, or in the test's event loop.

It is a separate package because pytest imports every plugin at startup; ackwell itself is imported only when
a test uses a fixture.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ackwell.devbroker import AsyncBroker, Broker


@pytest.fixture
def pulsar_broker_options() -> dict[str, Any]:
    """Return the arguments of the broker, by default none; override this fixture to change them."""
    return {}


@pytest.fixture
def pulsar_broker(pulsar_broker_options: dict[str, Any]) -> Iterator[Broker]:
    """Run a Pulsar broker on 127.0.0.1 and a free port: `pulsar_broker.url` is its address."""
    from ackwell.devbroker import Broker

    with Broker(**pulsar_broker_options) as broker:
        yield broker


@pytest.fixture
def async_pulsar_broker(pulsar_broker_options: dict[str, Any]) -> AsyncBroker:
    """Return a broker for the test's event loop: `async with async_pulsar_broker as broker`."""
    from ackwell.devbroker import AsyncBroker

    return AsyncBroker(**pulsar_broker_options)


@pytest.fixture(scope="session")
def pulsar_session_broker_options() -> dict[str, Any]:
    """Return the arguments of the session's broker; override this fixture to change them."""
    return {}


@pytest.fixture(scope="session")
def pulsar_session_broker(pulsar_session_broker_options: dict[str, Any]) -> Iterator[Broker]:
    """Run one broker for all tests of a session; `shared_pulsar_broker` resets it before each test."""
    from ackwell.devbroker import Broker

    with Broker(**pulsar_session_broker_options) as broker:
        yield broker


@pytest.fixture
def shared_pulsar_broker(pulsar_session_broker: Broker) -> Broker:
    """Reset and return the broker of the session; its address stays the same for all tests."""
    pulsar_session_broker.reset()
    return pulsar_session_broker
