"""The state of a stream, without a session: the writes, results and deletions of micro-batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from ackwell.replay.events import Event, Kind
from ackwell.spark.tasks import buckets, moment_rows
from ackwell.spark.tasks.source_rows import to_batches
from tests.spark.test_tasks import payload_of

pytest.importorskip("pyspark")


class Values:
    """A Spark state variable in memory."""

    def __init__(self) -> None:
        self.values: dict[Any, Any] = {}

    def iterator(self) -> Iterator[tuple[Any, Any]]:
        return iter(self.values.items())

    def updateValue(self, key: Any, value: Any) -> None:  # noqa: N802
        self.values[key] = value

    def removeKey(self, key: Any) -> None:  # noqa: N802
        self.values.pop(key, None)

    def exists(self) -> bool:
        return bool(self.values)

    def update(self, value: Any) -> None:
        self.values = {(): value}

    def clear(self) -> None:
        self.values = {}


class Handle:
    """The handle of a stateful processor, with a clock."""

    def __init__(self) -> None:
        self.blobs, self.expiry = Values(), Values()
        self.timers: list[int] = []
        self.now_ms = 0

    def getMapState(self, *_: str) -> Values:  # noqa: N802
        return self.blobs

    def getValueState(self, *_: str) -> Values:  # noqa: N802
        return self.expiry

    def registerTimer(self, at_ms: int) -> None:  # noqa: N802
        self.timers.append(at_ms)

    def getCurrentProcessingTimeInMs(self) -> int:  # noqa: N802
        return self.now_ms


class Stream:
    """One bucket of a stream. Each micro-batch starts with the state that the previous one wrote."""

    def __init__(self, forget_after_ms: int | None = None) -> None:
        from ackwell.spark.stream import _BucketProcessor

        self.handle = Handle()
        self.processor = _BucketProcessor(forget_after_ms)
        self.processor.init(self.handle)  # type: ignore[arg-type]

    def feed(self, *events: Event, at_ms: int = 0) -> list[dict[str, Any]]:
        """Run a micro-batch and return its rows."""
        from pyspark.sql import Row

        self.handle.now_ms = at_ms
        given = iter([Row(payload=payload_of(*events))])
        rows = self.processor.handleInputRows((0,), given, self.handle)
        packed = [row.payload for row in rows]
        batches = buckets.unpack_cursors([pa.RecordBatch.from_pydict({"payload": packed})])
        return [row for batch in batches for row in batch.to_pylist()]

    def expire(self, at_ms: int) -> None:
        self.handle.now_ms = at_ms
        assert list(self.processor.handleExpiredTimer((0,), self.handle, None)) == []


def published(entry_id: int, subscription: str = "", topic: str = "t") -> Event:
    return Event(topic, subscription, entry_id, Kind.PUBLISH, ledger_id=3, entry_id=entry_id)


def acked(entry_id: int, subscription: str = "s") -> Event:
    return Event("t", subscription, 100 + entry_id, Kind.ACK, ledger_id=3, entry_id=entry_id)


def backlogs(rows: list[dict[str, Any]]) -> dict[str, int]:
    return {row["subscription"]: row["backlog_entries"] for row in rows}


def test_what_touches_a_topic_alone_gives_the_rows_of_all_its_subscriptions() -> None:
    running = Stream()
    running.feed(published(0), acked(0, "a"), acked(0, "b"), published(0, "c", topic="other"))
    assert backlogs(running.feed(published(1), published(2))) == {"a": 2, "b": 2}
    # Events of a subscription return only its row.
    assert backlogs(running.feed(acked(1, "a"))) == {"a": 1}


def test_a_repeated_micro_batch_changes_nothing() -> None:
    running = Stream()
    events = published(0), published(1), published(2), acked(1)
    rows = running.feed(*events)
    blobs = dict(running.handle.blobs.values)
    assert running.feed(*events) == rows
    assert running.handle.blobs.values == blobs
    assert running.feed(events[3], events[3]) == rows


def test_what_is_forgotten_leaves_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buckets, "YOUNG_BYTES_MAX", 0)
    running = Stream(forget_after_ms=1_000)
    running.feed(published(0), acked(0), at_ms=5)
    running.feed(published(0, "s", topic="other"), at_ms=900)
    assert len(running.handle.blobs.values) == 2
    assert running.handle.timers == [1_005]
    running.expire(at_ms=1_005)
    # The blob of the forgotten topic is deleted. The other blob stays, and the timer is for its topic.
    assert len(running.handle.blobs.values) == 1
    assert running.handle.timers == [1_005, 1_900]
    running.expire(at_ms=1_899)
    assert len(running.handle.blobs.values) == 1
    running.expire(at_ms=1_900)
    assert running.handle.blobs.values == {}
    assert not running.handle.expiry.exists()
    # Later events start again.
    assert backlogs(running.feed(published(3, "s"), at_ms=2_000)) == {"s": 4}


def test_without_a_time_to_forget_there_is_no_timer() -> None:
    running = Stream()
    running.feed(published(0), acked(0), at_ms=5)
    assert running.handle.timers == []


@pytest.mark.parametrize(
    ("moment", "pending"), [(19, {"c": 0}), (20, {"c": 1}), (29, {"c": 1}), (30, {"c": 0})]
)
def test_a_moment_at_the_very_time_of_an_event_is_after_it(moment: int, pending: dict[str, int]) -> None:
    at: dict[str, Any] = {"ledger_id": 3, "entry_id": 0, "consumer": "c"}
    events = [
        Event("t", "s", 1, Kind.CONSUMER_OPEN, time_ms=10, consumer="c", detail="Shared"),
        Event("t", "", 2, Kind.PUBLISH, time_ms=10, ledger_id=3, entry_id=0),
        Event("t", "s", 3, Kind.DISPATCH, time_ms=20, **at),
        Event("t", "s", 4, Kind.ACK, time_ms=30, **at),
    ]
    rows = [row for b in moment_rows.follow_batches(to_batches(events), [moment]) for row in b.to_pylist()]
    assert [(row["at_ms"], dict(row["pending_entries"])) for row in rows] == [
        (moment, pending),
        (None, {"c": 0}),
    ]
