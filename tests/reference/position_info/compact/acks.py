"""Acknowledged entries: a record per ledger, then each ledger's entries in the cheapest of four kinds."""

from __future__ import annotations

from itertools import groupby, pairwise
from operator import itemgetter
from typing import TYPE_CHECKING

from tests.reference.position_info.compact.bits import BitReader, BitWriter
from tests.reference.position_info.compact.column import Code, put_rows, take_rows
from tests.reference.range_set import PositionRangeSet

if TYPE_CHECKING:
    from collections.abc import Iterator

RUNS, HOLES, ACKS, BITMAP = range(4)
#: The reference rejects larger values, which only a hostile writer produces.
COUNT_MAX = 1 << 20

Run = tuple[int, int]
"""The number of holes before the run, and its length."""


def before_holes(runs: list[Run]) -> list[int]:
    """Return how many acknowledged entries are before each hole."""
    numbers: list[int] = []
    for (_, length), (holes, _) in pairwise(runs):
        numbers += [length] + [0] * (holes - 1)
    return numbers


def before_acks(runs: list[Run]) -> list[int]:
    """Return how many holes are before each acknowledged entry but the first."""
    numbers: list[int] = []
    for index, (holes, length) in enumerate(runs):
        numbers += ([holes] if index else []) + [0] * (length - 1)
    return numbers


def put_ledger(runs: list[Run]) -> tuple[tuple[int, int, int, int], bytes]:
    """Kind, start, span and count of a ledger, and the bits after the records."""
    bits = BitWriter()
    start = runs[0][0]
    acks = sum(length for _, length in runs)
    holes = sum(holes for holes, _ in runs[1:])
    span = acks + holes
    if len(runs) == 1:
        return (RUNS, start, span, 0), b""
    gaps, gaps_cost = Code.cheapest([holes for holes, _ in runs[1:]])
    lengths, lengths_cost = Code.cheapest([length for _, length in runs[:-1]])
    kind, cost = RUNS, gaps_cost + lengths_cost
    code = gaps
    if holes < cost and Code.cheapest(before_holes(runs))[1] < cost:
        kind, (code, cost) = HOLES, Code.cheapest(before_holes(runs))
    if acks - 1 < cost and Code.cheapest(before_acks(runs))[1] < cost:
        kind, (code, cost) = ACKS, Code.cheapest(before_acks(runs))
    if span <= cost:
        for index, (holes, length) in enumerate(runs):
            bits.put(0, holes if index else 0)
            bits.put((1 << length) - 1, length)
        return (BITMAP, start, span, 0), bits.finish()
    code.put_header(bits)
    if kind == RUNS:
        lengths.put_header(bits)
        for (_, length), (holes, _) in pairwise(runs):
            lengths.put(bits, length)
            gaps.put(bits, holes)
        return (RUNS, start, span, len(runs) - 1), bits.finish()
    numbers = before_holes(runs) if kind == HOLES else before_acks(runs)
    for number in numbers:
        code.put(bits, number)
    return (kind, start, span, len(numbers)), bits.finish()


def put(bits: BitWriter, acks: PositionRangeSet) -> None:
    """Write a non-empty set."""
    records, details = [], b""
    next_ledger = 0
    for ledger_id, ranges in groupby(acks.ranges(), itemgetter(0)):
        runs, end = [], 0
        for _, lower, upper in ranges:
            runs.append((lower + 1 - end, upper - lower))
            end = upper + 1
        record, detail = put_ledger(runs)
        records.append((ledger_id - next_ledger, *record))
        details += detail
        next_ledger = ledger_id + 1
    put_rows(bits, records, 5)
    bits.put_bytes(details)


def steps(bits: BitReader, kind: int, span: int, count: int) -> Iterator[tuple[bool, int]]:
    """Return the entries of a ledger in turn: whether acknowledged, and how many."""
    done = 0
    if kind == BITMAP:
        for _ in range(span):
            yield bits.take(1) == 1, 1
        return
    if kind == RUNS and count:
        gaps, lengths = Code.take_header(bits), Code.take_header(bits)
        for _ in range(count):
            length, gap = lengths.take(bits), gaps.take(bits)
            if not length or not gap:
                raise bits.refuse("an empty run")
            yield True, length
            yield False, gap
            done += length + gap
    elif kind == HOLES:
        code = Code.take_header(bits)
        for _ in range(count):
            length = code.take(bits)
            yield True, length
            yield False, 1
            done += length + 1
    elif kind == ACKS:
        code = Code.take_header(bits)
        yield True, 1
        for _ in range(count):
            yield False, code.take(bits)
            yield True, 1
        return
    yield True, span - done


def take(bits: BitReader) -> PositionRangeSet:
    """Read a set."""
    acks = PositionRangeSet()
    next_ledger = 0
    for gap, kind, start, span, count in take_rows(bits, 5, COUNT_MAX):
        ledger_id = next_ledger + gap
        if kind > BITMAP or not span or start + span > 1 << 63 or ledger_id >> 63:
            raise bits.refuse("a ledger that cannot be")
        next_ledger = ledger_id + 1
        bits.align()
        at, acked = start, False
        for acked, length in steps(bits, kind, span, count):
            if length < 0 or at + length > start + span:
                raise bits.refuse("entries behind the end of the ledger's span")
            if acked and length:
                acks.add_range(ledger_id, at - 1, at + length - 1)
            at += length
        if at != start + span or not acks.contains(ledger_id, at - 1):
            raise bits.refuse("the ledger's span is not what its entries are")
    bits.align()
    return acks
