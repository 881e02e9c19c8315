"""The settings in which ackwell's cursor can differ from a broker's cursor, with a preset per version.

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
    """Keep acknowledgments of parts of a batch, like a broker with `acknowledgmentAtBatchIndexLevelEnabled`.

    Every preset enables this setting, although 4.0 brokers disable it by default.
    """

    replace_ack_sets: bool = False
    """How a cumulative acknowledgment that ends inside a batch changes the ack set of this batch.

    If off, the stored ack set and the new one are combined by AND. If on, the new ack set either replaces the
    stored one or is ignored. The page "ackwell and Pulsar's broker" has the exact rule.
    """

    seek_keeps_empty_ack_set: bool = False
    """Whether a seek with an empty ack set (no bit is set) leaves the entry unacknowledged, with an empty ack
    set. If off, such a seek acknowledges the whole entry.
    """

    merge_individual_properties: bool = True
    """Keep the properties of an individual acknowledgment. The broker ignores them."""

    keep_missing_positions: bool = False
    """A load keeps acknowledged positions that are in no ledger of the topic. If off, a load drops them.

    Such positions never count in `backlog_entries`.
    """

    refuse_cumulative_behind: bool = False
    """A cumulative acknowledgment before the mark-delete position raises `ProtocolError`. If off, such an
    acknowledgment has no effect."""

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
