"""`TimeWheel`: native against reference, its saved form, and threads."""

from __future__ import annotations

import threading
import zlib
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import rule

import ackwell
import tests.reference
from ackwell import CorruptStateError, LimitError, TimeWheel
from tests.differential.delayed_machine import DelayedMachine
from tests.differential.pair import outcome
from tests.reference.frame import varint, zigzag
from tests.reference.wheel_stream import ESCAPE_ONES, LEDGER, RUN


class WheelMachine(DelayedMachine):
    def make(self, draw: Any) -> tuple[Any, Any]:
        tick_ms = draw(st.one_of(st.just(1), st.integers(1, 2_000), st.integers(1, 2**63 - 1)))
        return ackwell.TimeWheel(tick_ms), tests.reference.TimeWheel(tick_ms)

    @rule()
    def saved_bytes_restore_it_in_both_engines(self) -> None:
        self.each_reads_both()
        assert self.pair.native.tick_ms == self.pair.reference.tick_ms

    @rule(count=st.integers(0, 3_000), seed=st.integers(0, 2**32))
    def add_scattered_times(self, count: int, seed: int) -> None:
        random = np.random.default_rng(seed)
        entries = np.flatnonzero(random.random(count) < 0.7)
        times = random.integers(0, 10 ** random.integers(1, 10), len(entries))
        self.pair.call("add_many", times, np.full(len(entries), 7), entries)


TestWheel = WheelMachine.TestCase
TestWheel.settings = settings(stateful_step_count=25)


@pytest.mark.parametrize("engine", [ackwell, tests.reference])
@pytest.mark.parametrize("tick_ms", [0, -1, 2**63, "1"])
def test_ticks_outside_the_domain_are_refused(engine: Any, tick_ms: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        engine.TimeWheel(tick_ms)


@pytest.mark.parametrize("engine", [ackwell, tests.reference])
def test_it_is_never_early_and_less_than_a_tick_late(engine: Any) -> None:
    wheel = engine.TimeWheel(1000)
    for time in (1, 999, 1000, 1001):
        wheel.add(time, 1, time)
    assert not wheel.has_due(999)
    assert wheel.pop_due(1000, 10)[2].tolist() == [1, 999, 1000]
    assert wheel.next_due() == 2000


@pytest.mark.parametrize("engine", [ackwell, tests.reference])
def test_a_late_message_is_given_before_the_later_ticks_of_a_run_with_earlier_entries(engine: Any) -> None:
    # The times of the run increase by one tick; the late message has the tick of its head, not of entry 5.
    wheel = engine.TimeWheel(1)
    wheel.add_many(np.arange(41, 102), np.full(61, 2), np.arange(61))
    assert wheel.pop_due(44, 4)[2].tolist() == [0, 1, 2, 3]
    wheel.add(45, 2, 6)
    times, _, entries = wheel.pop_due(46, 100)
    assert list(zip(times.tolist(), entries.tolist(), strict=True)) == [(45, 4), (45, 6), (46, 5)]


@pytest.mark.parametrize("engine", [ackwell, tests.reference])
@given(data=st.binary(max_size=300))
def test_any_bytes_are_refused_with_an_offset(engine: Any, data: bytes) -> None:
    body = b"AKTW\x01" + data
    for hostile in (data, body):
        with pytest.raises(CorruptStateError) as refused:
            engine.TimeWheel.from_bytes(hostile)
        assert 0 <= refused.value.offset <= len(hostile)
    # With a correct checksum the content is checked: a valid wheel or an error, never a panic.
    with suppress(CorruptStateError):
        TimeWheel.from_bytes(body + zlib.crc32(body).to_bytes(4, "little")).validate()


SLOT = st.tuples(
    st.integers(0, 12),  # bits
    st.integers(0, 9),  # messages in the stream
    st.binary(max_size=24),
    st.integers(0, 7),  # unused bits of its last byte
    st.lists(st.tuples(*[st.integers(0, 9)] * 3), max_size=3).flatmap(
        lambda late: st.sampled_from([late, sorted(late), sorted(set(late))])
    ),
)


def stream_of_run(ledger_id: int, entry_id: int, tick: int, *numbers: int) -> tuple[int, int]:
    """Return the bits of a stream with one run, and their count. The tick is a Rice code without low bits.

    `numbers` are the count of messages minus 1, those of the first tick and of each later tick, and the step.
    """
    bits = count = 0

    def put(value: int, size: int) -> None:
        nonlocal bits, count
        bits, count = bits | value << count, count + size

    def put_number(value: int) -> None:
        size = max(value.bit_length(), 1)
        put(size - 1, 6)
        put(value, size)

    for escape in (RUN, LEDGER):
        put((1 << ESCAPE_ONES) - 1, ESCAPE_ONES)
        put(escape, 2)
    put_number(ledger_id + 1)
    put_number(entry_id)
    put((1 << 2 * tick) - 1, 2 * tick + 1)
    for number in numbers:
        put_number(number)
    return bits, count


def saved_wheel(start: int, slot_bits: int, messages: int, stream: tuple[int, int]) -> bytes:
    """Return a saved wheel of 1 ms with one slot."""
    bits, count = stream
    body = b"AKTW\x01\x01\x01" + zigzag(start) + bytes([slot_bits]) + varint(messages) + varint(count)
    body += bits.to_bytes(-(-count // 64) * 8, "little") + b"\0"
    return body + zlib.crc32(body).to_bytes(4, "little")


@pytest.mark.parametrize("engine", [ackwell, tests.reference])
def test_a_run_that_ends_after_its_slot_is_refused(engine: Any) -> None:
    def saved(messages: int) -> bytes:
        return saved_wheel(0, 3, messages, stream_of_run(2, 5, 5, messages - 1, 1, 1, 1))

    wheel = engine.TimeWheel.from_bytes(saved(3))
    assert list(wheel) == [(5, 2, 5), (6, 2, 6), (7, 2, 7)]
    with pytest.raises(CorruptStateError):
        engine.TimeWheel.from_bytes(saved(4))


def test_a_saved_wheel_of_more_than_2_to_the_32_messages_is_refused() -> None:
    def saved(messages: int) -> bytes:
        return saved_wheel(0, 3, messages, stream_of_run(2, 5, 5, messages - 1, messages, 1, 0))

    assert len(TimeWheel.from_bytes(saved(2**32))) == 2**32
    with pytest.raises(LimitError, match="more than 4294967296 messages"):
        TimeWheel.from_bytes(saved(2**32 + 1))


@pytest.mark.parametrize("engine", [ackwell, tests.reference])
def test_messages_around_a_restored_slot_of_few_ticks_are_due_in_order(engine: Any) -> None:
    wheel = engine.TimeWheel.from_bytes(saved_wheel(8, 3, 3, stream_of_run(2, 5, 5, 2, 1, 1, 1)))
    for time in (0, 20, 7, 16, 13, 8):
        assert wheel.add(time, 3, time)
    wheel.validate()
    due = [(0, 3, 0), (7, 3, 7), (8, 3, 8), (13, 2, 5), (13, 3, 13), (14, 2, 6), (15, 2, 7), (16, 3, 16)]
    assert list(wheel) == [*due, (20, 3, 20)]
    assert list(zip(*(column.tolist() for column in wheel.pop_due(19, 10)), strict=True)) == due


def test_the_reference_reads_ticks_in_any_order() -> None:
    wheel = ackwell.TimeWheel(1)
    times = np.random.default_rng(1).integers(0, 500, 2_000)
    wheel.add_many(times, np.full(2_000, 3), np.arange(2_000))
    restored: Any = tests.reference.TimeWheel.from_bytes(wheel.to_bytes())
    assert list(restored) == list(wheel)


@given(st.lists(SLOT, max_size=2))
def test_both_engines_judge_a_stream_alike(slots: list[tuple[Any, ...]]) -> None:
    body = b"AKTW\x01\x01" + bytes([len(slots)])
    for place, (bits, messages, stream, unused, late) in enumerate(slots):
        length = max(8 * len(stream) - unused, 0)
        words = stream.ljust(-(-length // 64) * 8, b"\0")[: -(-length // 64) * 8]
        body += zigzag(place << 12) + bytes([bits, messages]) + varint(length) + words
        body += bytes([len(late), *(number for message in late for number in message)])
    data = body + zlib.crc32(body).to_bytes(4, "little")
    native, reference = (
        outcome(partial(engine.TimeWheel.from_bytes, data)) for engine in (ackwell, tests.reference)
    )
    assert native == reference


@pytest.mark.parametrize("engine", [ackwell, tests.reference])
def test_positions_that_are_due_at_two_ticks_are_saved(engine: Any) -> None:
    wheel = engine.TimeWheel(1)
    entries = np.arange(2_000)
    for first_tick in (5, 50):
        wheel.add_many(first_tick + entries % 7, np.ones_like(entries), entries)
    restored = engine.TimeWheel.from_bytes(wheel.to_bytes())
    assert restored == wheel
    restored.validate()
    assert not restored.add(50, 1, 0)
    assert restored.remove(50, 1, 0)
    assert restored.add(50, 1, 0)
    np.testing.assert_array_equal(restored.pop_due(60, 4_000), wheel.pop_due(60, 4_000))


@pytest.mark.parametrize("engine", [ackwell, tests.reference])
def test_a_newer_version_is_refused_by_name(engine: Any) -> None:
    data = bytearray(TimeWheel(1).to_bytes())
    data[4] = 2
    with pytest.raises(CorruptStateError, match="TimeWheel of version 2"):
        engine.TimeWheel.from_bytes(bytes(data))


def test_two_threads_share_a_wheel_without_losing_a_message() -> None:
    wheel, batch = TimeWheel(1), 20_000
    popped: list[int] = []

    def fill(ledger_id: int) -> None:
        for start in range(0, batch, 100):
            entries = np.arange(start, start + 100)
            wheel.add_many(entries * 37 % 5_000, np.full(100, ledger_id), entries)

    def drain() -> None:
        popped.extend(len(wheel.pop_due(5_000, 50)[0]) for _ in range(200))

    threads = [threading.Thread(target=fill, args=(ledger,)) for ledger in (1, 2)]
    threads += [threading.Thread(target=drain) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wheel.validate()
    assert 2 * batch == sum(popped) + len(wheel)
