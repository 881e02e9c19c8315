"""The events of one connection's frames: each observed command, and the ignored ones."""

from __future__ import annotations

import random
import time
from itertools import pairwise
from typing import Any

import pytest

from ackwell.errors import ErrorCode
from ackwell.protocol import messages
from ackwell.protocol.constants import CommandType, TxnAction
from ackwell.protocol.frames import DecodedCommand, Frame, FrameReader, decode, encode, frame
from ackwell.protocol.payload import write_payload
from ackwell.recording.observer import FIRST_OWN_REQUEST_ID, ConnectionObserver
from ackwell.recording.recording import PublishedEntry, Recording, TransactionParts
from ackwell.replay.events import Event, Kind
from ackwell.replay.traces import line
from tests.devbroker.test_hostile import command_at_random

pytest.importorskip("google.protobuf")

ORDERS = "persistent://public/default/orders"


def framed(command_type: int, payload: bytes = b"", **fields: Any) -> Frame:
    """Return a command as the frame that a client or a broker sends."""
    name = "Command" + CommandType(command_type).name.title().replace("_", "")
    (made,) = FrameReader().feed(frame(encode(command_type, messages.message(name)(**fields)), payload))
    return made


def message_id(ledger_id: int, entry_id: int, *ack_set: int) -> dict[str, Any]:
    return {"ledgerId": ledger_id % 2**64, "entryId": entry_id % 2**64, "ack_set": ack_set}


def entry(**metadata: Any) -> bytes:
    described = messages.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1, **metadata)
    return write_payload(described, b"body")


def test_notes_of_entries_have_a_bound_and_the_newer_half_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ackwell.recording.recording.REMEMBERED_ENTRIES_MAX", 4)
    recording = Recording(list[Event]().append)
    for entry_id in range(7):
        recording.note_entry(ORDERS, (3, entry_id), PublishedEntry(1, None), b"")
        recording.note_acknowledged((ORDERS, "s"), (3, entry_id))
        assert len(recording.published_entries) <= 4
        assert (ORDERS, 3, entry_id) in recording.published_entries
        assert list(recording.acked_entries[ORDERS, "s"]) == [
            position[1:] for position in recording.published_entries
        ]
    assert [position[2] for position in recording.published_entries] == [4, 5, 6]


class Wire:
    """An observed connection with its recorded events and its requests to the broker."""

    def __init__(self, recording: Recording | None = None) -> None:
        self.events: list[Event] = []
        self.asked: list[DecodedCommand] = []
        self.recording = Recording(self.events.append) if recording is None else recording
        self.observer = ConnectionObserver(self.recording, self._ask, self.recording.brokers["pulsar://b"])

    def _ask(self, data: bytes) -> None:
        self.asked += [decode(each.command) for each in FrameReader().feed(data)]

    def client(self, command_type: int, payload: bytes = b"", **fields: Any) -> None:
        self.observer.from_client(framed(command_type, payload, **fields))

    def broker(self, command_type: int, payload: bytes = b"", **fields: Any) -> list[Frame]:
        return list(self.observer.from_broker(framed(command_type, payload, **fields)))

    def subscribed(
        self, subscription: str = "s", consumer_id: int = 1, at: tuple[int, int] = (3, -1), **fields: Any
    ) -> None:
        """Subscribe a consumer at a position, and drop the resulting events."""
        asks: dict[str, Any] = {"subType": 1, "consumer_name": f"c{consumer_id}", "topic": "orders"} | fields
        self.client(
            CommandType.SUBSCRIBE,
            subscription=subscription,
            consumer_id=consumer_id,
            request_id=consumer_id,
            **asks,
        )
        asked = len(self.asked)
        self.broker(CommandType.SUCCESS, request_id=consumer_id)
        for question in self.asked[asked:]:
            self.position(question, at)
        self.events.clear()

    def position(self, question: DecodedCommand, at: tuple[int, int] | None) -> list[Frame]:
        """Answer a request of the proxy."""
        fields: dict[str, Any] = {"last_message_id": message_id(9, 9)}
        if at is not None:
            fields["consumer_mark_delete_position"] = message_id(*at)
        return self.broker(
            CommandType.GET_LAST_MESSAGE_ID_RESPONSE, request_id=question.message.request_id, **fields
        )

    def took(self) -> list[dict[str, Any]]:
        """Return the new events, each as its fields that are set, without sequence and time."""
        events = [event._asdict() for event in self.events]
        for before, after in pairwise(self.events):
            assert after.sequence == before.sequence + 1
        self.events.clear()
        left_out = ("sequence", "time_ms")
        return [
            {name: value for name, value in event.items() if value is not None and name not in left_out}
            for event in events
        ]


def of(kind: Kind, **fields: Any) -> dict[str, Any]:
    """Return an event of the consumer `c1` of the subscription `s`."""
    return {"topic": ORDERS, "subscription": "s", "kind": kind, "consumer": "c1"} | fields


def of_topic(kind: Kind, **fields: Any) -> dict[str, Any]:
    return {"topic": ORDERS, "subscription": "", "kind": kind} | fields


def at(ledger_id: int, entry_id: int) -> dict[str, Any]:
    return {"ledger_id": ledger_id, "entry_id": entry_id}


def test_events_are_numbered_from_1_and_have_the_time() -> None:
    events, before_ms = list[Event](), time.time_ns() // 1_000_000
    recording = Recording(events.append)
    recording.record("t", "s", Kind.ACK, (3, 4), consumer="c")
    recording.record("t", "", Kind.PUBLISH)
    recording.record_gap("nobody was there", "t")
    recording.record_gap("all of it")
    recording.record_entry("t", "", Kind.PUBLISH, (3, 4), None, PublishedEntry(1, None))
    assert [event.sequence for event in events] == [1, 2, 3, 4, 5]
    assert [(event.ledger_id, event.entry_id, event.consumer) for event in events[:2]] == [
        (3, 4, "c"),
        (None, None, None),
    ]
    assert [(event.topic, event.subscription, event.kind, event.detail) for event in events[2:4]] == [
        ("t", "", Kind.GAP, "nobody was there"),
        ("*", "", Kind.GAP, "all of it"),
    ]
    times = [event.time_ms or 0 for event in events]
    assert before_ms <= times[0] <= times[4] <= time.time_ns() // 1_000_000
    assert recording.known_subscriptions == set()
    assert recording.transactions == {}
    assert TransactionParts() == TransactionParts(set(), set())


# Publishing


def test_a_publish_is_recorded_with_its_receipt() -> None:
    wire = Wire()
    wire.client(CommandType.PRODUCER, topic="orders", producer_id=4, request_id=1)
    described = entry(
        num_messages_in_batch=7, partition_key="k", deliver_at_time=99, txnid_most_bits=1, txnid_least_bits=2
    )
    wire.client(CommandType.SEND, described, producer_id=4, sequence_id=5)
    wire.client(CommandType.SEND, entry(), producer_id=4, sequence_id=6)
    assert wire.took() == []
    wire.broker(CommandType.SEND_RECEIPT, producer_id=4, sequence_id=6, message_id=message_id(3, 0))
    wire.broker(CommandType.SEND_RECEIPT, producer_id=4, sequence_id=5, message_id=message_id(0, 1))
    assert wire.took() == [
        of_topic(Kind.PUBLISH, **at(3, 0), batch_size=1),
        of_topic(Kind.PUBLISH, **at(0, 1), batch_size=7, key="k", deliver_at_ms=99, transaction="1:2"),
    ]
    # A receipt counts once.
    wire.broker(CommandType.SEND_RECEIPT, producer_id=4, sequence_id=5, message_id=message_id(3, 1))
    assert wire.took() == []


@pytest.mark.parametrize("position", [(-1, -1), (3, -1), (-1, 0)])
def test_a_receipt_without_a_position_says_that_a_duplicate_was_dropped(position: tuple[int, int]) -> None:
    wire = Wire()
    wire.client(CommandType.PRODUCER, topic="orders", producer_id=4, request_id=1)
    wire.client(CommandType.SEND, entry(), producer_id=4, sequence_id=5)
    wire.broker(CommandType.SEND_RECEIPT, producer_id=4, sequence_id=5, message_id=message_id(*position))
    assert wire.took() == []


@pytest.mark.parametrize(
    ("code", "name"), [(int(ErrorCode.TOPIC_TERMINATED_ERROR), "TOPIC_TERMINATED_ERROR"), (977, "977")]
)
def test_a_refused_publish_is_recorded_with_its_reason(code: int, name: str) -> None:
    wire = Wire()
    wire.client(CommandType.PRODUCER, topic="orders", producer_id=4, request_id=1)
    wire.client(CommandType.SEND, entry(), producer_id=4, sequence_id=5)
    refused: dict[str, Any] = {"producer_id": 4, "sequence_id": 5, "error": code, "message": "no more"}
    wire.broker(CommandType.SEND_ERROR, **refused)
    assert wire.took() == [of_topic(Kind.PUBLISH_FAILED, detail=f"{name}: no more")]
    wire.broker(CommandType.SEND_ERROR, **refused)
    wire.broker(CommandType.SEND_RECEIPT, producer_id=4, sequence_id=5, message_id=message_id(3, 0))
    assert wire.took() == []


def test_messages_of_an_unknown_producer_are_not_recorded() -> None:
    wire = Wire()
    wire.client(CommandType.SEND, entry(), producer_id=4, sequence_id=5)
    wire.broker(CommandType.SEND_RECEIPT, producer_id=4, sequence_id=5, message_id=message_id(3, 0))
    assert wire.took() == []


# Consuming


def test_the_position_of_a_new_subscription_is_requested_before_its_client_gets_the_answer() -> None:
    wire = Wire()
    wire.client(
        CommandType.SUBSCRIBE, topic="orders", subscription="s", subType=3, consumer_id=7, request_id=2,
        consumer_name="c1",
    )  # fmt: skip
    assert wire.broker(CommandType.SUCCESS, request_id=2) == []
    (question,) = wire.asked
    assert question.type == CommandType.GET_LAST_MESSAGE_ID
    assert (question.message.consumer_id, question.message.request_id) == (7, FIRST_OWN_REQUEST_ID + 1)
    assert wire.took() == []
    # The client receives the answer to its request, and not the answer to the proxy's.
    (given,) = wire.position(question, (0, 4))
    assert decode(given.command).message.request_id == 2
    assert wire.took() == [
        of(Kind.SEEK, **at(0, 5), detail="first seen"),
        of(Kind.CONSUMER_OPEN, detail="Key_Shared"),
    ]
    assert wire.recording.known_subscriptions == {(ORDERS, "s")}
    # The proxy's request is answered once. Its ids begin above those of clients.
    assert wire.position(question, (0, 4)) == []
    assert len(wire.broker(CommandType.SUCCESS, request_id=2**62 - 1)) == 1
    assert wire.broker(CommandType.SUCCESS, request_id=2**62) == []
    assert wire.took() == []


def test_a_second_consumer_of_a_subscription_needs_no_question() -> None:
    first = Wire()
    first.subscribed()
    second = Wire(first.recording)
    second.client(
        CommandType.SUBSCRIBE, topic="orders", subscription="s", subType=1, consumer_id=8, request_id=5
    )
    (given,) = second.broker(CommandType.SUCCESS, request_id=5)
    assert decode(given.command).message.request_id == 5
    assert second.asked == []
    # A consumer without a name gets one from its id.
    assert first.took() == [of(Kind.CONSUMER_OPEN, detail="Shared", consumer="consumer-8")]


@pytest.mark.parametrize(
    ("number", "name"), [(0, "Exclusive"), (1, "Shared"), (2, "Failover"), (3, "Key_Shared"), (4, "type 4")]
)
def test_the_type_of_a_subscription_is_named(number: int, name: str) -> None:
    wire = Wire()
    wire.client(
        CommandType.SUBSCRIBE, topic="orders", subscription="s", subType=number, consumer_id=1, request_id=2
    )
    wire.broker(CommandType.SUCCESS, request_id=2)
    wire.position(wire.asked[0], (3, 1))
    assert wire.took()[-1]["detail"] == name


def test_a_missing_position_is_recorded_as_a_gap() -> None:
    for answer in ("error", "nothing"):
        wire = Wire()
        wire.client(
            CommandType.SUBSCRIBE, topic="orders", subscription="s", subType=1, consumer_id=1, request_id=2,
            consumer_name="c1",
        )  # fmt: skip
        wire.broker(CommandType.SUCCESS, request_id=2)
        number = wire.asked[0].message.request_id
        if answer == "error":
            given = wire.broker(CommandType.ERROR, request_id=number, error=0, message="no")
        else:
            given = wire.position(wire.asked[0], None)
        assert [decode(each.command).message.request_id for each in given] == [2]
        assert wire.took() == [
            of_topic(Kind.GAP, detail="the position of s when it was first seen"),
            of(Kind.CONSUMER_OPEN, detail="Shared"),
        ]


@pytest.mark.parametrize(("position", "seen"), [((-1, -1), []), ((0, -1), [at(0, 0)]), ((3, 7), [at(3, 8)])])
def test_the_position_of_a_subscription_is_recorded_as_a_seek_after_it(
    position: tuple[int, int], seen: list[dict[str, Any]]
) -> None:
    wire = Wire()
    wire.client(
        CommandType.SUBSCRIBE, topic="orders", subscription="s", subType=1, consumer_id=1, request_id=2
    )
    wire.broker(CommandType.SUCCESS, request_id=2)
    wire.position(wire.asked[0], position)
    seeks = [event for event in wire.took() if event["kind"] == Kind.SEEK]
    assert [{name: seek[name] for name in ("ledger_id", "entry_id")} for seek in seeks] == seen


def test_a_refused_subscribe_opens_nothing() -> None:
    wire = Wire()
    subscribe: dict[str, Any] = {
        "topic": "orders",
        "subscription": "s",
        "subType": 0,
        "consumer_id": 1,
        "request_id": 2,
    }
    wire.client(CommandType.SUBSCRIBE, **subscribe)
    (given,) = wire.broker(CommandType.ERROR, request_id=2, error=0, message="busy")
    assert given.command_type == CommandType.ERROR
    assert len(wire.broker(CommandType.SUCCESS, request_id=2)) == 1
    assert (wire.took(), wire.asked, wire.recording.known_subscriptions) == ([], [], set())


def test_a_delivery_is_recorded_with_all_its_fields() -> None:
    wire = Wire()
    wire.subscribed(consumer_id=1)
    wire.broker(
        CommandType.MESSAGE, entry(num_messages_in_batch=3, partition_key="k"), consumer_id=1,
        message_id=message_id(3, 4), redelivery_count=2, ack_set=[5, -1],
    )  # fmt: skip
    wire.broker(CommandType.MESSAGE, entry(), consumer_id=1, message_id=message_id(3, 5))
    wire.broker(CommandType.MESSAGE, entry(), consumer_id=2, message_id=message_id(3, 6))
    assert wire.took() == [
        of(Kind.DISPATCH, **at(3, 4), batch_size=3, ack_set=(5, -1), redelivery_count=2, key="k"),
        of(Kind.DISPATCH, **at(3, 5), batch_size=1, redelivery_count=0),
    ]


def test_acknowledgments_are_recorded_one_by_one() -> None:
    wire = Wire()
    wire.subscribed()
    wire.client(
        CommandType.ACK, consumer_id=1, ack_type=0, message_id=[message_id(3, 4), message_id(0, 0, 6, -2)]
    )
    wire.client(
        CommandType.ACK, consumer_id=1, ack_type=0, message_id=[message_id(3, 5)],
        txnid_most_bits=0, txnid_least_bits=8,
    )  # fmt: skip
    assert wire.took() == [
        of(Kind.ACK, **at(3, 4)),
        of(Kind.ACK, **at(0, 0), ack_set=(6, -2)),
        of(Kind.ACK, **at(3, 5), transaction="0:8"),
    ]
    # Neither a known consumer nor a valid entry.
    wire.client(CommandType.ACK, consumer_id=2, ack_type=0, message_id=[message_id(3, 4)])
    wire.client(CommandType.ACK, consumer_id=1, ack_type=0, message_id=[message_id(3, -1)])
    assert wire.took() == []


@pytest.mark.parametrize(("number", "counts"), [(0, True), (1, False), (2, True), (3, False)])
def test_a_cumulative_acknowledgment_counts_for_types_with_one_active_consumer(
    number: int, counts: bool
) -> None:
    wire = Wire()
    wire.subscribed(subType=number)
    wire.client(CommandType.ACK, consumer_id=1, ack_type=1, message_id=[message_id(3, 4, 8)])
    assert wire.took() == ([of(Kind.ACK_CUMULATIVE, **at(3, 4), ack_set=(8,))] if counts else [])


def test_redelivery_requests_are_recorded() -> None:
    wire = Wire()
    wire.subscribed()
    again = CommandType.REDELIVER_UNACKNOWLEDGED_MESSAGES
    wire.client(again, consumer_id=1, message_ids=[message_id(0, 0), message_id(3, -1), message_id(3, 5)])
    wire.client(again, consumer_id=1)
    wire.client(again, consumer_id=2)
    assert wire.took() == [of(Kind.NACK, **at(0, 0)), of(Kind.NACK, **at(3, 5)), of(Kind.REDELIVER_UNACKED)]


def test_a_seek_counts_from_its_answer() -> None:
    wire = Wire()
    wire.subscribed()
    wire.client(CommandType.SEEK, consumer_id=1, request_id=9, message_id=message_id(0, 0, 3))
    assert wire.took() == []
    assert len(wire.broker(CommandType.SUCCESS, request_id=9)) == 1
    assert wire.took() == [of(Kind.SEEK, **at(0, 0), ack_set=(3,))]
    wire.broker(CommandType.SUCCESS, request_id=9)
    assert wire.took() == []
    wire.client(CommandType.SEEK, consumer_id=1, request_id=10, message_id=message_id(3, 2))
    wire.broker(CommandType.ERROR, request_id=10, error=0, message="no")
    wire.broker(CommandType.SUCCESS, request_id=10)
    wire.client(CommandType.SEEK, consumer_id=2, request_id=11, message_id=message_id(3, 2))
    wire.broker(CommandType.SUCCESS, request_id=11)
    assert wire.took() == []
    assert wire.recording.known_subscriptions == {(ORDERS, "s")}


@pytest.mark.parametrize(
    "where",
    [
        {"message_publish_time": 5},
        {"message_id": message_id(-1, -1)},
        {"message_id": message_id(2**63 - 1, 2**63 - 1)},
        {"message_id": message_id(2**62, 0)},
        {"message_id": message_id(0, 2**62)},
    ],
)
def test_after_a_seek_to_a_time_or_an_end_the_broker_is_asked_again(where: dict[str, Any]) -> None:
    wire = Wire()
    wire.subscribed()
    wire.client(CommandType.SEEK, consumer_id=1, request_id=9, **where)
    assert wire.recording.known_subscriptions == {(ORDERS, "s")}
    wire.broker(CommandType.SUCCESS, request_id=9)
    assert (wire.took(), wire.recording.known_subscriptions) == ([], set())
    wire.client(
        CommandType.SUBSCRIBE, topic="orders", subscription="s", subType=1, consumer_id=1, request_id=12
    )
    assert wire.broker(CommandType.SUCCESS, request_id=12) == []
    assert len(wire.asked) == 2


def test_a_seek_to_the_greatest_ids_that_are_entries_is_one() -> None:
    wire = Wire()
    wire.subscribed()
    wire.client(CommandType.SEEK, consumer_id=1, request_id=9, message_id=message_id(2**62 - 1, 2**62 - 1))
    wire.broker(CommandType.SUCCESS, request_id=9)
    assert wire.took() == [of(Kind.SEEK, **at(2**62 - 1, 2**62 - 1))]


def test_an_unsubscribe_counts_from_its_answer_and_the_subscription_is_asked_for_anew() -> None:
    wire = Wire()
    wire.subscribed()
    wire.client(CommandType.UNSUBSCRIBE, consumer_id=1, request_id=9)
    wire.client(CommandType.UNSUBSCRIBE, consumer_id=2, request_id=10)
    wire.broker(CommandType.SUCCESS, request_id=10)
    assert (wire.took(), wire.recording.known_subscriptions) == ([], {(ORDERS, "s")})
    wire.broker(CommandType.SUCCESS, request_id=9)
    assert (wire.took(), wire.recording.known_subscriptions) == ([of(Kind.UNSUBSCRIBE)], set())


@pytest.mark.parametrize("by_broker", [False, True])
def test_a_consumer_that_closes_is_gone(by_broker: bool) -> None:
    wire = Wire()
    wire.subscribed()
    for consumer_id in (2, 1, 1):
        fields: dict[str, Any] = {"consumer_id": consumer_id, "request_id": 9}
        (wire.broker if by_broker else wire.client)(CommandType.CLOSE_CONSUMER, **fields)
    assert wire.took() == [of(Kind.CONSUMER_CLOSE)]
    wire.client(CommandType.ACK, consumer_id=1, ack_type=0, message_id=[message_id(3, 4)])
    assert wire.took() == []


def test_the_subscription_of_a_reader_ends_with_its_last_consumer() -> None:
    wire = Wire()
    wire.subscribed(durable=False)
    for _ in range(2):
        # A client that reconnects may open its consumer again without closing it.
        wire.subscribed(consumer_id=2, durable=False)
    wire.client(CommandType.CLOSE_CONSUMER, consumer_id=1, request_id=9)
    assert wire.took() == [of(Kind.CONSUMER_CLOSE)]
    wire.observer.closed()
    second = {"consumer": "c2"}
    assert wire.took() == [of(Kind.CONSUMER_CLOSE, **second), of(Kind.UNSUBSCRIBE, **second)]
    assert not wire.recording.known_subscriptions
    assert not wire.recording.readers


def test_a_connection_that_closes_closes_its_consumers_once() -> None:
    wire = Wire()
    wire.subscribed()
    wire.subscribed("other", 2)
    wire.observer.closed()
    wire.observer.closed()
    assert wire.took() == [
        of(Kind.CONSUMER_CLOSE),
        of(Kind.CONSUMER_CLOSE, subscription="other", consumer="c2"),
    ]
    assert wire.recording.known_subscriptions == {(ORDERS, "s"), (ORDERS, "other")}


def test_a_broker_that_broke_the_connection_may_have_forgotten_and_is_asked_again() -> None:
    wire = Wire()
    for consumer_id, subscription in enumerate(["s", "other", "s"], start=1):
        wire.subscribed(subscription, consumer_id)
    wire.observer.broker_lost()
    assert wire.recording.known_subscriptions == set()
    assert wire.took() == [
        of_topic(Kind.GAP, detail=f"the state of {name} after the connection to the broker was lost")
        for name in ("other", "s")
    ]


def test_a_subscription_whose_gap_is_recorded_has_no_second_gap_when_the_broker_is_back() -> None:
    wire = Wire()
    wire.subscribed()
    wire.observer.broker_lost()
    wire.took()
    wire.observer.broker_back()
    assert wire.took() == []


# Transactions


@pytest.mark.parametrize(("action", "kind"), [(TxnAction.COMMIT, Kind.COMMIT), (TxnAction.ABORT, Kind.ABORT)])
def test_the_end_of_a_transaction_is_an_event_of_each_topic_and_subscription_in_it(
    action: TxnAction, kind: Kind
) -> None:
    wire, other = Wire(), Wire()
    other.observer = ConnectionObserver(wire.recording, other._ask, wire.recording.brokers["pulsar://b"])
    ids: dict[str, Any] = {"txnid_most_bits": 1, "txnid_least_bits": 2}
    wire.client(CommandType.ADD_PARTITION_TO_TXN, request_id=1, partitions=["b", "a"], **ids)
    # Another connection may add participants.
    other.client(
        CommandType.ADD_SUBSCRIPTION_TO_TXN, request_id=1,
        subscription=[{"topic": "b", "subscription": "t"}, {"topic": "a", "subscription": "s"}], **ids,
    )  # fmt: skip
    wire.client(
        CommandType.ADD_PARTITION_TO_TXN, request_id=2, partitions=["c"], **(ids | {"txnid_least_bits": 3})
    )
    assert len(wire.recording.transactions) == 2
    wire.client(CommandType.END_TXN, request_id=3, txn_action=action, **ids)
    assert wire.took() == []
    wire.broker(CommandType.END_TXN_RESPONSE, request_id=3, **ids)
    found = wire.took()
    assert {event["kind"] for event in found} == {kind}
    ended = [(event["topic"][-1], event["subscription"], event["transaction"]) for event in found]
    assert ended == [("a", "", "1:2"), ("b", "", "1:2"), ("a", "s", "1:2"), ("b", "t", "1:2")]
    assert len(wire.recording.transactions) == 1
    wire.broker(CommandType.END_TXN_RESPONSE, request_id=3, **ids)
    assert wire.took() == []


def test_an_end_that_the_broker_refused_is_not_recorded() -> None:
    wire = Wire()
    ids: dict[str, Any] = {"txnid_most_bits": 1, "txnid_least_bits": 2}
    wire.client(CommandType.ADD_PARTITION_TO_TXN, request_id=1, partitions=["a"], **ids)
    wire.client(CommandType.END_TXN, request_id=3, txn_action=TxnAction.COMMIT, **ids)
    wire.broker(CommandType.END_TXN_RESPONSE, request_id=3, error=0, message="no", **ids)
    assert wire.took() == []
    # It can be ended again.
    wire.client(CommandType.END_TXN, request_id=4, txn_action=TxnAction.COMMIT, **ids)
    wire.broker(CommandType.END_TXN_RESPONSE, request_id=4, **ids)
    assert [event["kind"] for event in wire.took()] == [Kind.COMMIT]
    # A transaction without participants has no event.
    wire.client(CommandType.END_TXN, request_id=5, txn_action=TxnAction.ABORT, **ids)
    wire.broker(CommandType.END_TXN_RESPONSE, request_id=5, **ids)
    assert wire.took() == []


# Frames


def test_unread_commands_are_forwarded_unchanged() -> None:
    wire = Wire()
    given = framed(CommandType.PING)
    wire.observer.from_client(given)
    assert wire.observer.from_broker(given) == (given,)
    answer = framed(CommandType.GET_LAST_MESSAGE_ID_RESPONSE, last_message_id=message_id(1, 1), request_id=4)
    assert wire.observer.from_broker(answer) == [answer]
    assert wire.took() == []


@pytest.mark.parametrize("from_client", [False, True])
@pytest.mark.parametrize("broken", ["command", "payload"])
def test_a_connection_is_not_recorded_any_more_after_a_frame_that_cannot_be_read(
    from_client: bool, broken: str
) -> None:
    wire = Wire()
    wire.subscribed()
    wire.client(CommandType.PRODUCER, topic="orders", producer_id=4, request_id=1)
    if from_client:
        kind, fields = CommandType.SEND, dict[str, Any](producer_id=4, sequence_id=1)
    else:
        kind, fields = CommandType.MESSAGE, {"consumer_id": 1, "message_id": message_id(3, 1)}
    given = framed(kind, b"\x00", **fields)
    if broken == "command":
        (given,) = FrameReader().feed(frame(b"\x08" + bytes([kind]) + b"\xff", b""))
    if from_client:
        wire.observer.from_client(given)
    else:
        assert list(wire.observer.from_broker(given)) == [given]
    (gap,) = wire.took()
    assert (gap["topic"], gap["kind"]) == ("*", Kind.GAP)
    assert gap["detail"].startswith("the traffic of a connection after an invalid frame: ")
    assert len(gap["detail"]) > 70
    # Further frames are forwarded unread.
    wire.observer.from_client(given)
    wire.client(CommandType.ACK, consumer_id=1, ack_type=0, message_id=[message_id(3, 4)])
    success = framed(CommandType.SUCCESS, request_id=1)
    assert list(wire.observer.from_broker(success)) == [success]
    assert wire.took() == []


def test_an_answer_that_cannot_be_read_passes_and_ends_the_recording() -> None:
    wire = Wire()
    (given,) = FrameReader().feed(frame(b"\x08" + bytes([CommandType.SUCCESS]) + b"\xff", b""))
    assert list(wire.observer.from_broker(given)) == [given]
    assert [event["kind"] for event in wire.took()] == [Kind.GAP]


def test_a_delivery_of_an_acknowledged_entry_requests_the_position_again() -> None:
    wire = Wire()
    wire.subscribed()
    for entry_id in (0, 1, 2):
        wire.client(CommandType.ACK, consumer_id=1, ack_type=0, message_id=[message_id(3, entry_id)])
    # The delivery was in flight to the consumer that acknowledged it.
    wire.broker(CommandType.MESSAGE, entry(), consumer_id=1, message_id=message_id(3, 0))
    assert [event["kind"] for event in wire.took()] == [Kind.ACK] * 3 + [Kind.DISPATCH]
    wire.subscribed(consumer_id=2)
    asked = len(wire.asked)
    for entry_id in (1, 2):
        wire.broker(CommandType.MESSAGE, entry(), consumer_id=2, message_id=message_id(3, entry_id))
    (question,) = wire.asked[asked:]
    assert wire.position(question, (3, 0)) == []
    _, gap, _, seek = wire.took()
    assert gap == of_topic(
        Kind.GAP, detail="the state of s: 3:1 was acknowledged before, and is delivered again"
    )
    assert seek == of(Kind.SEEK, consumer="c2", detail="asked again", **at(3, 1))
    # One request serves all further deliveries.
    wire.broker(CommandType.MESSAGE, entry(), consumer_id=2, message_id=message_id(3, 1))
    assert len(wire.asked) == asked + 1


@pytest.mark.parametrize(
    ("acked", "delivered", "is_gap"),
    [
        ([0b1100], [], True),
        ([0b1100], [0b1100], False),
        ([0b1100], [0b1110], True),
        ([0b1100], [0b1000], False),
        # All messages of the batch: the client acknowledged nothing.
        ([0b1111], [], False),
        ([-1, 0b0111], [], True),
        ([-1, 0b0111], [-1, 0b0111], False),
        ([-1, 0b0111], [-1, -1], True),
        # The second word is zero.
        ([-1], [], True),
        ([-1], [-1], False),
        ([-1], [-1, 1], True),
    ],
)
def test_a_delivery_of_an_acknowledged_part_of_a_batch_is_a_gap(
    acked: list[int], delivered: list[int], is_gap: bool
) -> None:
    wire = Wire()
    wire.subscribed()
    size = 4 if acked[0] > 0 else 68
    data = entry(num_messages_in_batch=size)
    for entry_id in (0, 1):
        part = messages.MessageIdData(ledgerId=3, entryId=entry_id, ack_set=acked)
        wire.client(CommandType.ACK, consumer_id=1, ack_type=0, message_id=[part])

    def deliver(consumer_id: int, entry_id: int) -> list[Any]:
        at = messages.MessageIdData(ledgerId=3, entryId=entry_id)
        wire.broker(CommandType.MESSAGE, data, consumer_id=consumer_id, message_id=at, ack_set=delivered)
        return [each["detail"] for each in wire.took() if each["kind"] == Kind.GAP]

    # The delivery was in flight to the consumer that acknowledged it.
    assert deliver(1, 0) == []
    wire.subscribed(consumer_id=2)
    asked = len(wire.asked)
    gap = "the state of s: a part of 3:0 was acknowledged before, and is delivered again"
    assert deliver(2, 0) == [gap] * is_gap
    # One gap serves all batches, and the position is not requested again.
    assert deliver(2, 1) == []
    assert len(wire.asked) == asked


def test_the_parts_of_a_batch_add_up() -> None:
    recording = Recording(list[Event]().append)
    for words in ((0b1110,), (0b0111,), (-1, 5), (-1,)):
        recording.note_acknowledged((ORDERS, "s"), (3, 0), words)
    assert recording.acked_entries[ORDERS, "s"][3, 0].ack_set == (0b0110,)
    # The last parts complete the entry, also if the words have no bit.
    recording.note_acknowledged((ORDERS, "s"), (3, 0), (0b1001,))
    recording.note_acknowledged((ORDERS, "s"), (3, 1), (0,))
    assert [each.ack_set for each in recording.acked_entries[ORDERS, "s"].values()] == [None, None]
    recording.note_acknowledged((ORDERS, "s"), (3, 0))
    recording.note_acknowledged((ORDERS, "s"), (3, 0), (0b1110,))
    assert recording.acked_entries[ORDERS, "s"][3, 0].ack_set is None


def test_the_bytes_of_an_entry_are_kept_once_at_its_publish_or_first_delivery() -> None:
    kept: list[tuple[str, tuple[int, int], bytes]] = []
    wire = Wire(Recording(list[Event]().append, lambda *each: kept.append(each)))
    wire.client(CommandType.PRODUCER, topic="orders", producer_id=4, request_id=1)
    wire.client(CommandType.SEND, entry(), producer_id=4, sequence_id=5)
    wire.broker(CommandType.SEND_RECEIPT, producer_id=4, sequence_id=5, message_id=message_id(3, 0))
    wire.subscribed()
    for entry_id in (0, 1, 1):
        wire.broker(CommandType.MESSAGE, entry(), consumer_id=1, message_id=message_id(3, entry_id))
    assert kept == [(ORDERS, (3, 0), entry()), (ORDERS, (3, 1), entry())]


def test_redeliveries_after_a_seek_are_no_contradiction() -> None:
    wire = Wire()
    wire.subscribed()
    wire.client(CommandType.ACK, consumer_id=1, ack_type=0, message_id=[message_id(3, 0)])
    wire.client(CommandType.SEEK, consumer_id=1, request_id=9, message_id=message_id(3, 0))
    wire.broker(CommandType.SUCCESS, request_id=9)
    wire.subscribed(consumer_id=2)
    asked = len(wire.asked)
    wire.broker(CommandType.MESSAGE, entry(), consumer_id=2, message_id=message_id(3, 0))
    assert len(wire.asked) == asked


@pytest.mark.parametrize("seed", range(20))
def test_frames_of_any_content_are_forwarded_and_raise_no_error(seed: int) -> None:
    """Damaged ones, too, and those of commands that the other side sends."""
    chance = random.Random(seed)
    wire = Wire()
    for consumer_id in (1, 2, 3):
        wire.subscribed(chance.choice("sab"), consumer_id)
    for _ in range(100):
        data = bytearray(command_at_random(chance, chance.choice(list(CommandType))))
        if chance.random() < 0.2:
            data[chance.randrange(8, len(data))] = chance.randrange(256)
        for given in FrameReader().feed(bytes(data)):
            if chance.random() < 0.5:
                wire.observer.from_client(given)
            else:
                assert all(len(each) for each in wire.observer.from_broker(given))
    wire.observer.closed()
    assert all(line(each) for each in wire.events)
