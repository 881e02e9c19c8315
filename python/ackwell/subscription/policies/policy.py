"""The protocol of a dispatch policy.

A policy uses consumers, permits and limits, but no positions. `choose` decides on one message, `choose_many`
on a run of entries, with the same result.
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
    """Whether pending entries are tracked for each consumer and cumulative acknowledgments are illegal.

    True on Shared and Key_Shared.
    """

    by_key: bool
    """Whether the hash of a message selects its consumer. Other messages may pass a waiting message.

    True on Key_Shared.
    """

    in_key_order: bool
    """Whether no message may overtake an older one of its hash."""

    read: Read | None
    """The broker's read that is being decided as a whole; `None` outside of one.

    Only Shared and Key_Shared set it, and only if permits count entries.
    """

    def join(self, consumer: Consumer, hash_ranges: Sequence[HashRange]) -> bool:
        """Add a consumer; return whether everything unacknowledged must be read again."""

    def leave(self, consumer: Consumer) -> bool:
        """Remove a consumer; return whether everything unacknowledged must be read again."""

    def begin_round(self) -> None:
        """Start the next read. The turn of the previous read ends."""

    def choose(self, sticky_key_hash: int, *, new: bool) -> Consumer | Undelivered:
        """Return the consumer that gets a message now, or the reason why none does.

        `new` is true for a message that was not delivered before.
        """

    def choose_many(self, run: Run) -> Owners | None:
        """Return the consumer of each entry of a run, as an index into `run.consumers`; -1 for none.

        `None` means that each entry must be decided singly. If `read` is set, the run is that read, and the
        call adds its messages to the counters of the consumers.
        """

    def stall(self, *, new: bool) -> Undelivered | None:
        """Return why no consumer can get a message now; `None` if one can."""

    def audit(self) -> list[str]:
        """Recompute the counters of the policy; return a text for each difference."""

    @property
    def active(self) -> Consumer | None:
        """The only consumer that gets messages, on Exclusive and Failover."""


def why(consumers: Consumers, candidates: Iterable[Consumer], *, new: bool) -> Undelivered:
    """Return why none of the candidates can get a message."""
    found = list(candidates)
    if not found:
        return Undelivered.NO_CONSUMER
    if consumers.room(new=new) <= 0:
        return Undelivered.SUBSCRIPTION_BLOCKED
    if any(consumer.permits + consumer.withheld > 0 for consumer in found):
        return Undelivered.CONSUMER_BLOCKED
    return Undelivered.NO_PERMITS
