"""Unit tests of the dev broker: clock, recorder, faults, cursor writes."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("google.protobuf")

from ackwell import Cursor, Ledgers
from ackwell.devbroker.clock import TIME_MAX_MS, Clock
from ackwell.devbroker.compaction import CompactedLog
from ackwell.devbroker.cursor_writes import CursorWrites, RateLimit
from ackwell.devbroker.faults import NAMES, Faults
from ackwell.devbroker.namespace_policies import unacked_limits
from ackwell.devbroker.recorder import EVENT_RUN_MAX, Recorder
from ackwell.position import Position
from ackwell.protocol import messages
from ackwell.protocol.batches import read_batch, write_batch
from ackwell.protocol.payload import read_payload, write_payload
from ackwell.replay.events import Kind
from ackwell.subscription import SubscriptionSettings


def frozen(at_ms: int = 1_000_000) -> Clock:
    clock = Clock()
    clock._frozen_ms = at_ms
    return clock


# The clock


def test_a_clock_is_that_of_the_machine_until_it_is_moved() -> None:
    clock = Clock()
    before = time.time_ns() // 1_000_000
    assert before <= clock.now_ms() <= time.time_ns() // 1_000_000
    clock.advance(seconds=1.5, minutes=1, hours=1, days=1)
    moved = 1_500 + 60_000 + 3_600_000 + 86_400_000
    assert before + moved <= clock.now_ms() <= time.time_ns() // 1_000_000 + moved
    assert not clock.frozen
    clock.freeze()
    at_ms = clock.now_ms()
    clock.advance(7)
    assert (clock.now_ms(), clock.frozen) == (at_ms + 7, True)
    clock.resume()
    assert not clock.frozen
    assert at_ms + 7 <= clock.now_ms() <= at_ms + 7 + 60_000
    clock.reset()
    assert abs(clock.now_ms() - time.time_ns() // 1_000_000) < 60_000


def test_timers_run_once_in_the_order_of_their_times() -> None:
    clock, called = frozen(), list[str]()
    for name, at_ms in (("c", 30), ("a", 10), ("b", 10), ("d", 31)):
        clock.call_at(1_000_000 + at_ms, lambda name=name: called.append(name))  # type: ignore[misc]
    clock.on_jump = lambda: called.append("jump")
    clock.advance(9)
    assert called == ["jump"]
    clock.advance(21)
    assert called == ["jump", "a", "b", "c", "jump"]
    clock.stop()
    clock.advance(100)
    assert called[5:] == ["jump"]


def test_a_machine_whose_clock_is_set_back_delays_timers_and_loses_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = SimpleNamespace(ms=10_000_000)
    monkeypatch.setattr("ackwell.devbroker.clock.clock_ms", lambda: machine.ms)
    clock, called = Clock(), list[int]()
    clock.call_at(10_000_100, lambda: called.append(clock.now_ms()))
    machine.ms -= 3_600_000
    clock.advance(100)
    assert (called, clock.now_ms()) == ([], 6_400_100)
    clock.advance(hours=1)
    assert called == [10_000_100]
    # A frozen clock does not depend on that of the machine, and continues from its own time.
    clock.freeze()
    machine.ms -= 3_600_000
    assert clock.now_ms() == 10_000_100
    clock.resume()
    machine.ms += 1
    assert clock.now_ms() == 10_000_101


def test_time_does_not_go_back_and_has_an_end() -> None:
    clock = frozen()
    for ms in (-1, TIME_MAX_MS - 1_000_000 + 1):
        with pytest.raises(ValueError, match=f"advance by {ms} ms; expected at least 0, and a time"):
            clock.advance(ms)
    clock.advance(TIME_MAX_MS - 1_000_000)
    assert clock.now_ms() == TIME_MAX_MS == 253_402_300_799_999


def test_a_running_clock_calls_by_itself() -> None:
    async def life() -> list[str]:
        clock, called = Clock(), list[str]()
        clock.call_at(clock.now_ms() + 3_600_000, lambda: called.append("late"))
        clock.start()
        done = asyncio.Event()
        clock.call_at(clock.now_ms() - 5, done.set)
        await done.wait()
        clock.freeze()
        clock.call_at(clock.now_ms(), lambda: called.append("frozen"))
        await asyncio.sleep(0)
        assert called == []
        clock.resume()
        assert called == ["frozen"]
        clock.stop()
        return called

    assert asyncio.run(life()) == ["frozen"]


# The recorder


def test_events_have_numbers_in_their_order_and_publishes_of_one_moment_are_one_run() -> None:
    clock = frozen()
    recorder = Recorder(clock, 1_000)
    recorder.record_publish("t", (3, 0), 1)
    recorder.record_publish("t", (3, 1), 5)
    recorder.record_publish("u", (4, 0), 1)
    recorder.record("t", "s", Kind.ACK, (3, 0), "c", ack_set=(5,), transaction="1:2")
    recorder.record_publish("u", (4, 1), 1)
    clock.advance(1)
    recorder.record_publish("u", (4, 2), 1)
    recorder.record_run("t", "s", Kind.DISPATCH, "c", ([3, 3], [0, 1], [1, 5], [0, 2]))
    recorder.record_run("t", "s", Kind.DISPATCH, "c", ([], []))
    recorder.record_run("t", "s", Kind.ACK, "c", ([3], [1]))
    recorder.record("t", "", Kind.GAP, detail="x")
    found = recorder.events()
    assert [event.sequence for event in found] == list(range(1, 11))
    assert [(each.topic, each.kind, each.ledger_id, each.entry_id, each.batch_size) for each in found] == [
        ("t", "publish", 3, 0, 1),
        ("t", "publish", 3, 1, 5),
        ("u", "publish", 4, 0, 1),
        ("t", "ack", 3, 0, None),
        ("u", "publish", 4, 1, 1),
        ("u", "publish", 4, 2, 1),
        ("t", "dispatch", 3, 0, 1),
        ("t", "dispatch", 3, 1, 5),
        ("t", "ack", 3, 1, None),
        ("t", "gap", None, None, None),
    ]
    assert [event.time_ms for event in found] == [1_000_000] * 5 + [1_000_001] * 5
    assert [event.redelivery_count for event in found[6:9]] == [0, 2, None]
    assert (found[3].consumer, found[3].ack_set, found[3].transaction) == ("c", (5,), "1:2")
    assert [event.subscription for event in found] == ["", "", "", "s", "", "", "s", "s", "s", ""]
    assert [event.consumer for event in found[6:]] == ["c", "c", "c", None]
    # Two of t, one of u, the ack, one and one of u, the deliveries, the ack, the gap.
    assert len(recorder._rows) == 8
    recorder.clear()
    assert recorder.events() == []
    recorder.record("t", "", Kind.GAP)
    assert recorder.events()[0].sequence == 1


def test_the_oldest_events_go_first() -> None:
    recorder = Recorder(frozen(), 5)
    for number in range(7):
        recorder.record("t", "s", Kind.ACK, (3, number))
    assert [event.entry_id for event in recorder.events()] == [2, 3, 4, 5, 6]
    # A run is dropped as a whole.
    recorder.record_run("t", "s", Kind.ACK, "c", ([4, 4, 4], [0, 1, 2]))
    assert [event.entry_id for event in recorder.events()] == [5, 6, 0, 1, 2]
    recorder.record("t", "s", Kind.ACK, (5, 0))
    recorder.record("t", "s", Kind.ACK, (5, 1))
    assert [event.ledger_id for event in recorder.events()] == [4, 4, 4, 5, 5]
    recorder.record("t", "s", Kind.ACK, (5, 2))
    assert [event.ledger_id for event in recorder.events()] == [5, 5, 5]


def test_a_run_of_publishes_has_an_end() -> None:
    recorder = Recorder(frozen(), 10 * EVENT_RUN_MAX)
    for number in range(EVENT_RUN_MAX + 1):
        recorder.record_publish("t", (3, number), 1)
    assert len(recorder._rows) == 2
    assert [event.entry_id for event in recorder.events()] == list(range(EVENT_RUN_MAX + 1))


# Writes of a cursor


def test_a_cursor_is_written_once_a_second_and_twice_after_a_rest() -> None:
    limit = RateLimit(0)
    asked = (0, 500, 999, 1_000, 1_001, 5_000, 5_001, 5_500, 6_000, 6_001)
    assert [limit.allows(now_ms) for now_ms in asked] == [
        True, False, False, True, False, True, True, False, True, False,
    ]  # fmt: skip


def test_postponed_changes_are_written_in_time() -> None:
    clock, cursor = frozen(), Cursor(Ledgers({3: 10}))
    writes = CursorWrites(cursor, clock, 60_000, "none")

    def acknowledge(entry_id: int) -> None:
        cursor.ack(3, entry_id)
        writes.write_or_schedule(whole=True)

    first = writes.written
    assert writes.ledger == "none"
    acknowledge(0)
    assert (writes.ledger, writes.written == first) == ("open", False)
    second = writes.written
    acknowledge(1)
    acknowledge(2)
    assert writes.written == second
    clock.advance(59_999)
    assert writes.written == second
    clock.advance(1)
    assert writes.written != second
    # A part of a batch is written only while there are ranges.
    third = writes.written
    clock.advance(10_000)
    writes.write_or_schedule(whole=False)
    assert writes.written is third
    cursor.ack(3, 5)
    writes.write_or_schedule(whole=False)
    assert writes.written is not third


# Faults


def consumer(topic: str = "t", subscription: str = "s", name: str = "c") -> Any:
    return SimpleNamespace(subscription=SimpleNamespace(names=(topic, subscription)), name=name)


def test_a_fault_happens_only_in_its_scope() -> None:
    full = "persistent://public/default/t"
    faults = Faults()
    assert not faults.any
    assert all(hasattr(faults, name) for name in NAMES)
    faults.refuse_sends(topic="t", next=2)
    assert faults.any
    found = [faults.refuses_send(topic, "p") for topic in ("other", full, f"{full}-partition-3", full)]
    assert found == [False, True, True, False]
    faults.lose_acks(subscription="s")
    faults.duplicate_messages(consumer="c")
    faults.slow_consumer("c", 5)
    assert (faults.loses_ack(consumer()), faults.loses_ack(consumer(subscription="x"))) == (True, False)
    assert (faults.duplicates_message(consumer()), faults.duplicates_message(consumer(name="x"))) == (
        True,
        False,
    )
    assert (faults.rate_of(consumer()), faults.rate_of(consumer(name="x"))) == (5, None)
    faults.delay_frames(1, 30, next=1)
    assert [faults.delay_ms(), faults.delay_ms()] == [30, 0]
    faults.drop_connections(next=1)
    assert [faults.drops_connection(), faults.drops_connection()] == [True, False]
    # A call of the same scope replaces the previous one.
    faults.lose_acks(0, subscription="s")
    assert not faults.loses_ack(consumer())
    faults.clear()
    assert (faults.any, faults.rate_of(consumer())) == (False, None)
    faults.refuse_sends(0)
    assert not faults.any


def test_a_broker_crashes_at_the_message_that_was_named() -> None:
    faults, crashed = Faults(), list[int]()
    faults.on_crash = lambda: crashed.append(1)
    faults.crash_after(2, producer="p")
    for producer, expected in (("q", 0), ("p", 0), ("p", 1), ("p", 1)):
        faults.published("t", producer)
        assert len(crashed) == expected


@pytest.mark.parametrize(
    ("ask", "why"),
    [
        (lambda faults: faults.crash_after(0), "a crash after 0 messages; expected at least 1"),
        (lambda faults: faults.slow_consumer("c", 0), "0 messages per second; expected more than 0"),
        (lambda faults: faults.drop_connections(1.01), "probability 1.01; expected 0 to 1"),
        (lambda faults: faults.lose_acks(next=-1), "the next -1; expected at least 0"),
    ],
)
def test_a_fault_that_cannot_be_is_refused_and_nothing_is_asked_for(ask: Any, why: str) -> None:
    faults = Faults()
    with pytest.raises(ValueError, match=why):
        ask(faults)
    assert not faults.any


# Policies and compaction


def test_the_limits_of_a_namespace_are_numbers_from_0_on() -> None:
    settings = SubscriptionSettings.pulsar("4.2", max_unacked_per_consumer=7, max_unacked_per_subscription=8)
    assert unacked_limits(settings, None, None) == (7, 8)
    assert unacked_limits(settings, 0, 3) == (0, 3)


def test_a_batch_is_compacted_message_by_message() -> None:
    def entry(*keys: tuple[str | None, bytes]) -> Any:
        singles = [(messages.SingleMessageMetadata(payload_size=0), data) for _, data in keys]
        for (key, _), (single, _) in zip(keys, singles, strict=True):
            if key is not None:
                single.partition_key = key
        metadata = messages.MessageMetadata(
            producer_name="p", sequence_id=0, publish_time=1, num_messages_in_batch=len(keys)
        )
        return SimpleNamespace(data=write_payload(metadata, write_batch(singles)))

    log: Any = SimpleNamespace(
        entries={
            3: [entry(("a", b"1"), ("b", b"1")), entry(("a", b"2"), (None, b"x")), entry(("b", b""))],
            4: [entry(("c", b"1")), entry(("a", b"late"))],
        }
    )
    found = CompactedLog(log, Position(4, 0))
    # Deleted keys and messages without a key are skipped; entries after the horizon are not compacted.
    assert [found.leaves_out((3, number)) for number in range(3)] == [True, False, True]
    assert not found.leaves_out((4, 0))
    assert not found.leaves_out((4, 1))
    assert list(found.rewritten) == [(3, 1)]
    payload = read_payload(found.rewritten[3, 1])
    assert payload.checksum_holds
    kept, left_out = read_batch(payload.metadata, payload.body)
    assert (kept[0].partition_key, kept[1], kept[0].compacted_out) == ("a", b"2", False)
    assert (left_out[0].compacted_out, left_out[1]) == (True, b"")
    assert (payload.metadata.compression, payload.metadata.uncompressed_size) == (0, len(payload.body))
