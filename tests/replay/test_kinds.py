"""Every engine handles every kind as the table `EFFECTS` defines it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final, NamedTuple, get_type_hints

import pyarrow as pa
import pytest

from ackwell import _native
from ackwell.errors import Flaw
from ackwell.replay import table_schemas
from ackwell.replay.event_columns import columns_of
from ackwell.replay.events import EFFECTS, IN_TRANSACTION, Action, Event, Kind
from ackwell.replay.files import fold_files
from ackwell.replay.fold import Fold
from ackwell.replay.resets import find_resets
from ackwell.replay.sequence import SubscriptionReplay, TopicReplay
from ackwell.replay.states import Replay, states_of
from ackwell.spark.tasks import buckets, moment_rows
from ackwell.spark.tasks.fold_files import FileFold
from ackwell.spark.tasks.fold_rows import RowFold
from ackwell.spark.tasks.merging import CursorMerge
from ackwell.spark.tasks.source_rows import to_batches
from tests import reference
from tests.replay import layouts
from tests.replay.oracle import truths
from tests.spark.task_inputs import shares_of, with_texts

T: Final = "1:2"
"""A transaction."""


class Said(NamedTuple):
    """The result of an engine for one subscription."""

    mark_delete: str
    ranges: str
    backlog_entries: int


HARMLESS: Final = (Action.NOTHING, Action.NAMED, Action.PLACED)
"""The actions without an effect on a cursor."""

BEFORE: Final = {"s": Said("3:-1", "[(3:0..3:1],(4:0..4:1]]", 4), "u": Said("3:0", "[]", 5)}
"""The two subscriptions of `story` without the tested event."""

AFTER: Final[dict[Kind, dict[str, Said | None]]] = {
    Kind.PUBLISH: {
        "s": BEFORE["s"]._replace(backlog_entries=6),
        "u": BEFORE["u"]._replace(backlog_entries=7),
    },
    Kind.DISPATCH: {"s": BEFORE["s"]._replace(backlog_entries=6)},
    Kind.RECEIVE: {"s": BEFORE["s"]._replace(backlog_entries=6)},
    Kind.ACK: {"s": Said("3:-1", "[(3:0..3:2],(4:0..4:1]]", 3)},
    Kind.ACK_CUMULATIVE: {"s": Said("3:2", "[(4:0..4:1]]", 2)},
    Kind.SKIP: {"s": Said("3:2", "[(4:0..4:1]]", 2)},
    Kind.EXPIRE: {"s": Said("3:2", "[(4:0..4:1]]", 2)},
    Kind.CLEAR_BACKLOG: {"s": Said("3:2", "[(4:0..4:1]]", 2)},
    Kind.SEEK: {"s": Said("3:1", "[(4:0..4:1]]", 3)},
    Kind.TRIM: {"s": Said("4:-1", "[(4:0..4:1]]", 1), "u": Said("4:-1", "[]", 2)},
    Kind.UNSUBSCRIBE: {"s": None},
    Kind.COMMIT: {"s": Said("3:-1", "[(3:0..3:1],(3:2..3:3],(4:0..4:1]]", 3)},
}
"""The subscriptions after the tested event, for the kinds that change them."""


def story(kind: Kind) -> list[Event]:
    """A topic with two subscriptions: a publish, partial acknowledgments, the tested event, another event."""
    effect = EFFECTS[kind]
    ledger_id, entry_id = (4, 3) if effect.exists else (4, 0) if kind is Kind.TRIM else (3, 2)
    if not effect.position and kind is not Kind.CLEAR_BACKLOG:
        ledger_id, entry_id = None, None  # type: ignore[assignment]
    entries = [(3, entry) for entry in range(4)] + [(4, 0), (4, 1)]
    events = [event(Kind.PUBLISH, "", at=at) for at in entries]
    events += [
        event(Kind.CONSUMER_OPEN, "s", consumer="c", detail="Shared"),
        event(Kind.DISPATCH, "s", at=(3, 2), consumer="c"),
        event(Kind.ACK, "s", at=(3, 1)),
        event(Kind.ACK, "u", at=(3, 0)),
    ]
    if effect.transaction:
        events.append(event(Kind.ACK, "s", at=(3, 3), transaction=T))
    asked = event(
        kind,
        # Kinds that can concern a topic do so, except that a transaction ends for a subscription.
        "" if effect.of_topic and not effect.transaction else "s",
        consumer=None if effect.of_topic else "d" if kind is Kind.CONSUMER_OPEN else "c",
        transaction=T if effect.transaction else None,
    )
    events.append(asked._replace(ledger_id=ledger_id, entry_id=entry_id))
    events.append(event(Kind.ACK, "s", at=(4, 1)))
    return [each._replace(sequence=number) for number, each in enumerate(events, 1)]


def event(kind: Kind, subscription: str, at: tuple[int, int] | None = None, **fields: Any) -> Event:
    ledger_id, entry_id = at or (None, None)
    return Event("t", subscription, 0, kind, ledger_id=ledger_id, entry_id=entry_id, time_ms=7, **fields)


def expected(kind: Kind) -> dict[str, Said]:
    said = BEFORE | AFTER.get(kind, {})
    if kind is Kind.UNSUBSCRIBE:
        said.pop("s")
    return {name: found for name, found in said.items() if found is not None}


def said_by(fold: Fold) -> dict[str, Said]:
    return {
        state.subscription: Said(
            str(state.cursor.mark_delete_position),
            str(state.cursor.individually_deleted),
            state.cursor.backlog_entries,
        )
        for state in states_of(fold)
    }


def said_in(batches: Any) -> dict[str, Said]:
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert [row["error"] for row in rows] == [None] * len(rows)
    return {row["subscription"]: said_in_row(row) for row in rows}


def said_in_row(row: dict[str, Any]) -> Said:
    mark_delete = f"{row['mark_delete_ledger_id']}:{row['mark_delete_entry_id']}"
    return Said(mark_delete, row["individually_deleted"], row["backlog_entries"])


def one_by_one(events: list[Event], _: Path) -> dict[str, Said]:
    replay = Replay()
    for each in events:
        replay.feed(each)
    return said_by(replay.fold)


def with_resets_known(engine: Any) -> Any:
    def folded(events: list[Event], _: Path) -> dict[str, Said]:
        fold = Fold(find_resets(lambda: [columns_of(events)]), engine=engine)
        fold.feed(columns_of(events[::-1]))
        return said_by(fold)

    return folded


def json_lines(events: list[Event], folder: Path) -> dict[str, Said]:
    layouts.json_lines(events, folder)
    return said_by(fold_files([folder]))


def parquet(events: list[Event], folder: Path) -> dict[str, Said]:
    layouts.parquet(events, folder)
    return said_by(fold_files([folder]))


def spark_files(events: list[Event], folder: Path) -> dict[str, Said]:
    layouts.small_row_groups(events, folder)
    shares = shares_of(folder, 2)
    resets = find_resets(lambda: [columns_of(events)])
    task = FileFold(shares, resets, ordered=False, strict=False)
    parts = list(task([pa.RecordBatch.from_pydict({"id": [0, 1]})]))
    return said_in(CursorMerge(strict=False)(parts))


def spark_rows(events: list[Event], _: Path) -> dict[str, Said]:
    task = RowFold(find_resets(lambda: [columns_of(events)]), ordered=True, strict=False)
    batches = [with_texts(batch) for batch in to_batches(events[::-1])]
    return said_in(CursorMerge(strict=False)(task(batches)))


def spark_stream(events: list[Event], _: Path) -> dict[str, Said]:
    bucket = buckets.Bucket({})
    for folded in buckets.BucketFold(1)(with_texts(batch) for batch in to_batches(events)):
        bucket.join(folded.column("payload").to_pylist(), None)
    return said_in(buckets.unpack_cursors([pa.RecordBatch.from_pydict({"payload": list(bucket.cursors())})]))


def in_order(events: list[Event], _: Path) -> dict[str, Said]:
    rows = [row for batch in moment_rows.follow_batches(to_batches(events), []) for row in batch.to_pylist()]
    assert [row["error"] for row in rows] == [None] * len(rows)
    return {row["subscription"]: said_in_row(row) for row in rows}


def plain_sets(events: list[Event], _: Path) -> dict[str, Said]:
    return {
        name: Said(
            "{}:{}".format(*truth.mark_delete), str(truth.to_row()["individually_deleted"]), truth.backlog
        )
        for (_, name), truth in truths(events).items()
    }


ENGINES: Final[dict[str, Any]] = {
    "one by one": one_by_one,
    "fold": with_resets_known(_native),
    "reference": with_resets_known(reference),
    "JSON lines": json_lines,
    "Parquet": parquet,
    "Spark, files": spark_files,
    "Spark, rows": spark_rows,
    "Spark, stream": spark_stream,
    "Spark, in order": in_order,
    "plain sets": plain_sets,
}


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_says_the_same_of_every_kind(engine: str, kind: Kind, tmp_path: Path) -> None:
    if engine == "Spark, stream" and EFFECTS[kind].transaction:
        # It cannot resolve later commits, and reports this as an error.
        with pytest.raises(AssertionError, match="in a transaction"):
            ENGINES[engine](story(kind), tmp_path)
        return
    found = ENGINES[engine](story(kind), tmp_path)
    if kind is Kind.TRIM:
        # The same place can be the end of a deleted ledger or the beginning of the next one.
        found = {name: said._replace(mark_delete="4:-1") for name, said in found.items()}
    assert found == expected(kind)


def test_the_table_has_every_kind_and_its_numbers_are_those_of_the_native_module() -> None:
    assert list(EFFECTS) == list(Kind)
    names = [action.name.replace("_", "").lower() for action in Action]
    assert names == [name.lower() for name in _native.Partials.ACTIONS]
    assert _native.Partials.ACTIONS_BY_PROPERTY == reference.Partials.ACTIONS_BY_PROPERTY
    flaws = [flaw.name.replace("_", "").lower() for flaw in Flaw]
    assert flaws == [name.lower() for name in _native.Partials.FLAWS]


def test_the_schema_has_what_an_event_has_and_requires_what_the_table_says() -> None:
    types: dict[Any, str] = {str: "string", Kind: "string", int: "bigint", tuple[int, ...]: "array<bigint>"}
    types |= {kind | None: name for kind, name in types.items()}
    fields = [(name, types[kind]) for name, kind in get_type_hints(Event).items()]
    assert [(column.name, column.type) for column in table_schemas.EVENTS] == fields
    needed = set(Event._fields) - Event._field_defaults.keys()
    for effect in EFFECTS.values():
        needed |= {"ledger_id", "entry_id"} if effect.position else set()
    assert {column.name for column in table_schemas.EVENTS if column.required} == needed


def test_what_the_table_says_of_consumers_is_what_the_ordered_path_does() -> None:
    assert set(SubscriptionReplay.HANDLERS) == {kind for kind, effect in EFFECTS.items() if effect.consumers}
    # Messages in a transaction are not pending, and dispatched messages are not dispatched again.
    unseen = {Kind.COMMIT, Kind.ABORT, Kind.RECEIVE}
    assert {kind for kind in Kind if EFFECTS[kind].consumers} == unseen | {
        kind for kind in Kind if pending_after(kind) != {"c": 1}
    }


def pending_after(kind: Kind) -> dict[str, int]:
    """Return the pending entries of the consumers of `s` after the event. They have one entry before it."""
    topic = TopicReplay()
    for each in story(kind):
        topic.feed(each._replace(redelivery_count=1) if each.kind is kind else each)
    assert topic.errors == {}
    found = topic.subscriptions["s"].summary(0)
    return {each.name: each.pending_entries for each in found.consumers}


@pytest.mark.parametrize("kind", Kind)
def test_what_a_kind_needs_is_asked_of_every_row(kind: Kind, tmp_path: Path) -> None:
    effect = EFFECTS[kind]
    (whole,) = [each for each in story(kind) if each.sequence == len(story(kind)) - 1]
    lacking = []
    if effect.position:
        lacking += [whole._replace(entry_id=None), whole._replace(ledger_id=None)]
    if effect.transaction:
        lacking.append(whole._replace(transaction=None))
    if not effect.of_topic:
        lacking.append(whole._replace(subscription=""))
    for event_ in lacking:
        (tmp_path / "e").mkdir(exist_ok=True)
        layouts.json_lines([event_], tmp_path / "e")
        with pytest.raises(Exception, match=r"needs a ledger id|no transaction|no subscription"):
            states_of(fold_files([tmp_path / "e"]))


def test_the_page_of_events_says_what_the_table_says() -> None:
    page = Path("docs/events.md").read_text()
    page = page.partition("## Kinds")[2].partition("\n## ")[0]
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in page.splitlines()
        if line.startswith("| `")
    ]
    found = set()
    for names, said, whose, needs in rows:
        for name in re.findall(r"`([a-z_]+)`", names):
            found.add(name)
            effect = EFFECTS[Kind(name)]
            assert ("topic" in whose) == effect.of_topic, name
            assert ("position" in needs) == effect.position, name
            assert ("transaction" in needs) == effect.transaction, name
            assert ("none" in said) == (effect.action in HARMLESS) or effect.transaction, name
    assert found == set(Kind)
    assert {Kind.ACK, Kind.ACK_CUMULATIVE, Kind.SKIP, Kind.EXPIRE} == IN_TRANSACTION
