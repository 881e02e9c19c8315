"""A run of entries as a dispatch policy gets it: with sizes and hashes, and without positions."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from ackwell.subscription.consumer import Consumer, ConsumerKey

    Owners = NDArray[np.signedinteger]
    """For each entry of a run, the index of its consumer in `Run.consumers`; -1 if no consumer gets the
    entry."""


class Run(NamedTuple):
    """New entries in position order, and the consumers that may get them."""

    consumers: Sequence[Consumer]
    sizes: NDArray[np.int64] | None
    """The number of messages in each entry; `None` if each entry has one message."""
    hashes: NDArray[np.int64] | None
    """The sticky-key hash of each entry; `None` if each hash is 0."""
    entries: int
    """The number of entries."""
    by_reads: bool
    """Whether the entries are to be divided into reads of a broker. If not, each message takes a permit."""

    def indexes(self) -> dict[ConsumerKey, int]:
        """Return a map from the key of each consumer to its index in `consumers`. O(consumers)."""
        return {consumer.key: index for index, consumer in enumerate(self.consumers)}
