"""What all topics of a broker share: clock, settings and file, policies, memory, and who runs next."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ackwell.devbroker.faults import Faults
from ackwell.devbroker.persistent_map import PersistentMap
from ackwell.devbroker.recorder import Recorder
from ackwell.devbroker.refused_commands import CommandRefusedError
from ackwell.errors import ErrorCode

if TYPE_CHECKING:
    from ackwell.devbroker.broker_file import BrokerFile
    from ackwell.devbroker.client_connection import ClientConnection
    from ackwell.devbroker.clock import Clock
    from ackwell.devbroker.devbroker_settings import DevBrokerSettings
    from ackwell.protocol.topic_name import TopicName


class Shared:
    """What all topics of a broker share.

    `deliver` runs a subscription that was woken, `reclaim` gives back the memory of what was consumed.
    """

    def __init__(
        self,
        settings: DevBrokerSettings,
        clock: Clock,
        file: BrokerFile | None,
        deliver: Callable[[Any], None],
        reclaim: Callable[[], None],
    ) -> None:
        self.settings = settings
        self.clock = clock
        self.file = file
        self.recorder = Recorder(clock, settings.max_events)
        self.faults = Faults()
        self.policies = PersistentMap[dict[str, Any]](file, "policies")
        """Namespace → policy → value, as an operator set them."""
        self.counters = PersistentMap[int](file, "counter")
        """The last number given of each series: ledgers, transactions."""
        self.connections: set[ClientConnection] = set()
        self.pending_output: list[ClientConnection] = []
        """The connections that hold something to send: of thousands that are idle none costs anything."""
        self.memory_bytes = 0
        """The bytes of all messages."""
        self.unfinished_bytes = 0
        """The bytes of frames that are not whole yet."""
        self.full = False
        """Whether a message was refused for memory, and none was given back since."""
        self._deliver = deliver
        self._reclaim = reclaim
        self._woken: dict[Any, None] = {}
        self._unsaved: dict[tuple[str, str], Callable[[BrokerFile], None]] = {}
        self._running = False
        self._calls_when_durable: list[Callable[[], None]] = []

    def next_number(self, series: str) -> int:
        """Return a number greater than all before, from 0 on."""
        self.counters[series] = number = self.counters.get(series, -1) + 1
        return number

    def policy(self, namespace: str, name: str) -> Any:
        """Return a policy of a namespace; None if nobody set it."""
        return self.policies.get(namespace, {}).get(name)

    def deduplicates(self, name: TopicName) -> bool:
        """Return whether messages of a topic are deduplicated."""
        policy = self.policy(name.in_namespace, "deduplication")
        return self.settings.deduplication if policy is None else bool(policy)

    # Memory

    def reserve_memory(self, nbytes: int) -> None:
        """Count a message's bytes; `RefusedError` if they would pass the limit."""
        limit = self.settings.max_memory_bytes
        if self.memory_bytes + nbytes > limit:
            self._reclaim()
            self.full = self.memory_bytes + nbytes > limit
            self.check_memory()
        self.memory_bytes += nbytes

    def release_memory(self, nbytes: int) -> None:
        """Count a message's bytes no more."""
        self.memory_bytes -= nbytes
        self.full = self.full and not nbytes

    def check_memory(self) -> None:
        """Refuse a producer while there is no memory for its messages: its client fails them at once."""
        if self.full:
            raise CommandRefusedError(
                ErrorCode.PRODUCER_BLOCKED_QUOTA_EXCEEDED_EXCEPTION,
                f"the dev broker holds {self.memory_bytes:,} bytes of messages that are not acknowledged "
                f"everywhere; its setting max_memory_bytes is {self.settings.max_memory_bytes:,}",
            )

    # Who runs next

    def wake(self, subscription: Any) -> None:
        """Let a subscription deliver when `run_woken` is called."""
        self._woken[subscription] = None

    def wake_at(self, subscription: Any, at_ms: int) -> None:
        """Wake a subscription at a time."""

        def run() -> None:
            self.wake(subscription)
            self.run_woken()

        self.clock.call_at(max(at_ms, self.clock.now_ms() + 1), run)

    def run_woken(self) -> None:
        """Let the subscriptions that were woken deliver, save, and send what connections hold."""
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
        if self.file is not None:
            self.save()
            for call in self._calls_when_durable:
                call()
            self._calls_when_durable.clear()
        speaking, self.pending_output = self.pending_output, []
        for connection in speaking:
            connection.flush()

    # What a killed process finds again

    def changed(self, names: tuple[str, str], save: Callable[[BrokerFile], None]) -> None:
        """Let a subscription, named by its topic and its own name, be saved with the next commit."""
        self._unsaved[names] = save

    def forget_cursor(self, names: tuple[str, str]) -> None:
        """Delete what is kept of a subscription."""
        self._unsaved.pop(names, None)
        if self.file is not None:
            self.file.forget_cursor(*names)

    def call_when_durable(self, call: Callable[[], None]) -> None:
        """Call a function when what has happened until now is durable."""
        if self.file is None:
            call()
        else:
            self._calls_when_durable.append(call)

    def clear(self) -> None:
        """Forget who is to run, what goes wrong, and what happened."""
        for each in (self._woken, self._unsaved, self._calls_when_durable, self.faults, self.recorder):
            each.clear()

    def save(self) -> None:
        """Make everything that changed durable."""
        if self.file is not None:
            for save in self._unsaved.values():
                save(self.file)
            self._unsaved.clear()
            self.file.commit()
