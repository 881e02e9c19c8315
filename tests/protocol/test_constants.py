"""The enumerations and limits of the protocol are those of `PulsarApi.proto`."""

from __future__ import annotations

import re
from enum import IntEnum

import pytest

from ackwell.errors import ErrorCode
from ackwell.protocol import constants, messages
from ackwell.protocol.command_ack import AckType, ValidationError
from ackwell.protocol.constants import CommandType, SubscriptionType

NUMBERS = {
    constants.InitialPosition: "LATEST EARLIEST",
    constants.KeySharedMode: "AUTO_SPLIT STICKY",
    constants.AccessMode: "SHARED EXCLUSIVE WAIT_FOR_EXCLUSIVE EXCLUSIVE_WITH_FENCING",
    constants.LookupType: "REDIRECT CONNECT FAILED",
    constants.TxnAction: "COMMIT ABORT",
    constants.TopicsMode: "PERSISTENT NON_PERSISTENT ALL",
    constants.SchemaType: """NONE STRING JSON PROTOBUF AVRO BOOL INT8 INT16 INT32 INT64 FLOAT DOUBLE DATE TIME
        TIMESTAMP KEY_VALUE INSTANT LOCAL_DATE LOCAL_TIME LOCAL_DATE_TIME PROTOBUF_NATIVE AUTO_CONSUME
        EXTERNAL""",
    AckType: "INDIVIDUAL CUMULATIVE",
    ValidationError: """UNCOMPRESSED_SIZE_CORRUPTION DECOMPRESSION_ERROR CHECKSUM_MISMATCH
        BATCH_DESERIALIZE_ERROR DECRYPTION_ERROR""",
    ErrorCode: """UNKNOWN_ERROR METADATA_ERROR PERSISTENCE_ERROR AUTHENTICATION_ERROR AUTHORIZATION_ERROR
        CONSUMER_BUSY SERVICE_NOT_READY PRODUCER_BLOCKED_QUOTA_EXCEEDED_ERROR
        PRODUCER_BLOCKED_QUOTA_EXCEEDED_EXCEPTION CHECKSUM_ERROR UNSUPPORTED_VERSION_ERROR TOPIC_NOT_FOUND
        SUBSCRIPTION_NOT_FOUND CONSUMER_NOT_FOUND TOO_MANY_REQUESTS TOPIC_TERMINATED_ERROR PRODUCER_BUSY
        INVALID_TOPIC_NAME INCOMPATIBLE_SCHEMA CONSUMER_ASSIGN_ERROR TRANSACTION_COORDINATOR_NOT_FOUND
        INVALID_TXN_STATUS NOT_ALLOWED_ERROR TRANSACTION_CONFLICT TRANSACTION_NOT_FOUND PRODUCER_FENCED""",
}
"""The names of each enumeration, by number from 0 on."""


@pytest.mark.parametrize("kind", NUMBERS, ids=lambda kind: str(kind.__name__))
def test_the_numbers_of_an_enumeration_are_those_of_the_protocol(kind: type[IntEnum]) -> None:
    assert [(each.name, each.value) for each in kind] == [
        (name, number) for number, name in enumerate(NUMBERS[kind].split())
    ]


OTHER_NAMES = {"LOOKUP_TOPIC": "LOOKUP", "LOOKUP_TOPIC_RESPONSE": "LOOKUP_RESPONSE"}
OTHER_NAMES |= {
    "PARTITION_METADATA": "PARTITIONED_METADATA",
    "PARTITION_METADATA_RESPONSE": "PARTITIONED_METADATA_RESPONSE",
}


def test_the_number_of_a_command_is_that_of_its_field() -> None:
    fields = dict(messages.table())["BaseCommand"]
    named = {}
    for field in fields:
        number, name, _ = field.split(":")
        upper = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper()
        named[OTHER_NAMES.get(upper, upper)] = int(number)
    assert {each.name: each.value for each in CommandType} | {"TYPE": 1} == named
    assert (len(CommandType), CommandType.CONNECT, CommandType.TOPIC_MIGRATED) == (58, 2, 68)


def test_the_type_of_a_subscription_has_its_number_both_ways() -> None:
    names = ["Exclusive", "Shared", "Failover", "Key_Shared"]
    assert [str(SubscriptionType.of(number)) for number in range(4)] == names
    assert [SubscriptionType(name).number for name in names] == [0, 1, 2, 3]
    for wrong in (-1, 4):
        with pytest.raises(ValueError, match=f"{wrong} is not a subscription type; expected 0 to 3"):
            SubscriptionType.of(wrong)
    with pytest.raises(ValueError, match="'Other' is not a subscription type; expected Exclusive, Shared"):
        SubscriptionType("Other")


def test_the_limits_are_those_of_the_protocol() -> None:
    assert (constants.PROTOCOL_VERSION, constants.MAX_MESSAGE_BYTES, constants.FRAME_PADDING_BYTES) == (
        21,
        5 << 20,
        10_240,
    )
    assert constants.COMPRESSIONS == ("NONE", "LZ4", "ZLIB", "ZSTD", "SNAPPY")
