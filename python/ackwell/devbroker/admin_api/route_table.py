"""The routes of Pulsar's admin API, and the functions that answer them.

`routes.tsv` has one line per route: its path, its method, the name of the operation in Pulsar, and the Pulsar
releases that have the route. The file was generated from the JAX-RS annotations of Pulsar 4.2.4 and 5.0.1.
Each operation is answered by the function with the same name. For example, the function `get_stats` in one of
the modules of the resource `Topics` answers `Topics.getStats`. If an operation has no function, the answer is
501 with the name of the operation.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from http import HTTPStatus
from importlib.resources import files
from types import ModuleType
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

from starlette.routing import compile_path

from ackwell.devbroker.admin_api import (
    cluster_routes,
    message_routes,
    namespace_routes,
    policy_routes,
    schema_routes,
    stored_routes,
    subscription_routes,
    topic_routes,
    transaction_routes,
)
from ackwell.devbroker.admin_api.requests import HttpError, Request

Handler = Callable[[Request], Any]

RESOURCES: Final[dict[str, tuple[ModuleType, ...]]] = {
    "Namespaces": (namespace_routes, policy_routes, stored_routes),
    "Topics": (topic_routes, subscription_routes, message_routes, policy_routes),
    "Tenants": (cluster_routes,),
    "Clusters": (stored_routes,),
    "Brokers": (cluster_routes,),
    "BrokerStats": (cluster_routes,),
    "Bookies": (stored_routes,),
    "ResourceGroups": (stored_routes,),
    "ResourceQuotas": (stored_routes,),
    "NonPersistentTopics": (namespace_routes,),
    "TopicLookup": (cluster_routes,),
    "SchemasResource": (schema_routes,),
    "Transactions": (transaction_routes,),
}
"""Maps a resource of Pulsar's admin API, such as `Topics`, to the modules that answer its operations."""


class Route(NamedTuple):
    """One line of `routes.tsv`."""

    path: str
    method: str
    operation: str
    releases: str
    handler: Handler | None = None

    @property
    def pattern(self) -> re.Pattern[str]:
        """The regular expression that matches the paths of this route."""
        return _pattern(self.path)


@cache
def _pattern(path: str) -> re.Pattern[str]:
    pattern = compile_path(path)[0]
    if path.startswith("/admin/v2/{domain}/") or "/topic/{domain}/" in path:
        return re.compile(
            pattern.pattern.replace("(?P<domain>[^/]+)", "(?P<domain>persistent|non-persistent)")
        )
    return pattern


@cache
def routes() -> tuple[Route, ...]:
    """Return all routes. The routes with the most literal characters come first, as in JAX-RS."""
    lines = (files("ackwell.devbroker.admin_api") / "routes.tsv").read_text().splitlines()
    found = [Route(*line.split("\t")) for line in lines]  # type: ignore[arg-type]
    found = [each._replace(handler=_handler(each)) for each in found]
    return tuple(sorted(found, key=lambda each: -_literals(each.path)))


def _literals(path: str) -> int:
    return len(re.sub(r"{\w+}", "", path.replace("/v2/{domain}/", "/v2/non-persistent/")))


def _handler(route: Route) -> Handler | None:
    resource, _, operation = route.operation.partition(".")
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", operation).lower()
    for module in RESOURCES.get(resource, ()):
        found: Handler | None = getattr(module, f"{resource.lower()}_{name}", None) or getattr(
            module, name, None
        )
        if found is not None and found.__module__ == module.__name__:
            return found
    return policy_routes.handler(route.path, route.method) if resource in ("Namespaces", "Topics") else None


def route(request: Request) -> Any:
    """Answer a request by its route.

    Answers 404 for an unknown path, 405 for a wrong method, and 501 for an operation without a function.
    """
    path, known = request.path.rstrip("/"), False
    for each in routes():
        if (known and each.method != request.method) or not (match := each.pattern.match(path)):
            continue
        known = True
        if each.method == request.method:
            if each.handler is None:
                raise HttpError(
                    HTTPStatus.NOT_IMPLEMENTED,
                    f"the dev broker does not implement {each.operation}: {each.method} {each.path}",
                )
            request.names = {name: unquote(value) for name, value in match.groupdict().items()}
            return each.handler(request)
    if known:
        raise HttpError(HTTPStatus.METHOD_NOT_ALLOWED, f"{unquote(path)} has no method {request.method}")
    raise HttpError(HTTPStatus.NOT_FOUND, f"the dev broker has no {unquote(path)}")
