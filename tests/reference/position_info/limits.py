"""The limits of an encoding, and the loss at a limit: the first ranges stay."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from ackwell.errors import LimitError
from ackwell.loss import LossReport
from tests.reference.range_set import PositionRangeSet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tests.reference.position_info.state import State

#: The default maximum of an entry in a bookie: a frame of 5 MiB minus its header.
BROKER_ENTRY_BYTES_MAX = (5 << 20) - (1 << 10)


class Limits(NamedTuple):
    """The limits of an encoding; None means unlimited."""

    max_ranges: int | None = None
    max_ledgers: int | None = None
    max_bytes: int | None = None


def encode_within(
    state: State, form: str, limits: Limits, encode: Callable[[State, str], bytes]
) -> tuple[bytes, LossReport]:
    """Write as much of the state as form and limits allow, and return a report of the loss."""
    reasons = []
    kept = replace(state)
    if form.startswith("pulsar-") and state.redelivery_counts:
        kept.redelivery_counts = {}
        reasons.append(f"{form} holds no redelivery counts")
    if form == "pulsar-long-array" and state.spanning_ranges:
        kept.spanning_ranges = ()
        reasons.append(f"{form} holds no ranges over a ledger's end")
    ranges = list(state.individually_deleted.ranges())
    ledgers = sorted({ledger_id for ledger_id, _, _ in ranges})
    if limits.max_ledgers is not None and limits.max_ledgers < len(ledgers):
        ranges = [range_ for range_ in ranges if range_[0] in ledgers[: limits.max_ledgers]]
        reasons.append(f"max_ledgers = {limits.max_ledgers}")
    if limits.max_ranges is not None and limits.max_ranges < len(ranges):
        reasons.append(f"max_ranges = {limits.max_ranges}")
        ranges = ranges[: limits.max_ranges]
    batches = dict(sorted(state.batch_deleted.items()))

    def attempt(range_count: int, batch_count: int) -> bytes | None:
        kept.individually_deleted = PositionRangeSet(ranges[:range_count])
        kept.batch_deleted = dict(islice(batches.items(), batch_count))
        try:
            data = encode(kept, form)
        except LimitError:
            return None
        return data if limits.max_bytes is None or len(data) <= limits.max_bytes else None

    attempts: Iterable[tuple[int, int]] = (
        *((count, len(batches)) for count in range(len(ranges), -1, -1)),
        *((0, count) for count in range(len(batches) - 1, -1, -1)),
    )
    for index, (range_count, batch_count) in enumerate(attempts):
        data = attempt(range_count, batch_count)
        if data is None:
            continue
        if index:
            reasons.append(f"max_bytes = {limits.max_bytes}")
        lost = state.individually_deleted.difference(kept.individually_deleted)
        return data, LossReport(
            lost,
            () if kept.spanning_ranges else state.spanning_ranges,
            {key: batches[key] for key in islice(batches, batch_count, None)},
            {} if kept.redelivery_counts else dict(state.redelivery_counts),
            tuple(reasons),
        )
    raise LimitError(f"the mark-delete position and the properties alone exceed {limits.max_bytes}")
