"""The broker settings that decide what survives a restart, and what is delivered, by the broker's names.

Only these matter; every other setting of Apache Pulsar 4.0.8 or 4.2.4 (`settings.txt`)
is accepted and has no effect, so a whole `broker.conf` can be passed. A name neither of them knows is
refused: a misspelt limit that silently fell back to its default would make every prediction wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from typing import Any, ClassVar, Final, Self

from ackwell.broker.codes import codes
from ackwell.broker.releases import release_number
from ackwell.cursor.settings import minor_version
from ackwell.integers import INT64_MAX
from ackwell.protocol.constants import FRAME_PADDING_BYTES, MAX_MESSAGE_BYTES

VERSIONS: Final = ("4.0", "4.2", "5.0")
"""The broker versions whose defaults are known; a patch release has those of its minor version."""

_NOT_IN_SERVICE_CONFIGURATION: Final = ("bookkeeper_", "brokerClient_")
"""Prefixes under which a broker passes settings on to its BookKeeper and Pulsar clients."""


def _setting(name: str, default: Any) -> Any:
    return field(default=default, metadata={"name": name})


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """What a broker is set to, as far as it decides what is forgotten or delivered; defaults are of 4.2.

    >>> settings = BrokerSettings.of("4.0").with_values(["managedLedgerMaxUnackedRangesToPersist=500"])
    >>> settings.max_unacked_ranges_to_persist, settings.persist_individual_ack_as_long_array
    (500, False)
    >>> BrokerSettings.of("4.2").with_values(["managedLedgerMaxUnackedRanges=500"])
    Traceback (most recent call last):
    ValueError: no broker setting is called 'managedLedgerMaxUnackedRanges'; \
did you mean 'managedLedgerMaxUnackedRangesToPersist'?
    """

    NEWEST_VERSION: ClassVar[str] = "4.2"
    """The version that is taken if none is known: the newest that is released."""

    max_unacked_ranges_to_persist: int = _setting("managedLedgerMaxUnackedRangesToPersist", 10_000)
    """How many ranges of acknowledged entries are written to the cursor ledger."""
    max_unacked_ranges_to_persist_in_metadata_store: int = _setting(
        "managedLedgerMaxUnackedRangesToPersistInMetadataStore", 1_000
    )
    """How many are written to the metadata store, if there is no cursor ledger."""
    max_unacked_ranges_to_persist_in_zookeeper: int = _setting(
        "managedLedgerMaxUnackedRangesToPersistInZooKeeper", -1
    )
    """The older name of the setting above; wins if it is greater than 0."""
    max_batch_deleted_index_to_persist: int = _setting("managedLedgerMaxBatchDeletedIndexToPersist", 10_000)
    """How many partly acknowledged batches are written."""
    persist_individual_ack_as_long_array: bool = _setting(
        "managedLedgerPersistIndividualAckAsLongArray", True
    )
    """Write ranges as arrays of words instead of lists of positions."""
    unacked_ranges_open_cache_set_enabled: bool = _setting(
        "managedLedgerUnackedRangesOpenCacheSetEnabled", True
    )
    """Off, the broker keeps ranges in another structure, which has no long-array form."""
    acknowledgment_at_batch_index_level_enabled: bool = _setting(
        "acknowledgmentAtBatchIndexLevelEnabled", True
    )
    """Keep acknowledgments of parts of a batch."""
    cursor_position_flush_seconds: int = _setting("managedLedgerCursorPositionFlushSeconds", 60)
    """How long a change may wait in memory when the write rate limit held it back."""
    max_message_size_bytes: int = _setting("maxMessageSize", MAX_MESSAGE_BYTES)
    """The most bytes of a message, and of a state in one entry."""
    netty_max_frame_size_bytes: int = _setting(
        "nettyMaxFrameSizeBytes", MAX_MESSAGE_BYTES + FRAME_PADDING_BYTES
    )
    """The bookies' own limit; a setting of BookKeeper, not of the broker."""
    max_unacked_messages_per_consumer: int = _setting("maxUnackedMessagesPerConsumer", 50_000)
    """At this many a consumer gets no more. This and the five below decide what is delivered."""
    max_unacked_messages_per_subscription: int = _setting("maxUnackedMessagesPerSubscription", 200_000)
    """At this many all consumers together get no more."""
    look_ahead_per_consumer: int = _setting("keySharedLookAheadMsgInReplayThresholdPerConsumer", 2_000)
    """At so many entries that wait for their key, for each consumer, nothing new is read."""
    look_ahead_per_subscription: int = _setting(
        "keySharedLookAheadMsgInReplayThresholdPerSubscription", 20_000
    )
    """The same for the subscription."""
    fixed_delay_lookahead: int = _setting("delayedDeliveryFixedDelayDetectionLookahead", 50_000)
    """At so many delayed messages, all with one delay, nothing new is read until the first is due."""
    pause_on_ack_state: bool = _setting("dispatcherPauseOnAckStatePersistentEnabled", False)
    """Nothing new is read while there are more ranges than can be written."""
    transaction_coordinator_enabled: bool = _setting("transactionCoordinatorEnabled", False)
    """Whether clients can acknowledge in transactions; the consumers' counters follow before these end."""
    ranges_beyond_limit: int = 1
    """How many ranges more than the limit the ranges form keeps: 1 up to 4.2 (apache/pulsar#25548), 0 in 5.0.

    A property of the broker's version, not a setting.
    """
    reads_batch_indexes_back: bool = False
    """Whether it reads batch indexes back from the metadata store, by patch version (apache/pulsar#26474)."""
    releases_passed_messages: bool = True
    """Whether what is skipped, cleared or expired leaves the counts of its consumers: not in 4.0."""

    @classmethod
    def of(cls, version: str) -> Self:
        """Return the defaults of a broker version such as `4.0`, `4.2`, `4.2.4` or `5.0.0-M1`.

        Raises `ValueError` for one whose defaults are not known.
        """
        minor = minor_version(version)
        if minor not in VERSIONS:
            raise ValueError(
                f"defaults of broker version {version!r} are not known; known are "
                f"{', '.join(VERSIONS)}: take the nearest and pass what differs as settings"
            )
        if minor == "4.0":
            settings = cls(
                persist_individual_ack_as_long_array=False,
                acknowledgment_at_batch_index_level_enabled=False,
                releases_passed_messages=False,
            )
        else:
            settings = cls(ranges_beyond_limit=0) if minor == "5.0" else cls()
        return replace(settings, reads_batch_indexes_back=_reads_batch_indexes_back(version))

    @classmethod
    def nearest(cls, version: str) -> Self:
        """Return the defaults of the newest known version that is not newer, else of the oldest known one."""
        number = release_number(minor_version(version))
        known = [minor for minor in VERSIONS if release_number(minor) <= number]
        defaults = cls.of(known[-1] if known else VERSIONS[0])
        return replace(defaults, reads_batch_indexes_back=_reads_batch_indexes_back(version))

    def with_known(self, values: Mapping[str, str]) -> Self:
        """Take over a broker's own list of settings; those that do not matter here are ignored.

        Raises `ValueError` for a value of the wrong type.
        """
        return self.with_values(
            f"{name}={value}" for name, value in values.items() if name in _KNOWN_SETTINGS
        )

    def with_values(self, assignments: Iterable[str]) -> Self:
        """Change settings, each given as `name=value` with the broker's own name.

        Raises `ValueError` for an unknown name, a missing value or one of the wrong type.
        """
        changes: dict[str, object] = {}
        for assignment in assignments:
            name, separator, value = assignment.partition("=")
            name, value = name.strip(), value.strip()
            if not separator or not name:
                raise ValueError(
                    f"not a broker setting: {assignment!r}; expected name=value, such as "
                    "managedLedgerMaxUnackedRangesToPersist=100000"
                )
            known = _KNOWN_SETTINGS.get(name)
            if known is not None:
                attribute, read = known
                changes[attribute] = read(name, value)
            elif name not in known_names() and not name.startswith(_NOT_IN_SERVICE_CONFIGURATION):
                raise ValueError(f"no broker setting is called {name!r}" + _suggestion(name))
        return replace(self, **changes)  # type: ignore[arg-type]

    def named(self) -> dict[str, int | bool]:
        """Return every setting under the broker's own name."""
        return {
            entry.metadata["name"]: getattr(self, entry.name)
            for entry in fields(self)
            if "name" in entry.metadata
        }

    @property
    def long_array(self) -> bool:
        """Whether the cursor ledger holds dense bit sets of each ledger instead of ranges."""
        return self.persist_individual_ack_as_long_array and self.unacked_ranges_open_cache_set_enabled

    @property
    def metadata_store_ranges(self) -> int:
        """The most ranges with which a close writes a cursor to the metadata store, not to its ledger."""
        if self.max_unacked_ranges_to_persist <= 0:
            return INT64_MAX
        older = self.max_unacked_ranges_to_persist_in_zookeeper
        return older if older > 0 else self.max_unacked_ranges_to_persist_in_metadata_store

    @property
    def max_entry_bytes(self) -> int:
        """The largest entry that BookKeeper accepts from this broker."""
        return min(self.max_message_size_bytes + FRAME_PADDING_BYTES, self.netty_max_frame_size_bytes)


def _reads_batch_indexes_back(version: str) -> bool:
    return not codes()["batch-index-not-read-back"].has(version)


@cache
def known_names() -> frozenset[str]:
    """Every setting that a broker of a known version has."""
    text = files("ackwell.broker").joinpath("settings.txt").read_text(encoding="ascii")
    return frozenset(text.split())


def _suggestion(name: str) -> str:
    near = get_close_matches(name, known_names() | _KNOWN_SETTINGS.keys(), n=1)
    return f"; did you mean {near[0]!r}?" if near else "; see the broker's conf/broker.conf"


def _integer(name: str, value: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise ValueError(f"{name} is a whole number, not {value!r}") from None


def _boolean(name: str, value: str) -> bool:
    # As the broker reads it: anything but "true" would be false, so a typing error is refused here.
    if value.lower() not in ("true", "false"):
        raise ValueError(f"{name} is true or false, not {value!r}")
    return value.lower() == "true"


_KNOWN_SETTINGS: Final[dict[str, tuple[str, Callable[[str, str], int | bool]]]] = {
    entry.metadata["name"]: (entry.name, _boolean if entry.type == "bool" else _integer)
    for entry in fields(BrokerSettings)
    if "name" in entry.metadata
}
