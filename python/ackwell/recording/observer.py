"""The observer of a connection. It converts frames to publish, delivery, acknowledgment and other events.

The observer does no I/O. It records a publish when the broker sends the receipt, and a seek or the end of a
transaction when the broker answers the command. It records an acknowledgment when the client sends it,
because most clients do not request an answer. For each new subscription, the observer passes a request for
the position of the subscription to the proxy. The proxy sends the request to the broker.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

from ackwell.errors import ErrorCode, FrameError
from ackwell.protocol import messages
from ackwell.protocol.command_ack import TransactionId
from ackwell.protocol.constants import CommandType, SubscriptionType, TxnAction
from ackwell.protocol.frames import Frame, decode, encode, frame, split
from ackwell.protocol.message_ids import position_of
from ackwell.protocol.payload import read_metadata
from ackwell.protocol.topic_name import full_name
from ackwell.recording.recording import AckedEntry, PublishedEntry, TransactionParts
from ackwell.replay.events import Kind

if TYPE_CHECKING:
    from ackwell.recording.recording import Recording, UpstreamBroker

FIRST_OWN_REQUEST_ID: Final = 1 << 62
"""The request ids of the proxy's own requests begin at this number. Those of clients begin at 0."""


MessageHandler = Callable[["ConnectionObserver", Any, bytes], None]
"""A function that records the events of one protocol message. Its arguments are the observer, the message and
the payload."""


_FREQUENT: Final[dict[int, str]] = {
    CommandType.SEND: "CommandSend",
    CommandType.SEND_RECEIPT: "CommandSendReceipt",
    CommandType.MESSAGE: "CommandMessage",
    CommandType.ACK: "CommandAck",
}
"""Maps each frequent command to the name of its message type. For these commands, no look-up in the table of
all commands is needed."""

_ANSWERS: Final = frozenset(
    {CommandType.SUCCESS, CommandType.ERROR, CommandType.GET_LAST_MESSAGE_ID_RESPONSE}
)
"""The types of frames that can be an answer to a request of the proxy. Other answers are for the client."""


class ObservedConsumer(NamedTuple):
    """A consumer of the observed connection."""

    topic: str
    subscription: str
    name: str
    type: str
    number: int
    """The number of the consumer. The consumers of a recording are numbered in the order of their opening."""
    durable: bool
    """Whether the subscription is durable. A subscription that is not durable, such as a reader's, ends with
    its last consumer."""


class SentMessage(NamedTuple):
    """A message that a producer has sent. The broker has not sent the receipt for it yet."""

    topic: str
    published_entries: PublishedEntry
    deliver_at_ms: int | None
    transaction: str | None
    data: bytes
    """The bytes of the entry; empty if payloads are not recorded."""


class ConnectionObserver:
    """The observer of one connection. It reads the frames of both directions in order.

    The observer calls `ask` to send the proxy's own requests to the broker `upstream`. `from_broker` returns
    the frames to forward to the client. It removes the answers to the proxy's own requests. It delays the
    answer to a SUBSCRIBE until the position of the subscription is known.
    """

    def __init__(self, recording: Recording, ask: Callable[[bytes], None], upstream: UpstreamBroker) -> None:
        self._recording = recording
        self.upstream = upstream
        self._ask = ask
        self._producers: dict[int, str] = {}
        self._consumers: dict[int, ObservedConsumer] = {}
        self._sent: dict[tuple[int, int], SentMessage] = {}
        self._on_success: dict[int, Callable[[], None]] = {}
        """Maps the id of a client's request to a function that records the success of the request."""
        self._held: dict[int, tuple[ObservedConsumer, Frame | None]] = {}
        """Maps the id of a request for a position to the consumer and the delayed answer to its SUBSCRIBE.
        The answer is None if the position is requested again later."""
        self._opening: dict[int, tuple[int, partial[ObservedConsumer]]] = {}
        """Maps the request id of a SUBSCRIBE to the consumer's id and a function that takes the consumer's
        number and returns the consumer."""
        self._questions = FIRST_OWN_REQUEST_ID
        self._is_unreadable = False

    @staticmethod
    def may_hold(command_type: int) -> bool:
        """Return whether `from_broker` may delay or remove a frame of this type."""
        return command_type in _ANSWERS

    def from_client(self, given: Frame) -> None:
        """Observe a frame from the client."""
        note = self.client_handlers.get(given.command_type)
        if note is not None:
            self.observe(given, note)

    def from_broker(self, given: Frame) -> Sequence[Frame]:
        """Observe a frame from the broker; return the frames to forward to the client."""
        command_type = given.command_type
        if command_type in _ANSWERS and not self._is_unreadable:
            return self._answer(given)
        note = self.broker_handlers.get(command_type)
        if note is not None:
            self.observe(given, note)
        return (given,)

    def broker_lost(self) -> None:
        """Record that the connection to the broker was lost.

        The broker may have crashed and lost recorded acknowledgments. The positions of the connection's
        subscriptions are therefore unknown from now on. They are requested again when consumers connect. If
        the proxy has no other connection to the broker, this applies to every subscription that was opened on
        the broker.
        """
        lost = {(each.topic, each.subscription) for each in self._consumers.values()}
        if not self.upstream.connections:
            lost |= self.upstream.opened & self._recording.known_subscriptions
        self.upstream.opened -= lost
        self._recording.known_subscriptions -= lost
        for topic, subscription in sorted(lost):
            self._recording.record_gap(
                f"the state of {subscription} after the connection to the broker was lost", topic
            )

    def broker_back(self) -> None:
        """Record a gap if subscriptions were opened on the broker over earlier connections.

        These connections are closed now. So the proxy had no connection to the broker for some time, and the
        broker may have restarted in this time.
        """
        if self.upstream.opened:
            self._recording.record_gap("whether the broker restarted while no connection to it existed")

    def closed(self) -> None:
        """Record that the consumers are closed, because the connection is closed."""
        for consumer_id, consumer in self._consumers.items():
            self._closed(consumer_id, consumer)
        self._consumers.clear()

    def observe(self, given: Frame, note: MessageHandler) -> None:
        """Parse a frame, and pass its message to `note`, the handler of its type."""
        if self._is_unreadable:
            return
        try:
            # The code of `Frame.command` and `decode` is repeated here, because it runs for every message.
            data, start, behind_command, end = given
            command = data[start + 8 : behind_command]
            number, body = split(command)
            name = _FREQUENT.get(number)
            message = messages.parse(name, body) if name is not None else decode(command).message
            if message is not None:
                note(self, message, data[behind_command:end])
        except FrameError as error:
            self._unreadable(error)

    def _read(self, given: Frame) -> Any:
        """Return the message of a frame. If the frame is invalid, return None and ignore all later frames."""
        try:
            return decode(given.command).message
        except FrameError as error:
            self._unreadable(error)
            return None

    def _unreadable(self, error: FrameError) -> None:
        self._is_unreadable = True
        self._recording.record_gap(f"the traffic of a connection after an invalid frame: {error}")

    # Publishing

    def _producer(self, command: Any, _: bytes) -> None:
        self._producers[command.producer_id] = full_name(command.topic)

    def _send(self, command: Any, data: bytes) -> None:
        topic = self._producers.get(command.producer_id)
        if topic is None:
            return
        metadata = read_metadata(data)
        self._sent[command.producer_id, command.sequence_id] = SentMessage(
            topic,
            PublishedEntry(metadata.num_messages_in_batch, metadata.partition_key or None),
            metadata.deliver_at_time or None,
            str(TransactionId.of(metadata)) if metadata.HasField("txnid_most_bits") else None,
            data if self._recording.keep_payload is not None else b"",
        )

    def _receipt(self, command: Any, _: bytes) -> None:
        sent = self._sent.pop((command.producer_id, command.sequence_id), None)
        position = position_of(command.message_id)
        if sent is not None and min(position) >= 0:
            topic, published, deliver_at_ms, transaction, data = sent
            self._recording.note_entry(topic, position, published, data)
            self._recording.record_entry(
                topic,
                "",
                Kind.PUBLISH,
                position,
                None,
                published,
                deliver_at_ms=deliver_at_ms,
                transaction=transaction,
            )

    def _send_error(self, command: Any, _: bytes) -> None:
        sent = self._sent.pop((command.producer_id, command.sequence_id), None)
        if sent is not None:
            code = command.error
            name = ErrorCode(code).name if code in list(ErrorCode) else str(code)
            self._recording.record(sent.topic, "", Kind.PUBLISH_FAILED, detail=f"{name}: {command.message}")

    # Consuming

    def _subscribe(self, command: Any, _: bytes) -> None:
        self._opening[command.request_id] = (
            command.consumer_id,
            partial(
                ObservedConsumer,
                full_name(command.topic),
                command.subscription,
                command.consumer_name or f"consumer-{command.consumer_id}",
                _type_of(command.subType),
                durable=command.durable,
            ),
        )

    def _message(self, command: Any, data: bytes) -> None:
        consumer = self._consumers.get(command.consumer_id)
        if consumer is not None:
            topic, subscription, name, _type, number, _durable = consumer
            position, ack_set = position_of(command.message_id), command.ack_set
            known = self._recording.published_entries.get((topic, *position))
            if known is None:
                metadata = read_metadata(data)
                known = PublishedEntry(metadata.num_messages_in_batch, metadata.partition_key or None)
                self._recording.note_entry(topic, position, known, data)
            self._recording.record_entry(
                topic,
                subscription,
                Kind.DISPATCH,
                position,
                name,
                known,
                ack_set=tuple(ack_set) if ack_set else None,
                redelivery_count=command.redelivery_count,
            )
            acked = self._recording.acked_entries.get((topic, subscription))
            if acked and (before := acked.get(position)) is not None:
                if before.ack_set is None:
                    del acked[position]
                if before.consumers < number and before.is_in(ack_set, known.batch_size):
                    self._on_contradiction(command.consumer_id, consumer, position, before)

    def _ack(self, command: Any, _: bytes) -> None:
        consumer = self._consumers.get(command.consumer_id)
        if consumer is None or (command.ack_type and consumer.type in ("Shared", "Key_Shared")):
            # A broker ignores such an acknowledgment, but answers with success.
            return
        transaction = None
        if command.HasField("txnid_most_bits"):
            transaction = str(TransactionId.of(command))
        kind = Kind.ACK_CUMULATIVE if command.ack_type else Kind.ACK
        topic, subscription, name, _type, _number, _durable = consumer
        is_final = not command.ack_type and transaction is None
        for each in command.message_id:
            position = position_of(each)
            if min(position) >= 0:
                words = tuple(each.ack_set) or None
                if is_final:
                    self._recording.note_acknowledged((topic, subscription), position, words)
                self._recording.record(
                    topic, subscription, kind, position, name, ack_set=words, transaction=transaction
                )

    def _redeliver(self, command: Any, _: bytes) -> None:
        consumer = self._consumers.get(command.consumer_id)
        if consumer is None:
            return
        if not command.message_ids:
            self._record(consumer, Kind.REDELIVER_UNACKED)
        for each in command.message_ids:
            if min(position_of(each)) >= 0:
                self._record(consumer, Kind.NACK, position_of(each))

    def _seek(self, command: Any, _: bytes) -> None:
        consumer = self._consumers.get(command.consumer_id)
        if consumer is None:
            return
        position = position_of(command.message_id)
        if not command.HasField("message_id") or min(position) < 0 or max(position) >= 2**62:
            # The seek is to a time, to the earliest or to the latest message, so its position is unknown.
            # Request the position when the consumer subscribes again.
            self._on_success[command.request_id] = partial(
                self._recording.known_subscriptions.discard, (consumer.topic, consumer.subscription)
            )
        else:
            ack_set = tuple(command.message_id.ack_set) or None
            self._on_success[command.request_id] = partial(self._moved, consumer, position, ack_set=ack_set)

    def _moved(self, consumer: ObservedConsumer, position: tuple[int, int], **fields: Any) -> None:
        self._recording.acked_entries.pop((consumer.topic, consumer.subscription), None)
        self._record(consumer, Kind.SEEK, position, **fields)

    def _unsubscribe(self, command: Any, _: bytes) -> None:
        consumer = self._consumers.get(command.consumer_id)
        if consumer is not None:
            self._on_success[command.request_id] = partial(self._unsubscribed, consumer)

    def _unsubscribed(self, consumer: ObservedConsumer) -> None:
        self._recording.known_subscriptions.discard((consumer.topic, consumer.subscription))
        self._record(consumer, Kind.UNSUBSCRIBE)

    def _close_consumer(self, command: Any, _: bytes) -> None:
        consumer = self._consumers.pop(command.consumer_id, None)
        if consumer is not None:
            self._closed(command.consumer_id, consumer)

    def _closed(self, consumer_id: int, consumer: ObservedConsumer) -> None:
        """Record that a consumer is closed.

        If the subscription is not durable and has no other consumer, also record the end of the subscription.
        """
        self._record(consumer, Kind.CONSUMER_CLOSE)
        if not consumer.durable:
            readers = self._recording.readers[consumer.topic, consumer.subscription]
            readers.discard((self, consumer_id))
            if not readers:
                del self._recording.readers[consumer.topic, consumer.subscription]
                self._unsubscribed(consumer)

    # Answers

    def _answer(self, given: Frame) -> list[Frame]:
        if (message := self._read(given)) is None:
            return [given]
        failed = given.command_type == CommandType.ERROR
        if message.request_id >= FIRST_OWN_REQUEST_ID:
            return self._position_known(message, failed=failed)
        if failed:
            self._on_success.pop(message.request_id, None)
            self._opening.pop(message.request_id, None)
            return [given]
        if (note := self._on_success.pop(message.request_id, None)) is not None:
            note()
        if (opened := self._opening.pop(message.request_id, None)) is None:
            return [given]
        consumer_id, numbered = opened
        self._recording.consumers += 1
        consumer = numbered(number=self._recording.consumers)
        if not consumer.durable:
            # This is a set, because a client may open a consumer again without closing it first.
            self._recording.readers[consumer.topic, consumer.subscription].add((self, consumer_id))
        self._consumers[consumer_id] = consumer
        return self._opened(consumer_id, consumer, given)

    def _opened(self, consumer_id: int, consumer: ObservedConsumer, given: Frame) -> list[Frame]:
        """Record a new consumer; return the frames to forward to the client.

        If the position of the subscription is unknown, request the position instead, and return no frames.
        The consumer is then recorded when the position is known.
        """
        name = consumer.topic, consumer.subscription
        self.upstream.opened.add(name)
        if name in self._recording.known_subscriptions:
            self._record(consumer, Kind.CONSUMER_OPEN, detail=consumer.type)
            return [given]
        self._recording.known_subscriptions.add(name)
        self._ask_position(consumer_id, consumer, given)
        return []

    def _ask_position(self, consumer_id: int, consumer: ObservedConsumer, given: Frame | None) -> None:
        self._questions += 1
        self._held[self._questions] = consumer, given
        question = messages.CommandGetLastMessageId(consumer_id=consumer_id, request_id=self._questions)
        self._ask(frame(encode(CommandType.GET_LAST_MESSAGE_ID, question)))

    def _on_contradiction(
        self, consumer_id: int, consumer: ObservedConsumer, position: tuple[int, int], before: AckedEntry
    ) -> None:
        """Record a gap, because the broker delivered messages at `position` that were acknowledged before.

        If the whole entry was acknowledged, request the position of the subscription again. If only a part of
        a batch was acknowledged, the position did not move back.
        """
        name = consumer.topic, consumer.subscription
        is_part = before.ack_set is not None
        what = f"the state of {consumer.subscription}: {'a part of ' * is_part}{position[0]}:{position[1]}"
        self._recording.record_gap(f"{what} was acknowledged before, and is delivered again", consumer.topic)
        if is_part:
            self._recording.drop_parts(name)
        else:
            self._recording.acked_entries.pop(name)
            self._ask_position(consumer_id, consumer, None)

    def _position_known(self, message: Any, *, failed: bool) -> list[Frame]:
        held = self._held.pop(message.request_id, None)
        if held is None:
            return []
        consumer, given = held
        if failed or not message.HasField("consumer_mark_delete_position"):
            self._recording.record_gap(
                f"the position of {consumer.subscription} when it was first seen", consumer.topic
            )
        else:
            ledger_id, entry_id = position_of(message.consumer_mark_delete_position)
            if ledger_id >= 0:
                detail = "asked again" if given is None else "first seen"
                self._moved(consumer, (ledger_id, entry_id + 1), detail=detail)
        if given is None:
            return []
        self._record(consumer, Kind.CONSUMER_OPEN, detail=consumer.type)
        return [given]

    # Transactions

    def _add_topics(self, command: Any, _: bytes) -> None:
        self._transaction_parts(command).topics.update(full_name(_text(each)) for each in command.partitions)

    def _add_subscriptions(self, command: Any, _: bytes) -> None:
        self._transaction_parts(command).subscriptions.update(
            (full_name(_text(each.topic)), _text(each.subscription)) for each in command.subscription
        )

    def _transaction_parts(self, command: Any) -> TransactionParts:
        return self._recording.transactions.setdefault(TransactionId.of(command), TransactionParts())

    def _end(self, command: Any, _: bytes) -> None:
        kind = Kind.COMMIT if command.txn_action == TxnAction.COMMIT else Kind.ABORT
        self._on_success[command.request_id] = partial(self._end_of, TransactionId.of(command), kind)

    def _ended(self, command: Any, _: bytes) -> None:
        note = self._on_success.pop(command.request_id, None)
        if note is not None and not command.HasField("error"):
            note()

    def _end_of(self, transaction: TransactionId, kind: Kind) -> None:
        parts = self._recording.transactions.pop(transaction, TransactionParts())
        name = str(transaction)
        for topic in sorted(parts.topics):
            self._recording.record(topic, "", kind, transaction=name)
        for topic, subscription in sorted(parts.subscriptions):
            self._recording.record(topic, subscription, kind, transaction=name)

    def _record(
        self,
        consumer: ObservedConsumer,
        kind: Kind,
        position: tuple[int, int] | tuple[None, None] = (None, None),
        **fields: Any,
    ) -> None:
        self._recording.record(consumer.topic, consumer.subscription, kind, position, consumer.name, **fields)

    client_handlers: ClassVar[dict[int, MessageHandler]] = {
        CommandType.PRODUCER: _producer,
        CommandType.SEND: _send,
        CommandType.SUBSCRIBE: _subscribe,
        CommandType.ACK: _ack,
        CommandType.REDELIVER_UNACKNOWLEDGED_MESSAGES: _redeliver,
        CommandType.SEEK: _seek,
        CommandType.UNSUBSCRIBE: _unsubscribe,
        CommandType.CLOSE_CONSUMER: _close_consumer,
        CommandType.ADD_PARTITION_TO_TXN: _add_topics,
        CommandType.ADD_SUBSCRIPTION_TO_TXN: _add_subscriptions,
        CommandType.END_TXN: _end,
    }
    """Maps each client command to its handler. Commands without a handler are forwarded without parsing."""

    broker_handlers: ClassVar[dict[int, MessageHandler]] = {
        CommandType.SEND_RECEIPT: _receipt,
        CommandType.SEND_ERROR: _send_error,
        CommandType.MESSAGE: _message,
        CommandType.CLOSE_CONSUMER: _close_consumer,
        CommandType.END_TXN_RESPONSE: _ended,
    }


def _text(value: str | bytes) -> str:
    """Return a text field of a nested message as `str`. Raises `FrameError` if it is not UTF-8."""
    if isinstance(value, bytes):
        raise FrameError(f"{value!r} is not UTF-8")
    return value


def _type_of(number: int) -> str:
    try:
        return SubscriptionType.of(number)
    except ValueError:
        return f"type {number}"
