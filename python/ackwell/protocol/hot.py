"""The frames that a broker writes for every message, field by field: objects take four times as long."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ackwell.wire import varint

_SMALL = [varint(number) for number in range(1 << 14)]
"""The varints of one and two bytes, ready."""


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
    """Return the frame of a `CommandMessage` with its entry."""
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
    """Return the frames of many entries for one consumer, delivered for the first time and whole."""
    ledger_id, head, tail = -1, b"", b"\x18" + _varint(partition) if partition >= 0 else b""
    consumer = b"\x08%b\x12" % _varint(consumer_id)
    for ledger, entry_id, payload in zip(ledger_ids, entry_ids, payloads, strict=True):
        if ledger != ledger_id:
            ledger_id, head = ledger, b"\x08%b\x10" % _varint(ledger)
        place = head + _varint(entry_id) + tail
        body = consumer + _SMALL[len(place)] + place
        # Without ack sets it is shorter than 128 bytes: one byte for its size, and four before it.
        size = len(body)
        yield b"%b%b\x08\x09\x4a%b%b%b" % (
            (size + 8 + len(payload)).to_bytes(4),
            (size + 4).to_bytes(4),
            _SMALL[size],
            body,
            payload,
        )


def _message_head(consumer_id: int, ledger_id: int, entry_id: int, partition: int) -> bytes:
    place = b"\x08%b\x10%b" % (_varint(ledger_id), _varint(entry_id))
    if partition >= 0:
        place += b"\x18" + _varint(partition)
    return b"\x08%b\x12%b%b" % (_varint(consumer_id), _SMALL[len(place)], place)


def receipt_frame(
    producer_id: int,
    sequence_id: int,
    ledger_id: int,
    entry_id: int,
    *,
    highest_sequence_id: int = 0,
) -> bytes:
    """Return the frame of a `CommandSendReceipt`; ids below 0 are written as the client compares them."""
    place = b"\x08%b\x10%b" % (_varint(ledger_id), _varint(entry_id))
    body = b"\x08%b\x10%b\x1a%b%b\x20%b" % (
        _varint(producer_id),
        _varint(sequence_id),
        _SMALL[len(place)],
        place,
        _varint(highest_sequence_id),
    )
    return _frame(b"\x08\x07\x3a", body, b"")


def _frame(head: bytes, body: bytes, payload: bytes) -> bytes:
    size = _varint(len(body))
    command = len(head) + len(size) + len(body)
    return b"".join(
        ((4 + command + len(payload)).to_bytes(4), command.to_bytes(4), head, size, body, payload)
    )


def _varint(value: int) -> bytes:
    return _SMALL[value] if 0 <= value < 16_384 else varint(value)
