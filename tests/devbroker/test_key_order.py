"""Key order in sessions of the official client: random nacks, consumers that open and close."""

from __future__ import annotations

from collections import Counter

import pytest

from ackwell.devbroker import Broker, DevBrokerSettings
from ackwell.protocol.constants import CommandType
from ackwell.replay.events import Event, Kind
from ackwell.replay.history_check import RECEIPT, Rule, check_history
from tests.devbroker.key_session import Session
from tests.devbroker.raw import RawClient


def nack(session: Session, broker: Broker, count: int, share: float = 0.98) -> None:
    """Nack a share of the messages until the broker has received this number of nacks.

    A client does not send a nack if its consumer closes before the back-off ends.
    """
    received = 0
    while received < count:
        session.run(session.nacks + count - received, share)
        received = sum(event.kind is Kind.NACK for event in broker.events)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("messages", "nacks"),
    [
        (300, 1_500),
        pytest.param(4_000, 100_000, marks=pytest.mark.proof),
    ],
)
@pytest.mark.parametrize("ours", [True, False], ids=["ours", "as a broker"])
def test_no_message_of_a_key_overtakes_a_redelivered_one(
    ours: bool, messages: int, nacks: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Check the key order after 1,500 nacks; the claim for 100,000 rests on `make proof`."""
    settings = DevBrokerSettings(limits={"waiting_holds_key": ours}, max_events=10_000_000)
    with Broker(settings=settings) as broker:
        session = Session(broker.url, messages)
        session.publish(messages)
        nack(session, broker, nacks)
        session.drain()
        broker.settle()
        events = session.keyed(broker.events)
        session.client.close()
    kinds = Counter(event.kind for event in events)
    seen = kinds[Kind.NACK]
    with capsys.disabled():
        print(f"\n{seen:,} nacks, {kinds[Kind.DISPATCH]:,} deliveries ", end="")
    assert seen >= nacks
    assert check_history(events, at_rest=True) == []
    # The check fails for the same history with one early delivery.
    back = next(index for index, event in enumerate(events) if event.kind is Kind.NACK)
    key = events[back].key
    later = max(position for position, each in session.keys.items() if each == key)
    wrong = events[back]._replace(kind=Kind.DISPATCH, ledger_id=later[0], entry_id=later[1])
    assert check_history([*events[: back + 1], wrong])


@pytest.mark.slow
@pytest.mark.parametrize("as_", ["ackwell", "pulsar-4.2"])
def test_a_history_with_crashes_of_the_broker_breaks_nothing(as_: str) -> None:
    """Unanswered acknowledgments may be lost; their messages are redelivered in order."""
    with Broker(settings=DevBrokerSettings(limits={"waiting_holds_key": True})) as broker:
        session = Session(broker.url, 11)
        session.publish(300)
        for crashes in range(1, 5):
            nack(session, broker, 100 * crashes, share=0.9)
            broker.crash()
            broker.restart(as_)
        session.drain()
        broker.settle()
        events = session.keyed(broker.events)
        session.client.close()
    kinds = Counter(event.kind for event in events)
    assert kinds[Kind.BROKER_RESTART] == 4
    assert kinds[Kind.NACK] >= 400
    assert check_history(events) == []


def test_the_receipts_of_a_broker_that_forgets_are_found_lost() -> None:
    """As Pulsar, the broker answers an acknowledgment before it is written; as ackwell, after."""
    lost = {as_: with_receipts(as_) for as_ in ("ackwell", "pulsar-4.2")}
    assert lost["ackwell"] == []
    # The first acknowledgment is written; the others wait for a second that does not pass.
    assert lost["pulsar-4.2"] == [(Rule.RECEIPT_LOST, entry_id) for entry_id in range(1, 10)]


def with_receipts(as_: str) -> list[tuple[Rule, int]]:
    """Acknowledge one by one with receipts, crash, and check the deliveries after it."""
    history: list[Event] = []
    seen = 0
    with Broker() as broker:
        broker.clock.freeze()
        with RawClient(broker) as client:
            client.produce("orders")
            for number in range(20):
                client.publish(number, b"", partition_key="k")
            client.subscribe("orders")
            received = [client.until(CommandType.MESSAGE).message_id for _ in range(20)]
            for request_id, given in enumerate(received[:10], 10):
                client.send(
                    CommandType.ACK, consumer_id=1, ack_type=0, message_id=[given], request_id=request_id
                )
                client.until(CommandType.ACK_RESPONSE)
                history += broker.events[seen:]
                seen = len(broker.events)
                history.append(
                    history[-1]._replace(
                        kind=Kind.RESULT,
                        subscription="s",
                        detail=RECEIPT,
                        ledger_id=given.ledgerId,
                        entry_id=given.entryId,
                    )
                )
        broker.crash()
        broker.restart(as_)
        with RawClient(broker) as client:
            client.subscribe("orders")
            client.until(CommandType.MESSAGE)
            client.send(CommandType.PING)
            client.until(CommandType.PONG)
        history += broker.events[seen:]
    assert Kind.BROKER_RESTART in {event.kind for event in history}
    return [(each.rule, each.position.entry_id) for each in check_history(history)]
