"""A client of the binary protocol, whose commands the test chooses.

One connection for the producer and all consumers, so the broker's frames arrive in the order in which it
decided. The client sends no permits, acknowledgments or timers by itself.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ackwell import Position
from ackwell.errors import ErrorCode
from ackwell.protocol import messages
from ackwell.protocol.batches import write_batch
from ackwell.protocol.constants import PROTOCOL_VERSION, CommandType, InitialPosition, SubscriptionType
from ackwell.protocol.frames import DecodedCommand, FrameReader, decode, encode, frame
from ackwell.protocol.payload import write_payload

PRODUCER_ID = 1
ANSWER_S = 60.0
"""Long enough for a busy machine; an answer that takes longer is none."""

AckSet = tuple[int, ...]


class RefusedError(Exception):
    """An error answer: the protocol's code, and the broker's message."""

    def __init__(self, code: int, words: str) -> None:
        super().__init__(f"{ErrorCode(code).name}: {words}")
        self.code = ErrorCode(code)


class Delivered(NamedTuple):
    """A MESSAGE command."""

    consumer_id: int
    position: Position
    redelivery_count: int
    ack_set: AckSet
    epoch: int | None = None
    """The consumer's epoch at this time; `None` if it never sent one."""


class Client:
    """A connection to one topic; every request waits for its answer."""

    def __init__(self, port: int, topic: str, subscription: str) -> None:
        self.topic, self._subscription = topic, subscription
        self._socket = socket.create_connection(("127.0.0.1", port), ANSWER_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._reader = FrameReader()
        self._request_id = 0
        self._sequence_id = 0
        self._answers: dict[tuple[int, int], Any] = {}
        self._delivered: list[Delivered] = []
        self.producer_name = ""
        self.closed: list[int] = []
        """Consumers that the broker closed and that the test has not processed yet."""
        self.active: list[tuple[int, bool]] = []
        """The broker's messages to each consumer about the active one."""
        self._send(
            CommandType.CONNECT,
            client_version="ackwell",
            protocol_version=PROTOCOL_VERSION,
            auth_method_name="none",
        )
        self._wait(CommandType.CONNECTED, 0)

    def close(self) -> None:
        self._socket.close()

    def look_up(self) -> None:
        """Look the topic up, because a broker serves a topic after a lookup."""
        asked = self._ask(CommandType.LOOKUP, topic=self.topic)
        self._wait(CommandType.LOOKUP_RESPONSE, asked)

    # Producing

    def open_producer(self) -> None:
        self.look_up()
        request_id = self._ask(CommandType.PRODUCER, topic=self.topic, producer_id=PRODUCER_ID)
        self.producer_name = self._wait(CommandType.PRODUCER_SUCCESS, request_id).producer_name

    def publish(
        self,
        size: int | None,
        key: str | None,
        *,
        deliver_at_ms: int = 0,
        chunk: tuple[int, int] | None = None,
        transaction: tuple[int, int] | None = None,
    ) -> Position:
        """Publish one entry: a plain message, a batch of `size` messages, or a chunk `(number, count)`."""
        self._sequence_id += 1
        metadata = messages.MessageMetadata(
            producer_name=self.producer_name, sequence_id=self._sequence_id, publish_time=1, partition_key=key
        )
        if deliver_at_ms:
            metadata.deliver_at_time = deliver_at_ms
        if transaction is not None:
            metadata.txnid_most_bits, metadata.txnid_least_bits = transaction
        if chunk is not None:
            metadata.uuid = f"{self.producer_name}-{self._sequence_id - chunk[0]}"
            metadata.chunk_id, metadata.num_chunks_from_msg = chunk
            metadata.total_chunk_msg_size = chunk[1]
        body = b"m"
        if size is not None:
            metadata.num_messages_in_batch = size
            body = write_batch(
                (messages.SingleMessageMetadata(payload_size=0, partition_key=key), b"m") for _ in range(size)
            )
        self._send(
            CommandType.SEND,
            write_payload(metadata, body),
            producer_id=PRODUCER_ID,
            sequence_id=self._sequence_id,
            num_messages=size or 1,
            **_within(transaction),
        )
        receipt = self._wait(CommandType.SEND_RECEIPT, self._sequence_id)
        return Position(receipt.message_id.ledgerId, receipt.message_id.entryId)

    def publish_later(self, key: str) -> None:
        """Publish a plain message, and leave its receipt for later."""
        self._sequence_id += 1
        metadata = messages.MessageMetadata(
            producer_name=self.producer_name,
            sequence_id=self._sequence_id,
            publish_time=1,
            partition_key=key,
        )
        self._send(
            CommandType.SEND,
            write_payload(metadata, b"m"),
            producer_id=PRODUCER_ID,
            sequence_id=self._sequence_id,
            num_messages=1,
        )

    def receipt(self, sequence_id: int) -> Position:
        """Wait for the receipt of a message."""
        found = self._wait(CommandType.SEND_RECEIPT, sequence_id)
        return Position(found.message_id.ledgerId, found.message_id.entryId)

    @property
    def sequence_id(self) -> int:
        """The newest message's sequence id."""
        return self._sequence_id

    # Consuming

    def subscribe(
        self,
        consumer_id: int,
        name: str,
        type: SubscriptionType,  # noqa: A002
        *,
        priority: int = 0,
        out_of_order: bool = False,
        epoch: int | None = None,
        hash_ranges: Iterable[tuple[int, int]] = (),
    ) -> None:
        request: dict[str, Any] = {} if epoch is None else {"consumer_epoch": epoch}
        if type is SubscriptionType.KEY_SHARED:
            sticky = [messages.IntRange(start=start, end=end) for start, end in hash_ranges]
            request["keySharedMeta"] = messages.KeySharedMeta(
                keySharedMode=int(bool(sticky)), hashRanges=sticky, allowOutOfOrderDelivery=out_of_order
            )
        self._request(
            CommandType.SUBSCRIBE,
            topic=self.topic,
            subscription=self._subscription,
            subType=type.number,
            consumer_id=consumer_id,
            consumer_name=name,
            priority_level=priority,
            initialPosition=InitialPosition.EARLIEST,
            **request,
        )

    def close_consumer(self, consumer_id: int) -> None:
        self._request(CommandType.CLOSE_CONSUMER, consumer_id=consumer_id)

    def flow(self, consumer_id: int, permits: int) -> None:
        self._send(CommandType.FLOW, consumer_id=consumer_id, messagePermits=permits)

    def ack(
        self,
        consumer_id: int,
        message_ids: Iterable[tuple[Position, AckSet, int]],
        *,
        cumulative: bool = False,
        transaction: tuple[int, int] | None = None,
        properties: Mapping[str, int] | None = None,
    ) -> None:
        """Acknowledge entries, each with its ack set and its batch size."""
        request_id = self.ask_ack(
            consumer_id, message_ids, cumulative=cumulative, transaction=transaction, properties=properties
        )
        answer = self._wait(CommandType.ACK_RESPONSE, request_id)
        if answer.HasField("error"):
            raise RefusedError(answer.error, answer.message)

    def ask_ack(
        self,
        consumer_id: int,
        message_ids: Iterable[tuple[Position, AckSet, int]],
        *,
        cumulative: bool = False,
        transaction: tuple[int, int] | None = None,
        properties: Mapping[str, int] | None = None,
    ) -> int:
        """Send an acknowledgment, and do not wait for its answer; return the number of the request."""
        within: dict[str, Any] = {}
        if properties:
            # On the wire values are unsigned.
            within["properties"] = [
                messages.KeyLongValue(key=name, value=value & (1 << 64) - 1)
                for name, value in properties.items()
            ]
        return self._ask(
            CommandType.ACK,
            consumer_id=consumer_id,
            ack_type=int(cumulative),
            message_id=[message_id(*each) for each in message_ids],
            **_within(transaction),
            **within,
        )

    def is_answered(self, request_id: int) -> bool:
        """Return whether an acknowledgment that was sent has its answer."""
        self._read(0)
        return any(number == request_id for _, number in self._answers)

    def end_transaction(self, transaction: tuple[int, int], *, commit: bool) -> None:
        request_id = self._ask(
            CommandType.END_TXN_ON_SUBSCRIPTION,
            txnid_most_bits=transaction[0],
            txnid_least_bits=transaction[1],
            subscription=messages.Subscription(topic=self.topic, subscription=self._subscription),
            txn_action=0 if commit else 1,
            # 4.0 closes the connection if it is missing.
            txnid_least_bits_of_low_watermark=0,
        )
        answer = self._wait(CommandType.END_TXN_ON_SUBSCRIPTION_RESPONSE, request_id)
        if answer.HasField("error"):
            raise RefusedError(answer.error, answer.message)

    def end_transaction_on_topic(self, transaction: tuple[int, int], *, commit: bool) -> None:
        """End the messages of a transaction; the broker appends a marker."""
        request_id = self._ask(
            CommandType.END_TXN_ON_PARTITION,
            txnid_most_bits=transaction[0],
            txnid_least_bits=transaction[1],
            topic=self.topic,
            txn_action=0 if commit else 1,
            txnid_least_bits_of_low_watermark=0,
        )
        answer = self._wait(CommandType.END_TXN_ON_PARTITION_RESPONSE, request_id)
        if answer.HasField("error"):
            raise RefusedError(answer.error, answer.message)

    def redeliver(self, consumer_id: int, positions: Iterable[Position], *, epoch: int | None = None) -> None:
        """Request the redelivery of these entries, or of all entries of the consumer."""
        named: dict[str, Any] = {} if epoch is None else {"consumer_epoch": epoch}
        self._send(
            CommandType.REDELIVER_UNACKNOWLEDGED_MESSAGES,
            consumer_id=consumer_id,
            message_ids=[message_id(position) for position in positions],
            **named,
        )

    def seek(self, consumer_id: int, position: Position, ack_set: AckSet = ()) -> None:
        self._request(CommandType.SEEK, consumer_id=consumer_id, message_id=message_id(position, ack_set))

    def take(self) -> list[Delivered]:
        """Return the deliveries since the last call, in the broker's order."""
        self._read(0)
        taken, self._delivered = self._delivered, []
        return taken

    def settle(self) -> None:
        """Wait until the broker has read every command sent so far."""
        self._send(CommandType.PING)
        self._wait(CommandType.PONG, 0)

    # Frames

    def _request(self, type: CommandType, **fields: Any) -> Any:  # noqa: A002
        return self._wait(CommandType.SUCCESS, self._ask(type, **fields))

    def _ask(self, type: CommandType, **fields: Any) -> int:  # noqa: A002
        self._request_id += 1
        self._send(type, request_id=self._request_id, **fields)
        return self._request_id

    def _send(self, type: CommandType, payload: bytes = b"", **fields: Any) -> None:  # noqa: A002
        message = messages.message(_NAMES[type])(**fields)
        self._socket.sendall(frame(encode(type, message), payload))

    def _wait(self, type: CommandType, request_id: int) -> Any:  # noqa: A002
        """Return the answer of this type to a request; `RefusedError` for an error instead."""
        deadline = time.monotonic() + ANSWER_S
        while True:
            if (type, request_id) in self._answers:
                return self._answers.pop((type, request_id))
            error = self._answers.pop((CommandType.ERROR, request_id), None)
            if error is not None and type is not CommandType.SEND_RECEIPT:
                raise RefusedError(error.error, error.message)
            # The broker's pings go on while it owes an answer.
            if time.monotonic() > deadline:
                raise TimeoutError(f"the broker did not send {type.name} in {ANSWER_S} s")
            self._read(ANSWER_S)

    def _read(self, timeout_s: float) -> None:
        self._socket.settimeout(timeout_s)
        try:
            data = self._socket.recv(1 << 20)
        except BlockingIOError:
            return
        except TimeoutError:
            raise TimeoutError(f"the broker did not answer in {timeout_s} s") from None
        finally:
            self._socket.settimeout(ANSWER_S)
        if not data:
            raise ConnectionError("the broker closed the connection")
        for each in self._reader.feed(data):
            self._on(decode(each.command))

    def _on(self, command: DecodedCommand) -> None:
        message = command.message
        if command.type == CommandType.MESSAGE:
            ids = message.message_id
            self._delivered.append(
                Delivered(
                    message.consumer_id,
                    Position(ids.ledgerId, ids.entryId),
                    message.redelivery_count,
                    tuple(message.ack_set),
                    message.consumer_epoch if message.HasField("consumer_epoch") else None,
                )
            )
        elif command.type == CommandType.PING:
            self._send(CommandType.PONG)
        elif command.type == CommandType.CLOSE_CONSUMER:
            self.closed.append(message.consumer_id)
        elif command.type == CommandType.ACTIVE_CONSUMER_CHANGE:
            self.active.append((message.consumer_id, message.is_active))
        elif command.type == CommandType.SEND_RECEIPT:
            self._answers[CommandType.SEND_RECEIPT, message.sequence_id] = message
        else:
            self._answers[command.type, getattr(message, "request_id", 0)] = message


def _within(transaction: tuple[int, int] | None) -> dict[str, int]:
    if transaction is None:
        return {}
    return {"txnid_most_bits": transaction[0], "txnid_least_bits": transaction[1]}


def message_id(position: Position, ack_set: AckSet = (), batch_size: int = 0) -> Any:
    """Return a message id; ids of 64 bits wrap, as -1 does in every client."""
    wrapped = {"ledgerId": position[0] & (1 << 64) - 1, "entryId": position[1] & (1 << 64) - 1}
    found = messages.MessageIdData(**wrapped, ack_set=ack_set)
    if batch_size:
        found.batch_size = batch_size
    return found


_NAMES = {
    CommandType.CONNECT: "CommandConnect",
    CommandType.PRODUCER: "CommandProducer",
    CommandType.SEND: "CommandSend",
    CommandType.LOOKUP: "CommandLookupTopic",
    CommandType.SUBSCRIBE: "CommandSubscribe",
    CommandType.CLOSE_CONSUMER: "CommandCloseConsumer",
    CommandType.FLOW: "CommandFlow",
    CommandType.ACK: "CommandAck",
    CommandType.END_TXN_ON_SUBSCRIPTION: "CommandEndTxnOnSubscription",
    CommandType.END_TXN_ON_PARTITION: "CommandEndTxnOnPartition",
    CommandType.REDELIVER_UNACKNOWLEDGED_MESSAGES: "CommandRedeliverUnacknowledgedMessages",
    CommandType.SEEK: "CommandSeek",
    CommandType.PING: "CommandPing",
    CommandType.PONG: "CommandPong",
}
