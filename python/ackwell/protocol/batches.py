"""Batches: entries whose payload contains several messages.

    size, int32 · SingleMessageMetadata · message, repeated

`num_messages_in_batch` in the entry's metadata is the number of messages. Every batch has this field, even a
batch of one message. If an entry lacks the field, its payload is a single message.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ackwell.errors import FrameError
from ackwell.protocol import messages


def read_batch(metadata: Any, body: bytes) -> list[tuple[Any, bytes]]:
    """Split the uncompressed body of a batch into its messages.

    Each element is the `SingleMessageMetadata` and the payload of one message.

    The list is empty if the entry is not a batch. Raises `FrameError` if the body does not have the number of
    messages in the metadata.

    >>> one = messages.SingleMessageMetadata(payload_size=0, partition_key="k")
    >>> metadata = messages.MessageMetadata(num_messages_in_batch=2)
    >>> body = write_batch([(one, b"a"), (one, b"b")])
    >>> [(each.partition_key, data) for each, data in read_batch(metadata, body)]
    [('k', b'a'), ('k', b'b')]
    """
    if not metadata.HasField("num_messages_in_batch"):
        return []
    found, at = [], 0
    for index in range(metadata.num_messages_in_batch):
        start = at + 4
        end = start + int.from_bytes(body[at:start])
        if start > len(body) or end > len(body):
            raise FrameError(f"a batch ends inside message {index} of {metadata.num_messages_in_batch}")
        single = messages.parse("SingleMessageMetadata", body[start:end])
        at = end + single.payload_size
        if single.payload_size < 0 or at > len(body):
            raise FrameError(f"message {index} of a batch has {single.payload_size} bytes")
        found.append((single, body[end:at]))
    return found


def write_batch(singles: Iterable[tuple[Any, bytes]]) -> bytes:
    """Join messages to the body of a batch. Each message is its `SingleMessageMetadata` and its payload.

    Sets the field `payload_size` of each metadata.
    """
    parts = []
    for single, data in singles:
        single.payload_size = len(data)
        encoded = single.SerializeToString()
        parts += [len(encoded).to_bytes(4), encoded, data]
    return b"".join(parts)
