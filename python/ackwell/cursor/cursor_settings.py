"""The settings in which ackwell's cursor can differ from a broker's, with presets for broker versions.

The defaults lose and redeliver the fewest messages. `CursorSettings.pulsar(version)` returns the behaviour of
a broker version; `docs/design.md` gives the reason for every difference.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from ackwell.releases import MINOR_VERSIONS, known_release, release_number


@dataclass(frozen=True, slots=True, kw_only=True)
class CursorSettings:
    """The rules by which a cursor treats acknowledgments.

    >>> CursorSettings().replace_ack_sets, CursorSettings.pulsar("4.2.4").replace_ack_sets
    (False, True)
    """

    batch_index_acks: bool = True
    """Keep acknowledgments of parts of a batch; the broker's `acknowledgmentAtBatchIndexLevelEnabled`.

    This is a setting of the broker, not a property of its version, so every preset enables it. A 4.0 broker
    disables it by default.
    """

    replace_ack_sets: bool = False
    """How a cumulative acknowledgment inside a batch changes the ack set of that entry.

    False, like 5.0.0 and later: the set is ANDed with the stored one, so that no acknowledged message is
    redelivered; an empty ack set acknowledges the whole entry. True, like older brokers and 5.0.0-M1: the set
    replaces the stored one if its first unacknowledged message has a higher index, and is ignored otherwise;
    an empty ack set leaves the entry unacknowledged, with an empty ack set.
    """

    seek_keeps_empty_ack_set: bool = False
    """How a seek treats its entry if the ack set of the seek has no bit. False: the whole entry is
    acknowledged. True, like every broker: the entry stays unacknowledged, with an empty ack set.
    """

    merge_individual_properties: bool = True
    """Keep the properties of an individual acknowledgment. The broker ignores them."""

    keep_missing_positions: bool = False
    """How recovery treats acknowledged positions that no ledger holds.

    False: they are dropped, because an entry that gets such a position later was never acknowledged. True,
    like the broker: they are kept. They never count in `backlog_entries`.
    """

    refuse_cumulative_behind: bool = False
    """Raise `ProtocolError` for a cumulative acknowledgment before the mark-delete position, like 5.0.

    False: it changes nothing, like 4.0 and 4.2.
    """

    @classmethod
    def pulsar(cls, version: str) -> Self:
        """Return the behaviour of a broker version such as `4.0`, `4.2.4` or `5.0.0-M1`.

        Raises `ValueError` for an unsupported version.
        """
        release = known_release(version)
        if release is None:
            raise ValueError(
                f"the behaviour of broker version {version!r} is not known; "
                f"known are {', '.join(MINOR_VERSIONS)}"
            )
        number = release_number(release)
        return cls(
            replace_ack_sets=number < release_number("5.0.0"),
            seek_keeps_empty_ack_set=True,
            merge_individual_properties=False,
            keep_missing_positions=True,
            refuse_cumulative_behind=number[0] >= 5,
        )
