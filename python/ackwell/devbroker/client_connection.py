"""The connection of one client. It reads frames, handles their commands in order, and writes frames."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from ackwell.devbroker.refused_commands import CommandRefusedError
from ackwell.errors import ErrorCode, FrameError
from ackwell.integers import UINT64_MAX
from ackwell.protocol import messages
from ackwell.protocol.constants import FRAME_PADDING_BYTES, CommandType
from ackwell.protocol.frames import FrameReader, decode, encode, frame, split

if TYPE_CHECKING:
    from ackwell.devbroker.auth import Service
    from ackwell.devbroker.broker_state import BrokerState
    from ackwell.devbroker.producers import Producer
    from ackwell.devbroker.subscriptions import ConnectedConsumer
    from ackwell.protocol.frames import Frame

CRASH: Final = "the broker crashed"
"""The reason for closing a connection when the broker crashes. Producers and consumers are not closed
first."""

_ACK: Final = int(CommandType.ACK)
_SEND: Final = int(CommandType.SEND)
_SIGNS_OF_LIFE: Final = frozenset({int(CommandType.PING), int(CommandType.PONG)})

COMMAND_BYTES_MAX: Final = 1 << 20
"""The maximum size of a command in bytes while the broker's memory is full."""

FLUSH_BYTES: Final = 1 << 20
"""A connection writes its queued messages when they exceed this number of bytes."""

NO_REQUEST: Final = UINT64_MAX
"""The request id of an error that is not the answer to a request."""

log = logging.getLogger("ackwell.devbroker")

Handler = Callable[["ClientConnection", Any, bytes], None]
"""Takes the connection, the command and its payload. Raises `CommandRefusedError` if the answer is an
error."""


class ClientConnection(asyncio.Protocol):
    """The connection of one client. An invalid frame closes only this connection.

    `handlers` maps each supported command type to its handler.
    """

    def __init__(self, state: BrokerState, service: Service, handlers: Mapping[int, Handler]) -> None:
        self.state = state
        self.shared = state.shared
        self.service = service
        self._handlers = handlers
        self.producers: dict[int, Producer] = {}
        self.consumers: dict[int, ConnectedConsumer] = {}
        self.closed_producers: set[int] = set()
        """The ids of producers that the broker closed. Their clients may still send messages, which are
        ignored."""
        self.client_version = ""
        self.role: str | None = None
        self.connected = False
        self.writable = True
        self.supports_watchers = False
        self.pongs = 0
        """The number of pings that the client has answered."""
        self.commands = 0
        """The number of commands that the client has sent. Pings and pongs are not counted."""
        self.payload_discarded = False
        """Whether the payload of the current command was discarded because it did not fit into the free
        memory."""
        self.address = ""
        self.close_reason = ""
        self._reader = FrameReader(state.settings.max_message_bytes + FRAME_PADDING_BYTES)
        self._out: list[bytes] = []
        self._out_bytes = 0
        """The total size in bytes of the messages in `_out`."""
        self._delayed_flushes = 0
        self._unfinished_bytes = 0
        self._read_from_ms = 0
        """The time at which the connection reads commands again. 0 if reading is not paused."""
        self._handshake: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport | None = None

    # Callbacks of asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Register the connection. Close it if the broker already has the maximum number of connections."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        host, port = (transport.get_extra_info("peername") or ("", 0))[:2]
        self.address = f"/{host}:{port}"
        transport.set_write_buffer_limits(high=self.state.settings.max_pending_write_bytes)
        if len(self.shared.connections) >= self.state.settings.max_connections:
            self._refuse(f"more than {self.state.settings.max_connections} connections (max_connections)")
        else:
            self.shared.connections.add(self)
            self._handshake = asyncio.get_running_loop().call_later(
                self.state.settings.handshake_s, self._expect_handshake
            )

    def _expect_handshake(self) -> None:
        if not self.connected:
            self.close(f"no CONNECT within {self.state.settings.handshake_s:g} s")

    def _refuse(self, reason: str) -> None:
        """Send `reason` to the client and close the connection, as a Pulsar broker does."""
        log.warning("%s refused: %s", self.address, reason)
        code = ErrorCode.NOT_ALLOWED_ERROR
        answer = messages.CommandError(request_id=NO_REQUEST, error=code, message=reason)
        self.send(CommandType.ERROR, answer)
        self.close(reason)

    def data_received(self, data: bytes) -> None:
        """Add the received bytes to the input, and handle all commands that are then complete."""
        try:
            for each in self._reader.feed(data):
                if self.close_reason:
                    return
                if self._unfinished_bytes:
                    self._count_unfinished(0)
                self._handle(each)
                self.payload_discarded = False
        except FrameError as error:
            self.close(str(error))
        except Exception as error:
            # A bug in the dev broker closes only this connection.
            log.exception("%s: an error in the dev broker", self.address)
            self.close(f"an error in the dev broker: {error!r}")
        if self._reader.unfinished_bytes != self._unfinished_bytes:
            self._count_unfinished(self._reader.unfinished_bytes)
        self.shared.run_woken()

    def _count_unfinished(self, nbytes: int) -> None:
        """Set the number of bytes that an incomplete frame adds to the used memory.

        `nbytes` is the number of bytes of the frame that were received so far. It replaces the number of the
        previous call. If the frame does not fit into the free memory, its payload is discarded.
        """
        shared = self.shared
        shared.unfinished_bytes += nbytes - self._unfinished_bytes
        self._unfinished_bytes = nbytes
        sizes = self._reader.unfinished_sizes
        if shared.free_bytes >= 0 or sizes is None or self.payload_discarded:
            return
        shared.unfinished_bytes -= nbytes
        fits = shared.reclaim_memory(sizes.frame_bytes)
        shared.unfinished_bytes += nbytes
        if fits:
            return
        if sizes.command_bytes > COMMAND_BYTES_MAX:
            # No client sends a command of this size, so the connection is closed.
            self._reader = FrameReader()
            self._count_unfinished(0)
            self.close(f"a command of {sizes.command_bytes:,} bytes while the dev broker's memory is full")
            return
        # The handler sees the flag and answers the command with an error.
        self.payload_discarded = True
        self._reader.discard_payload()
        self._count_unfinished(self._reader.unfinished_bytes)

    def connection_lost(self, exc: Exception | None) -> None:
        """Remove the producers, consumers and watchers of the connection."""
        self.shared.connections.discard(self)
        self._out.clear()
        self._count_unfinished(0)
        if self._handshake is not None:
            self._handshake.cancel()
        if self.close_reason == CRASH:
            return
        self.close_reason = self.close_reason or "the client disconnected"
        for key in [key for key in self.state.watchers if key[0] is self]:
            del self.state.watchers[key]
        for producer in list(self.producers.values()):
            self.leave(producer)
        for consumer in list(self.consumers.values()):
            consumer.subscription.leave(consumer)
        self.producers.clear()
        self.consumers.clear()
        self.shared.run_woken()

    def pause_writing(self) -> None:
        """Stop sending messages and reading commands, because the client does not read its input."""
        self.writable = False
        self._read_if_permitted()

    def resume_writing(self) -> None:
        """Resume sending messages and reading commands."""
        self.writable = True
        self._read_if_permitted()
        for consumer in self.consumers.values():
            consumer.subscription.wake()
        self.shared.run_woken()

    def pause_reading_until(self, at_ms: int) -> None:
        """Stop reading commands until a time, because the client exceeded a publish rate."""
        is_paused, self._read_from_ms = self._read_from_ms > 0, at_ms
        if not is_paused:
            self.state.clock.call_at(at_ms, self._resume_reading)
            self._read_if_permitted()

    def _resume_reading(self) -> None:
        if self._read_from_ms > self.state.clock.now_ms():
            self.state.clock.call_at(self._read_from_ms, self._resume_reading)
        else:
            self._read_from_ms = 0
            self._read_if_permitted()

    def _read_if_permitted(self) -> None:
        """Read commands, or stop reading them.

        Commands are read only if the client reads its output and no publish rate is exceeded.
        """
        if self._transport is None or self._transport.is_closing():
            return
        if self.writable and not self._read_from_ms:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    # Commands

    def _handle(self, given: Frame) -> None:
        # The fields are read from the tuple directly, because this code runs for every frame.
        data, start, behind_command, end = given
        command = data[start + 8 : behind_command]
        command_type, body = split(command)
        message: Any
        if command_type == _ACK:
            # The handler of ACK decodes the encoded command itself, which is faster.
            message = body
        elif command_type == _SEND:
            message = messages.parse("CommandSend", body)
        else:
            command_type, message = decode(command)
        if command_type not in _SIGNS_OF_LIFE:
            self.commands += 1
        if not self.connected and command_type not in (CommandType.CONNECT, CommandType.AUTH_RESPONSE):
            raise FrameError(f"command {command_type} before CONNECT")
        if self.shared.faults.any and self.shared.faults.drops_connection():
            self.close("injected fault: drop_connections")
            return
        handle = self._handlers.get(command_type)
        if handle is None:
            self._not_supported(command_type, message)
            return
        try:
            handle(self, message, data[behind_command:end])
        except CommandRefusedError as refusal:
            self.send_error(message, refusal)

    def _not_supported(self, command_type: int, message: Any) -> None:
        log.warning("%s: command %s is not supported by the dev broker", self.address, command_type)
        refusal = CommandRefusedError(
            ErrorCode.NOT_ALLOWED_ERROR, f"the dev broker does not support command {command_type}"
        )
        if message is not None and "request_id" in message.DESCRIPTOR.fields_by_name:
            self.send_error(message, refusal)

    def send_error(self, message: Any, refusal: CommandRefusedError) -> None:
        """Answer the command `message` with an error."""
        self.send(
            CommandType.ERROR,
            messages.CommandError(request_id=message.request_id, error=refusal.code, message=str(refusal)),
        )

    def authenticate(self, method: str, data: bytes) -> None:
        """Set the client's role from its credentials. `CommandRefusedError` if the client may not connect."""
        self.role = self.service.authenticate(method, data, self._transport)

    # Output

    def send(self, command_type: int, message: Any) -> None:
        """Queue a command for the client."""
        self._queue_output((frame(encode(command_type, message)),))

    def succeed(self, request_id: int) -> None:
        """Answer the request with the id `request_id` with success."""
        self.send(CommandType.SUCCESS, messages.CommandSuccess(request_id=request_id))

    def send_frame(self, data: bytes) -> None:
        """Queue an encoded frame for the client."""
        self._queue_output((data,))

    def _queue_output(self, frames: Iterable[bytes]) -> None:
        """Queue frames. `flush` writes them after all received commands are handled."""
        if not self._out:
            self.shared.pending_output.append(self)
        self._out.extend(frames)

    def send_messages(self, consumer: ConnectedConsumer, frames: Iterable[bytes], nbytes: int) -> None:
        """Send the frames of messages to a consumer. Injected faults can duplicate or delay the frames."""
        faults = self.shared.faults
        if not faults.any:
            self._queue_output(frames)
            self._out_bytes += nbytes
            if self._out_bytes >= FLUSH_BYTES:
                # Save all changes first. Otherwise the client could receive a message that is not saved.
                self.shared.save()
                self.flush()
            return
        rate = faults.rate_of(consumer)
        for each in frames:
            copies = [each] * (2 if faults.duplicates_message(consumer) else 1)
            if rate is None:
                self._queue_output(copies)
            else:
                self._send_slowly(consumer, copies, 1 / rate)

    def _send_slowly(self, consumer: ConnectedConsumer, frames: list[bytes], pause_s: float) -> None:
        loop = asyncio.get_running_loop()
        consumer.next_s = max(consumer.next_s, loop.time()) + pause_s
        loop.call_at(consumer.next_s, self._send_late, frames)

    def _send_late(self, frames: list[bytes]) -> None:
        if not self.close_reason:
            self._queue_output(frames)
            self.flush()

    def send_active(self, consumer_id: int, *, active: bool) -> None:
        """Notify a consumer whether it is the active consumer."""
        change = messages.CommandActiveConsumerChange(consumer_id=consumer_id, is_active=active)
        self.send(CommandType.ACTIVE_CONSUMER_CHANGE, change)

    def send_ready(self, producer: Producer, last_sequence_id: int) -> None:
        """Notify the client that one of its producers may send."""
        answer = messages.CommandProducerSuccess(
            request_id=producer.request_id,
            producer_name=producer.name,
            last_sequence_id=last_sequence_id,
            schema_version=producer.schema_version or b"",
            producer_ready=True,
        )
        if producer.topic_epoch is not None:
            answer.topic_epoch = producer.topic_epoch & UINT64_MAX
        self.send(CommandType.PRODUCER_SUCCESS, answer)

    def ping(self) -> None:
        """Send a ping to the client.

        When the answer arrives, the broker has handled all commands that the client sent before the answer.
        """
        self.send(CommandType.PING, messages.CommandPing())
        self.flush()

    def flush(self) -> None:
        """Write the queued frames to the transport."""
        if not self._out or self._transport is None or self._delayed_flushes:
            return
        delay_ms = self.shared.faults.delay_ms() if self.shared.faults.any else 0
        if delay_ms:
            self._delayed_flushes += 1
            asyncio.get_running_loop().call_later(delay_ms / 1000, self._flush_delayed)
            return
        data = b"".join(self._out) if len(self._out) > 1 else self._out[0]
        self._out.clear()
        self._out_bytes = 0
        self._transport.write(data)

    def _flush_delayed(self) -> None:
        self._delayed_flushes -= 1
        if self._out and self._transport is not None:
            self._transport.write(b"".join(self._out))
            self._out.clear()

    # Closing

    def leave(self, producer: Producer) -> None:
        """Remove a producer after its client closed it."""
        if (topic := self.state.topics.get(producer.topic)) is not None:
            topic.producers.leave(producer)

    def close_producer(self, producer: Producer) -> None:
        """Close a producer. The client then opens the producer again."""
        if self.producers.pop(producer.producer_id, None) is producer:
            self.closed_producers.add(producer.producer_id)
            self.send(
                CommandType.CLOSE_PRODUCER,
                messages.CommandCloseProducer(producer_id=producer.producer_id, request_id=0),
            )

    def close_consumer(self, consumer: ConnectedConsumer) -> None:
        """Close a consumer. The client then subscribes again."""
        if self.consumers.pop(consumer.consumer_id, None) is consumer:
            consumer.subscription.leave(consumer)
            self.send(
                CommandType.CLOSE_CONSUMER,
                messages.CommandCloseConsumer(consumer_id=consumer.consumer_id, request_id=0),
            )

    def close(self, reason: str) -> None:
        """Close the connection, and log the reason."""
        self.close_reason = reason
        log.info("%s closed: %s", self.address, reason)
        if self._transport is not None:
            # A queued answer may confirm a change that is not saved yet. Save all changes before the answer
            # is sent.
            self.shared.save()
            self.flush()
            self._transport.close()

    def abort(self) -> None:
        """Close the connection as a crash does: drop queued frames, and do not close the consumers first."""
        self.close_reason = CRASH
        self._out.clear()
        self.producers.clear()
        self.consumers.clear()
        if self._transport is not None:
            self._transport.abort()
