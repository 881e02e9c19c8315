"""Entries: the parts survive a round trip, and a flipped bit is detected."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackwell._native import compress
from ackwell.errors import FrameError
from ackwell.protocol import messages
from ackwell.protocol.batches import read_batch, write_batch
from ackwell.protocol.constants import COMPRESSIONS
from ackwell.protocol.payload import BROKER_ENTRY_MAGIC, read_payload, uncompressed, write_payload

METADATA = messages.MessageMetadata(producer_name="p", sequence_id=1, publish_time=2)


@given(st.binary(max_size=100), st.data())
def test_a_flipped_bit_anywhere_after_the_checksum_is_detected(body: bytes, data: st.DataObject) -> None:
    entry = write_payload(METADATA, body)
    whole = read_payload(entry)
    assert (whole.metadata, whole.body, whole.checksum_holds) == (METADATA, body, True)
    bit = data.draw(st.integers(16, len(entry) * 8 - 1))
    flipped = bytearray(entry)
    flipped[bit // 8] ^= 1 << bit % 8
    try:
        assert not read_payload(bytes(flipped)).checksum_holds
    except FrameError:
        assert bit >= 48


def test_an_entry_may_have_no_checksum_and_a_broker_s_own_metadata() -> None:
    plain = write_payload(METADATA, b"x")[6:]
    assert read_payload(plain).body == b"x"
    own = messages.BrokerEntryMetadata(broker_timestamp=5, index=6).SerializeToString()
    entry = read_payload(BROKER_ENTRY_MAGIC + len(own).to_bytes(4) + own + plain)
    assert entry.broker_entry is not None
    assert (entry.broker_entry.index, entry.body) == (6, b"x")


@pytest.mark.parametrize("cut", range(12))
def test_an_entry_that_ends_early_is_refused(cut: int) -> None:
    with pytest.raises(FrameError):
        read_payload(write_payload(METADATA, b"")[:cut])


@given(st.binary(max_size=60))
def test_bytes_at_random_are_an_entry_or_refused(data: bytes) -> None:
    try:
        entry = read_payload(data)
    except FrameError:
        return
    assert len(entry.body) <= len(data)


@given(st.lists(st.binary(max_size=20), min_size=1, max_size=9), st.sampled_from(range(5)))
def test_a_batch_comes_out_as_it_went_in_under_every_compression(bodies: list[bytes], kind: int) -> None:
    batch = write_batch((messages.SingleMessageMetadata(payload_size=0), body) for body in bodies)
    metadata = messages.MessageMetadata(
        num_messages_in_batch=len(bodies), compression=kind, uncompressed_size=len(batch)
    )
    metadata.MergeFrom(METADATA)
    entry = read_payload(write_payload(metadata, compress(batch, COMPRESSIONS[kind])))
    assert [body for _, body in read_batch(entry.metadata, uncompressed(entry))] == bodies


def test_a_body_that_would_grow_beyond_the_limit_is_refused() -> None:
    metadata = messages.MessageMetadata(compression=1, uncompressed_size=2**32 - 1)
    metadata.MergeFrom(METADATA)
    with pytest.raises(FrameError, match="not valid LZ4"):
        uncompressed(read_payload(write_payload(metadata, b"abc")))


@pytest.mark.parametrize(
    "body",
    [b"", b"\0\0\0\x09x", write_batch([(messages.SingleMessageMetadata(payload_size=0), b"abc")])[:-1]],
)
def test_a_batch_that_ends_early_is_refused(body: bytes) -> None:
    with pytest.raises(FrameError, match="message 0"):
        read_batch(messages.MessageMetadata(num_messages_in_batch=1), body)
