"""Acknowledged parts of batches in a window: `begin` keeps them in a close, or names the subscription."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ackwell import Position
from ackwell.cursor.ack_sets import all_messages, to_words
from ackwell.devbroker.entry import LogEntry
from ackwell.errors import StatsError
from ackwell.protocol.constants import SubscriptionType
from ackwell.rescue import Connection
from ackwell.rescue.batch_parts import parts_after_close
from tests.commands import ackwell
from tests.rescue.cluster import NAME, TOPIC, Cluster, cluster
from tests.rescue.test_rescue import with_type

METADATA_STORE_RANGES = "managedLedgerMaxUnackedRangesToPersistInMetadataStore"


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    monkeypatch.chdir(tmp_path)
    with cluster(**{METADATA_STORE_RANGES: 1}) as made:
        yield made


def fill(there: Cluster, kind: SubscriptionType = SubscriptionType.SHARED) -> Position:
    """Acknowledge every second entry and, last, a message of a batch; return the batch."""
    there.fill(kind=kind)
    with_type(there)
    batches: list[Position] = []

    def acknowledge_part() -> None:
        topic = there.broker._broker.state.topics[TOPIC]
        batches.append(Position(*topic.publish(LogEntry(b"m", 4, 0))))
        subscription = topic.subscriptions[NAME]
        subscription.subscription.ack(None, *batches[0], to_words(all_messages(4) & ~1))
        subscription.acknowledged(whole=False)

    there.broker.call(acknowledge_part)
    return batches[0]


def parts(there: Cluster) -> list[Position]:
    """Return the partly acknowledged batches in the broker's memory."""
    found: list[Position] = []
    there.do(lambda each: found.extend(each.cursor.batch_deleted))
    return found


def rescue(there: Cluster, *arguments: str, code: int = 0) -> str:
    done = ackwell("rescue", *arguments, "--admin", there.url, "--yes")
    assert done.code == code, done.err
    return done.out


def cursor_ledger(there: Cluster) -> str:
    with there.connection() as connection:
        return connection.read_live(TOPIC, NAME).stats.cursor_ledger


@pytest.mark.parametrize(
    "kind", [SubscriptionType.SHARED, SubscriptionType.KEY_SHARED, SubscriptionType.FAILOVER]
)
def test_a_close_of_a_topic_without_an_acknowledgment_since_its_load_keeps_parts(
    there: Cluster, kind: SubscriptionType
) -> None:
    batch = fill(there, kind)
    there.unload()
    with_type(there)
    before = there.acked()
    assert (cursor_ledger(there), parts(there)) == ("read-only", [batch])
    text = rescue(there, "begin")
    assert "1 subscriptions keep acknowledged parts of batches in one close" in text
    assert (cursor_ledger(there), there.acked()) == ("open", before)
    there.unload()
    assert "lost" not in rescue(there, "end", "window")
    assert (parts(there), there.acked(), there.rates) == ([batch], before, {})


def test_without_begin_the_second_close_loses_parts(there: Cluster) -> None:
    batch = fill(there)
    there.unload()
    assert parts(there) == [batch]
    there.unload()
    assert (cursor_ledger(there), parts(there)) == ("none", [])


def test_the_unload_of_one_subscription_keeps_parts(there: Cluster) -> None:
    batch = fill(there)
    there.unload()
    with_type(there)
    rescue(there, "unload", TOPIC, NAME)
    assert parts(there) == [batch]


def test_end_names_a_subscription_whose_topic_was_closed_twice(there: Cluster) -> None:
    fill(there)
    rescue(there, "begin")
    there.unload()
    there.unload()
    assert "acknowledged parts of batches, if there were any, are lost" in rescue(there, "end", "window")
    assert parts(there) == []


def test_begin_again_after_a_close_keeps_parts_in_the_next_close(there: Cluster) -> None:
    batch = fill(there)
    before = there.acked()
    for _ in range(3):
        # No consumer connects after the close.
        rescue(there, "begin")
        there.unload()
    assert "lost" not in rescue(there, "end", "window")
    assert (parts(there), there.acked(), there.rates) == ([batch], before, {})


def test_subscriptions_are_protected_at_once_over_separate_connections(
    there: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(there)
    rescue(there, "copy", TOPIC, NAME, "second")
    there.unload()
    for each in there.broker._broker.state.topics[TOPIC].subscriptions.values():
        each.had_consumer = True
    both, used = threading.Barrier(2), set()
    acknowledge = Connection.acknowledge

    def waits(connection: Connection, *arguments: Any) -> None:
        used.add(id(connection))
        both.wait(30)
        acknowledge(connection, *arguments)

    monkeypatch.setattr(Connection, "acknowledge", waits)
    assert "2 subscriptions keep acknowledged parts of batches" in rescue(there, "begin")
    assert len(used) == 2


def test_begin_names_a_subscription_with_too_few_ranges_for_the_cursor_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with cluster(**{METADATA_STORE_RANGES: 100}) as there:
        fill(there)
        there.asked.clear()
        text = rescue(there, "begin")
        assert f"{NAME!r} of {TOPIC}: held, with a snapshot; the next close of the topic loses" in text
        assert "if there are any, and `end` cannot restore them\n" in text
        there.unload()
        assert "are lost and cannot be restored" in rescue(there, "end", "window")


def test_a_helper_that_cannot_attach_leaves_the_hold_and_the_line(
    there: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(there)
    there.unload()
    with_type(there)

    def refuses(*_: object) -> None:
        raise StatsError("no answer", TOPIC)

    monkeypatch.setattr(Connection, "attached", refuses)
    text = rescue(there, "begin")
    assert f"{NAME!r} of {TOPIC}: held, with a snapshot; the next close of the topic loses" in text
    assert len(there.rates) == 1


def test_an_open_cursor_ledger_needs_no_acknowledgment(there: Cluster) -> None:
    fill(there)
    rescue(there, "begin", "--audit", "audit")
    assert '"acknowledge"' not in Path("audit").read_text()


def test_the_ledger_is_opened_on_a_release_that_reads_parts_from_the_metadata_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker that loads the topic may have an older release."""
    monkeypatch.chdir(tmp_path)
    with cluster(**{METADATA_STORE_RANGES: 1, "managedLedgerPersistIndividualAckAsLongArray": True}) as there:
        fill(there)
        there.unload()
        with_type(there)
        there.version = "4.2.5"
        assert "parts of batches" not in rescue(there, "begin")
        assert cursor_ledger(there) == "open"
        there.unload()
        assert len(there.acked()) == 20


def test_without_acknowledgments_inside_batches_a_close_keeps_all(there: Cluster) -> None:
    fill(there)
    with there.connection() as connection:
        assert parts_after_close(connection.read_live(TOPIC, NAME)) == "kept once"
    there.own = there.own | {"acknowledgmentAtBatchIndexLevelEnabled": False}
    with there.connection() as connection:
        assert parts_after_close(connection.read_live(TOPIC, NAME)) == "kept"
