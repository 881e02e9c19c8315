"""Findings of `docs/findings.md` that no other test here plays, each in its shortest form.

`VERSIONS="4.2.4 4.0.7 5.0.0-M1 5.0.1" pytest -m pulsar tests/pulsar/test_findings.py`. A test fails if the
broker shows the documented behaviour, because the finding is then obsolete.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from ackwell import Position, PositionRangeSet
from ackwell.broker.broker_settings import BrokerSettings
from ackwell.cursor.ack_sets import to_words
from ackwell.cursor.cursor_settings import CursorSettings
from ackwell.protocol.constants import SubscriptionType
from tests.pulsar import kit
from tests.pulsar.live import runs
from tests.pulsar.live.client import Client, RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterator

VERSIONS = os.environ.get("VERSIONS", kit.VERSIONS[0]).split()
NAME = "billing"
SIZE = 10
PART = tuple(to_words(0b11_1110_0000))
"""The first five of ten are acknowledged."""
SHARED, EXCLUSIVE = SubscriptionType.SHARED, SubscriptionType.EXCLUSIVE
CLOSED: dict[str, Any] = {
    "managedLedgerMaxUnackedRangesToPersist": 10_000,
    "managedLedgerMaxUnackedRangesToPersistInMetadataStore": 1_000,
    "managedLedgerMaxEntriesPerLedger": 50_000,
    "managedLedgerPersistIndividualAckAsLongArray": False,
}
QUIET_S = 5.0
"""After this time, and after answers to later commands, an answer counts as missing."""


class Topic:
    """A separate topic with one consumer that requests all messages."""

    def __init__(self, broker: kit.Broker, name: str, kind: SubscriptionType, **settings: Any) -> None:
        self._broker = broker
        broker.configure(**CLOSED | settings)
        broker.create_namespace(name)
        self.name = f"public/{name}/topic"
        self.client = self._connected()
        self.client.subscribe(1, "a", kind)
        self.client.flow(1, 1_000)

    def _connected(self) -> Client:
        client = Client(self._broker.ports.binary, f"persistent://{self.name}", NAME)
        client.open_producer()
        return client

    def publish(self, count: int, size: int | None = None) -> list[Position]:
        """Publish entries one by one, all of them delivered when this returns."""
        sent = [self.client.publish(size, None) for _ in range(count)]
        self.client.settle()
        return sent

    def ack(self, *positions: Position, ack_set: tuple[int, ...] = (), **more: Any) -> None:
        self.client.ack(1, [(each, ack_set, SIZE if ack_set else 0) for each in positions], **more)

    def unload(self) -> None:
        """Close the topic, and load it again."""
        self._broker.admin("PUT", f"persistent/{self.name}/unload")
        self.client.close()
        self.client = self._connected()

    def stats_internal(self) -> dict[str, Any]:
        answer = self._broker.admin("GET", f"persistent/{self.name}/internalStats")
        found: dict[str, Any] = answer["cursors"][NAME]
        return found

    def acknowledged(self) -> PositionRangeSet:
        """Return the ranges after the mark-delete position."""
        return PositionRangeSet.parse(self.stats_internal()["individuallyDeletedMessages"])

    def ack_sets(self) -> dict[str, Any]:
        """Return the unacknowledged messages of partly acknowledged batches from the broker's memory."""
        found: dict[str, Any] = self._broker.cursor(f"persistent://{self.name}", NAME)["batchDeletedIndexes"]
        return found


@pytest.fixture(scope="module", params=VERSIONS)
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[kit.Broker]:
    version = request.param
    with kit.running_broker(
        tmp_path_factory.mktemp("findings"), version, **runs.settings(transactions=True)
    ) as running:
        yield running


def test_a_limit_of_ranges_counts_entries_in_the_long_array_form(broker: kit.Broker) -> None:
    form = {"managedLedgerPersistIndividualAckAsLongArray": True, "managedLedgerMaxEntriesPerLedger": 10}
    limit = {
        "managedLedgerMaxUnackedRangesToPersist": 5,
        "managedLedgerMaxUnackedRangesToPersistInMetadataStore": 0,
    }
    topic = Topic(broker, "entries", SHARED, **form, **limit)
    sent = topic.publish(25)
    topic.ack(*sent[1:10], sent[12], sent[14])
    before = topic.acknowledged()
    assert len(before) == 3
    topic.unload()
    left = topic.acknowledged()
    assert len(before.ledger_ids()) == 2
    # Three ranges are within a limit of five. Nine entries before the last ledger are not. From 5.0.0 on no
    # ledger is within the limit, so the ranges are written.
    falls_back = BrokerSettings.of(broker.version).counts_the_ledger_itself
    assert left.cardinality == (11 if falls_back else 9)


def test_from_5_0_on_a_ledger_counts_itself(broker: kit.Broker) -> None:
    form = {"managedLedgerPersistIndividualAckAsLongArray": True, "managedLedgerMaxEntriesPerLedger": 50}
    limit = {
        "managedLedgerMaxUnackedRangesToPersist": 3,
        "managedLedgerMaxUnackedRangesToPersistInMetadataStore": 1,
    }
    topic = Topic(broker, "itself", SHARED, **form, **limit)
    topic.ack(*topic.publish(17)[1::2])
    assert topic.acknowledged().cardinality == 8
    topic.unload()
    counts_itself = BrokerSettings.of(broker.version).counts_the_ledger_itself
    assert topic.acknowledged().cardinality == (3 if counts_itself else 8)


def test_a_cumulative_ack_set_joins_an_individual_index_from_5_0_on(broker: kit.Broker) -> None:
    topic = Topic(broker, "joined", EXCLUSIVE)
    sent = topic.publish(2, SIZE)
    topic.ack(sent[0], ack_set=tuple(to_words(0b11_0111_1111)))
    with suppress(RefusedError):
        # 5.0 answers with an error, and applies it.
        topic.ack(sent[0], ack_set=PART, cumulative=True)
    replaces = CursorSettings.pulsar(broker.version).replace_ack_sets
    assert topic.ack_sets() == {str(sent[0]): [0b11_1110_0000 if replaces else 0b11_0110_0000]}


def test_a_limit_of_ranges_keeps_one_more(broker: kit.Broker) -> None:
    topic = Topic(broker, "ranges", SHARED, managedLedgerMaxUnackedRangesToPersist=5)
    topic.ack(*topic.publish(20)[1::2])
    topic.unload()
    assert len(topic.acknowledged()) == 5 + BrokerSettings.of(broker.version).ranges_beyond_limit


def test_batch_indexes_in_the_metadata_store_are_read_back_by_some_releases_only(
    broker: kit.Broker,
) -> None:
    topic = Topic(broker, "indexes", SHARED)
    sent = topic.publish(3, SIZE)
    topic.ack(sent[0], ack_set=PART)
    topic.ack(sent[1])
    assert topic.ack_sets().keys() == {str(sent[0])}
    topic.unload()
    read_back = BrokerSettings.of(broker.version).reads_batch_indexes_back
    assert topic.ack_sets().keys() == ({str(sent[0])} if read_back else set())
    assert len(topic.acknowledged()) == 1


def test_a_second_close_without_an_acknowledgment_loses_parts_unless_one_is_repeated(
    broker: kit.Broker,
) -> None:
    topic = Topic(broker, "second", SHARED, managedLedgerMaxUnackedRangesToPersistInMetadataStore=2)
    sent = topic.publish(8, SIZE)
    topic.ack(*sent[1::2])
    topic.ack(sent[0], ack_set=PART)
    topic.unload()
    assert topic.ack_sets().keys() == {str(sent[0])}
    # `begin` and `unload` of `ackwell rescue` repeat an acknowledgment.
    topic.client.subscribe(1, "a", SHARED)
    topic.ack(sent[1])
    assert topic.stats_internal()["state"] == "Open"
    topic.unload()
    assert topic.ack_sets().keys() == {str(sent[0])}
    topic.unload()
    read_back = BrokerSettings.of(broker.version).reads_batch_indexes_back
    assert topic.ack_sets().keys() == ({str(sent[0])} if read_back else set())


def test_success_for_an_acknowledgment_that_was_dropped(broker: kit.Broker) -> None:
    topic = Topic(broker, "ahead", SHARED)
    sent = topic.publish(5)
    ahead = sent[-1]._replace(entry_id=100)
    # 5.0 answers with an error without a specific code.
    with suppress(RefusedError):
        topic.ack(sent[1], ahead, sent[3])
    # The broker also ignores the later ids of the command.
    assert list(topic.acknowledged()) == [(sent[1].ledger_id, 0, 1)]


def test_success_for_a_cumulative_acknowledgment_on_shared(broker: kit.Broker) -> None:
    topic = Topic(broker, "cumulative", SHARED)
    sent = topic.publish(5)
    topic.ack(sent[3], cumulative=True)
    assert topic.stats_internal()["markDeletePosition"].endswith(":-1")
    assert not len(topic.acknowledged())


def test_a_read_position_is_printed_with_its_ack_set(broker: kit.Broker) -> None:
    topic = Topic(broker, "seek", EXCLUSIVE)
    sent = topic.publish(4, SIZE)
    topic.client.seek(1, sent[1], PART)
    shown = topic.stats_internal()["readPosition"]
    assert shown.startswith(f"{sent[1]} (ackSet"), shown


def test_the_counter_of_acknowledged_entries_is_off_after_a_seek_on_4_0(broker: kit.Broker) -> None:
    topic = Topic(broker, "counter", SHARED)
    sent = topic.publish(10)
    topic.ack(sent[0], sent[3], *sent[5:8])
    topic.client.seek(1, sent[2])
    counted = topic.stats_internal()["messagesConsumedCounter"]
    assert (counted != 2) is broker.version.startswith("4.0")


def test_a_part_of_what_the_same_transaction_holds_whole_is_never_answered(broker: kit.Broker) -> None:
    topic = Topic(broker, "part", SHARED)
    sent = topic.publish(2, SIZE)
    topic.ack(sent[0], transaction=(0, 1))
    asked = topic.client.ask_ack(1, [(sent[0], PART, SIZE)], transaction=(0, 1))
    # Asked later, and answered.
    topic.ack(sent[1])
    time.sleep(QUIET_S)
    assert not topic.client.is_answered(asked)


def test_parts_of_batches_alone_are_written_from_5_0_0_on(broker: kit.Broker) -> None:
    topic = Topic(broker, "alone", SHARED)
    sent = topic.publish(3, SIZE)
    topic.ack(*sent, ack_set=PART)
    broker.flush(f"persistent://{topic.name}", NAME)
    assert topic.ack_sets().keys() == set(map(str, sent))
    topic.client.close()
    broker.stop(crash=True)
    broker.start()
    again = Client(broker.ports.binary, f"persistent://{topic.name}", NAME)
    again.open_producer()
    again.close()
    written = BrokerSettings.of(broker.version).writes_batch_indexes_alone
    assert topic.ack_sets().keys() == (set(map(str, sent)) if written else set())
