"""The part of a run of entries that a dispatch policy uses: sizes and hashes, without positions."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from ackwell.subscription.consumer import Consumer, ConsumerKey

    Owners = NDArray[np.signedinteger]
    """For each entry of a run an index into `Run.consumers`; -1 if no consumer gets it."""


class Run(NamedTuple):
    """New entries in position order, and the consumers that may get them."""

    consumers: Sequence[Consumer]
    sizes: NDArray[np.int64] | None
    """The messages in each entry; `None` if each entry has one."""
    hashes: NDArray[np.int64] | None
    """The sticky-key hash of each entry; `None` if all are 0."""
    entries: int
    """The number of entries."""
    by_reads: bool
    """Whether the entries are several reads of a broker. Else permits count each message."""

    def indexes(self) -> dict[ConsumerKey, int]:
        """Return a map from the key of each consumer to its index in `consumers`. O(consumers)."""
        return {consumer.key: index for index, consumer in enumerate(self.consumers)}
