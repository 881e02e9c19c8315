"""`Broker` is an `AsyncBroker` whose event loop runs in a separate thread.

It is for programs that do not run an event loop themselves.
"""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from ackwell.devbroker.async_broker import AsyncBroker
from ackwell.devbroker.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from ackwell.devbroker.faults import Faults
    from ackwell.replay.events import Event

P = ParamSpec("P")
R = TypeVar("R")


def _called(
    method: Callable[Concatenate[AsyncBroker, P], R],
) -> Callable[Concatenate[Broker, P], R]:
    """Return a method of `Broker` that calls a method of `AsyncBroker` in the broker's thread."""

    @wraps(method)
    def call(self: Broker, /, *arguments: P.args, **named: P.kwargs) -> R:
        return self.call(method, self._broker, *arguments, **named)

    return call


def _awaited(
    method: Callable[Concatenate[AsyncBroker, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[Broker, P], R]:
    """Return a method of `Broker` that runs a coroutine of `AsyncBroker` in the broker's thread.

    The method returns the result of the coroutine.
    """

    @wraps(method)
    def wait(self: Broker, /, *arguments: P.args, **named: P.kwargs) -> R:
        return self.wait(method(self._broker, *arguments, **named))

    return wait


class Broker:
    """A context manager that runs a broker in a separate thread. It takes the arguments of `AsyncBroker`.

    Clients can connect inside the `with` block. Any thread may call any method. A call is executed in the
    broker's thread, and returns when it is complete.
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
        """Start the thread, and start to listen."""
        started: Future[None] = Future()
        self._thread = threading.Thread(
            target=self._run, args=(started,), name="ackwell-dev-broker", daemon=True
        )
        self._thread.start()
        started.result()

    def stop(self) -> None:
        """Close every connection and stop listening."""
        if self._loop is not None and self._thread is not None:
            self.wait(self._broker.stop())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop = self._thread = None

    def _run(self, started: Future[None]) -> None:
        loop = self._loop = asyncio.new_event_loop()
        try:
            loop.run_until_complete(self._broker.start())
        except BaseException as error:  # `start` raises it in the caller's thread
            started.set_exception(error)
            loop.close()
            return
        started.set_result(None)
        try:
            loop.run_forever()
        finally:
            loop.close()

    def call(self, function: Callable[P, R], *arguments: P.args, **named: P.kwargs) -> R:
        """Call a function in the broker's thread, and return its result."""
        if self._loop is None or threading.current_thread() is self._thread:
            # The event loop does not run, or the caller is already in its thread.
            return function(*arguments, **named)
        loop = self._loop
        done: Future[R] = Future()

        def run() -> None:
            try:
                done.set_result(function(*arguments, **named))
            except BaseException as error:  # `result` raises it in the caller's thread
                done.set_exception(error)

        loop.call_soon_threadsafe(run)
        return done.result()

    def wait(self, coroutine: Coroutine[Any, Any, R]) -> R:
        """Run a coroutine in the broker's loop, and return its result."""
        if self._loop is None:
            coroutine.close()
            raise RuntimeError("the broker is not running; use it in a with statement, or call start()")
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    @property
    def url(self) -> str:
        """The address for a client: `pulsar://127.0.0.1:port`."""
        return self._broker.url

    @property
    def tls_url(self) -> str | None:
        """The address for a client with TLS; None if the broker has no TLS port."""
        return self._broker.tls_url

    @property
    def admin_url(self) -> str:
        """The address of the admin REST API."""
        return self._broker.admin_url

    @property
    def admin_tls_url(self) -> str | None:
        """The address of the admin REST API with TLS; None if the broker has no TLS port."""
        return self._broker.admin_tls_url

    @property
    def clock(self) -> ThreadedClock:
        """The broker's clock."""
        return ThreadedClock(self, self._broker.clock)

    @property
    def faults(self) -> Faults:
        """The faults that tests inject."""
        return self._broker.faults

    @property
    def events(self) -> list[Event]:
        """The recorded events, in the schema that `ackwell replay` reads."""
        return self.call(lambda: self._broker.events)

    save_events = _called(AsyncBroker.save_events)
    settle = _awaited(AsyncBroker.settle)
    load = _called(AsyncBroker.load)
    take_back = _awaited(AsyncBroker.take_back)
    messages = _called(AsyncBroker.messages)
    backlog = _called(AsyncBroker.backlog)
    create_topic = _called(AsyncBroker.create_topic)
    create_namespace = _called(AsyncBroker.create_namespace)
    reset = _awaited(AsyncBroker.reset)
    crash = _called(AsyncBroker.crash)
    restart = _awaited(AsyncBroker.restart)
    validate = _called(AsyncBroker.validate)


def _on_clock(method: Callable[Concatenate[Clock, P], R]) -> Callable[Concatenate[ThreadedClock, P], R]:
    """Return a method of `ThreadedClock` that calls a method of `Clock` in the broker's thread."""

    @wraps(method)
    def call(self: ThreadedClock, /, *arguments: P.args, **named: P.kwargs) -> R:
        return self._broker.call(method, self._clock, *arguments, **named)

    return call


class ThreadedClock:
    """The broker's clock. Any thread may use this object."""

    def __init__(self, broker: Broker, clock: Clock) -> None:
        self._broker = broker
        self._clock = clock

    def now_ms(self) -> int:
        """Return the broker's time in milliseconds since 1970."""
        return self._clock.now_ms()

    advance = _on_clock(Clock.advance)
    freeze = _on_clock(Clock.freeze)
    resume = _on_clock(Clock.resume)
