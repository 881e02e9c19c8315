"""Four threads with a cursor or a subscription, which are for one, and with the dev broker, for all."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ackwell import Cursor, Ledgers
from ackwell.subscription import Subscription, SubscriptionType
from tests.threads.together import run

THREADS = 4
ENTRIES = 2_000


def in_threads(work: Callable[[int], object]) -> None:
    """Do the work for each entry, dealt to the threads, in an order that leaves many ranges."""

    def part(thread: int) -> Callable[[], None]:
        def each() -> None:
            for number in range(thread, ENTRIES, THREADS):
                work(number * 1_237 % ENTRIES)

        return each

    run(*map(part, range(THREADS)))


def test_every_entry_that_any_thread_acknowledges_on_a_cursor_is_acknowledged() -> None:
    cursor = Cursor(Ledgers({3: ENTRIES}))
    in_threads(lambda entry_id: cursor.ack(3, entry_id))
    cursor.validate()
    assert (cursor.backlog_entries, cursor.messages_consumed) == (0, ENTRIES)
    assert cursor.mark_delete_position == (3, ENTRIES - 1)


def test_every_entry_that_any_thread_acknowledges_on_a_subscription_is_acknowledged_and_no_consumer_s() -> (
    None
):
    subscription = Subscription(SubscriptionType.SHARED, cursor=Cursor(Ledgers({3: ENTRIES})))
    consumer = "worker"
    subscription.add_consumer(consumer)
    subscription.flow(consumer, ENTRIES)
    for entry_id in range(ENTRIES):
        assert subscription.dispatch(3, entry_id, 0) == consumer
    in_threads(lambda entry_id: subscription.ack(consumer, 3, entry_id))
    subscription.validate()
    assert (subscription.cursor.backlog_entries, subscription.summary(0).unacked) == (0, 0)


def test_the_dev_broker_is_called_from_any_thread() -> None:
    pytest.importorskip("google.protobuf")
    from ackwell.devbroker import Broker

    with Broker() as broker:
        begun_ms = broker.clock.now_ms()
        broker.clock.freeze()

        def work(thread: int) -> Callable[[], None]:
            def calls() -> None:
                for number in range(20):
                    broker.create_topic(f"t-{thread}-{number}")
                    broker.clock.advance(1)
                    assert broker.events is not None
                    broker.validate()

            return calls

        run(*map(work, range(THREADS)))
        assert len(broker.call(lambda: broker._broker.state.topics)) == THREADS * 20
        assert broker.clock.now_ms() >= begun_ms + THREADS * 20
