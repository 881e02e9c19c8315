"""What a subscription asks of its policy.

A policy sees consumers, permits and limits, and no positions. `choose` answers for one message,
`choose_many` for a run of them, with the same result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ackwell.subscription.undelivered import Undelivered

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from ackwell.subscription.consumer import Consumer
    from ackwell.subscription.consumers import Consumers
    from ackwell.subscription.reads import Read
    from ackwell.subscription.sticky_key import HashRange

    Owners = NDArray[np.signedinteger]


class Policy(Protocol):
    """How one subscription type distributes messages over its consumers."""

    individual: bool
    """Shared and Key_Shared: what each consumer has is tracked; a cumulative acknowledgment is illegal."""

    by_key: bool
    """Key_Shared: the hash of a message chooses its consumer, and others may pass it while it waits."""

    in_key_order: bool
    """No message overtakes an older one of its hash."""

    read: Read | None
    """The read that is decided on at once, if permits count its entries: only on Shared and Key_Shared."""

    def join(self, consumer: Consumer, hash_ranges: Sequence[HashRange]) -> bool:
        """Add a consumer; return whether everything unacknowledged is to be read again."""

    def leave(self, consumer: Consumer) -> bool:
        """Remove a consumer; return whether everything unacknowledged is to be read again."""

    def begin_round(self) -> None:
        """Note that the entries of another read follow."""

    def choose(self, sticky_key_hash: int, *, new: bool) -> Consumer | Undelivered:
        """Return who gets a message now, `new` if it was not delivered before; else why nobody does."""

    def choose_many(
        self,
        consumers: Sequence[Consumer],
        sizes: NDArray[np.int64] | None,
        hashes: NDArray[np.int64] | None,
        count: int,
    ) -> Owners | None:
        """Return, for each of `count` new entries, an index into `consumers`, -1 for nobody.

        `sizes` are messages in each entry, `None` for one; `None` as result means that only one by
        one will do.
        """

    def choose_all(
        self,
        consumers: Sequence[Consumer],
        sizes: NDArray[np.int64] | None,
        hashes: NDArray[np.int64] | None,
        count: int,
    ) -> Owners | None:
        """Answer as `choose_many` for all reads of a run; `None` unless everybody can take all of its own."""

    def take_read(
        self,
        consumers: Sequence[Consumer],
        sizes: NDArray[np.int64] | None,
        hashes: NDArray[np.int64] | None,
        owners: Owners,
    ) -> bool:
        """Fill in who gets each new entry of the read under way, -1 for nobody, and count its messages.

        False, and nothing changes, if only one by one will do.
        """

    def stall(self, *, new: bool) -> Undelivered | None:
        """Return why nobody can get a message now; `None` if somebody can."""

    def audit(self) -> list[str]:
        """Recompute what the policy counts; describe each difference."""

    @property
    def active(self) -> Consumer | None:
        """The one consumer that gets everything, on Exclusive and Failover."""


def why(consumers: Consumers, candidates: Iterable[Consumer], *, new: bool) -> Undelivered:
    """Return why none of these consumers can get a message."""
    found = list(candidates)
    if not found:
        return Undelivered.NO_CONSUMER
    if consumers.room(new=new) <= 0:
        return Undelivered.SUBSCRIPTION_BLOCKED
    if any(consumer.permits + consumer.withheld > 0 for consumer in found):
        return Undelivered.CONSUMER_BLOCKED
    return Undelivered.NO_PERMITS
