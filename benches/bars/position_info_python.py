"""The Python classes `PositionInfo` and `Cursor`, compared with Python protobuf."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from time import thread_time_ns
from typing import Any, TypeAlias

from ackwell import Cursor, Ledgers, PositionInfo, PositionRangeSet
from benches.bars.sides import OURS
from benches.bars.workloads import section
from tests.differential.pulsar_messages import messages

Measured: TypeAlias = tuple[str, str, str, list[float]]

WORKLOAD = "alt1m"
FORMS = ("pulsar-ranges", "pulsar-long-array", "compact")
WARM, ROUNDS = 2, 15
# A message of a million others takes Python seconds.
PROTOBUF_ROUNDS = 3


def measure() -> Iterator[Measured]:
    """Measure every figure of this process."""
    workload = section("range_set")[WORKLOAD]
    ledgers = Ledgers({100 + index: workload["entries"] for index in range(workload["ledgers"])})
    acked = PositionRangeSet(
        (ledger_id, entry_id - 1, entry_id)
        for ledger_id, entries in ledgers
        for entry_id in range(1, entries, 2)
    )
    state = PositionInfo(100, -1, acked)
    for form in FORMS:
        data = state.encode(form)
        decoded = partial(PositionInfo.decode, data)
        yield _row(OURS, f"{form} encode", ROUNDS, partial(state.encode, form))
        yield _row(OURS, f"{form} decode", ROUNDS, decoded)
        yield _row(OURS, f"{form} cursor", ROUNDS, partial(_cursor, decoded, ledgers))
    message, data = _message(state), state.encode("pulsar-ranges")
    assert data == message.SerializeToString()
    yield _row("protobuf", "build", PROTOBUF_ROUNDS, lambda: _message(state))
    yield _row("protobuf", "serialize", PROTOBUF_ROUNDS, message.SerializeToString)
    yield _row("protobuf", "parse", PROTOBUF_ROUNDS, lambda: messages().PositionInfo.FromString(data))


def _cursor(decoded: Callable[[], PositionInfo], ledgers: Ledgers) -> Cursor:
    return Cursor.from_position_info(decoded(), ledgers)


def _row(side: str, operation: str, rounds: int, call: Callable[[], object]) -> Measured:
    """Time each of `rounds` calls. The time does not include freeing the result."""
    samples = []
    for _ in range(WARM + rounds):
        before = thread_time_ns()
        result = call()
        samples.append(float(thread_time_ns() - before))
        del result
    return side, f"python {WORKLOAD}", operation, samples[WARM:]


def _message(state: PositionInfo) -> Any:
    message = messages().PositionInfo(ledgerId=state.ledger_id, entryId=state.entry_id)
    for ledger_id, lower, upper in state.individually_deleted:
        item = message.individualDeletedMessages.add()
        item.lowerEndpoint.ledgerId = item.upperEndpoint.ledgerId = ledger_id
        item.lowerEndpoint.entryId, item.upperEndpoint.entryId = lower, upper
    return message
