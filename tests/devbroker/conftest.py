"""A dev broker, reset before each test, and a real client."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from ackwell.devbroker import Broker

pulsar = pytest.importorskip("pulsar")


@pytest.fixture(scope="module")
def module_broker() -> Iterator[Broker]:
    with Broker() as made:
        yield made


@pytest.fixture
def broker(module_broker: Broker) -> Iterator[Broker]:
    """Return the module's broker in its initial state."""
    module_broker.reset()
    yield module_broker
    module_broker.validate()


@pytest.fixture
def connect() -> Iterator[Callable[[Broker], Any]]:
    """Return a client of a broker; it is closed at the end."""
    clients = []

    def connected(broker: Broker) -> Any:
        logger = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
        clients.append(pulsar.Client(broker.url, logger=logger, operation_timeout_seconds=10))
        return clients[-1]

    yield connected
    for client in clients:
        with suppress(pulsar.PulsarException):
            client.close()


@pytest.fixture
def client(broker: Broker, connect: Callable[[Broker], Any]) -> Any:
    return connect(broker)
