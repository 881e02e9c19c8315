"""Apply the frames between a client and the broker to our model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ackwell import Position
from ackwell.protocol.constants import CommandType
from ackwell.protocol.payload import read_payload
from ackwell.wire import signed64
from tests.pulsar.live import actions
from tests.pulsar.live.client import Delivered

if TYPE_CHECKING:
    from tests.pulsar.live.actions import Action
    from tests.pulsar.live.ours import Ours
    from tests.pulsar.official.tap import Seen

ASKED = (CommandType.SUBSCRIBE, CommandType.CLOSE_CONSUMER, CommandType.SEEK)
"""The effects of the commands that the broker has confirmed."""


class Wire:
    """The observer of one connection. It applies a request when the answer arrives."""

    def __init__(self, ours: Ours) -> None:
        self._ours = ours
        self._asked: dict[int, tuple[int, Any]] = {}
        self._sent: dict[tuple[int, int], Any] = {}
        self._run: list[Delivered] = []

    def follow(self, seen: list[Seen]) -> list[str]:
        """Apply the frames; return the deliveries that our model would not have made."""
        found = []
        for each in seen:
            type, message = each.command  # noqa: A001  # the field's word
            if not each.from_client and type == CommandType.MESSAGE:
                self._delivered(message, each.payload)
                continue
            found += self._run_ended()
            if each.from_client:
                self._from_client(type, message, each.payload)
            else:
                self._from_broker(type, message)
        return found + self._run_ended()

    def _run_ended(self) -> list[str]:
        run, self._run = self._run, []
        return self._ours.take(run) if run else []

    def _delivered(self, message: Any, payload: bytes) -> None:
        position = _position(message.message_id)
        # A broker may deliver an entry before the producer receives its position.
        if position not in self._ours.log:
            self._published(position, read_payload(payload).metadata)
        ack_set = tuple(message.ack_set)
        self._run.append(Delivered(message.consumer_id, position, message.redelivery_count, ack_set))

    def _published(self, position: Position, metadata: Any) -> None:
        size = metadata.num_messages_in_batch if metadata.HasField("num_messages_in_batch") else None
        key = metadata.partition_key if metadata.HasField("partition_key") else None
        self._ours.published(position, size, key, metadata.producer_name, metadata.sequence_id)

    def _from_client(self, type: int, message: Any, payload: bytes) -> None:  # noqa: A002
        if type == CommandType.SEND:
            self._sent[message.producer_id, message.sequence_id] = read_payload(payload).metadata
        elif type in ASKED:
            self._asked[message.request_id] = type, message
        elif getattr(message, "consumer_id", None) not in self._ours.consumers:
            pass  # Sent before the client knew that the broker had closed it.
        elif type == CommandType.FLOW:
            self._ours.apply(actions.Flow(message.consumer_id, message.messagePermits))
        elif type == CommandType.REDELIVER_UNACKNOWLEDGED_MESSAGES:
            positions = tuple(map(_position, message.message_ids))
            self._ours.apply(actions.Redeliver(message.consumer_id, positions or None))
        elif type == CommandType.ACK:
            self._ours.apply(_ack(message))

    def _from_broker(self, type: int, message: Any) -> None:  # noqa: A002
        if type == CommandType.SEND_RECEIPT:
            metadata = self._sent.pop((message.producer_id, message.sequence_id))
            self._published(_position(message.message_id), metadata)
        elif type == CommandType.CLOSE_CONSUMER:
            self._ours.gone(message.consumer_id)
        elif type == CommandType.ERROR:
            self._asked.pop(message.request_id, None)
        elif type == CommandType.SUCCESS and message.request_id in self._asked:
            self._happened(*self._asked.pop(message.request_id))

    def _happened(self, type: int, message: Any) -> None:  # noqa: A002
        if type == CommandType.SUBSCRIBE:
            name, priority = message.consumer_name, message.priority_level
            self._ours.apply(actions.Subscribe(message.consumer_id, name, priority))
        elif type == CommandType.CLOSE_CONSUMER:
            self._ours.gone(message.consumer_id)
        else:
            ids = message.message_id
            self._ours.apply(actions.Seek(message.consumer_id, _position(ids), tuple(ids.ack_set)))


def _position(ids: Any) -> Position:
    return Position(signed64(ids.ledgerId), signed64(ids.entryId))


def _ack(message: Any) -> Action:
    ids = tuple((_position(each), tuple(each.ack_set), each.batch_size or 1) for each in message.message_id)
    if message.ack_type == 0:
        return actions.Ack(message.consumer_id, ids)
    ((position, ack_set, _),) = ids
    return actions.AckCumulative(message.consumer_id, position, ack_set)
