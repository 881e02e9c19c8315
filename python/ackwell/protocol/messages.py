"""The classes of the protocol's messages. They are built from a table of fields at their first use.

`fields.txt` has one line per message: its name, then its fields. A field is `number:name:type`, followed by
`!` if it is required or `*` if it is repeated, then `=` and the default if it has one. The messages have a
separate descriptor pool. They therefore do not conflict with a Pulsar client in the same process, which uses
the same names. In the table, enums have the type int32, which has the same encoding. A newer client or broker
may send unknown values of an enum, and this type keeps them.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from ackwell.errors import FrameError

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE: Final = "ackwell.protocol"

_TYPES: Final = {
    "double": 1,
    "int64": 3,
    "uint64": 4,
    "int32": 5,
    "bool": 8,
    "string": 9,
    "bytes": 12,
    "uint32": 13,
}
_MESSAGE: Final = 11
_LABELS: Final = {"": 1, "!": 2, "*": 3}
_POOL: Final[dict[str, Any]] = {}
"""The descriptor pool, with the name of its package as the key. It is empty before the first use. All threads
use the same pool."""


@cache
def message(name: str) -> Any:
    """Return the class of the message `name`; `KeyError` if the name is unknown.

    >>> ack = message("CommandAck")(consumer_id=1, ack_type=0)
    >>> message("CommandAck").FromString(ack.SerializeToString()) == ack
    True
    """
    factory = import_module("google.protobuf.message_factory")
    return factory.GetMessageClass(_pool().FindMessageTypeByName(f"{PACKAGE}.{name}"))


def parse(name: str, data: bytes) -> Any:
    """Parse a message; `FrameError` for invalid bytes, a missing required field or text that is not UTF-8.

    Nested messages are not checked, because this would take longer than the parsing. If a nested message
    lacks a required number, the number is read as 0.
    """
    message_class, required, texts, error_class = _reader(name)
    try:
        read = message_class.FromString(data)
    except error_class as error:
        raise FrameError(f"{len(data)} bytes that are not a {name}: {error}") from None
    if not read.IsInitialized():
        for field in required:
            if not read.HasField(field):
                raise FrameError(f"{len(data)} bytes that are not a {name}: without {field}")
    for field in texts:
        # For a text that is not UTF-8, Protocol Buffers returns bytes.
        if not isinstance(getattr(read, field), str):
            raise FrameError(f"{len(data)} bytes that are not a {name}: {field} is not UTF-8")
    return read


@cache
def _reader(name: str) -> tuple[Any, tuple[str, ...], tuple[str, ...], type[Exception]]:
    """Return the class of a message, its required fields, its text fields, and protobuf's parse error."""
    rows = [row.split(":") for row in dict(table())[name]]
    required = tuple(row[1] for row in rows if row[2].endswith("!"))
    texts = tuple(row[1] for row in rows if row[2] in ("string", "string!"))
    return message(name), required, texts, import_module("google.protobuf.message").DecodeError


def __getattr__(name: str) -> Any:
    """Return the class of a message, so that `messages.CommandAck` works."""
    if not name[:1].isupper():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        found = globals()[name] = message(name)
    except KeyError:
        raise AttributeError(f"the protocol has no message {name!r}") from None
    return found


def table() -> Iterator[tuple[str, list[str]]]:
    """Yield the name of each message in `fields.txt`, and the texts of its fields."""
    name, fields = "", list[str]()
    for line in files("ackwell.protocol").joinpath("fields.txt").read_text("utf-8").splitlines():
        words = line.split()
        if line[0] != " ":
            if name:
                yield name, fields
            name, fields = words.pop(0), []
        fields += words
    yield name, fields


def _pool() -> Any:
    if PACKAGE not in _POOL:
        # If two threads build the pool at the same time, both use the pool that is stored first.
        _POOL.setdefault(PACKAGE, _built_pool())
    return _POOL[PACKAGE]


def _built_pool() -> Any:
    descriptors = import_module("google.protobuf.descriptor_pb2")
    file = descriptors.FileDescriptorProto(name="ackwell/protocol", package=PACKAGE, syntax="proto2")
    for name, fields in table():
        described = file.message_type.add(name=name)
        for field in fields:
            number, field_name, kind = field.split(":")
            kind, _, default = kind.partition("=")
            kind, label = (kind[:-1], kind[-1]) if kind[-1] in _LABELS else (kind, "")
            one = described.field.add(name=field_name, number=int(number), label=_LABELS[label])
            if kind in _TYPES:
                one.type = _TYPES[kind]
            else:
                one.type, one.type_name = _MESSAGE, f".{PACKAGE}.{kind}"
            if default:
                one.default_value = default
    pool = import_module("google.protobuf.descriptor_pool").DescriptorPool()
    pool.Add(file)
    return pool
