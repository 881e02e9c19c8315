"""The base class of the dispatch policies.

A policy uses consumers, permits and limits, but no positions. `choose` decides on one message. `choose_many`
decides on a run of entries, and gives the same result as `choose` for each entry.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

from ackwell.equality import EqualByState
from ackwell.errors import ErrorCode, ProtocolError
from ackwell.subscription.outcome import NonDelivery
from ackwell.subscription.sticky_key import FROM_ONE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from ackwell.subscription.consumer import Consumer
    from ackwell.subscription.consumers import Consumers
    from ackwell.subscription.policies.run import Owners, Run
    from ackwell.subscription.reads import Read
    from ackwell.subscription.sticky_key import HashRange


class Policy(EqualByState, ABC):
    """The rule by which a subscription type distributes messages to its consumers.

    The methods that are not abstract implement a policy that does not use hashes.
    """

    individual: ClassVar[bool]
    """Whether pending entries are tracked for each consumer. Cumulative acknowledgments are then illegal.

    True on Shared and Key_Shared.
    """

    by_key: ClassVar[bool] = False
    """Whether the hash of a message determines its consumer. While a message waits, messages of other hashes
    may overtake it.

    True on Key_Shared.
    """

    in_key_order: bool = False
    """Whether no message may overtake an older message of the same hash."""

    active: Consumer | None = None
    """The only consumer that gets messages, on Exclusive and Failover."""

    read: Read | None = None
    """The broker's read whose entries are dispatched now; `None` outside of a read.

    Only Shared and Key_Shared set it, and only with `reads_by_permits`.
    """

    @property
    def slots(self) -> HashRange:
        """The slots to which the keys of messages are hashed."""
        return FROM_ONE

    @abstractmethod
    def join(self, consumer: Consumer, hash_ranges: Sequence[HashRange]) -> bool:
        """Add a consumer; return whether all unacknowledged entries must become unread."""

    @abstractmethod
    def leave(self, consumer: Consumer) -> bool:
        """Remove a consumer; return whether all unacknowledged entries must become unread."""

    @abstractmethod
    def begin_round(self) -> None:
        """Start the next read. On Shared this also ends the turn of the current consumer."""

    @abstractmethod
    def choose(self, sticky_key_hash: int, *, new: bool) -> Consumer | NonDelivery:
        """Return the consumer that gets a message now, or the reason why none does.

        `new` is true for a message that was not delivered before.
        """

    @abstractmethod
    def choose_many(self, run: Run) -> Owners | None:
        """Return the consumer of each entry, as an index into `run.consumers`; -1 for no consumer.

        `None` means that each entry must be decided singly. If `read` is set, `run` has the entries of this
        read, and the call adds their messages to the counters of the consumers.
        """

    @abstractmethod
    def candidates(self, sticky_key_hash: int) -> Sequence[Consumer]:
        """Return the consumers that may get a message if they have permits, in order of preference."""

    @abstractmethod
    def stall(self, *, new: bool) -> NonDelivery | None:
        """Return the reason why no consumer can get a message now; `None` if a consumer can.

        `new` is true for messages that were not delivered before.
        """

    def looks_ahead(self, hashes: NDArray[np.int64] | None) -> bool:
        """Return whether a broker reads new entries after a read of the queue that delivered nothing.

        `hashes` are the hashes of that read.
        """
        return False

    def record_delivery(self, consumer: Consumer, sticky_key_hash: int) -> None:
        """Update the policy after a delivery that another program decided."""

    def audit(self) -> list[str]:
        """Recompute the counters of the policy; return a text for each wrong counter."""
        return []


def refuse_hash_ranges(hash_ranges: Sequence[HashRange]) -> None:
    """Raise `ProtocolError` if a consumer of a policy without hashes has hash ranges."""
    if hash_ranges:
        raise ProtocolError(
            "hash ranges belong to a Key_Shared subscription", code=ErrorCode.CONSUMER_ASSIGN_ERROR
        )


def blocking_reason(consumers: Consumers, candidates: Iterable[Consumer], *, new: bool) -> NonDelivery:
    """Return the reason why none of the candidates can get a message."""
    found = list(candidates)
    if not found:
        return NonDelivery.NO_CONSUMER
    if consumers.room(new=new) <= 0:
        return NonDelivery.SUBSCRIPTION_BLOCKED
    if any(consumer.permits + consumer.withheld > 0 for consumer in found):
        return NonDelivery.CONSUMER_BLOCKED
    return NonDelivery.NO_PERMITS
