"""The functions of executors do not load PySpark: a worker starts with only PyArrow and ackwell."""

from __future__ import annotations

import pkgutil
import random
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest

from ackwell.errors import EventError
from ackwell.replay.columns import COLUMNS
from ackwell.replay.events import Event, Kind
from ackwell.replay.parquet import RowGroups
from ackwell.spark import tasks
from ackwell.spark.files_strategy import _cores, pack
from ackwell.spark.tasks import buckets
from ackwell.spark.tasks.fold_files import FileFold
from ackwell.spark.tasks.fold_rows import with_lists
from ackwell.spark.tasks.merging import CursorMerge
from ackwell.spark.tasks.source_rows import to_batches
from tests.replay import layouts
from tests.replay.test_files import histories
from tests.replay.test_fold import resets_of, same_as_truth
from tests.spark.task_inputs import shares_of, with_texts


def test_nothing_in_tasks_imports_pyspark() -> None:
    names = [f"{tasks.__name__}.{module.name}" for module in pkgutil.iter_modules(tasks.__path__)]
    assert len(names) >= 8
    # `ackwell.spark` loads PySpark only when one of its names is used.
    script = f"import sys\nfor name in {names!r}: __import__(name)\n"
    script += "print([name for name in sys.modules if 'pyspark' in name])"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"


@pytest.mark.parametrize("count", [1, 3])
def test_shares_of_row_groups_fold_to_the_truth(tmp_path: Path, count: int) -> None:
    events = histories(10)
    layouts.small_row_groups(events, tmp_path)
    task = FileFold(shares_of(tmp_path, count), resets_of(events), ordered=False, strict=False)
    numbers = pa.RecordBatch.from_pydict({"id": list(range(count))})
    parts = list(task([numbers]))
    assert parts
    rows = [row for batch in CursorMerge(strict=False)(parts) for row in batch.to_pylist()]
    same_as_truth(events, {(row["topic"], row["subscription"]): row for row in rows})


def test_an_event_that_belongs_to_no_subscription_fails_the_task(tmp_path: Path) -> None:
    events = [Event("t", "", 1, Kind.PUBLISH, ledger_id=3, entry_id=0), Event("t", "", 2, Kind.ACK)]
    layouts.small_row_groups(events, tmp_path)
    task = FileFold(shares_of(tmp_path, 1), resets_of([]), ordered=False, strict=False)
    with pytest.raises(EventError, match="no subscription"):
        list(task([pa.RecordBatch.from_pydict({"id": [0]})]))


def test_shares_have_as_many_bytes_each_and_no_more_than_are_worth_it() -> None:
    groups = [(RowGroups(f"file-{n // 10}", (n % 10,)), 8 * 2**20) for n in range(40)]
    shares = pack(groups, 2)
    assert [sum(len(group.indexes) for group in share) for share in shares] == [20, 20]
    assert len(pack(groups[:3], 8)) == 1
    assert len(pack([(RowGroups("a", (n,)), 2**30) for n in range(8)], 2)) >= 8
    assert pack([], 4) == []


@pytest.mark.parametrize(("partitions", "cores"), [("8", 4), ("7", 3), ("1", 1), ("", 1), (None, 1)])
def test_through_connect_the_shuffle_partitions_say_how_many_tasks_run_at_a_time(
    partitions: str | None, cores: int
) -> None:
    """A Connect session has no `sparkContext`, and the setting can be missing."""
    session = SimpleNamespace(conf={"spark.sql.shuffle.partitions": partitions})
    assert _cores(session) == cores  # type: ignore[arg-type]
    session = SimpleNamespace(conf={}, sparkContext=SimpleNamespace(defaultParallelism=6))
    assert _cores(session) == 6  # type: ignore[arg-type]


@pytest.mark.parametrize("late", [False, True])
def test_buckets_of_a_stream_lead_to_the_truth_however_their_blobs_fill(
    late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Events in order, or in any micro-batch and some twice. The young blob is sometimes full."""
    for room in (0, 3_000):
        monkeypatch.setattr(buckets, "YOUNG_BYTES_MAX", room)
        kinds = (Kind.SEEK, Kind.COMMIT, Kind.ABORT)
        events = [e for e in histories(8) if e.kind not in kinds and e.transaction is None]
        events = [e for e in events if e.kind is not Kind.CLEAR_BACKLOG or e.ledger_id is not None]
        arriving = events
        if late:
            draw = random.Random(room)
            arriving = draw.sample(events, len(events)) + draw.sample(events, len(events) // 3)
        blobs: dict[int, dict[int, bytes]] = {}
        rows: dict[tuple[str, str], dict[str, object]] = {}
        for start in range(0, len(arriving), 200):
            few = arriving[start : start + 200]
            batches = [with_texts(batch) for batch in to_batches(few)]
            for folded in buckets.BucketFold(4)(b.select(list(COLUMNS)) for b in batches):
                for number, payload in zip(*(column.to_pylist() for column in folded.columns), strict=True):
                    bucket = buckets.Bucket(blobs.setdefault(number, {}))
                    bucket.join([payload], None)
                    for place, blob in bucket.changed_blobs().items():
                        blobs[number].pop(place, None)
                        if blob is not None:
                            blobs[number][place] = blob
                    packed = pa.RecordBatch.from_pydict({"payload": list(bucket.cursors())})
                    for batch in buckets.unpack_cursors([packed]):
                        rows |= {(row["topic"], row["subscription"]): row for row in batch.to_pylist()}
        same_as_truth(events, rows)
        assert room or any(len(each) > 2 for each in blobs.values())


def test_ack_sets_that_cross_as_texts_are_the_lists_they_were() -> None:
    sets = [[-1, 5], None, [], [2**63 - 1], [-(2**63)]]
    texts = [None if words is None else ",".join(map(str, words)) for words in sets]
    given = pa.RecordBatch.from_pydict({"ack_set": pa.array(texts), "row": range(5)})
    assert with_lists(given.slice(0)).column("ack_set").to_pylist() == sets
    assert with_lists(given.slice(1, 3)).column("ack_set").to_pylist() == sets[1:4]
    for plain in (given.slice(1, 1), given.select(["row"])):
        assert with_lists(plain) is plain
    with pytest.raises(EventError, match="contains null"):
        with_lists(pa.RecordBatch.from_pydict({"ack_set": ["1,null"]}))


def payload_of(*events: Event) -> bytes:
    """Return the payload of a micro-batch of these events."""
    (batch,) = buckets.BucketFold(1)(with_texts(b) for b in to_batches(list(events)))
    found: bytes = batch.column("payload")[0].as_py()
    return found


def test_a_bucket_forgets_subscriptions_without_recent_events() -> None:
    bucket = buckets.Bucket({})
    for topic, at_ms in (("old", 1_000), ("new", 2_000)):
        bucket.join([payload_of(Event(topic, "s", 1, Kind.PUBLISH, ledger_id=3, entry_id=0))], at_ms)
    assert bucket.oldest_event_ms() == 1_000
    bucket.forget(1_500)
    assert bucket.oldest_event_ms() == 2_000
    blobs = {number: blob for number, blob in bucket.changed_blobs().items() if blob is not None}
    assert buckets.Bucket(blobs).oldest_event_ms() == 2_000


def test_a_topic_is_known_as_long_as_one_of_its_subscriptions_and_they_as_long_as_it() -> None:
    """Publishes are recorded once, for the topic, and later acknowledgments need them."""
    published = [Event("t", "", n, Kind.PUBLISH, ledger_id=3, entry_id=n) for n in range(4)]
    acks = [Event("t", name, 9, Kind.ACK, ledger_id=3, entry_id=n) for n, name in enumerate(["a", "a", "b"])]
    bucket = buckets.Bucket({})
    bucket.join([payload_of(*published, acks[0], acks[2])], 1_000)
    bucket.join([payload_of(acks[1])], 2_000)
    bucket.forget(1_500)
    bucket.join([payload_of(published[3])], 3_000)
    bucket.forget(2_500)
    rows = [row for packed in bucket.cursors() for row in pa.ipc.open_stream(packed).read_all().to_pylist()]
    assert [(row["subscription"], row["mark_delete_entry_id"], row["error"]) for row in rows] == [
        ("a", 1, None)
    ]
    bucket.forget(3_500)
    assert bucket.oldest_event_ms() is None
