"""Measure the CPU time per message of the dev broker without sockets: `python -m benches.devbroker.handling`.

A connection, whose transport discards its bytes, receives the frames of a client that publishes and
acknowledges. The result is the fastest of many rounds, because noise of the machine only adds time.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from ackwell.devbroker import AsyncBroker
from ackwell.devbroker.client_connection import ClientConnection
from ackwell.devbroker.handlers import HANDLERS
from ackwell.protocol import messages
from ackwell.protocol.constants import CommandType
from ackwell.protocol.frames import encode, frame
from ackwell.protocol.payload import write_payload

MESSAGES = 1_000
ROUNDS = 40
"""The number of rounds. The messages of all rounds fill less than a ledger."""


class Nowhere(asyncio.Transport):
    """A transport that discards its bytes."""

    def write(self, _data: Any) -> None:
        """Discard the bytes."""

    def close(self) -> None:
        """Do nothing."""

    def abort(self) -> None:
        """Do nothing."""

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return a constant address for `peername`."""
        return ("127.0.0.1", 1) if name == "peername" else default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Do nothing."""


def command(command_type: CommandType, payload: bytes = b"", **fields: Any) -> bytes:
    """Return the frame of a command."""
    name = "Command" + command_type.name.title().replace("_", "")
    return frame(encode(command_type, messages.message(name)(**fields)), payload)


def connected(broker: AsyncBroker, key_shared: bool) -> ClientConnection:
    """Return a connection with a producer and a consumer."""
    made = ClientConnection(broker.state, broker.service, HANDLERS)
    made.connection_made(Nowhere())
    made.data_received(command(CommandType.CONNECT, client_version="bench", protocol_version=21))
    made.data_received(command(CommandType.PRODUCER, topic="t", producer_id=1, request_id=1))
    made.data_received(
        command(
            CommandType.SUBSCRIBE,
            topic="t",
            subscription="s",
            subType=3 if key_shared else 1,
            consumer_id=1,
            request_id=2,
        )
    )
    return made


def sends(first: int, batch: int) -> bytes:
    """Return the frames that send the messages of a round, each with one message or with a batch."""
    frames = []
    for number in range(MESSAGES // batch):
        metadata = messages.MessageMetadata(
            producer_name="standalone-0-1",
            sequence_id=first + number,
            publish_time=1_700_000_000_000 + number,
            partition_key=f"k{number % 100}",
        )
        if batch > 1:
            metadata.num_messages_in_batch = batch
        frames.append(
            command(
                CommandType.SEND,
                write_payload(metadata, b"x" * 100 * batch),
                producer_id=1,
                sequence_id=first + number,
                num_messages=batch,
            )
        )
    return b"".join(frames)


def acks(ledger_id: int, first: int, batch: int) -> bytes:
    """Return one command that acknowledges all messages of a round, as clients group them."""
    ids = [
        messages.MessageIdData(ledgerId=ledger_id, entryId=first + number)
        for number in range(MESSAGES // batch)
    ]
    return command(CommandType.ACK, consumer_id=1, ack_type=0, message_id=ids)


async def measure(batch: int, *, key_shared: bool = False) -> float:
    """Return the microseconds of CPU time per message."""
    async with AsyncBroker(admin_port=None) as broker:
        connection = connected(broker, key_shared)
        best = float("inf")
        for index in range(ROUNDS):
            first = index * (MESSAGES // batch)
            sent = sends(first, batch)
            (topic,) = broker.state.topics.values()
            acked = acks(topic.content.log.end.ledger_id, first, batch)
            flow = command(CommandType.FLOW, consumer_id=1, messagePermits=MESSAGES)
            began = time.process_time()
            connection.data_received(flow)
            connection.data_received(sent)
            connection.data_received(acked)
            best = min(best, time.process_time() - began)
        (source,) = broker.state.subscriptions()
        assert source.cursor.backlog_entries == 0
        return 1e6 * best / MESSAGES


def main() -> None:
    """Print a table."""
    for name, batch, key_shared in (
        ("one by one", 1, False),
        ("batches of 100", 100, False),
        ("Key_Shared", 1, True),
    ):
        print(f"{name:16} {asyncio.run(measure(batch, key_shared=key_shared)):7.2f} µs CPU a message")


if __name__ == "__main__":
    main()
