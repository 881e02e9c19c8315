"""Recovery of a killed broker from its file, without processes: a second broker opens the file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("google.protobuf")

from ackwell.broker.batch_sizes import Bounds
from ackwell.broker.stats import SubscriptionStats, from_answer
from ackwell.devbroker.loading import LoadedTopic, LoadReport
from ackwell.devbroker.placeholders import KnownEntries
from ackwell.diagnosis.doctor import diagnose
from ackwell.protocol.command_ack import TransactionId
from ackwell.protocol.constants import CommandType, TxnAction
from tests.devbroker.offline import BEGUN_MS, ORDERS, Client, Offline, delivered

Reopen = Callable[[], Offline]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Reopen]:
    """Return a function that kills the current broker and opens its file with a new one."""
    brokers: list[Offline] = []

    def open_() -> Offline:
        if brokers:
            # Uncommitted changes are lost.
            file = brokers[-1].state.shared.file
            assert file is not None
            file.close()
        brokers.append(Offline(path=tmp_path / "broker.db", entries_per_ledger=4))
        return brokers[-1]

    yield open_
    brokers[-1].close()


def begin(client: Client, ttl_ms: int = 0) -> dict[str, Any]:
    answer = client.one(CommandType.NEW_TXN, request_id=2, txn_ttl_millis=ttl_ms, tc_id=0)
    txn = {"txnid_most_bits": answer.txnid_most_bits, "txnid_least_bits": answer.txnid_least_bits}
    client.one(CommandType.ADD_PARTITION_TO_TXN, request_id=3, partitions=["orders"], **txn)
    named = [{"topic": "orders", "subscription": "s"}]
    client.one(CommandType.ADD_SUBSCRIPTION_TO_TXN, request_id=3, subscription=named, **txn)
    return txn


def test_a_message_of_an_unknown_transaction_blocks_nothing_after_a_restart(opened: Reopen) -> None:
    client = opened().connect()
    client.produce()
    client.publish(sequence_id=0, txnid_most_bits=0, txnid_least_bits=99)
    client.publish(sequence_id=1)
    for _ in range(2):
        client.subscribe()
        assert delivered(client.delivered) == [(0, 1)]
        client = opened().connect()


def test_an_unload_keeps_properties_and_acknowledgments_in_open_transactions(
    opened: Reopen,
) -> None:
    broker = opened()
    client = broker.connect()
    client.subscribe(subscription_properties=[{"key": "team", "value": "a"}])
    client.produce()
    client.publish()
    txn = begin(client)
    client.ack((0, 0), **txn)
    for ends, backlog in ((False, 1), (True, 0)):
        broker.topics("PUT", "orders/unload")
        if ends:
            client.one(CommandType.END_TXN, request_id=4, txn_action=TxnAction.COMMIT, **txn)
        assert broker.topics("GET", "orders/subscription/s/properties") == {"team": "a"}
        assert broker.topics("GET", "orders/stats")["subscriptions"]["s"]["msgBacklog"] == backlog
        client.read()


def test_a_transaction_ends_at_its_time_though_its_broker_was_started_meanwhile(opened: Reopen) -> None:
    client = opened().connect()
    client.subscribe()
    txn = begin(client, ttl_ms=5_000)
    broker = opened()
    for ms, is_open in ((4_999, True), (1, False)):
        broker.run(partial(broker.clock.advance, ms))
        assert broker.state.coordinator.is_open(TransactionId(*txn.values())) is is_open


def test_a_loaded_ledger_has_no_later_one_of_its_number(opened: Reopen) -> None:
    broker = opened()
    client = broker.connect()
    client.produce()
    for number in range(12):
        client.publish(sequence_id=number)
    newest = max(broker.state.topics[ORDERS].content.log.entries)
    described = LoadedTopic(ledgers={1: (5, 0)}, known=KnownEntries(publish_ms=1))
    broker.run(lambda: broker.state.load(LoadReport(topics={f"{ORDERS}-2": described})))
    broker.topics("PUT", "new")
    assert min(broker.state.topics["persistent://public/default/new"].content.log.entries) > newest


def test_messages_and_acknowledgments_are_recovered(opened: Reopen) -> None:
    client = opened().connect()
    client.subscribe(subscription_properties=[{"key": "team", "value": "a"}])
    client.produce()
    for number in range(6):
        client.publish(sequence_id=number)
    (answer,) = client.ack((0, 0), (0, 2), request_id=5)
    assert not answer.message.HasField("error")
    broker = opened()
    topic = broker.state.topics[ORDERS]
    assert (topic.subscriptions["s"].properties, str(topic.subscriptions["s"].type)) == (
        {"team": "a"},
        "Shared",
    )
    client = broker.connect()
    client.subscribe()
    assert delivered(client.delivered) == [(0, 1), (0, 3), (1, 0), (1, 1)]
    assert [each.message.redelivery_count for each in client.delivered] == [0, 0, 0, 0]
    # The open ledger was closed, so the next message is in a new ledger.
    client.produce()
    found = [each.message.message_id for each in client.publish() if each.type == CommandType.SEND_RECEIPT]
    assert [(each.ledgerId, each.entryId) for each in found] == [(2, 0)]


def test_a_receipt_comes_after_its_message_is_durable(opened: Reopen) -> None:
    broker = opened()
    client = broker.connect()
    client.produce()
    file = broker.state.shared.file
    assert file is not None
    seen: list[int] = []
    commit = file.commit

    def committed() -> None:
        seen.append(len(client.wire.written))
        commit()

    file.commit = committed  # type: ignore[method-assign]
    (receipt,) = client.publish()
    assert receipt.type == CommandType.SEND_RECEIPT
    assert seen[-1] == 0
    client.subscribe()
    seen.clear()
    (answer,) = client.ack((0, 0), request_id=5)
    assert (answer.type, seen[-1]) == (CommandType.ACK_RESPONSE, 0)


@pytest.mark.parametrize("action", [None, TxnAction.COMMIT, TxnAction.ABORT])
def test_a_transaction_is_as_it_was(opened: Reopen, action: TxnAction | None) -> None:
    client = opened().connect()
    client.subscribe()
    client.produce()
    client.publish()
    txn = begin(client)
    client.publish(sequence_id=1, **txn)
    client.ack((0, 0), request_id=4, **txn)
    if action is not None:
        client.ask(CommandType.END_TXN, request_id=9, txn_action=action, **txn)
    broker = opened()
    client = broker.connect()
    client.subscribe()
    expected = {None: [], TxnAction.COMMIT: [(0, 1)], TxnAction.ABORT: [(0, 0)]}[action]
    assert delivered(client.delivered) == expected
    transactions = broker.state.topics[ORDERS].content.transactions
    assert (transactions.ongoing, transactions.committed, transactions.aborted) == (
        int(action is None),
        int(action is TxnAction.COMMIT),
        int(action is TxnAction.ABORT),
    )
    if action is None:
        ended = client.ask(CommandType.END_TXN, request_id=9, txn_action=TxnAction.COMMIT, **txn)
        assert delivered(ended) == [(0, 1)]
        assert broker.state.topics[ORDERS].subscriptions["s"].cursor.is_acked(0, 0)


def test_a_transaction_of_which_the_coordinator_knows_nothing_is_aborted(opened: Reopen) -> None:
    broker = opened()
    client = broker.connect()
    client.subscribe()
    client.produce()
    client.publish()
    txn = begin(client)
    client.publish(sequence_id=1, **txn)
    client.ack((0, 0), request_id=4, **txn)
    broker.run(broker.state.coordinator.open.clear)
    broker.state.shared.save()
    broker = opened()
    client = broker.connect()
    client.subscribe()
    assert delivered(client.delivered) == [(0, 0)]
    assert broker.state.topics[ORDERS].content.transactions.aborted == 1
    assert broker.state.topics[ORDERS].subscriptions["s"].subscription.transactions == []


def test_a_transaction_ends_at_its_time_also_after_a_restart(opened: Reopen) -> None:
    client = opened().connect()
    begin(client, 5_000)
    broker = opened()
    assert list(broker.state.coordinator.open) == ["0:0"]
    broker.run(lambda: broker.clock.advance(4_999))
    assert list(broker.state.coordinator.open) == ["0:0"]
    broker.run(lambda: broker.clock.advance(1))
    assert list(broker.state.coordinator.open) == []
    assert broker.clock.now_ms() == BEGUN_MS + 5_000
    # Transaction numbers continue.
    assert begin(broker.connect())["txnid_least_bits"] == 1


def test_deleted_facts_are_not_recovered(opened: Reopen) -> None:
    broker = opened()
    client = broker.connect()
    client.subscribe()
    client.subscribe("kept", 2)
    client.ask(CommandType.UNSUBSCRIBE, consumer_id=1, request_id=6)
    broker.topics("PUT", "gone")
    broker.topics("DELETE", "gone")
    broker.admin("PUT", "admin/v2/non-persistent/public/default/n")
    broker = opened()
    assert list(broker.state.topics) == [ORDERS]
    assert sorted(broker.state.topics[ORDERS].subscriptions) == ["kept"]


def test_a_reader_leaves_nothing_in_the_file(opened: Reopen) -> None:
    client = opened().connect()
    client.produce()
    client.publish()
    client.subscribe("reader", durable=False)
    client.ack((0, 0))
    broker = opened()
    assert broker.state.topics[ORDERS].subscriptions == {}


@pytest.mark.parametrize(
    ("how", "as_", "forgotten"), [("crash", "pulsar", 2), ("graceful", "pulsar", 2), ("crash", "ackwell", 0)]
)
def test_a_restart_forgets_the_acknowledged_part_of_a_batch(how: Any, as_: Any, forgotten: int) -> None:
    broker = Offline()
    client = broker.connect()
    client.subscribe()
    client.produce()
    client.publish(num_messages_in_batch=5)
    # A part of a batch alone is not written.
    client.ack((0, 0, 0b01011))
    restarted = broker.run(lambda: broker.state.reload(how, as_))
    assert restarted.messages == forgotten
    broker.close()


@pytest.mark.parametrize("version", ["4.2", "5.0"])
@pytest.mark.parametrize("subscription", ["s", "team/a:b"])
@pytest.mark.parametrize(
    ("acknowledged", "conf", "place"),
    [
        (range(1, 60, 2), ("managedLedgerMaxUnackedRangesToPersist=20",), "metadata store"),
        (range(1, 60, 2), ("managedLedgerMaxUnackedRangesToPersistInMetadataStore=5",), "cursor ledger"),
        (range(30), (), "metadata store"),
        ((), (), "metadata store"),
    ],
)
def test_a_crash_after_a_graceful_restart_loses_what_the_doctor_predicts(
    version: str, subscription: str, acknowledged: Any, conf: tuple[str, ...], place: str
) -> None:
    """The doctor needs the ranges in `info-internal`, because the cursor has no open ledger."""
    broker = Offline(version=version, broker_conf=conf)
    client = broker.connect()
    client.subscribe(subscription)
    client.produce()
    for number in range(60):
        client.publish(sequence_id=number)
    for number in acknowledged:
        client.ack((0, number))
    broker.run(lambda: broker.state.reload("graceful", "pulsar"))
    internal, stats, info = (
        broker.topics("GET", f"orders/{each}") for each in ("internalStats", "stats", "internal-info")
    )
    (cursor,), (stored,) = internal["cursors"].values(), info["cursors"].values()
    assert internal["cursors"].keys() == info["cursors"].keys()
    # A Pulsar broker includes the ranges only if they are in the metadata store and the list is not empty.
    ranges = cursor["individuallyDeletedMessages"] if place == "metadata store" else "[]"
    assert (stored["cursorsLedgerId"] == -1) == (place == "metadata store")
    assert ("individualDeletedMessages" in stored) == (ranges != "[]")
    shown = [
        "(" + "..".join(f"{end['ledgerId']}:{end['entryId']}" for end in (each["from"], each["to"])) + "]"
        for each in stored.get("individualDeletedMessages", ())
    ]
    assert f"[{','.join(shown)}]" == ranges
    answer = {"internalStats": internal, "stats": stats, "info": info}
    (found,) = from_answer(answer, ORDERS, "dev broker")
    assert isinstance(found, SubscriptionStats)
    predicted = diagnose(found, broker.broker.settings.broker, restarts=("crash",), version=version)
    crashed = broker.run(lambda: broker.state.reload("crash", "pulsar"))
    assert predicted.messages_lost == Bounds(0, 0)
    assert crashed.messages == 0
    broker.close()
