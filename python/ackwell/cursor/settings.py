"""Where ackwell's cursor and the broker's differ on purpose, and the broker's way of each version.

The defaults lose the least and redeliver the least. `CursorSettings.pulsar(version)` is the behaviour of
that broker version; `docs/design.md` gives the reason for every difference.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Self

PULSAR_VERSIONS: Final = ("4.0", "4.2", "5.0")
"""The broker versions whose behaviour is known; a patch release behaves as its minor version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CursorSettings:
    """How a cursor treats acknowledgments.

    >>> CursorSettings().replace_ack_sets, CursorSettings.pulsar("4.2.4").replace_ack_sets
    (False, True)
    """

    batch_index_acks: bool = True
    """Keep acknowledgments of parts of a batch; the broker's `acknowledgmentAtBatchIndexLevelEnabled`.

    A setting of the broker, not a property of its version, so every preset has it on. A broker of 4.0
    has it off unless its configuration says otherwise.
    """

    replace_ack_sets: bool = False
    """How a cumulative acknowledgment inside a batch changes the ack set of that entry.

    False: the set is AND-ed to the stored one, so that no acknowledged message is delivered again, and
    an ack set without a bit acknowledges the whole entry. True, as the broker: the set replaces the
    stored one when its first unacknowledged message is further on, and is ignored otherwise; an ack
    set without a bit leaves the entry unacknowledged, with an empty ack set.
    """

    merge_individual_properties: bool = True
    """Keep the properties of an individual acknowledgment. The broker ignores them."""

    keep_missing_positions: bool = False
    """What recovery does with acknowledged positions that no ledger holds.

    False: they are dropped, because an entry that is added later under such a position was never
    acknowledged. True, as the broker: they are kept as they are. They never count in `backlog_entries`.
    """

    refuse_cumulative_behind: bool = False
    """Raise `ProtocolError` for a cumulative acknowledgment behind the mark-delete position, as 5.0 does.

    False: it changes nothing, as in 4.0 and 4.2.
    """

    @classmethod
    def pulsar(cls, version: str) -> Self:
        """Return the behaviour of a broker version such as `4.0`, `4.2` or `4.2.4`.

        Raises `ValueError` for a version whose behaviour is not known.
        """
        minor = minor_version(version)
        if minor not in PULSAR_VERSIONS:
            raise ValueError(
                f"the behaviour of broker version {version!r} is not known; "
                f"known are {', '.join(PULSAR_VERSIONS)}"
            )
        return cls(
            replace_ack_sets=True,
            merge_individual_properties=False,
            keep_missing_positions=True,
            refuse_cumulative_behind=minor == "5.0",
        )


def minor_version(version: str) -> str:
    """Return the minor version of a broker's release.

    >>> minor_version("4.2.4"), minor_version("5.0.0-M1")
    ('4.2', '5.0')
    """
    return ".".join(version.split("-")[0].split(".")[:2])
