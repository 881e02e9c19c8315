"""The producers of a topic: names, access modes, and the sequence ids that deduplication compares."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ackwell.devbroker.refusals import RefusedError
from ackwell.errors import ErrorCode
from ackwell.protocol.codes import AccessMode

if TYPE_CHECKING:
    from ackwell.devbroker.clients import Client
    from ackwell.devbroker.content import TopicContent

T = TypeVar("T")


class Producer(Generic[T]):
    """One producer of one connection; it holds its topic for those who look it up."""

    __slots__ = (
        "access_mode",
        "connected_ms",
        "connection",
        "epoch",
        "messages_in",
        "metadata",
        "name",
        "producer_id",
        "ready",
        "request_id",
        "schema_version",
        "topic",
        "topic_epoch",
        "user_named",
    )

    def __init__(
        self,
        connection: Client,
        producer_id: int,
        name: str,
        topic: T,
        *,
        access_mode: AccessMode,
        epoch: int,
        request_id: int,
        user_named: bool,
        topic_epoch: int | None,
        metadata: dict[str, str],
        connected_ms: int,
    ) -> None:
        self.connection = connection
        self.producer_id = producer_id
        self.name = name
        self.topic = topic
        self.access_mode = access_mode
        self.epoch = epoch
        self.request_id = request_id
        """Of the command that made it: answered when the producer may send."""
        self.user_named = user_named
        self.topic_epoch = topic_epoch
        self.metadata = metadata
        self.schema_version: bytes | None = None
        self.ready = False
        self.connected_ms = connected_ms
        self.messages_in = 0

    def __repr__(self) -> str:
        return f"<Producer {self.name!r}>"


class Producers:
    """Who may produce to a topic."""

    def __init__(self, topic: TopicContent) -> None:
        self._topic = topic
        self.by_name: dict[str, Producer[Any]] = {}
        self._waiting: deque[Producer[Any]] = deque()
        self._exclusive: Producer[Any] | None = None
        self.topic_epoch: int | None = None
        self.last_sequence_ids: dict[str, int] = {}
        """By producer name; what deduplication compares."""

    def join(self, producer: Producer[Any]) -> bool:
        """Take a producer in; False while it waits for its turn. `RefusedError` as the broker refuses it."""
        self._replace_known(producer)
        mode = producer.access_mode
        if self._fenced(producer):
            raise RefusedError(ErrorCode.PRODUCER_FENCED, "Topic has a newer epoch than the producer's")
        if mode is AccessMode.SHARED:
            if self._exclusive is not None or self._waiting:
                raise RefusedError(ErrorCode.PRODUCER_BUSY, "Topic has an existing exclusive producer")
        elif mode is AccessMode.EXCLUSIVE:
            if self._exclusive is not None or self.by_name:
                raise RefusedError(ErrorCode.PRODUCER_FENCED, "Topic has existing producers")
        elif mode is AccessMode.WAIT_FOR_EXCLUSIVE and (self._exclusive is not None or self.by_name):
            self._waiting.append(producer)
            return False
        elif mode is AccessMode.EXCLUSIVE_WITH_FENCING:
            self.close_all()
        self._admit(producer)
        return True

    def leave(self, producer: Producer[Any]) -> None:
        """Let a producer go, and the next one that waits have its turn."""
        if producer in self._waiting:
            self._waiting.remove(producer)
        if self.by_name.get(producer.name) is producer:
            del self.by_name[producer.name]
        if self._exclusive is producer:
            self._exclusive = None
        if self._waiting and not self.by_name:
            following = self._waiting.popleft()
            self._admit(following)
            following.connection.send_ready(following)
            following.connection.flush()

    def close_all(self) -> None:
        """Close every producer; those that wait too."""
        everybody = [*self.by_name.values(), *self._waiting]
        self._waiting.clear()
        for each in everybody:
            each.connection.close_producer(each)

    def last_sequence_id(self, name: str) -> int:
        """Return the greatest sequence id that is stored of a producer; -1 where deduplication is off."""
        if not self._topic.broker.deduplicates(self._topic.name):
            return -1
        return self.last_sequence_ids.get(name, -1)

    def is_duplicate(self, name: str, sequence_id: int, highest: int) -> bool:
        """Return whether a message is stored already; takes note of it if not."""
        broker, topic = self._topic.broker, self._topic
        if not (broker.settings.deduplication or broker.policies.get(topic.namespace)):
            return False
        if not broker.deduplicates(topic.name):
            return False
        if sequence_id <= self.last_sequence_ids.get(name, -1):
            return True
        self.last_sequence_ids[name] = max(sequence_id, highest)
        if self._topic.broker.disk is not None:
            self._topic.broker.disk.sequence_id(self._topic.full_name, name, self.last_sequence_ids[name])
        return False

    def _replace_known(self, producer: Producer[Any]) -> None:
        """Let a client that came back take the place of its older self; refuse a name that is taken."""
        known = self.by_name.get(producer.name)
        if known is None:
            return
        if known.user_named or producer.user_named or producer.epoch <= known.epoch:
            message = f"Producer with name '{producer.name}' is already connected to topic"
            raise RefusedError(ErrorCode.PRODUCER_BUSY, message)
        known.connection.producers.pop(known.producer_id, None)
        self.leave(known)

    def _fenced(self, producer: Producer[Any]) -> bool:
        return (
            producer.topic_epoch is not None
            and self.topic_epoch is not None
            and producer.topic_epoch < self.topic_epoch
        )

    def _admit(self, producer: Producer[Any]) -> None:
        self.by_name[producer.name] = producer
        producer.ready = True
        if producer.access_mode is not AccessMode.SHARED:
            self._exclusive = producer
            if producer.topic_epoch is None:
                self.topic_epoch = 0 if self.topic_epoch is None else self.topic_epoch + 1
                producer.topic_epoch = self.topic_epoch
            else:
                self.topic_epoch = producer.topic_epoch
