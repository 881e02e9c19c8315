"""The broker settings that affect restarts and delivery, under the broker's names.

Every other setting of Apache Pulsar 4.0.8 or 4.2.4 (`settings.txt`) is accepted and has no effect, so a
whole `broker.conf` can be passed. An unknown name is refused: a misspelt limit with its default value would
make every prediction wrong.
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
from ackwell.cursor.cursor_settings import minor_version
from ackwell.integers import INT64_MAX
from ackwell.protocol.constants import FRAME_PADDING_BYTES, MAX_MESSAGE_BYTES

VERSIONS: Final = ("4.0", "4.2", "5.0")
"""The broker versions with known defaults; a patch release has the defaults of its minor version."""

_NOT_IN_SERVICE_CONFIGURATION: Final = ("bookkeeper_", "brokerClient_")
"""Prefixes under which a broker passes settings on to its BookKeeper and Pulsar clients."""


def _setting(name: str, default: Any) -> Any:
    return field(default=default, metadata={"name": name})


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """The settings of a broker that affect restarts and delivery; the defaults are those of 4.2.

    >>> settings = BrokerSettings.of("4.0").with_values(["managedLedgerMaxUnackedRangesToPersist=500"])
    >>> settings.max_unacked_ranges_to_persist, settings.persist_individual_ack_as_long_array
    (500, False)
    >>> BrokerSettings.of("4.2").with_values(["managedLedgerMaxUnackedRanges=500"])
    Traceback (most recent call last):
    ValueError: no broker setting is called 'managedLedgerMaxUnackedRanges'; \
did you mean 'managedLedgerMaxUnackedRangesToPersist'?
    """

    NEWEST_VERSION: ClassVar[str] = "4.2"
    """The default version if none is known: the newest release line with known defaults."""

    max_unacked_ranges_to_persist: int = _setting("managedLedgerMaxUnackedRangesToPersist", 10_000)
    """The most ranges of acknowledged entries that are written to the cursor ledger."""
    max_unacked_ranges_to_persist_in_metadata_store: int = _setting(
        "managedLedgerMaxUnackedRangesToPersistInMetadataStore", 1_000
    )
    """The most ranges that are written to the metadata store instead of a cursor ledger."""
    max_unacked_ranges_to_persist_in_zookeeper: int = _setting(
        "managedLedgerMaxUnackedRangesToPersistInZooKeeper", -1
    )
    """The older name of the setting above; it takes precedence if it is greater than 0."""
    max_batch_deleted_index_to_persist: int = _setting("managedLedgerMaxBatchDeletedIndexToPersist", 10_000)
    """The most partly acknowledged batches that are written."""
    persist_individual_ack_as_long_array: bool = _setting(
        "managedLedgerPersistIndividualAckAsLongArray", True
    )
    """Whether ranges are written as arrays of words instead of lists of positions."""
    unacked_ranges_open_cache_set_enabled: bool = _setting(
        "managedLedgerUnackedRangesOpenCacheSetEnabled", True
    )
    """If off, the broker keeps ranges in a structure without a long-array form."""
    acknowledgment_at_batch_index_level_enabled: bool = _setting(
        "acknowledgmentAtBatchIndexLevelEnabled", True
    )
    """Whether acknowledgments of single messages of a batch are kept."""
    cursor_position_flush_seconds: int = _setting("managedLedgerCursorPositionFlushSeconds", 60)
    """The longest time that a change waits in memory if the write rate limit delays it."""
    max_message_size_bytes: int = _setting("maxMessageSize", MAX_MESSAGE_BYTES)
    """The most bytes of a message, and of a state in one entry."""
    netty_max_frame_size_bytes: int = _setting(
        "nettyMaxFrameSizeBytes", MAX_MESSAGE_BYTES + FRAME_PADDING_BYTES
    )
    """The bookies' own limit; a setting of BookKeeper, not of the broker."""
    max_unacked_messages_per_consumer: int = _setting("maxUnackedMessagesPerConsumer", 50_000)
    """The unacknowledged messages at which delivery to a consumer stops."""
    max_unacked_messages_per_subscription: int = _setting("maxUnackedMessagesPerSubscription", 200_000)
    """The unacknowledged messages of all consumers at which delivery to the subscription stops."""
    look_ahead_per_consumer: int = _setting("keySharedLookAheadMsgInReplayThresholdPerConsumer", 2_000)
    """The entries per consumer that wait for their key at which reading new entries stops."""
    look_ahead_per_subscription: int = _setting(
        "keySharedLookAheadMsgInReplayThresholdPerSubscription", 20_000
    )
    """The same limit for the subscription."""
    fixed_delay_lookahead: int = _setting("delayedDeliveryFixedDelayDetectionLookahead", 50_000)
    """The delayed messages with one fixed delay at which reading stops until the first is due."""
    pause_on_ack_state: bool = _setting("dispatcherPauseOnAckStatePersistentEnabled", False)
    """Whether reading stops while there are more ranges than can be written."""
    transaction_coordinator_enabled: bool = _setting("transactionCoordinatorEnabled", False)
    """Whether clients can acknowledge in transactions; consumers' counters change before these end."""
    ranges_beyond_limit: int = 1
    """The ranges beyond the limit that the ranges form keeps: 1 up to 4.2 (apache/pulsar#25548), 0 in 5.0.

    It depends on the version of the broker and is not a setting.
    """
    reads_batch_indexes_back: bool = False
    """Whether it reads batch indexes back from the metadata store, by patch version (apache/pulsar#26474)."""
    releases_passed_messages: bool = True
    """Whether consumers' counts drop messages that are skipped, cleared or expired: not in 4.0."""

    @classmethod
    def of(cls, version: str) -> Self:
        """Return the defaults of a broker version such as `4.0`, `4.2`, `4.2.4` or `5.0.0-M1`.

        Raises `ValueError` if the defaults of the version are not known.
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
        """Return the defaults of the newest known version up to `version`, else of the oldest known one."""
        number = release_number(minor_version(version))
        known = [minor for minor in VERSIONS if release_number(minor) <= number]
        defaults = cls.of(known[-1] if known else VERSIONS[0])
        return replace(defaults, reads_batch_indexes_back=_reads_batch_indexes_back(version))

    def with_known(self, values: Mapping[str, str]) -> Self:
        """Apply a broker's list of settings; settings without an effect here are ignored.

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
        """The size of the largest entry that BookKeeper accepts from this broker."""
        return min(self.max_message_size_bytes + FRAME_PADDING_BYTES, self.netty_max_frame_size_bytes)


def _reads_batch_indexes_back(version: str) -> bool:
    return not codes()["batch-index-not-read-back"].has(version)


@cache
def known_names() -> frozenset[str]:
    """Return the name of every setting of the known broker versions."""
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
    # A broker reads every other text as false, so a misspelt value is refused here.
    if value.lower() not in ("true", "false"):
        raise ValueError(f"{name} is true or false, not {value!r}")
    return value.lower() == "true"


_KNOWN_SETTINGS: Final[dict[str, tuple[str, Callable[[str, str], int | bool]]]] = {
    entry.metadata["name"]: (entry.name, _boolean if entry.type == "bool" else _integer)
    for entry in fields(BrokerSettings)
    if "name" in entry.metadata
}
