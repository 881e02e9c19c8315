"""A Pulsar broker in this process, for tests of clients. Tests move its clock, inject faults and restart it.

>>> from ackwell.devbroker import Broker                                   # doctest: +SKIP
>>> with Broker() as broker:                                               # doctest: +SKIP
...     client = pulsar.Client(broker.url)
"""

from __future__ import annotations

from ackwell.devbroker.async_broker import AsyncBroker
from ackwell.devbroker.devbroker_settings import DevBrokerSettings
from ackwell.devbroker.threaded import Broker

__all__ = ["AsyncBroker", "Broker", "DevBrokerSettings"]

__dir__ = __all__.copy
