"""The state that all topics of a broker share.

It consists of the clock, the settings, the file, the policies, the used memory, and the run queue of the
subscriptions that have to deliver entries.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from ackwell.devbroker.faults import Faults
from ackwell.devbroker.namespace_policies import DEDUPLICATION
from ackwell.devbroker.persistent_map import PersistentMap
from ackwell.devbroker.recorder import Recorder
from ackwell.devbroker.refused_commands import CommandRefusedError
from ackwell.errors import ErrorCode

if TYPE_CHECKING:
    from ackwell.devbroker.broker_file import BrokerFile
    from ackwell.devbroker.client_connection import ClientConnection
    from ackwell.devbroker.clock import Clock
    from ackwell.devbroker.devbroker_settings import DevBrokerSettings
    from ackwell.devbroker.namespace_policies import NamespacePolicy
    from ackwell.protocol.topic_name import TopicName

LEDGERS_OF_MEMORY: Final = 16
"""The maximum size of an open ledger is the free memory divided by this number."""

LEDGERS_MAX: Final = 1_024
"""The maximum size of an open ledger is at least the memory limit divided by this number."""


class SharedState:
    """The state that all topics of a broker share.

    `deliver` is called to deliver the entries of a subscription in the run queue. `reclaim` is called to free
    the memory of consumed entries.
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
        """Maps the name of a namespace to its policies, by the field names of Pulsar's JSON."""
        self.topic_policies = PersistentMap[dict[str, Any]](file, "topic policies")
        """Maps the name of a topic to its policies and `properties`. All partitions use the name of the
        partitioned topic."""
        self.counters = PersistentMap[int](file, "counter")
        """Maps the name of a series, such as ledgers or transactions, to the last number of the series."""
        self.connections: set[ClientConnection] = set()
        self.pending_output: list[ClientConnection] = []
        """The connections that have queued frames. The others need no `flush`."""
        self.memory_bytes = 0
        """The total size in bytes of all messages in memory."""
        self.unfinished_bytes = 0
        """The number of received bytes of frames that are not complete."""
        self._refused_bytes = 0
        """The size in bytes of the last message that was refused because the memory was full."""
        self._deliver = deliver
        self._reclaim = reclaim
        self._woken: dict[Any, None] = {}
        self._unsaved: dict[tuple[str, str], Callable[[BrokerFile], None]] = {}
        self._running = False
        self._calls_when_durable: list[Callable[[], None]] = []

    def next_number(self, series: str) -> int:
        """Return the next number of a series. The first number is 0."""
        self.counters[series] = number = self.counters.get(series, -1) + 1
        return number

    def policy(self, topic: TopicName, policy: NamespacePolicy) -> Any:
        """Return the value of a policy for a topic, or else for its namespace. None if neither has one."""
        of_topic, of_namespace = self.stored(topic, policy)
        return of_namespace if of_topic is None else of_topic

    def stored(self, topic: TopicName, policy: NamespacePolicy) -> tuple[Any, Any]:
        """Return the topic's value and the namespace's value of a policy. None means that it is not set."""
        return self.of_topic(topic).get(policy.topic), self.policies.get(topic.in_namespace, {}).get(
            policy.field
        )

    def of_topic(self, topic: TopicName) -> dict[str, Any]:
        """Return the policies that are set for a topic itself. All its partitions have the same policies."""
        return self.topic_policies.get(str(topic.partitioned), {}) if self.topic_policies else {}

    def check_limit(self, topic: TopicName, policy: NamespacePolicy, present: int, what: str) -> None:
        """Raise `CommandRefusedError` if the present number of objects has reached the limit of a policy.

        `present` is this number. `what` names the objects in the error message. A limit of 0 means no limit.
        """
        limit = self.policy(topic, policy)
        if limit and present >= limit:
            raise CommandRefusedError(
                ErrorCode.CONSUMER_BUSY if "consumer" in what else ErrorCode.NOT_ALLOWED_ERROR,
                f"{topic} has {present} {what}; its policy {policy.name} permits {limit}",
            )

    def deduplicates(self, name: TopicName) -> bool:
        """Return whether the broker deduplicates a topic: it drops messages that are already stored."""
        policy = self.policy(name, DEDUPLICATION)
        return self.settings.deduplication if policy is None else bool(policy)

    # Memory

    @property
    def free_bytes(self) -> int:
        """The memory limit minus the used memory, in bytes. Negative if the used memory exceeds the limit."""
        return self.settings.max_memory_bytes - self.memory_bytes - self.unfinished_bytes

    @property
    def max_ledger_bytes(self) -> int:
        """The maximum size in bytes of an open ledger. A larger ledger is closed.

        Only a closed ledger can be deleted, so the consumed entries of an open ledger still take memory. The
        maximum size therefore decreases with the free memory. Otherwise the open ledgers of many topics would
        fill the memory.
        """
        return max(self.free_bytes // LEDGERS_OF_MEMORY, self.settings.max_memory_bytes // LEDGERS_MAX)

    def reserve_memory(self, nbytes: int) -> None:
        """Add the size of a message to the used memory. `CommandRefusedError` if the message does not fit."""
        if nbytes > self.free_bytes and not self.reclaim_memory(nbytes):
            raise self.memory_refusal()
        self.memory_bytes += nbytes

    def reclaim_memory(self, nbytes: int) -> bool:
        """Free the memory of consumed entries. Return whether at least `nbytes` bytes are free afterwards."""
        self._reclaim()
        fits = nbytes <= self.free_bytes
        self._refused_bytes = 0 if fits else min(nbytes, self.settings.max_memory_bytes)
        return fits

    def release_memory(self, nbytes: int) -> None:
        """Subtract the size of messages from the used memory."""
        self.memory_bytes -= nbytes

    def check_memory(self) -> None:
        """Raise `CommandRefusedError` for a new producer if the last refused message still does not fit.

        After the refusal of a message, a client opens its producer again and sends the message again. If the
        broker also refuses the producer, the client reports the error to the application.
        """
        if self._refused_bytes > self.free_bytes and not self.reclaim_memory(self._refused_bytes):
            raise self.memory_refusal()

    def memory_refusal(self) -> CommandRefusedError:
        """Return the error for a message that does not fit in memory."""
        return CommandRefusedError(
            ErrorCode.PRODUCER_BLOCKED_QUOTA_EXCEEDED_EXCEPTION,
            f"the dev broker holds {self.memory_bytes:,} bytes of messages that are not acknowledged "
            f"everywhere; its setting max_memory_bytes is {self.settings.max_memory_bytes:,}",
        )

    # The run queue

    def wake(self, subscription: Any) -> None:
        """Add a subscription to the run queue. The next `run_woken` delivers its entries."""
        self._woken[subscription] = None

    def wake_at(self, subscription: Any, at_ms: int) -> None:
        """When the broker's clock reaches `at_ms`, add a subscription to the run queue and run the queue."""

        def run() -> None:
            self.wake(subscription)
            self.run_woken()

        self.clock.call_at(max(at_ms, self.clock.now_ms() + 1), run)

    def run_woken(self) -> None:
        """Deliver for all subscriptions in the run queue, save all changes, and send the queued frames."""
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

    # Persistence

    def schedule_save(self, names: tuple[str, str], save: Callable[[BrokerFile], None]) -> None:
        """Schedule a subscription to be saved with the next commit.

        `names` are the topic and the subscription. `save` writes the state to the file.
        """
        self._unsaved[names] = save

    def forget_cursor(self, names: tuple[str, str]) -> None:
        """Delete the saved state of a subscription."""
        self._unsaved.pop(names, None)
        if self.file is not None:
            self.file.forget_cursor(*names)

    def call_when_durable(self, call: Callable[[], None]) -> None:
        """Call a function after all changes so far are durable."""
        if self.file is None:
            call()
        else:
            self._calls_when_durable.append(call)

    def clear(self) -> None:
        """Clear the run queue, the unsaved changes, the faults and the events."""
        for each in (self._woken, self._unsaved, self._calls_when_durable, self.faults, self.recorder):
            each.clear()
        self.faults.seed(0)
        self._refused_bytes = 0

    def save(self) -> None:
        """Write and commit all changes to the broker's file."""
        if self.file is not None:
            for save in self._unsaved.values():
                save(self.file)
            self._unsaved.clear()
            self.file.commit()
