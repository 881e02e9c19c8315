"""Requests for the schemas of a topic."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from ackwell.devbroker.admin_api.requests import HttpError
from ackwell.devbroker.refused_commands import CommandRefusedError
from ackwell.protocol import messages
from ackwell.protocol.constants import SchemaType

if TYPE_CHECKING:
    from ackwell.devbroker.admin_api.requests import Request


def _described(request: Request, version: int | None = None) -> dict[str, Any]:
    wanted = None if version is None else version.to_bytes(8)
    schemas, name = request.state.schemas, str(request.topic.partitioned)
    found = schemas.get(name, wanted)
    if found is None:
        raise HttpError(HTTPStatus.NOT_FOUND, "Schema not found")
    number = int.from_bytes(found[1])
    _, added_ms = schemas.versions[name][number]
    return {
        "version": number,
        "type": SchemaType(found[0].type).name,
        "timestamp": added_ms,
        "data": found[0].schema_data.decode("utf-8", "replace"),
        "properties": {each.key: each.value for each in found[0].properties},
    }


def _schema_of(request: Request) -> Any:
    given = request.json()
    if not isinstance(given, dict) or given.get("type") not in SchemaType.__members__:
        raise HttpError(HTTPStatus.UNPROCESSABLE_ENTITY, "expected a schema with a type")
    made = messages.Schema(
        name=request.topic.local,
        type=SchemaType[given["type"]],
        schema_data=str(given.get("schema", "")).encode(),
    )
    for name, value in (given.get("properties") or {}).items():
        made.properties.add(key=str(name), value=str(value))
    return made


def get_schema(request: Request) -> Any:
    """Return one version of a topic's schema, by default the newest version."""
    version = request.names.get("version")
    if version is not None and not version.isdecimal():
        raise HttpError(HTTPStatus.NOT_FOUND, "Schema not found")
    return _described(request, None if version is None else int(version[:18]))


def get_all_schemas(request: Request) -> Any:
    """Return all versions of a topic's schema."""
    count = len(request.state.schemas.versions.get(str(request.topic.partitioned), []))
    return {"getSchemaResponses": [_described(request, version) for version in range(count)]}


def get_schema_metadata(request: Request) -> Any:
    """Return the ledger entries that store the schema versions of a topic.

    Each version is in a separate ledger, as in a Pulsar broker.
    """
    name = str(request.topic.partitioned)
    count = len(request.state.schemas.versions.get(name, []))
    if not count:
        raise HttpError(HTTPStatus.NOT_FOUND, "Schema not found")
    rows = [{"version": each, "ledgerId": each, "entryId": 0} for each in range(count)]
    return {"info": rows[-1], "index": rows}


def post_schema(request: Request) -> Any:
    """Add a schema to a topic. 422 if the definition of the schema is invalid."""
    try:
        version = request.state.put_schema(request.topic, _schema_of(request))
    except CommandRefusedError as error:
        if "Invalid schema definition" in str(error):
            raise HttpError(HTTPStatus.UNPROCESSABLE_ENTITY, str(error)) from None
        raise
    return {"version": {"version": int.from_bytes(version or b"")}}


def test_compatibility(request: Request) -> Any:
    """Return whether a schema is compatible with the existing schema versions of a topic."""
    name, schema = request.topic, _schema_of(request)
    strategy = request.state.strategy_of(name)
    return {
        "schemaCompatibilityStrategy": strategy,
        "compatibility": request.state.schemas.accepts(str(name.partitioned), schema, strategy),
    }


def get_version_by_schema(request: Request) -> Any:
    """Return the version number of a given schema. -1 if the topic does not have this schema."""
    return {"version": request.state.schemas.version_of(str(request.topic.partitioned), _schema_of(request))}


def delete_schema(request: Request) -> Any:
    """Delete all schema versions of a topic. Return the version number of the deletion.

    In Pulsar, the deletion gets the number after the newest version.
    """
    newest = _described(request)["version"]
    request.state.schemas.delete(str(request.topic.partitioned))
    return {"version": newest + 1}
