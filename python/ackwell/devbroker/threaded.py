"""`Broker`: an `AsyncBroker` in an event loop of its own thread, for programs that have none."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar

from ackwell.devbroker.broker import AsyncBroker

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Coroutine

    from ackwell.devbroker.clock import Clock
    from ackwell.devbroker.faults import Faults
    from ackwell.devbroker.loading import LoadReport, Source
    from ackwell.devbroker.restarts import RestartReport
    from ackwell.devbroker.tester import Message
    from ackwell.replay.events import Event

P = ParamSpec("P")
R = TypeVar("R")


class Broker:
    """A broker for `with`: it listens from `__enter__` to `__exit__`; arguments are those of `AsyncBroker`.

    Every method may be called from any thread; each runs in the broker's own and returns when it is done.
    """

    def __init__(self, **options: Any) -> None:
        self._broker = AsyncBroker(**options)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Begin to listen."""
        started: Future[None] = Future()
        self._thread = threading.Thread(
            target=self._run, args=(started,), name="ackwell-dev-broker", daemon=True
        )
        self._thread.start()
        started.result()

    def stop(self) -> None:
        """Close every connection, and listen no more."""
        if self._loop is not None and self._thread is not None:
            self.wait(self._broker.stop())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop = self._thread = None

    def _run(self, started: Future[None]) -> None:
        loop = self._loop = asyncio.new_event_loop()
        try:
            loop.run_until_complete(self._broker.start())
        except BaseException as error:  # whatever it was, the caller is to see it
            started.set_exception(error)
            loop.close()
            return
        started.set_result(None)
        try:
            loop.run_forever()
        finally:
            loop.close()

    def call(self, function: Callable[P, R], *arguments: P.args, **named: P.kwargs) -> R:
        """Call a function in the broker's thread, and return what it returns."""
        if self._loop is None or threading.current_thread() is self._thread:
            # Nothing runs that it could meet, or it is what runs.
            return function(*arguments, **named)
        loop = self._loop
        done: Future[R] = Future()

        def run() -> None:
            try:
                done.set_result(function(*arguments, **named))
            except BaseException as error:  # the caller's to see
                done.set_exception(error)

        loop.call_soon_threadsafe(run)
        return done.result()

    def wait(self, coroutine: Coroutine[Any, Any, R]) -> R:
        """Run a coroutine in the broker's loop, and return its result."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._started()).result()

    def _started(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            raise RuntimeError("the broker is not running; use it in a with statement, or call start()")
        return self._loop

    @property
    def url(self) -> str:
        """The address for a client: `pulsar://127.0.0.1:port`."""
        return self._broker.url

    @property
    def tls_url(self) -> str | None:
        """The address for a client with TLS."""
        return self._broker.tls_url

    @property
    def admin_url(self) -> str:
        """The address of the admin REST API."""
        return self._broker.admin_url

    @property
    def clock(self) -> ThreadedClock:
        """The broker's clock."""
        return ThreadedClock(self, self._broker.clock)

    @property
    def faults(self) -> Faults:
        """What goes wrong on purpose."""
        return self._broker.faults

    @property
    def events(self) -> list[Event]:
        """What happened so far, in the schema that `ackwell replay` reads."""
        return self.call(lambda: self._broker.events)

    def save_events(self, folder: str | os.PathLike[str], *, payloads: bool = False) -> None:
        """Write what happened so far as a recording, with the entries if asked for."""
        self.call(self._broker.save_events, folder, payloads=payloads)

    def settle(self, timeout_s: float = 10.0) -> None:
        """Wait until what clients sent is done, and what they can get is sent; see `AsyncBroker.settle`."""
        self.wait(self._broker.settle(timeout_s))

    def load(self, *sources: Source, topic: str | None = None, subscription: str | None = None) -> LoadReport:
        """Begin with what an incident left; see `AsyncBroker.load`."""
        return self.call(self._broker.load, *sources, topic=topic, subscription=subscription)

    def take_back(self, consumer: str, messages: Any = None, *, subscription: str | None = None) -> int:
        """Take messages back from a consumer, or all that it has; see `AsyncBroker.take_back`."""
        return self.wait(self._broker.take_back(consumer, messages, subscription=subscription))

    def messages(self, topic: str) -> list[Message]:
        """Return the messages that a topic holds; see `AsyncBroker.messages`."""
        return self.call(self._broker.messages, topic)

    def backlog(self, topic: str, subscription: str) -> list[Message]:
        """Return the messages that a subscription has not acknowledged."""
        return self.call(self._broker.backlog, topic, subscription)

    def create_topic(self, topic: str, *, partitions: int = 0) -> None:
        """Make a topic, with partitions or without."""
        self.call(self._broker.create_topic, topic, partitions=partitions)

    def create_namespace(self, namespace: str) -> None:
        """Make a namespace with its tenant."""
        self.call(self._broker.create_namespace, namespace)

    def reset(self) -> None:
        """Make everything as it was at the start, and break all connections."""
        self.call(self._broker.reset)

    def crash(self) -> None:
        """Stop at once, as a killed process does."""
        self.call(self._broker.crash)

    def restart(self, as_: str | None = None) -> RestartReport:
        """Start again, as `"pulsar-4.2"` or as `"ackwell"`; return what that forgot."""
        return self.wait(self._broker.restart(as_))

    def validate(self) -> None:
        """Check every subscription; `AssertionError` names what does not hold."""
        self.call(self._broker.state.validate)


class ThreadedClock:
    """The broker's clock, for other threads."""

    def __init__(self, broker: Broker, clock: Clock) -> None:
        self._broker = broker
        self._clock = clock

    def now_ms(self) -> int:
        """Return the broker's time, milliseconds since the epoch."""
        return self._clock.now_ms()

    def advance(
        self, ms: int = 0, *, seconds: float = 0, minutes: float = 0, hours: float = 0, days: float = 0
    ) -> None:
        """Let time pass at once, and deliver what is due."""
        named = {"seconds": seconds, "minutes": minutes, "hours": hours, "days": days}
        self._broker.call(self._clock.advance, ms, **named)

    def freeze(self) -> None:
        """Stop the clock; `advance` still moves it."""
        self._broker.call(self._clock.freeze)

    def resume(self) -> None:
        """Let a frozen clock run on from its time."""
        self._broker.call(self._clock.resume)
