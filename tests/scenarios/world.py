"""The environment of a scenario: clients, the admin API, a new topic and a list of notes."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Any, Self

import pulsar

QUIET = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)

PATIENCE_MS = 10_000
"""The timeout for an expected message."""
NOTHING_MS = 400
"""The time without a message after which its absence is noted."""
ACKS_SENT_S = 0.4
"""The client groups acknowledgments with a timer of 100 ms, which Python cannot change."""


class World:
    """The broker of one scenario; `restart` restarts or kills it."""

    def __init__(self, service_url: str, admin_url: str, restart: Callable[[str], None], name: str) -> None:
        self.service_url, self.admin_url = service_url, admin_url
        self._restart = restart
        # The same on every broker: whose turn it is on Failover depends on the name.
        self.local = f"scenario-{name}"
        self.topic = f"persistent://public/default/{self.local}"
        self.path = f"persistent/public/default/{self.local}"
        self.notes: list[tuple[str, Any]] = []
        self._ledgers: dict[int, int] = {}
        self._stack = ExitStack()
        self._client: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    # Clients

    @property
    def client(self) -> Any:
        """The scenario's client."""
        if self._client is None:
            self._client = self.new_client()
        return self._client

    def new_client(self, **options: Any) -> Any:
        """Return another client."""
        made = pulsar.Client(self.service_url, logger=QUIET, operation_timeout_seconds=20, **options)
        self._stack.callback(_quietly, made.close)
        return made

    def producer(self, topic: str | None = None, **options: Any) -> Any:
        return self.client.create_producer(topic or self.topic, **options)

    def batching(self, topic: str | None = None, size: int = 10, **options: Any) -> Any:
        """Return a producer whose `batch` calls each make one entry."""
        return self.producer(
            topic,
            batching_enabled=True,
            batching_max_messages=size,
            batching_max_publish_delay_ms=60_000,
            **options,
        )

    def consumer(self, kind: str = "Shared", name: str = "sub", topic: Any = None, **options: Any) -> Any:
        options = {
            "initial_position": pulsar.InitialPosition.Earliest,
            "negative_ack_redelivery_delay_ms": 100,
        } | options
        return self.client.subscribe(
            topic or self.topic, name, consumer_type=getattr(pulsar.ConsumerType, kind), **options
        )

    def send(self, producer: Any, count: int, first: int = 0, **options: Any) -> list[Any]:
        """Publish `m0`, `m1` and so on, one by one; return their ids."""
        return [producer.send(b"m%d" % number, **options) for number in range(first, first + count)]

    def batch(self, producer: Any, count: int, first: int = 0, **options: Any) -> None:
        """Publish a batch."""
        for number in range(first, first + count):
            producer.send_async(b"m%d" % number, None, **options)
        producer.flush()

    def take(self, consumer: Any, count: int) -> list[Any]:
        """Receive expected messages."""
        got = []
        for _ in range(count):
            try:
                got.append(consumer.receive(PATIENCE_MS))
            except pulsar.Timeout:
                break
        return got

    def rest(self, consumer: Any, quiet_ms: int = NOTHING_MS) -> list[Any]:
        """Receive until no message arrives."""
        got = []
        with suppress(pulsar.Timeout):
            while True:
                got.append(consumer.receive(quiet_ms))
        return got

    def acks_arrive(self) -> None:
        """Wait until the client has sent its acknowledgments."""
        time.sleep(ACKS_SENT_S)

    # Notes

    def note(self, what: str, value: Any) -> None:
        """Add a note, which must be equal on both brokers."""
        self.notes.append((what, json.loads(json.dumps(value, default=str))))

    def got(self, what: str, messages: list[Any]) -> list[Any]:
        """Note messages with their redelivery counts, in their order."""
        self.note(what, [[each.data().decode()[:40], each.redelivery_count()] for each in messages])
        return messages

    def set_of(self, what: str, messages: list[Any]) -> list[Any]:
        """Note messages with their redelivery counts, in any order."""
        self.note(what, sorted([each.data().decode()[:40], each.redelivery_count()] for each in messages))
        return messages

    def attempt(self, what: str, action: Callable[[], Any]) -> Any:
        """Run an operation that may be refused, and note the result."""
        try:
            done = action()
        except pulsar.PulsarException as error:
            self.note(what, type(error).__name__)
            return None
        self.note(what, "ok")
        return done

    def place(self, message_id: Any) -> list[int]:
        """Return a message's id, with the ledger's number in the order in which they were seen."""
        return [
            self.ledger(message_id.ledger_id()),
            message_id.entry_id(),
            message_id.batch_index(),
            message_id.partition(),
        ]

    def ledger(self, ledger_id: int) -> int:
        return ledger_id if ledger_id < 0 else self._ledgers.setdefault(ledger_id, len(self._ledgers))

    # The admin API

    def admin(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """Ask the admin API; return the status and the JSON."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"{self.admin_url}/admin/v2/{path}",
            data=data,
            method=method,
            headers={"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                status, text = answer.status, answer.read()
        except urllib.error.HTTPError as error:
            status, text = error.code, error.read()
        try:
            return status, json.loads(text) if text else None
        except ValueError:
            return status, text.decode()

    def ask(self, what: str, method: str, path: str, body: object = None) -> Any:
        """Ask about the topic, and note the status."""
        status, answer = self.admin(method, f"{self.path}/{path}".rstrip("/"), body)
        self.note(what, status)
        return answer

    def stats(self, path: str | None = None) -> Any:
        return self.admin("GET", f"{path or self.path}/stats")[1]

    def figures(self, what: str, *wanted: str, name: str = "sub") -> None:
        """Note figures of a subscription from `stats`."""
        found = self.stats()["subscriptions"].get(name)
        self.note(what, found and {each: found.get(each) for each in wanted})

    def backlog(self, what: str, *, expected: int | None = None, name: str = "sub") -> None:
        """Note the backlog, when acknowledgments have arrived."""
        self.until(lambda: self._backlog(name) == expected) if expected is not None else self.acks_arrive()
        self.note(what, self._backlog(name))

    def _backlog(self, name: str) -> Any:
        return (self.stats()["subscriptions"].get(name) or {}).get("msgBacklog")

    def cursor(self, what: str, name: str = "sub") -> None:
        """Note a cursor's positions from `stats-internal`, when acknowledgments have arrived."""
        self.acks_arrive()
        internal = self.admin("GET", f"{self.path}/internalStats")[1]
        for each in internal["ledgers"]:
            self.ledger(each["ledgerId"])
        found = internal["cursors"].get(name)
        self.note(
            what,
            found
            and {
                "markDelete": self._renamed(found["markDeletePosition"]),
                "read": self._renamed(found["readPosition"]),
                "deleted": self._renamed(found["individuallyDeletedMessages"]),
                "consumed": found["messagesConsumedCounter"],
                "sinceFirstHole": found["numberOfEntriesSinceFirstNotAckedMessage"],
                "ranges": found["totalNonContiguousDeletedMessagesRange"],
            },
        )

    def _renamed(self, text: str) -> str:
        for ledger_id, number in self._ledgers.items():
            text = text.replace(f"{ledger_id}:", f"L{number}.")
        return text

    def until(self, holds: Callable[[], bool], seconds: float = 10) -> bool:
        """Wait until a condition holds; return whether it does."""
        deadline = time.monotonic() + seconds
        while not (held := holds()) and time.monotonic() < deadline:
            time.sleep(0.05)
        return held

    def restart(self, how: str) -> None:
        """Restart the broker: `graceful` or `crash`."""
        self._restart(how)


def _quietly(close: Callable[[], None]) -> None:
    with suppress(pulsar.PulsarException):
        close()


Scenario = Callable[[World], None]

SCENARIOS: dict[str, Scenario] = {}


def scenario(function: Scenario) -> Scenario:
    """Make a function a scenario under its name."""
    SCENARIOS[function.__name__] = function
    return function
