"""The routes of requests: the paths of Pulsar's admin API and of the lookup over HTTP."""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from ackwell.devbroker.admin import (
    dev_routes,
    message_routes,
    namespace_routes,
    subscription_routes,
    topic_routes,
)
from ackwell.devbroker.admin.requests import HttpError, Request
from ackwell.devbroker.broker_state import parse_topic_name
from ackwell.protocol.topic_name import TopicName

if TYPE_CHECKING:
    from ackwell.devbroker.admin.requests import Backend

Route = Callable[["Backend", Request, Any, "list[str]"], Any]
"""Takes the backend, the request, the topic or namespace, and the rest of the path."""

TOPIC_ROUTES: Final[dict[tuple[str, ...], Route]] = {
    ("PUT",): topic_routes.create,
    ("DELETE",): topic_routes.delete,
    ("PUT", "partitions"): topic_routes.create_partitioned,
    ("POST", "partitions"): topic_routes.add_partitions,
    ("GET", "partitions"): topic_routes.partitions,
    ("DELETE", "partitions"): topic_routes.delete_partitioned,
    ("GET", "stats"): topic_routes.topic_stats,
    ("GET", "partitioned-stats"): topic_routes.partitioned_stats,
    ("GET", "partitioned-internalStats"): topic_routes.partitioned_internal_stats,
    ("GET", "internalStats"): topic_routes.topic_internal_stats,
    ("GET", "properties"): topic_routes.nothing,
    ("GET", "permissions"): topic_routes.nothing,
    ("PUT", "unload"): topic_routes.unload,
    ("POST", "terminate"): topic_routes.terminate,
    ("PUT", "compaction"): topic_routes.compact,
    ("GET", "compaction"): topic_routes.compaction,
    ("GET", "schema"): topic_routes.schema,
    ("POST", "schema"): topic_routes.put_schema,
    ("DELETE", "schema"): topic_routes.delete_schema,
    ("GET", "subscriptions"): subscription_routes.names,
    ("PUT", "subscription", "*"): subscription_routes.create,
    ("DELETE", "subscription", "*"): subscription_routes.delete,
    ("POST", "subscription", "*", "resetcursor", "*"): subscription_routes.seek_to_time,
    ("POST", "subscription", "*", "resetcursor"): subscription_routes.seek,
    ("POST", "subscription", "*", "skip_all"): subscription_routes.clear,
    ("POST", "subscription", "*", "skip", "*"): subscription_routes.skip,
    ("POST", "subscription", "*", "expireMessages", "*"): subscription_routes.expire,
    ("POST", "subscription", "*", "expireMessages"): subscription_routes.expire_up_to,
    ("GET", "subscription", "*", "properties"): subscription_routes.properties,
    ("PUT", "subscription", "*", "properties"): subscription_routes.set_properties,
    ("POST", "all_subscription", "expireMessages", "*"): subscription_routes.expire_all,
    ("GET", "lastMessageId"): message_routes.last,
    ("GET", "messageid", "*"): message_routes.at_time,
    ("GET", "subscription", "*", "position", "*"): message_routes.peek,
    ("GET", "ledger", "*", "entry", "*"): message_routes.by_id,
    ("GET", "examinemessage"): message_routes.examine,
}
"""Maps a method and the path after a topic to its function; `*` matches any one part."""

NAMESPACE_ROUTES: Final[dict[tuple[str, ...], Route]] = {
    ("GET", "topics"): namespace_routes.topics,
    ("PUT",): namespace_routes.create,
    ("DELETE",): namespace_routes.delete,
    ("GET",): namespace_routes.policies,
    ("GET", "*"): namespace_routes.policy,
    ("POST", "clearBacklog"): namespace_routes.clear_backlog,
    ("POST", "clearBacklog", "*"): namespace_routes.clear_backlog,
    ("PUT", "unload"): namespace_routes.unload,
    ("PUT", "*"): namespace_routes.set_policy,
    ("POST", "*"): namespace_routes.set_policy,
    ("DELETE", "*"): namespace_routes.remove_policy,
}
"""Maps a method and the path after a namespace to its function."""


def route(backend: Backend, request: Request) -> Any:
    """Answer a request: return the value to write as JSON, None for no content."""
    if request.path[:1] == ["dev"]:
        return dev_routes.route(backend.broker, request)
    if backend.broker.crashed:
        raise HttpError(HTTPStatus.SERVICE_UNAVAILABLE, "the dev broker crashed; POST /dev/restart starts it")
    request.role = _authenticate(backend, request)
    match request.path:
        case ["lookup", "v2", "topic", domain, tenant, namespace, *local]:
            return _look_up(backend, request, TopicName(domain, tenant, namespace, "/".join(local)))
        case ["admin", "v2", "tenants" | "namespaces" | "clusters" | "brokers" as kind, *rest]:
            return _AROUND[kind](backend, request, rest)
        case ["admin", "v2", "schemas", tenant, namespace, local, "schema", *rest]:
            name = TopicName("persistent", tenant, namespace, local)
            return _found(TOPIC_ROUTES, request.method, ["schema"])(backend, request, name, rest)
        case ["admin", "v2", "persistent" | "non-persistent" as domain, tenant, namespace]:
            if f"{tenant}/{namespace}" not in backend.state.shared.policies:
                raise HttpError(HTTPStatus.NOT_FOUND, f"Namespace {tenant}/{namespace} not found")
            return [
                str(name)
                for name in backend.state.topics_in(f"{tenant}/{namespace}")
                if name.domain == domain
            ]
        case ["admin", "v2", "persistent" | "non-persistent" as domain, tenant, namespace, "partitioned"]:
            prefix = f"{domain}://{tenant}/{namespace}/"
            return sorted(name for name in backend.state.partitioned if name.startswith(prefix))
        case ["admin", "v2", "persistent" | "non-persistent" as domain, tenant, namespace, local, *rest]:
            name = parse_topic_name(f"{domain}://{tenant}/{namespace}/{local}")
            backend.service.authorize(request.role, name)
            return _found(TOPIC_ROUTES, request.method, rest)(backend, request, name, rest)
    raise HttpError(HTTPStatus.NOT_FOUND, f"the dev broker has no /{'/'.join(request.path)}")


def _found(routes: dict[tuple[str, ...], Route], method: str, rest: list[str]) -> Route:
    for key, found in routes.items():
        pairs = zip(key, (method, *rest), strict=False)
        if len(key) == len(rest) + 1 and all(wanted in ("*", part) for wanted, part in pairs):
            return found
    raise HttpError(
        HTTPStatus.NOT_IMPLEMENTED, f"the dev broker does not implement {method} …/{'/'.join(rest)}"
    )


def _look_up(backend: Backend, request: Request, name: TopicName) -> Any:
    backend.service.authorize(request.role, name)
    backend.state.check_namespace(name)
    backend.service.listener(request.query.get("listenerName", ""))
    urls = {
        "brokerUrl": backend.service.url,
        "nativeUrl": backend.service.url,
        "httpUrl": backend.service.admin_url,
    }
    return urls | ({"brokerUrlTls": backend.service.tls_url} if backend.service.tls_url else {})


def _existing_tenant(backend: Backend, tenant: str) -> None:
    if tenant not in backend.state.tenants():
        raise HttpError(HTTPStatus.NOT_FOUND, f"Tenant {tenant} not found")


def _tenants(backend: Backend, request: Request, rest: list[str]) -> Any:
    """List the tenants; describe, create or delete one."""
    if not rest:
        return sorted(backend.state.tenants())
    tenant = rest[0]
    if request.method == "PUT":
        if tenant in backend.state.tenants():
            raise HttpError(HTTPStatus.CONFLICT, "Tenant already exists")
        backend.state.made_tenants[tenant] = True
        return None
    _existing_tenant(backend, tenant)
    if request.method == "DELETE":
        if any(name.startswith(f"{tenant}/") for name in backend.state.shared.policies):
            raise HttpError(HTTPStatus.CONFLICT, "The tenant still has active namespaces")
        backend.state.made_tenants.pop(tenant, None)
        return None
    return {"adminRoles": [], "allowedClusters": ["standalone"]}


def _namespaces(backend: Backend, request: Request, rest: list[str]) -> Any:
    """List a tenant's namespaces, or answer a request for one."""
    match rest:
        case [tenant]:
            _existing_tenant(backend, tenant)
            return sorted(name for name in backend.state.shared.policies if name.startswith(f"{tenant}/"))
        case [tenant, namespace, *more]:
            name = f"{tenant}/{namespace}"
            return _found(NAMESPACE_ROUTES, request.method, more)(backend, request, name, more)
    raise HttpError(HTTPStatus.NOT_FOUND, "expected a tenant")


def _brokers(backend: Backend, request: Request, rest: list[str]) -> Any:
    """Answer the requests of `ackwell doctor`: the version and the settings that affect restarts."""
    settings = backend.state.shared.settings
    match request.method, rest:
        case "GET", ["version"]:
            return settings.version
        case "GET", ["configuration", "runtime"]:
            return {name: str(value).lower() for name, value in settings.broker.named().items()}
        case "GET", ["configuration", "values"]:
            return {}
    return _cluster(backend, request, rest)


def _cluster(_broker: Backend, request: Request, rest: list[str]) -> Any:
    if request.method == "GET" and rest[-1:] in (["health"], ["ready"]):
        return "ok"
    if request.method == "GET":
        return ["standalone"]
    raise HttpError(
        HTTPStatus.NOT_IMPLEMENTED,
        f"the dev broker does not implement {request.method} of a cluster or broker",
    )


_AROUND: Final[dict[str, Callable[[Backend, Request, list[str]], Any]]] = {
    "tenants": _tenants,
    "namespaces": _namespaces,
    "clusters": _cluster,
    "brokers": _brokers,
}


def _authenticate(backend: Backend, request: Request) -> str | None:
    """Return the role of a request; raise `HttpError` if its credentials are not base64."""
    scheme, _, credentials = request.headers.get("authorization", "").partition(" ")
    method = request.headers.get("x-pulsar-auth-method-name", "")
    if scheme.lower() == "basic":
        try:
            return backend.service.authenticate(method or "basic", b64decode(credentials))
        except Base64Error:
            raise HttpError(HTTPStatus.UNAUTHORIZED, "the credentials are not base64") from None
    if scheme.lower() == "bearer":
        return backend.service.authenticate(method or "token", credentials.encode())
    return backend.service.authenticate(method, b"")
