"""Faults: what goes wrong on purpose, by name and with a seed, so that a failure can be run again."""

from __future__ import annotations

from random import Random


class Faults:
    """Which faults happen, each with a probability from 0 to 1; none by default.

    >>> faults = Faults()
    >>> faults.seed(7)
    >>> faults.refuse_sends(0.5)
    >>> [faults.refuses_send() for _ in range(4)]
    [True, True, False, True]
    """

    def __init__(self) -> None:
        self._random = Random(0)
        self._drop = self._refuse = self._duplicate = self._delay = self._lose_ack = 0.0
        self._delay_ms = 0
        self._slow: dict[str, float] = {}
        self.any = False
        """Whether anything may go wrong: looked at for every command."""

    def seed(self, seed: int) -> None:
        """Restart the sequence of random numbers."""
        self._random = Random(seed)

    def clear(self) -> None:
        """Let nothing go wrong any more."""
        random = self._random
        self.__init__()  # type: ignore[misc] # as it was made
        self._random = random

    def drop_connections(self, probability: float) -> None:
        """Drop the connection instead of handling a command."""
        self._drop = self._asked(probability)

    def refuse_sends(self, probability: float) -> None:
        """Answer a send with an error that the client repeats it for."""
        self._refuse = self._asked(probability)

    def lose_acks(self, probability: float) -> None:
        """Drop an acknowledgment as if it had never arrived."""
        self._lose_ack = self._asked(probability)

    def duplicate_messages(self, probability: float) -> None:
        """Send a message to its consumer twice."""
        self._duplicate = self._asked(probability)

    def delay_frames(self, probability: float, ms: int) -> None:
        """Hold back what a connection is sent, everything behind it too, for so long."""
        self._delay, self._delay_ms = self._asked(probability), ms

    def slow_consumer(self, name: str, messages_per_second: float) -> None:
        """Send a consumer no more than so many messages a second."""
        if messages_per_second <= 0:
            raise ValueError(f"{messages_per_second} messages a second; expected more than 0")
        self._slow[name] = messages_per_second
        self.any = True

    def drops_connection(self) -> bool:
        """Decide one command."""
        return self._happens(self._drop)

    def refuses_send(self) -> bool:
        """Decide one send."""
        return self._happens(self._refuse)

    def loses_ack(self) -> bool:
        """Decide one acknowledgment."""
        return self._happens(self._lose_ack)

    def duplicates_message(self) -> bool:
        """Decide one message."""
        return self._happens(self._duplicate)

    def delay_ms(self) -> int:
        """Decide one write: how long it is held back."""
        return self._delay_ms if self._happens(self._delay) else 0

    def rate_of(self, consumer: str) -> float | None:
        """Return how many messages a second a consumer may get; None for any number."""
        return self._slow.get(consumer)

    def _happens(self, probability: float) -> bool:
        return probability > 0 and self._random.random() < probability

    def _asked(self, probability: float) -> float:
        if not 0 <= probability <= 1:
            raise ValueError(f"probability {probability}; expected 0 to 1")
        self.any = True
        return probability
