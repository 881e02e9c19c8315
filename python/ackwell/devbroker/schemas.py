"""Schemas: the schema versions of each topic, and the check of a new version.

If a schema equals one of the topic's versions byte for byte, it gets the number of this version. Any other
schema becomes the next version, if it has the same type and the compatibility strategy of the topic accepts
it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ackwell.devbroker.compatibility import compatible, is_avro_schema
from ackwell.devbroker.persistent_map import PersistentMap
from ackwell.devbroker.refused_commands import CommandRefusedError
from ackwell.errors import ErrorCode, FrameError
from ackwell.protocol import messages
from ackwell.protocol.constants import SchemaType

if TYPE_CHECKING:
    from typing import Any

    from ackwell.devbroker.broker_file import BrokerFile
    from ackwell.devbroker.clock import Clock

_COMPARED_TYPES: Final = (SchemaType.AVRO, SchemaType.JSON)
"""The schema types for which compatibility is checked. For all other types, every version is compatible."""

DEFAULT_STRATEGY: Final = "FULL"
"""The default compatibility strategy of a topic (`schemaCompatibilityStrategy`)."""


class Schemas:
    """The schemas of all topics. All partitions of a topic have the same schemas."""

    def __init__(self, file: BrokerFile | None, clock: Clock) -> None:
        self._clock = clock
        self.versions = PersistentMap[list[tuple[str, int]]](file, "schema")
        """Maps a topic to its schema versions. Each version is the encoded schema in hexadecimal, and the
        time in ms at which it was added."""

    def put(self, topic: str, schema: Any, strategy: str | None = None) -> bytes | None:
        """Add a schema to a topic and return its version.

        Returns None for the type AUTO_CONSUME, which has no definition.
        """
        if not schema.IsInitialized():
            raise FrameError("a schema without its name, type or data")
        if schema.type == SchemaType.AUTO_CONSUME:
            return None
        if schema.type in _COMPARED_TYPES and not is_avro_schema(schema.schema_data):
            message = f"Invalid schema definition data for {_name(schema)} schema"
            raise CommandRefusedError(ErrorCode.INCOMPATIBLE_SCHEMA, message)
        versions = self._read(topic)
        for number, known in enumerate(versions):
            if (known.type, known.schema_data) == (schema.type, schema.schema_data):
                return version(number)
        self._may_follow(versions, schema, strategy)
        added = schema.SerializeToString().hex(), self._clock.now_ms()
        self.versions[topic] = [*self.versions.get(topic, []), added]
        return version(len(versions))

    def get(self, topic: str, wanted: bytes | None = None) -> tuple[Any, bytes] | None:
        """Return one version of a topic's schema: the schema and its encoded version number.

        `wanted` is the encoded version number, by default that of the newest version. None if the version
        does not exist.
        """
        versions = self._read(topic)
        number = len(versions) - 1 if not wanted else int.from_bytes(wanted)
        if not 0 <= number < len(versions):
            return None
        return versions[number], version(number)

    def version_of(self, topic: str, schema: Any) -> int:
        """Return the version number of a schema. -1 if the topic does not have this schema."""
        known = [(each.type, each.schema_data) for each in self._read(topic)]
        wanted = schema.type, schema.schema_data
        return known.index(wanted) if wanted in known else -1

    def accepts(self, topic: str, schema: Any, strategy: str) -> bool:
        """Return whether a schema may become the next version of a topic's schema."""
        try:
            self._may_follow(self._read(topic), schema, strategy)
        except CommandRefusedError:
            return False
        return True

    def delete(self, topic: str) -> None:
        """Delete all schema versions of a topic."""
        self.versions.pop(topic, None)

    def _read(self, topic: str) -> list[Any]:
        return [messages.parse("Schema", bytes.fromhex(each)) for each, _ in self.versions.get(topic, [])]

    def _may_follow(self, versions: list[Any], schema: Any, strategy: str | None) -> None:
        if not versions:
            return
        if versions[-1].type != schema.type:
            raise CommandRefusedError(
                ErrorCode.INCOMPATIBLE_SCHEMA,
                f"Incompatible schema: exists schema type {_name(versions[-1])}, "
                f"new schema type {_name(schema)}",
            )
        before = [each.schema_data for each in versions]
        if schema.type in _COMPARED_TYPES and not compatible(
            schema.schema_data, before, strategy or DEFAULT_STRATEGY
        ):
            message = f"Incompatible schema: the {_name(schema)} schema does not fit the topic's newest one"
            raise CommandRefusedError(ErrorCode.INCOMPATIBLE_SCHEMA, message)


def version(number: int) -> bytes:
    """Encode a version number as 8 bytes."""
    return number.to_bytes(8)


def _name(schema: Any) -> str:
    return SchemaType(schema.type).name if schema.type in list(SchemaType) else f"type {schema.type}"
