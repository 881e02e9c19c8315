"""The producers of a topic: their names, their access modes, and their last sequence ids.

Deduplication compares the sequence id of a message with the last sequence id of its producer.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ackwell.devbroker.namespace_policies import MAX_PRODUCERS
from ackwell.devbroker.persistent_map import PersistentMap
from ackwell.devbroker.refused_commands import CommandRefusedError
from ackwell.errors import ErrorCode
from ackwell.integers import UINT64_MAX
from ackwell.protocol.constants import AccessMode
from ackwell.wire import signed64

if TYPE_CHECKING:
    from ackwell.devbroker.client_connection import ClientConnection
    from ackwell.devbroker.content import TopicContent


@dataclass(slots=True, eq=False, kw_only=True)
class Producer:
    """One producer, which belongs to one connection."""

    connection: ClientConnection
    producer_id: int
    name: str
    topic: str
    """The full name of the topic to which it publishes."""
    access_mode: AccessMode
    epoch: int
    request_id: int
    """The request id of the PRODUCER command. This request is answered when the producer may send."""
    user_named: bool
    topic_epoch: int | None
    metadata: dict[str, str]
    connected_ms: int
    schema_version: bytes | None = None
    ready: bool = False
    messages_in: int = 0


class Producers:
    """The producers of a topic. Some may send, and others wait for exclusive access."""

    def __init__(self, content: TopicContent) -> None:
        self._content = content
        self.by_name: dict[str, Producer] = {}
        self._waiting: deque[Producer] = deque()
        self._exclusive: Producer | None = None
        self.last_sequence_ids = PersistentMap[int](content.file, "sequence", content.full_name)
        """Maps the name of a producer to its highest sequence id, for deduplication."""

    def join(self, producer: Producer) -> None:
        """Admit a producer, or make it wait for exclusive access.

        Raises `CommandRefusedError` if a Pulsar broker refuses the producer.
        """
        self._replace_known(producer)
        content = self._content
        content.shared.check_limit(content.name, MAX_PRODUCERS, len(self.by_name), "producers")
        mode = producer.access_mode
        if self._fenced(producer):
            raise CommandRefusedError(
                ErrorCode.PRODUCER_FENCED, "Topic has a newer epoch than the producer's"
            )
        if mode is AccessMode.SHARED:
            if self._exclusive is not None or self._waiting:
                raise CommandRefusedError(ErrorCode.PRODUCER_BUSY, "Topic has an existing exclusive producer")
        elif mode is AccessMode.EXCLUSIVE:
            if self._exclusive is not None or self.by_name:
                raise CommandRefusedError(ErrorCode.PRODUCER_FENCED, "Topic has existing producers")
        elif mode is AccessMode.WAIT_FOR_EXCLUSIVE and (self._exclusive is not None or self.by_name):
            self._waiting.append(producer)
            return
        elif mode is AccessMode.EXCLUSIVE_WITH_FENCING:
            self._fence(producer.name)
            self.close_all()
        self._admit(producer)

    def leave(self, producer: Producer) -> None:
        """Remove a producer. If no admitted producer is left, admit the next waiting producer."""
        if producer in self._waiting:
            self._waiting.remove(producer)
        if self.by_name.get(producer.name) is producer:
            del self.by_name[producer.name]
        if self._exclusive is producer:
            self._exclusive = None
        if self._waiting and not self.by_name:
            following = self._waiting.popleft()
            self._admit(following)
            following.connection.send_ready(following, self.last_sequence_id(following.name))

    def _fence(self, name: str) -> None:
        """Refuse all waiting producers with `PRODUCER_FENCED`. After this error, clients do not try again."""
        waiting, self._waiting = self._waiting, deque()
        for each in waiting:
            each.connection.producers.pop(each.producer_id, None)
            refusal = CommandRefusedError(ErrorCode.PRODUCER_FENCED, f"Fenced out by producer {name}")
            each.connection.send_error(each, refusal)

    def close_all(self) -> None:
        """Close every producer, including those that wait."""
        closed = [*self.by_name.values(), *self._waiting]
        self._waiting.clear()
        self.by_name.clear()
        self._exclusive = None
        for each in closed:
            each.connection.close_producer(each)

    def last_sequence_id(self, name: str) -> int:
        """Return the highest sequence id of a producer.

        Return -1 if no sequence id is stored, or if the topic does not deduplicate.
        """
        return self.last_sequence_ids.get(name, -1) if self.deduplicates() else -1

    def is_duplicate(self, name: str, sequence_id: int) -> bool:
        """Return whether the topic has already stored a message with this sequence id of the producer."""
        return sequence_id <= self.last_sequence_ids.get(name, -1)

    def deduplicates(self) -> bool:
        """Return whether the topic drops messages that it has already stored."""
        content = self._content
        shared = content.shared
        if not (
            shared.settings.deduplication or shared.topic_policies or shared.policies.get(content.namespace)
        ):
            return False
        return shared.deduplicates(content.name)

    def _replace_known(self, producer: Producer) -> None:
        """Remove an older producer with the same name, if its client reconnected.

        If another client uses the name, raise `CommandRefusedError`.
        """
        known = self.by_name.get(producer.name)
        if known is None:
            return
        if known.user_named or producer.user_named or producer.epoch <= known.epoch:
            message = f"Producer with name '{producer.name}' is already connected to topic"
            raise CommandRefusedError(ErrorCode.PRODUCER_BUSY, message)
        known.connection.producers.pop(known.producer_id, None)
        self.leave(known)

    def _fenced(self, producer: Producer) -> bool:
        newest = self._content.epoch
        return producer.topic_epoch is not None and newest is not None and producer.topic_epoch < newest

    def _admit(self, producer: Producer) -> None:
        self.by_name[producer.name] = producer
        producer.ready = True
        if producer.access_mode is not AccessMode.SHARED:
            self._exclusive = producer
            if producer.topic_epoch is None:
                newest = self._content.epoch
                producer.topic_epoch = 0 if newest is None else signed64((newest + 1) & UINT64_MAX)
            self._content.facts["epoch"] = producer.topic_epoch
