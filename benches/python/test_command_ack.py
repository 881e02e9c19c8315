"""A `CommandAck` of a hundred message ids: as columns, and as `MessageId` objects."""

from __future__ import annotations

from typing import Any

import pytest

from ackwell.subscription import AckColumns, CommandAck, MessageId

PLAIN = tuple(MessageId(200, entry_id) for entry_id in range(100))
PARTIAL = tuple(MessageId(200, entry_id, ack_set=(0b1110,)) for entry_id in range(100))


@pytest.mark.parametrize("ids", [PLAIN, PARTIAL], ids=["plain", "partial"])
def test_decode_columns(benchmark: Any, ids: tuple[MessageId, ...]) -> None:
    data = CommandAck(1, message_ids=ids).encode()
    assert len(benchmark(AckColumns.decode, data).ledger_ids) == 100


def test_decode_message_ids(benchmark: Any) -> None:
    data = CommandAck(1, message_ids=PLAIN).encode()
    assert len(benchmark(CommandAck.decode, data).message_ids) == 100
