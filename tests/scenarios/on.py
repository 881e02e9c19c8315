"""Run scenarios on a real broker or on the dev broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ackwell.devbroker import Broker
from tests.scenarios import acking, delivering, reading  # noqa: F401  # they make themselves known
from tests.scenarios.world import SCENARIOS, World

if TYPE_CHECKING:
    from tests.pulsar import kit

NAMES = tuple(SCENARIOS)


def on_ours(name: str) -> list[tuple[str, Any]]:
    """Run a scenario on a new dev broker."""
    with Broker() as broker:

        def restart(how: str) -> None:
            if how == "crash":
                broker.crash()
            broker.restart()

        notes = _played(World(broker.url, broker.admin_url, restart, name), name)
        broker.validate()
        return notes


def on_the_real_one(broker: kit.Broker, name: str) -> list[tuple[str, Any]]:
    """Run a scenario on a broker that has not run it before."""

    def restart(how: str) -> None:
        broker.stop(crash=how == "crash")
        broker.start()

    admin_url = f"http://127.0.0.1:{broker.ports.admin}"
    return _played(World(broker.service_url, admin_url, restart, name), name)


def _played(world: World, name: str) -> list[tuple[str, Any]]:
    with world:
        SCENARIOS[name](world)
    assert world.notes
    return world.notes
