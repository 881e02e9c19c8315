"""The protocol's messages, whose classes are built from a table of fields at their first use.

`fields.txt` has one line per message: its name, and for each field `number:name:type`, then `!` for a
required or `*` for a repeated field, then `=` and the default. The messages have a separate descriptor pool,
so they do not clash with another user of these names in the process, such as a Pulsar client. Enums are
int32 in the table: the encoding is the same, and the unknown values of a newer peer are kept.
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
"""The only pool of descriptors, under the name of its package; all threads use it."""


@cache
def message(name: str) -> Any:
    """Return the class of a message; `KeyError` for an unknown name.

    >>> ack = message("CommandAck")(consumer_id=1, ack_type=0)
    >>> message("CommandAck").FromString(ack.SerializeToString()) == ack
    True
    """
    factory = import_module("google.protobuf.message_factory")
    return factory.GetMessageClass(_pool().FindMessageTypeByName(f"{PACKAGE}.{name}"))


def parse(name: str, data: bytes) -> Any:
    """Parse a message; `FrameError` for invalid bytes, a missing required field or text that is not UTF-8.

    Nested messages are not checked, because the check takes longer than the parsing. A missing number in a
    nested message is read as 0.
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
        # Protocol Buffers returns the bytes of a text that is not UTF-8.
        if not isinstance(getattr(read, field), str):
            raise FrameError(f"{len(data)} bytes that are not a {name}: {field} is not UTF-8")
    return read


@cache
def _reader(name: str) -> tuple[Any, tuple[str, ...], tuple[str, ...], type[Exception]]:
    """Return the class of a message, the names of its required and its text fields, and the parse error."""
    rows = [row.split(":") for row in dict(table())[name]]
    required = tuple(row[1] for row in rows if row[2].endswith("!"))
    texts = tuple(row[1] for row in rows if row[2] in ("string", "string!"))
    return message(name), required, texts, import_module("google.protobuf.message").DecodeError


def __getattr__(name: str) -> Any:
    """Return the class of a message by name, as in `messages.CommandAck`."""
    if not name[:1].isupper():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        found = globals()[name] = message(name)
    except KeyError:
        raise AttributeError(f"the protocol has no message {name!r}") from None
    return found


def table() -> Iterator[tuple[str, list[str]]]:
    """Yield the name and the field texts of each message in `fields.txt`."""
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
        # If two threads build it at once, both use the pool of the first one that is done.
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
