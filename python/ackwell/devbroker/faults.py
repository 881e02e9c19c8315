"""Faults: what goes wrong on purpose, by name and with a seed, so that a failure can be run again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from ackwell.protocol.topic_name import TopicName, full_name

NAMES: Final = (
    "drop_connections",
    "refuse_sends",
    "lose_acks",
    "duplicate_messages",
    "delay_frames",
    "slow_consumer",
    "crash_after",
)
"""The methods of `Faults`, each a fault; the admin API has them under the same names."""


@dataclass(slots=True)
class _Fault:
    """One fault as it was asked for."""

    probability: float
    left: int | None
    """How often it may still happen, None for any number."""
    scope: tuple[str, str, str]
    """The topic, the subscription and the producer or consumer that it is about, empty for any."""
    value: float = 0

    def applies_to(self, *names: str) -> bool:
        return all(wanted in ("", *_names(name)) for wanted, name in zip(self.scope, names, strict=True))

    def happens(self, random: Random) -> bool:
        if self.left == 0 or random.random() >= self.probability:
            return False
        if self.left is not None:
            self.left -= 1
        return True


def _names(name: str) -> tuple[str, ...]:
    """Return the names that mean a topic: its own, and for a partition that of the whole."""
    return (name, str(TopicName.parse(name).partitioned)) if "-partition-" in name else (name,)


class Faults:
    """Which faults happen, none by default.

    Each has a probability from 0 to 1, and may be about one topic, subscription, producer or consumer, or
    happen only the `next` so many times. A call replaces the one of the same scope; probability 0 ends it.

    >>> faults = Faults()
    >>> faults.seed(7)
    >>> faults.refuse_sends(0.5)
    >>> [faults.refuses_send("t", "p") for _ in range(4)]
    [True, True, False, True]
    >>> faults.refuse_sends(producer="q", next=1)
    >>> faults.refuse_sends(0)
    >>> [faults.refuses_send("t", name) for name in ("p", "q", "q")]
    [False, True, False]
    """

    def __init__(self) -> None:
        self._random = Random(0)
        self._rules: dict[str, dict[tuple[str, str, str], _Fault]] = defaultdict(dict)
        self.any = False
        """Whether anything may go wrong: looked at for every command."""
        self.on_crash: Callable[[], None] = lambda: None

    def seed(self, seed: int) -> None:
        """Restart the sequence of random numbers."""
        self._random = Random(seed)

    def clear(self) -> None:
        """Let nothing go wrong any more."""
        self._rules.clear()
        self.any = False

    def drop_connections(self, probability: float = 1, *, next: int | None = None) -> None:  # noqa: A002
        """Drop the connection instead of handling a command."""
        self._set("drop_connections", probability, next)

    def refuse_sends(
        self,
        probability: float = 1,
        *,
        next: int | None = None,  # noqa: A002
        topic: str = "",
        producer: str = "",
    ) -> None:
        """Answer a send with an error that the client repeats it for."""
        self._set("refuse_sends", probability, next, topic, "", producer)

    def lose_acks(
        self,
        probability: float = 1,
        *,
        next: int | None = None,  # noqa: A002
        topic: str = "",
        subscription: str = "",
        consumer: str = "",
    ) -> None:
        """Drop an acknowledgment as if it had never arrived."""
        self._set("lose_acks", probability, next, topic, subscription, consumer)

    def duplicate_messages(
        self,
        probability: float = 1,
        *,
        next: int | None = None,  # noqa: A002
        topic: str = "",
        subscription: str = "",
        consumer: str = "",
    ) -> None:
        """Send a message to its consumer twice."""
        self._set("duplicate_messages", probability, next, topic, subscription, consumer)

    def delay_frames(self, probability: float, ms: int, *, next: int | None = None) -> None:  # noqa: A002
        """Hold back what a connection is sent, everything behind it too, for so long."""
        self._set("delay_frames", probability, next, value=ms)

    def slow_consumer(self, name: str, messages_per_second: float) -> None:
        """Send a consumer no more than so many messages a second."""
        if messages_per_second <= 0:
            raise ValueError(f"{messages_per_second} messages a second; expected more than 0")
        self._set("slow_consumer", 1, None, "", "", name, value=messages_per_second)

    def crash_after(self, messages: int, *, topic: str = "", producer: str = "") -> None:
        """Crash the broker when so many more were published: the last one is stored and has no receipt."""
        if messages < 1:
            raise ValueError(f"a crash after {messages} messages; expected at least 1")
        self._set("crash_after", 1, messages, topic, "", producer)

    # What the broker asks

    def drops_connection(self) -> bool:
        """Decide one command."""
        return self._matching("drop_connections") is not None

    def refuses_send(self, topic: str, producer: str) -> bool:
        """Decide one send."""
        return self._matching("refuse_sends", topic, "", producer) is not None

    def loses_ack(self, consumer: Any) -> bool:
        """Decide one acknowledgment."""
        return self._matching("lose_acks", *_of(consumer)) is not None

    def duplicates_message(self, consumer: Any) -> bool:
        """Decide one message."""
        return self._matching("duplicate_messages", *_of(consumer)) is not None

    def delay_ms(self) -> float:
        """Decide one write: how long it is held back."""
        rule = self._matching("delay_frames")
        return 0 if rule is None else rule.value

    def rate_of(self, consumer: Any) -> float | None:
        """Return how many messages a second a consumer may get; None for any number."""
        rule = self._matching("slow_consumer", *_of(consumer))
        return None if rule is None else rule.value

    def published(self, topic: str, producer: str) -> None:
        """Count a message, and crash if it is the one to crash after."""
        rule = self._matching("crash_after", topic, "", producer)
        if rule is not None and rule.left == 0:
            self._rules["crash_after"].clear()
            self.on_crash()

    def _matching(self, fault: str, *names: str) -> _Fault | None:
        for rule in self._rules[fault].values():
            if rule.applies_to(*(names or ("", "", ""))) and rule.happens(self._random):
                return rule
        return None

    def _set(
        self,
        fault: str,
        probability: float,
        next_: int | None,
        topic: str = "",
        subscription: str = "",
        name: str = "",
        value: float = 0,
    ) -> None:
        if not 0 <= probability <= 1:
            raise ValueError(f"probability {probability}; expected 0 to 1")
        if next_ is not None and next_ < 0:
            raise ValueError(f"the next {next_}; expected at least 0")
        scope = full_name(topic) if topic else "", subscription, name
        self._rules[fault][scope] = _Fault(probability, next_, scope, value)
        self.any = any(rule.probability for rules in self._rules.values() for rule in rules.values())


def _of(consumer: Any) -> tuple[str, str, str]:
    """Return the topic, the subscription and the name of a consumer."""
    return *consumer.subscription.names, consumer.name
