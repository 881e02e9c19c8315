"""What all topics of a broker share: clock, settings and file, policies, memory, and who runs next.

Topics and subscriptions know this much of their broker. `State` adds the topics to it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from ackwell.devbroker.faults import Faults
from ackwell.devbroker.recorder import Recorder
from ackwell.devbroker.refusals import RefusedError
from ackwell.errors import ErrorCode

if TYPE_CHECKING:
    from ackwell.devbroker.clients import Client
    from ackwell.devbroker.clock import Clock
    from ackwell.devbroker.disk import Disk
    from ackwell.devbroker.settings import DevBrokerSettings
    from ackwell.protocol.topic_name import TopicName


class Kept(Protocol):
    """A subscription, as far as the broker's file keeps it."""

    durable: bool

    @property
    def names(self) -> tuple[str, str]:
        """Its topic and its own name."""

    def save(self, disk: Disk) -> None:
        """Write its state."""


class BrokerCore:
    """What all topics of a broker share; `deliver` runs a subscription that was woken."""

    def __init__(
        self, settings: DevBrokerSettings, clock: Clock, disk: Disk | None, deliver: Callable[[Any], None]
    ) -> None:
        self.settings = settings
        self.clock = clock
        self.disk = disk
        self.recorder = Recorder(clock, settings.max_events)
        self.faults = Faults()
        self.policies: dict[str, dict[str, Any]] = {}
        """Namespace → policy → value, as an operator set them."""
        self.connections: set[Client] = set()
        self.memory_bytes = 0
        """The bytes of all messages."""
        self.waiting_bytes = 0
        """The bytes of frames that are not whole yet."""
        self.ledger_id = -1
        """The greatest ledger id so far."""
        self._deliver = deliver
        self._woken: dict[Kept, None] = {}
        self._unsaved: dict[Kept, None] = {}
        self._running = False
        self._when_durable: list[Callable[[], None]] = []

    def new_ledger_id(self) -> int:
        """Return a ledger id greater than all before."""
        self.ledger_id += 1
        if self.disk is not None:
            self.disk.fact("ledger", self.ledger_id)
        return self.ledger_id

    def deduplicates(self, name: TopicName) -> bool:
        """Return whether messages of a topic are deduplicated."""
        policy = self.policies.get(name.in_namespace, {}).get("deduplication")
        return self.settings.deduplication if policy is None else bool(policy)

    def take_memory(self, nbytes: int) -> None:
        """Count a message's bytes; `RefusedError` where they would pass the limit."""
        if self.memory_bytes + nbytes > self.settings.max_memory_bytes:
            raise RefusedError(
                ErrorCode.PERSISTENCE_ERROR,
                f"the dev broker holds {self.memory_bytes:,} bytes of messages; max_memory_bytes is "
                f"{self.settings.max_memory_bytes:,}",
            )
        self.memory_bytes += nbytes

    # Who runs next

    def wake(self, subscription: Kept) -> None:
        """Let a subscription deliver when `run_woken` is called."""
        self._woken[subscription] = None

    def wake_at(self, subscription: Kept, at_ms: int) -> None:
        """Wake a subscription at a time."""

        def run() -> None:
            self.wake(subscription)
            self.run_woken()

        self.clock.call_at(max(at_ms, self.clock.now_ms() + 1), run)

    def run_woken(self) -> None:
        """Let the subscriptions that were woken deliver, and send what connections hold."""
        if self._running:
            return
        self._running = True
        try:
            while self._woken:
                subscription = next(iter(self._woken))
                del self._woken[subscription]
                self._deliver(subscription)
        finally:
            self._running = False
        if self.disk is not None:
            self.save()
            for call in self._when_durable:
                call()
            self._when_durable.clear()
        for connection in self.connections:
            connection.flush()

    # What a killed process finds again

    def changed(self, subscription: Kept) -> None:
        """Let a subscription's state be saved with the next commit."""
        if self.disk is not None and subscription.durable:
            self._unsaved[subscription] = None

    def forget_cursor(self, subscription: Kept) -> None:
        """Delete what is kept of a subscription."""
        if self.disk is not None:
            names = subscription.names
            self._unsaved = {each: None for each in self._unsaved if each.names != names}
            self.disk.forget_cursor(*names)

    def when_durable(self, call: Callable[[], None]) -> None:
        """Call a function when what has happened until now is durable."""
        if self.disk is None:
            call()
        else:
            self._when_durable.append(call)

    def save(self) -> None:
        """Make everything that changed durable."""
        if self.disk is not None:
            for each in self._unsaved:
                each.save(self.disk)
            self._unsaved.clear()
            self.disk.commit()
