"""The bytes of partials, in tables and in the state of streams: versioned, checksummed, refused by name."""

from __future__ import annotations

import struct
import zlib

import pytest

from ackwell.errors import CorruptStateError, NewerVersionError
from ackwell.replay.events import Kind
from ackwell.replay.folded import MAGIC, VERSION, Folded
from tests.spark.test_replay import random_history


def some_states() -> list[tuple[int | None, bytes]]:
    folded = Folded()
    for event in random_history(3):
        if event.kind is not Kind.CLEAR_BACKLOG:
            folded.feed(event)
    states = list(folded.encode())
    assert states
    return states


def test_bytes_come_back_as_they_were() -> None:
    for ledger_id, state in some_states():
        assert state[:4] == MAGIC
        assert state[4] == VERSION
        assert list(Folded.decode(ledger_id, state).encode()) == [(ledger_id, state)]


def test_no_flipped_bit_and_no_torn_end_is_read() -> None:
    for ledger_id, state in some_states():
        for bit in range(8 * len(state)):
            flipped = bytearray(state)
            flipped[bit // 8] ^= 1 << bit % 8
            with pytest.raises(CorruptStateError):
                Folded.decode(ledger_id, bytes(flipped))
        for end in range(len(state)):
            with pytest.raises(CorruptStateError):
                Folded.decode(ledger_id, state[:end])


def test_a_newer_version_is_refused_by_name() -> None:
    ledger_id, state = some_states()[0]
    checksum = zlib.crc32(state[9:], VERSION + 1)
    newer = state[:4] + struct.pack("<BI", VERSION + 1, checksum) + state[9:]
    with pytest.raises(NewerVersionError, match=f"version {VERSION + 1}, newer than {VERSION}"):
        Folded.decode(ledger_id, newer)
