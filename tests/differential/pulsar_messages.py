"""Pulsar's messages for Python protobuf, as an outside oracle of the codec."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

INT64, UINT64, STRING, MESSAGE = 3, 4, 9, 11
OPTIONAL, REQUIRED, REPEATED = 1, 2, 3

#: Message → fields as (number, name, label, type or message).
MESSAGES: dict[str, list[tuple[int, str, int, int | str]]] = {
    "NestedPositionInfo": [(1, "ledgerId", REQUIRED, INT64), (2, "entryId", REQUIRED, INT64)],
    "MessageRange": [
        (1, "lowerEndpoint", REQUIRED, "NestedPositionInfo"),
        (2, "upperEndpoint", REQUIRED, "NestedPositionInfo"),
    ],
    "LongProperty": [(1, "name", REQUIRED, STRING), (2, "value", REQUIRED, INT64)],
    "StringProperty": [(1, "name", REQUIRED, STRING), (2, "value", REQUIRED, STRING)],
    "BatchedEntryDeletionIndexInfo": [
        (1, "position", REQUIRED, "NestedPositionInfo"),
        (2, "deleteSet", REPEATED, INT64),
    ],
    "LongListMap": [(1, "key", REQUIRED, INT64), (2, "values", REPEATED, INT64)],
    "PositionInfo": [
        (1, "ledgerId", REQUIRED, INT64),
        (2, "entryId", REQUIRED, INT64),
        (3, "individualDeletedMessages", REPEATED, "MessageRange"),
        (4, "properties", REPEATED, "LongProperty"),
        (5, "batchedEntryDeletionIndexInfo", REPEATED, "BatchedEntryDeletionIndexInfo"),
        (6, "individualDeletedMessageRanges", REPEATED, "LongListMap"),
        (7, "idle_since", OPTIONAL, INT64),
    ],
}


class Messages(NamedTuple):
    """The generated classes."""

    PositionInfo: Any
    LongListMap: Any


@cache
def messages() -> Messages:
    """Build the classes from their description."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="cursor.proto", package="p", syntax="proto2")
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for number, field, label, kind in fields:
            item = message.field.add(number=number, name=field, label=label)
            item.type = MESSAGE if isinstance(kind, str) else kind
            if isinstance(kind, str):
                item.type_name = f".p.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    get = message_factory.GetMessageClass
    return Messages(
        get(pool.FindMessageTypeByName("p.PositionInfo")),
        get(pool.FindMessageTypeByName("p.LongListMap")),
    )
