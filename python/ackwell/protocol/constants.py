"""The enumerations and limits of the protocol.

The messages of the protocol contain enumerations as integers. An unknown value, which a newer client or
broker may send, is therefore kept. The error codes are in `ackwell.errors.ErrorCode`, because every
`ProtocolError` has an error code.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import Final, Literal, Self, TypeAlias

PROTOCOL_VERSION: Final = 21
"""The protocol version that Pulsar 4.x uses."""

MAX_MESSAGE_BYTES: Final = 5 * 1024 * 1024
"""Pulsar's `maxMessageSize`: the maximum size of the metadata and the payload of one entry together."""

FRAME_PADDING_BYTES: Final = 10 * 1024
"""The maximum number of bytes in a frame besides the metadata and payload of its message
(`MESSAGE_SIZE_FRAME_PADDING`)."""

COMPRESSIONS: Final = ("NONE", "LZ4", "ZLIB", "ZSTD", "SNAPPY")
"""The names of the compression types. The index of a name is the number of the type in `MessageMetadata` and
in saved states."""


class CommandType(IntEnum):
    """The type of a command. It is also the number of the command's field in `BaseCommand`."""

    CONNECT = 2
    CONNECTED = 3
    SUBSCRIBE = 4
    PRODUCER = 5
    SEND = 6
    SEND_RECEIPT = 7
    SEND_ERROR = 8
    MESSAGE = 9
    ACK = 10
    FLOW = 11
    UNSUBSCRIBE = 12
    SUCCESS = 13
    ERROR = 14
    CLOSE_PRODUCER = 15
    CLOSE_CONSUMER = 16
    PRODUCER_SUCCESS = 17
    PING = 18
    PONG = 19
    REDELIVER_UNACKNOWLEDGED_MESSAGES = 20
    PARTITIONED_METADATA = 21
    PARTITIONED_METADATA_RESPONSE = 22
    LOOKUP = 23
    LOOKUP_RESPONSE = 24
    CONSUMER_STATS = 25
    CONSUMER_STATS_RESPONSE = 26
    REACHED_END_OF_TOPIC = 27
    SEEK = 28
    GET_LAST_MESSAGE_ID = 29
    GET_LAST_MESSAGE_ID_RESPONSE = 30
    ACTIVE_CONSUMER_CHANGE = 31
    GET_TOPICS_OF_NAMESPACE = 32
    GET_TOPICS_OF_NAMESPACE_RESPONSE = 33
    GET_SCHEMA = 34
    GET_SCHEMA_RESPONSE = 35
    AUTH_CHALLENGE = 36
    AUTH_RESPONSE = 37
    ACK_RESPONSE = 38
    GET_OR_CREATE_SCHEMA = 39
    GET_OR_CREATE_SCHEMA_RESPONSE = 40
    NEW_TXN = 50
    NEW_TXN_RESPONSE = 51
    ADD_PARTITION_TO_TXN = 52
    ADD_PARTITION_TO_TXN_RESPONSE = 53
    ADD_SUBSCRIPTION_TO_TXN = 54
    ADD_SUBSCRIPTION_TO_TXN_RESPONSE = 55
    END_TXN = 56
    END_TXN_RESPONSE = 57
    END_TXN_ON_PARTITION = 58
    END_TXN_ON_PARTITION_RESPONSE = 59
    END_TXN_ON_SUBSCRIPTION = 60
    END_TXN_ON_SUBSCRIPTION_RESPONSE = 61
    TC_CLIENT_CONNECT_REQUEST = 62
    TC_CLIENT_CONNECT_RESPONSE = 63
    WATCH_TOPIC_LIST = 64
    WATCH_TOPIC_LIST_SUCCESS = 65
    WATCH_TOPIC_UPDATE = 66
    WATCH_TOPIC_LIST_CLOSE = 67
    TOPIC_MIGRATED = 68


SubscriptionTypeName: TypeAlias = Literal["Exclusive", "Shared", "Failover", "Key_Shared"]
"""The names of the subscription types, as Pulsar's tools write them."""


class SubscriptionType(StrEnum):
    """The four subscription types. The values are the names in statistics and recordings.

    In `CommandSubscribe`, a type is encoded as its `number`.

    >>> SubscriptionType.of(1), SubscriptionType.KEY_SHARED.number
    (<SubscriptionType.SHARED: 'Shared'>, 3)
    """

    EXCLUSIVE = "Exclusive"
    SHARED = "Shared"
    FAILOVER = "Failover"
    KEY_SHARED = "Key_Shared"

    @classmethod
    def _missing_(cls, value: object) -> SubscriptionType:
        raise ValueError(f"{value!r} is not a subscription type; expected {', '.join(cls)}")

    @property
    def number(self) -> int:
        """The number of the type in `CommandSubscribe`."""
        return list(SubscriptionType).index(self)

    @classmethod
    def of(cls, number: int) -> Self:
        """Return the subscription type with a number; `ValueError` if there is none."""
        if not 0 <= number < len(cls):
            raise ValueError(f"{number} is not a subscription type; expected 0 to {len(cls) - 1}")
        return list(cls)[number]


class InitialPosition(IntEnum):
    """The position at which a new subscription starts."""

    LATEST = 0
    EARLIEST = 1


class KeySharedMode(IntEnum):
    """How Key_Shared consumers get their hash ranges: the broker or each consumer selects them."""

    AUTO_SPLIT = 0
    STICKY = 1


class AccessMode(IntEnum):
    """The kind of access that a producer has to its topic, such as exclusive access."""

    SHARED = 0
    EXCLUSIVE = 1
    WAIT_FOR_EXCLUSIVE = 2
    EXCLUSIVE_WITH_FENCING = 3


class LookupType(IntEnum):
    """The kind of answer to a lookup: a redirect, the address to connect to, or an error."""

    REDIRECT = 0
    CONNECT = 1
    FAILED = 2


class TxnAction(IntEnum):
    """The ways in which a transaction can end: commit or abort."""

    COMMIT = 0
    ABORT = 1


class TopicsMode(IntEnum):
    """The kinds of topics that a list of topics includes: persistent, non-persistent or all."""

    PERSISTENT = 0
    NON_PERSISTENT = 1
    ALL = 2


class SchemaType(IntEnum):
    """The type of a schema."""

    NONE = 0
    STRING = 1
    JSON = 2
    PROTOBUF = 3
    AVRO = 4
    BOOL = 5
    INT8 = 6
    INT16 = 7
    INT32 = 8
    INT64 = 9
    FLOAT = 10
    DOUBLE = 11
    DATE = 12
    TIME = 13
    TIMESTAMP = 14
    KEY_VALUE = 15
    INSTANT = 16
    LOCAL_DATE = 17
    LOCAL_TIME = 18
    LOCAL_DATE_TIME = 19
    PROTOBUF_NATIVE = 20
    AUTO_CONSUME = 21
    EXTERNAL = 22
