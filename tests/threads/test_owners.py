"""Four threads on a dev broker, which is thread-safe; a cursor and a subscription are for one thread."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.threads.together import run

THREADS = 4


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
