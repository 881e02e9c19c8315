"""The broker settings that affect restarts and delivery, under the broker's names.

`settings.tsv` lists every setting of the known releases: the default of each release, and the releases in
which it can be changed at run time. `tests/pulsar/settings_table.py` reads the list from the broker's
configuration class by reflection. A setting without a field in `BrokerSettings` is accepted and has no
effect, so a whole `broker.conf` can be passed. An unknown name is refused, because every prediction
would be wrong if a misspelt limit kept its default.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from math import isfinite, nan
from typing import Any, ClassVar, Final, Self

from ackwell.broker.codes import codes
from ackwell.integers import INT64_MAX, check_int64
from ackwell.protocol.constants import FRAME_PADDING_BYTES, MAX_MESSAGE_BYTES
from ackwell.releases import MINOR_VERSIONS, RELEASES, full_release, known_release, release_number

ABSENT: Final = "(absent)"
"""The value in `settings.tsv` for a setting that a release does not have."""

MACHINE: Final = "(machine)"
"""The value in `settings.tsv` for a default that depends on the machine's processors or memory."""

NEVER: Final = "(never)"
"""The value in `settings.tsv` for a setting that cannot be changed at run time in any release."""

_EXAMPLE: Final = "managedLedgerMaxUnackedRangesToPersist=100000"

_NOT_IN_SERVICE_CONFIGURATION: Final = ("bookkeeper_", "brokerClient_")
"""Prefixes of the settings that a broker passes to its BookKeeper client or its Pulsar client."""


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

    DEFAULT_VERSION: ClassVar[str] = "4.2"
    """The version that applies if none is given: the known version with the lowest default limits."""

    max_unacked_ranges_to_persist: int = _setting("managedLedgerMaxUnackedRangesToPersist", 10_000)
    """The maximum number of ranges of acknowledged entries in the cursor ledger."""
    max_unacked_ranges_to_persist_in_metadata_store: int = _setting(
        "managedLedgerMaxUnackedRangesToPersistInMetadataStore", 1_000
    )
    """The maximum number of ranges with which a close writes a cursor to the metadata store. If the cursor
    has more ranges, the close writes it to the cursor ledger, provided that this ledger is open."""
    max_unacked_ranges_to_persist_in_zookeeper: int = _setting(
        "managedLedgerMaxUnackedRangesToPersistInZooKeeper", -1
    )
    """The older name of `max_unacked_ranges_to_persist_in_metadata_store`; it takes precedence if it is
    greater than 0."""
    max_batch_deleted_index_to_persist: int = _setting("managedLedgerMaxBatchDeletedIndexToPersist", 10_000)
    """The maximum number of partly acknowledged batches whose ack sets are written with a cursor."""
    persist_individual_ack_as_long_array: bool = _setting(
        "managedLedgerPersistIndividualAckAsLongArray", True
    )
    """Whether ranges are written in the long-array form (bitmaps) instead of lists of positions."""
    unacked_ranges_open_cache_set_enabled: bool = _setting(
        "managedLedgerUnackedRangesOpenCacheSetEnabled", True
    )
    """If off, the broker keeps ranges in a structure that cannot be written in the long-array form. 5.0.0
    removed this setting."""
    acknowledgment_at_batch_index_level_enabled: bool = _setting(
        "acknowledgmentAtBatchIndexLevelEnabled", True
    )
    """Whether the broker keeps acknowledgments of single messages of a batch."""
    cursor_position_flush_seconds: int = _setting("managedLedgerCursorPositionFlushSeconds", 60)
    """The maximum time before a postponed write of a cursor. Until this write, the latest changes of the
    cursor are in memory only."""
    bookkeeper_client_timeout_seconds: int = _setting("bookkeeperClientTimeoutInSeconds", 30)
    """The time that the broker waits for a bookie's answer to a write. After this time, the write fails, or
    the broker sends it to another bookie."""
    max_message_size_bytes: int = _setting("maxMessageSize", MAX_MESSAGE_BYTES)
    """The maximum size, in bytes, of a message and of one entry that contains a persisted state."""
    netty_max_frame_size_bytes: int = _setting(
        "nettyMaxFrameSizeBytes", MAX_MESSAGE_BYTES + FRAME_PADDING_BYTES
    )
    """The maximum size of a frame that a bookie accepts; a setting of BookKeeper."""
    max_unacked_messages_per_consumer: int = _setting("maxUnackedMessagesPerConsumer", 50_000)
    """The number of a consumer's unacknowledged messages at which delivery to the consumer stops."""
    max_unacked_messages_per_subscription: int = _setting("maxUnackedMessagesPerSubscription", 200_000)
    """The number of unacknowledged messages of all consumers at which delivery to the subscription stops."""
    look_ahead_per_consumer: int = _setting("keySharedLookAheadMsgInReplayThresholdPerConsumer", 2_000)
    """The limit of the entries that wait because of their key, for each consumer. If
    `consumers × look_ahead_per_consumer` entries wait, the broker stops reading new entries."""
    look_ahead_per_subscription: int = _setting(
        "keySharedLookAheadMsgInReplayThresholdPerSubscription", 20_000
    )
    """The limit of the entries of a subscription that wait because of their key. At the limit, the broker
    stops reading new entries."""
    fixed_delay_lookahead: int = _setting("delayedDeliveryFixedDelayDetectionLookahead", 50_000)
    """If this many delayed messages wait and all have the same delay, reading stops until the first of them
    is due."""
    pause_on_ack_state: bool = _setting("dispatcherPauseOnAckStatePersistentEnabled", False)
    """Whether reading stops while the cursor has more ranges than the broker can persist."""
    transaction_coordinator_enabled: bool = _setting("transactionCoordinatorEnabled", False)
    """Whether clients can acknowledge in transactions. Such an acknowledgment changes the consumer's counters
    before the transaction ends."""
    ranges_beyond_limit: int = 1
    """The number of ranges above `max_unacked_ranges_to_persist` that a broker writes in a list of ranges:
    one range in the versions up to 4.2 (apache/pulsar#25548), none in 5.0."""
    cursor_info_compression: str = "NONE"
    """`managedCursorInfoCompressionType`: the compression of the record in the metadata store."""
    ledger_info_compression: str = "NONE"
    """`managedLedgerInfoCompressionType`: the compression of a topic's ledger list in the metadata store."""
    cursor_writes_per_second: float = 1.0
    """`managedLedgerDefaultMarkDeleteRateLimit`: the maximum rate of writes of a cursor; 0 for no limit."""
    metadata_node_bytes: int = (1 << 20) - 1
    """The maximum size of a value in the metadata store: ZooKeeper's `jute.maxbuffer`."""
    has_open_cache_set: bool = True
    """Whether `unacked_ranges_open_cache_set_enabled` has an effect. It has none in 5.0.0 and later."""
    counts_the_ledger_itself: bool = False
    """Whether the acknowledged entries of a ledger count toward the limit of the long-array form.

    In this form, a broker writes a ledger only if the ledgers before it have at most
    `max_unacked_ranges_to_persist` acknowledged entries together. If on, those of the ledger itself count,
    too, as in 5.0.0 and later (apache/pulsar#26127).
    """
    reads_batch_indexes_back: bool = False
    """Whether a load restores batch indexes from the metadata store. It depends on the patch version
    (apache/pulsar#26474).
    """
    reader: BrokerSettings | None = None
    """The settings of the broker that loads the topic next, or `None` if the same broker loads it (see
    `read_by`)."""
    writes_batch_indexes_alone: bool = False
    """Whether the broker writes a cursor if only its ack sets have changed since the last write. The delay of
    the write is at most `cursor_position_flush_seconds`. If off, changed ack sets are written only together
    with another change. Only 5.0.0 and later write such a cursor (apache/pulsar#26498).
    """
    pauses_on_batch_indexes: bool = False
    """Whether `pause_on_ack_state` also stops reading if there are more batch indexes than can be written.
    Only 5.0.0 and later do so (apache/pulsar#26553).
    """
    releases_passed_messages: bool = True
    """Whether a skip, clear or expiry removes the passed messages from the consumers' counts of
    unacknowledged messages. 4.0 does not remove them."""

    @classmethod
    def of(cls, version: str) -> Self:
        """Return the defaults and rules of a broker version such as `4.0`, `4.2.5` or `5.0.0-M1`.

        Raises `ValueError` if the defaults of the version are not known.
        """
        release = known_release(version)
        if release is None:
            raise ValueError(
                f"defaults of broker version {version!r} are not known; known are "
                f"{', '.join(MINOR_VERSIONS)}: take the nearest and pass what differs as settings"
            )
        return cls._of_release(release, full_release(version))

    @classmethod
    def nearest(cls, version: str) -> Self:
        """Return the defaults of the newest known version that is not newer than `version`.

        If every known version is newer, return the defaults of the oldest known version.
        """
        release = known_release(version)
        if release is None:
            number = release_number(version)
            release = next((old for old in reversed(RELEASES) if release_number(old) <= number), RELEASES[0])
        newest = RELEASES[-1]
        is_newer = release_number(version) > release_number(newest)
        return cls._of_release(release, newest if is_newer else full_release(version))

    @classmethod
    def _of_release(cls, known: str, release: str) -> Self:
        """Return settings with the defaults of the release `known` and the rules of the release `release`."""
        table = defaults(known)
        values = {
            attribute: read(name, table[name])
            for name, (attribute, read) in _KNOWN_SETTINGS.items()
            if table.get(name, ABSENT) != ABSENT
        }
        number = release_number(release)
        is_released_5_0 = number >= release_number("5.0.0")
        return replace(
            cls(),
            **values,  # type: ignore[arg-type]
            ranges_beyond_limit=0 if number[0] >= 5 else 1,
            has_open_cache_set=not is_released_5_0,
            counts_the_ledger_itself=is_released_5_0,
            reads_batch_indexes_back=not codes()["batch-index-not-read-back"].has(release),
            writes_batch_indexes_alone=not codes()["batch-index-not-written"].has(release),
            pauses_on_batch_indexes=is_released_5_0,
            releases_passed_messages=release_number(known)[:2] > (4, 0),
        )

    def read_by(self, reader: BrokerSettings) -> Self:
        """Return the settings for a topic that this broker closes and the broker `reader` then loads.

        >>> old, new = BrokerSettings.of("4.2"), BrokerSettings.of("5.0")
        >>> old.batch_indexes_return, old.read_by(new).batch_indexes_return
        (False, True)
        """
        return replace(self, reader=reader)

    def with_known(self, values: Mapping[str, str]) -> Self:
        """Return a copy with the given values. Settings that have no field in this class are ignored.

        Raises `ValueError` for a value of the wrong type.
        """
        return self.with_values(
            f"{name}={value}" for name, value in values.items() if name in _KNOWN_SETTINGS
        )

    def with_values(self, assignments: Iterable[str]) -> Self:
        """Return a copy with changed settings, each given as `name=value` with the broker's own name.

        Raises `ValueError` for an unknown name, a missing value or a value of the wrong type.
        """
        changes: dict[str, object] = {}
        for name, value in assigned(assignments).items():
            known = _KNOWN_SETTINGS.get(name)
            if known is not None:
                attribute, read = known
                changes[attribute] = read(name, value)
            elif not is_setting(name):
                raise ValueError(f"no broker setting is called {name!r}" + suggestion(name))
        return replace(self, **changes)  # type: ignore[arg-type]

    def named(self) -> dict[str, int | bool]:
        """Return a mapping from the broker's name of each setting to its value."""
        return {
            entry.metadata["name"]: getattr(self, entry.name)
            for entry in fields(self)
            if "name" in entry.metadata
        }

    @property
    def batch_indexes_are_read(self) -> bool:
        """Whether the broker that loads the topic next reads batch indexes from the cursor ledger."""
        return (self.reader or self).acknowledgment_at_batch_index_level_enabled

    @property
    def batch_indexes_return(self) -> bool:
        """Whether the broker that loads the topic next reads batch indexes from the metadata store."""
        return (self.reader or self).reads_batch_indexes_back

    @property
    def long_array(self) -> bool:
        """Whether the broker writes the cursor ledger in the long-array form: one bit set for each ledger."""
        has_form = self.unacked_ranges_open_cache_set_enabled or not self.has_open_cache_set
        return self.persist_individual_ack_as_long_array and has_form

    @property
    def metadata_store_ranges(self) -> int:
        """The maximum number of ranges that a close writes to the metadata store instead of a ledger."""
        if self.max_unacked_ranges_to_persist <= 0:
            return INT64_MAX
        older = self.max_unacked_ranges_to_persist_in_zookeeper
        return older if older > 0 else self.max_unacked_ranges_to_persist_in_metadata_store

    def needs_ledger(self, ranges: int) -> bool:
        """Return whether a close writes this number of ranges to an open cursor ledger.

        If `ranges` is an array of numbers, the result is an array.
        """
        return ranges > self.metadata_store_ranges

    def entries_counted(self, earlier: int, own: int) -> int:
        """Return the number of acknowledged entries that decides whether the broker writes one ledger.

        In the long-array form, the broker writes the ledger if the result is at most
        `max_unacked_ranges_to_persist`. `earlier` is the number of acknowledged entries in the earlier
        ledgers, and `own` the number in this ledger.
        """
        return earlier + own if self.counts_the_ledger_itself else earlier

    @property
    def ranges_written(self) -> int:
        """The maximum number of ranges in the ranges form. Before 5.0, it is the limit plus 1."""
        return max(self.max_unacked_ranges_to_persist, 0) + self.ranges_beyond_limit

    @property
    def max_entry_bytes(self) -> int:
        """The size of the largest entry that BookKeeper accepts from this broker."""
        return min(self.max_message_size_bytes + FRAME_PADDING_BYTES, self.netty_max_frame_size_bytes)


def require_texts(name: str, values: object, example: str) -> None:
    """Raise `TypeError` if `values` is not a list but, for example, a single text or a mapping.

    >>> require_texts("namespaces", "public/default", "public/default")
    Traceback (most recent call last):
    TypeError: namespaces is a value of type str; expected a list of texts, such as ['public/default']
    """
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        kind = type(values).__name__
        raise TypeError(f"{name} is a value of type {kind}; expected a list of texts, such as {[example]}")


def assigned(assignments: Iterable[str]) -> dict[str, str]:
    """Split settings `name=value` into names and values; the last value of a name applies.

    Raises `TypeError` for a value that is not a list of texts, and `ValueError` for a text without a name or
    `=`.

    >>> assigned(["maxMessageSize = 1000"])
    {'maxMessageSize': '1000'}
    """
    require_texts("broker_conf", assignments, _EXAMPLE)
    values = {}
    for assignment in assignments:
        if not isinstance(assignment, str):
            kind = type(assignment).__name__
            raise TypeError(
                f"broker_conf contains a value of type {kind}; expected texts, such as {_EXAMPLE}"
            )
        name, separator, value = assignment.partition("=")
        if not separator or not name.strip():
            raise ValueError(f"not a broker setting: {assignment!r}; expected name=value, such as {_EXAMPLE}")
        values[name.strip()] = value.strip()
    return values


@cache
def _table() -> tuple[tuple[str, ...], dict[str, tuple[str, ...]]]:
    """Return the releases in `settings.tsv`, and a mapping from each setting to its columns.

    The columns of a setting contain its default in each release, and then the releases in which the setting
    is dynamic (it can be changed at run time).
    """
    text = files("ackwell.broker").joinpath("settings.tsv").read_text(encoding="ascii")
    (_, *releases, _), *rows = (line.split("\t") for line in text.splitlines())
    return tuple(releases), {name: tuple(values) for name, *values in rows}


def defaults(release: str) -> dict[str, str]:
    """Return the default of every setting of a known release, as the text in `settings.tsv`.

    >>> defaults("5.0.1")["dispatcherMaxReadBatchSize"], defaults("4.2.4")["dispatcherMaxReadBatchSize"]
    ('500', '100')
    """
    releases, rows = _table()
    column = releases.index(release)
    return {name: values[column] for name, values in rows.items() if values[column] != ABSENT}


def dynamic_settings(release: str) -> tuple[str, ...]:
    """Return the settings that can be changed at run time in a known release.

    >>> "dispatchThrottlingRateInMsg" in dynamic_settings("4.2.4"), len(dynamic_settings("4.2.4"))
    (True, 159)
    """
    return tuple(name for name, values in _table()[1].items() if release in values[-1].split(","))


def is_setting(name: str) -> bool:
    """Return whether a known release has a setting of this name.

    The result is also True for a setting that a broker passes to its BookKeeper client or its Pulsar client.

    >>> is_setting("bookkeeper_tcpSndBufLen"), is_setting("managedLedgerMaxRanges")
    (True, False)
    """
    return name in _table()[1] or name in _KNOWN_SETTINGS or name.startswith(_NOT_IN_SERVICE_CONFIGURATION)


def suggestion(name: str) -> str:
    """Return the end of an error message for an unknown name: a similar name, or the file with all names."""
    similar = get_close_matches(name, _table()[1].keys() | _KNOWN_SETTINGS.keys(), n=1)
    return f"; did you mean {similar[0]!r}?" if similar else "; see the broker's conf/broker.conf"


def integer(name: str, value: str) -> int:
    """Parse the integer value of a setting; raises `ValueError` for any other text."""
    try:
        number = int(value)
    except ValueError:
        raise ValueError(f"{name} is a whole number, not {value!r}") from None
    return check_int64(name, number)


def _rate(name: str, value: str) -> float:
    try:
        rate = float(value)
    except ValueError:
        rate = nan
    if not isfinite(rate):
        raise ValueError(f"{name} is a number, not {value!r}")
    return rate


def boolean(name: str, value: str) -> bool:
    """Parse the value `true` or `false` of a setting; raises `ValueError` for any other text."""
    # A broker reads every other text as false, so a misspelt value is refused here.
    if value.lower() not in ("true", "false"):
        raise ValueError(f"{name} is true or false, not {value!r}")
    return value.lower() == "true"


def _compression(name: str, value: str) -> str:
    if value.upper() not in _COMPRESSIONS:
        raise ValueError(f"{name} is one of {', '.join(_COMPRESSIONS)}, not {value!r}")
    return value.upper()


_COMPRESSIONS: Final = ("NONE", "LZ4", "ZLIB", "ZSTD", "SNAPPY")

_KNOWN_SETTINGS: Final[dict[str, tuple[str, Callable[[str, str], float | bool | str]]]] = {
    "managedCursorInfoCompressionType": ("cursor_info_compression", _compression),
    "managedLedgerInfoCompressionType": ("ledger_info_compression", _compression),
    "managedLedgerDefaultMarkDeleteRateLimit": ("cursor_writes_per_second", _rate),
} | {
    entry.metadata["name"]: (entry.name, boolean if entry.type == "bool" else integer)
    for entry in fields(BrokerSettings)
    if "name" in entry.metadata
}
