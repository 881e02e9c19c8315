"""Fault injection. Faults have names, and a seed makes their random choices repeatable."""

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
"""The methods of `Faults` that inject a fault. The admin API uses the same names."""


@dataclass(slots=True)
class _Fault:
    """One injected fault."""

    probability: float
    left: int | None
    """The number of times that the fault may still happen; None for any number."""
    scope: tuple[str, str, str]
    """The topic, the subscription, and the producer or consumer to which the fault applies. An empty text
    means any."""
    value: float = 0
    reached: bool = False
    """Whether any event so far was in the scope of the fault."""

    def applies_to(self, *names: str) -> bool:
        return all(wanted in ("", *_names(name)) for wanted, name in zip(self.scope, names, strict=True))

    def happens(self, random: Random) -> bool:
        if self.left == 0 or random.random() >= self.probability:
            return False
        if self.left is not None:
            self.left -= 1
        return True


def _names(name: str) -> tuple[str, ...]:
    """Return the names by which the scope of a fault can refer to a topic.

    The result contains the name of the topic. For a partition, it also contains the name of the
    partitioned topic.
    """
    return (name, str(TopicName.parse(name).partitioned)) if "-partition-" in name else (name,)


class Faults:
    """The faults that tests inject. At the start there are none.

    A fault has a probability from 0 to 1. Its scope is one topic, subscription, producer or consumer, or a
    combination, such as a topic and a subscription. Without names, the fault applies to all. With `next`, the
    fault happens at most this number of times. A second call of a method with the same scope replaces the
    first fault. The probability 0 removes the fault.

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
        """Whether any fault is set. If not, the broker skips the checks of the single faults."""
        self.on_crash: Callable[[], None] = lambda: None

    def seed(self, seed: int) -> None:
        """Start a new sequence of random numbers from a seed."""
        self._random = Random(seed)

    def clear(self) -> None:
        """Remove all faults."""
        self._rules.clear()
        self.any = False

    def drop_connections(self, probability: float = 1, *, next: int | None = None) -> None:  # noqa: A002
        """Close a connection instead of handling a command."""
        self._set("drop_connections", probability, next)

    def refuse_sends(
        self,
        probability: float = 1,
        *,
        next: int | None = None,  # noqa: A002
        topic: str = "",
        producer: str = "",
    ) -> None:
        """Answer a sent message with an error. The client then sends the message again."""
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
        """Ignore the acknowledgment of a message id as if it had not arrived.

        If a command contains several message ids, the probability applies to each id separately.
        """
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
        """Delay a write to a client by `ms` milliseconds. Later writes of the same connection wait, too."""
        self._set("delay_frames", probability, next, value=ms)

    def slow_consumer(self, name: str, messages_per_second: float) -> None:
        """Limit the number of messages per second that a consumer receives."""
        if messages_per_second <= 0:
            raise ValueError(f"{messages_per_second} messages per second; expected more than 0")
        self._set("slow_consumer", 1, None, "", "", name, value=messages_per_second)

    def crash_after(self, messages: int, *, topic: str = "", producer: str = "") -> None:
        """Crash the broker after it has stored `messages` more messages. The last of them gets no receipt."""
        if messages < 1:
            raise ValueError(f"a crash after {messages} messages; expected at least 1")
        self._set("crash_after", 1, messages, topic, "", producer)

    # Queries of the broker

    def drops_connection(self) -> bool:
        """Return whether to close the connection instead of handling the current command."""
        return self._matching("drop_connections") is not None

    def refuses_send(self, topic: str, producer: str) -> bool:
        """Return whether to refuse a message that a producer sent."""
        return self._matching("refuse_sends", topic, "", producer) is not None

    def loses_ack(self, consumer: Any) -> bool:
        """Return whether to ignore an acknowledgment of a consumer."""
        return self._matching("lose_acks", *_of(consumer)) is not None

    def duplicates_message(self, consumer: Any) -> bool:
        """Return whether to send a message to a consumer twice."""
        return self._matching("duplicate_messages", *_of(consumer)) is not None

    def delay_ms(self) -> float:
        """Return the delay of the next write in milliseconds; 0 if no fault delays the write."""
        rule = self._matching("delay_frames")
        return 0 if rule is None else rule.value

    def rate_of(self, consumer: Any) -> float | None:
        """Return the maximum messages per second of a consumer; None if no fault limits the consumer."""
        rule = self._matching("slow_consumer", *_of(consumer))
        return None if rule is None else rule.value

    def published(self, topic: str, producer: str) -> None:
        """Count a published message. Crash the broker after the last message that `crash_after` permits."""
        rule = self._matching("crash_after", topic, "", producer)
        if rule is not None and rule.left == 0:
            self._rules["crash_after"].clear()
            self.on_crash()

    def _matching(self, fault: str, *names: str) -> _Fault | None:
        for rule in self._rules[fault].values():
            if rule.applies_to(*(names or ("", "", ""))):
                rule.reached = True
                if rule.happens(self._random):
                    return rule
        return None

    @property
    def unused(self) -> list[str]:
        """The injected faults whose scope had no event so far, such as `lose_acks for orders`.

        The usual reason is that the scope contains a misspelt topic, subscription, producer or consumer.
        """
        return [
            " ".join([name, *(["for", *filter(None, rule.scope)] if any(rule.scope) else [])])
            for name, rules in self._rules.items()
            for rule in rules.values()
            if rule.probability and not rule.reached
        ]

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
    """Return the topic name, the subscription name and the name of a consumer."""
    return *consumer.subscription.names, consumer.name
