"""Encoders for the frames that a broker sends for every message. protobuf would take four times as long."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

from ackwell.wire import varint

_SMALL_END = 1 << 14
_SMALL = [varint(number) for number in range(_SMALL_END)]
"""The encoded varints of one and two bytes. The index is the number."""


def message_frame(
    consumer_id: int,
    ledger_id: int,
    entry_id: int,
    payload: bytes,
    *,
    partition: int = -1,
    redelivery_count: int = 0,
    ack_set: Sequence[int] = (),
    epoch: int | None = None,
) -> bytes:
    """Return the frame of a `CommandMessage`, with the bytes of an entry as its payload."""
    body = _message_head(consumer_id, ledger_id, entry_id, partition)
    if redelivery_count:
        body += b"\x18" + _varint(redelivery_count)
    for word in ack_set:
        body += b"\x20" + varint(word)
    if epoch is not None:
        body += b"\x28" + _varint(epoch)
    return _frame(b"\x08\x09\x4a", body, payload)


def message_frames(
    consumer_id: int, ledger_ids: list[int], entry_ids: list[int], payloads: list[bytes], partition: int = -1
) -> Iterator[bytes]:
    """Yield the frames of many entries for one consumer.

    The frames have no ack sets, and their redelivery count is 0.
    """
    ledger_id, head, tail = -1, b"", b"\x18" + _varint(partition) if partition >= 0 else b""
    consumer = b"\x08%b\x12" % _varint(consumer_id)
    for ledger, entry_id, payload in zip(ledger_ids, entry_ids, payloads, strict=True):
        if ledger != ledger_id:
            ledger_id, head = ledger, b"\x08%b\x10" % _varint(ledger)
        position = head + _varint(entry_id) + tail
        body = consumer + _SMALL[len(position)] + position
        # Without an ack set, the body is shorter than 128 bytes. The varint of its size therefore has one
        # byte.
        size = len(body)
        yield b"%b%b\x08\x09\x4a%b%b%b" % (
            (size + 8 + len(payload)).to_bytes(4),
            (size + 4).to_bytes(4),
            _SMALL[size],
            body,
            payload,
        )


def _message_head(consumer_id: int, ledger_id: int, entry_id: int, partition: int) -> bytes:
    position = b"\x08%b\x10%b" % (_varint(ledger_id), _varint(entry_id))
    if partition >= 0:
        position += b"\x18" + _varint(partition)
    return b"\x08%b\x12%b%b" % (_varint(consumer_id), _SMALL[len(position)], position)


def receipt_frame(
    producer_id: int,
    sequence_id: int,
    ledger_id: int,
    entry_id: int,
    *,
    highest_sequence_id: int = 0,
) -> bytes:
    """Return the frame of a `CommandSendReceipt`. Negative ids are encoded as 64-bit varints."""
    producer, position = _receipt_parts(producer_id, ledger_id)
    entry = _SMALL[entry_id] if 0 <= entry_id < _SMALL_END else varint(entry_id)
    sequence = _SMALL[sequence_id] if 0 <= sequence_id < _SMALL_END else varint(sequence_id)
    highest = _SMALL[highest_sequence_id] if highest_sequence_id < _SMALL_END else varint(highest_sequence_id)
    # Each number takes at most ten bytes. The varints of both sizes therefore have one byte.
    nested = len(position) + len(entry)
    size = len(producer) + len(sequence) + nested + len(highest) + 4
    return b"\x00\x00\x00%c\x00\x00\x00%c\x08\x07\x3a%c%b\x10%b\x1a%c%b%b\x20%b" % (
        size + 8,
        size + 4,
        size,
        producer,
        sequence,
        nested,
        position,
        entry,
        highest,
    )


@lru_cache(maxsize=4096)
def _receipt_parts(producer_id: int, ledger_id: int) -> tuple[bytes, bytes]:
    """Return the encoded producer id and ledger id.

    The result is cached, as many receipts have the same ids.
    """
    return b"\x08" + varint(producer_id), b"\x08%b\x10" % varint(ledger_id)


def _frame(head: bytes, body: bytes, payload: bytes) -> bytes:
    size = _varint(len(body))
    command = len(head) + len(size) + len(body)
    return b"".join(
        ((4 + command + len(payload)).to_bytes(4), command.to_bytes(4), head, size, body, payload)
    )


def _varint(value: int) -> bytes:
    return _SMALL[value] if 0 <= value < _SMALL_END else varint(value)
