"""The protocol of a dispatch policy.

A policy uses consumers, permits and limits, but no positions. `choose` decides on one message. `choose_many`
decides on a run of entries, and gives the same result as `choose` for each entry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ackwell.subscription.undelivered import Undelivered

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ackwell.subscription.consumer import Consumer
    from ackwell.subscription.consumers import Consumers
    from ackwell.subscription.policies.run import Owners, Run
    from ackwell.subscription.reads import Read
    from ackwell.subscription.sticky_key import HashRange


class Policy(Protocol):
    """The rule by which a subscription type distributes messages to its consumers."""

    individual: bool
    """Whether pending entries are tracked for each consumer. Cumulative acknowledgments are then illegal.

    True on Shared and Key_Shared.
    """

    by_key: bool
    """Whether the hash of a message determines its consumer. While a message waits, messages of other hashes
    may overtake it.

    True on Key_Shared.
    """

    in_key_order: bool
    """Whether no message may overtake an older message of the same hash."""

    read: Read | None
    """The broker's read whose entries are dispatched now; `None` outside of a read.

    Only Shared and Key_Shared set it, and only with `reads_by_permits`.
    """

    def join(self, consumer: Consumer, hash_ranges: Sequence[HashRange]) -> bool:
        """Add a consumer; return whether all unacknowledged entries must become unread."""

    def leave(self, consumer: Consumer) -> bool:
        """Remove a consumer; return whether all unacknowledged entries must become unread."""

    def begin_round(self) -> None:
        """Start the next read. On Shared this also ends the turn of the current consumer."""

    def choose(self, sticky_key_hash: int, *, new: bool) -> Consumer | Undelivered:
        """Return the consumer that gets a message now, or the reason why none does.

        `new` is true for a message that was not delivered before.
        """

    def choose_many(self, run: Run) -> Owners | None:
        """Return the consumer of each entry, as an index into `run.consumers`; -1 for no consumer.

        `None` means that each entry must be decided singly. If `read` is set, `run` has the entries of this
        read, and the call adds their messages to the counters of the consumers.
        """

    def stall(self, *, new: bool) -> Undelivered | None:
        """Return the reason why no consumer can get a message now; `None` if a consumer can.

        `new` is true for messages that were not delivered before.
        """

    def audit(self) -> list[str]:
        """Recompute the counters of the policy; return a text for each wrong counter."""

    @property
    def active(self) -> Consumer | None:
        """The only consumer that gets messages, on Exclusive and Failover."""


def why(consumers: Consumers, candidates: Iterable[Consumer], *, new: bool) -> Undelivered:
    """Return the reason why none of the candidates can get a message."""
    found = list(candidates)
    if not found:
        return Undelivered.NO_CONSUMER
    if consumers.room(new=new) <= 0:
        return Undelivered.SUBSCRIPTION_BLOCKED
    if any(consumer.permits + consumer.withheld > 0 for consumer in found):
        return Undelivered.CONSUMER_BLOCKED
    return Undelivered.NO_PERMITS
