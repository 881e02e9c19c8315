"""Which request does what: paths of Pulsar's admin API, and of the lookup over HTTP."""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Callable
from functools import cache
from http import HTTPStatus
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ackwell.devbroker.admin.http import HttpError, Request
from ackwell.devbroker.names import TopicName
from ackwell.devbroker.state import parsed

if TYPE_CHECKING:
    from ackwell.devbroker.broker import AsyncBroker

Route = Callable[["AsyncBroker", Request, Any, "list[str]"], Any]
"""Takes the broker, the request, the topic or namespace, and the rest of the path."""

TOPIC_ROUTES: dict[tuple[str, ...], Route] = {}
"""By method and the words of the path behind a topic; `*` stands for any one part."""

NAMESPACE_ROUTES: dict[tuple[str, ...], Route] = {}


def on_topic(*key: str) -> Callable[[Route], Route]:
    """Make a function the answer to a method and a path behind a topic."""
    return lambda route: TOPIC_ROUTES.setdefault(key, route)


def on_namespace(*key: str) -> Callable[[Route], Route]:
    """Make a function the answer to a method and a path behind a namespace."""
    return lambda route: NAMESPACE_ROUTES.setdefault(key, route)


def route(broker: AsyncBroker, request: Request) -> Any:
    """Answer a request: what is to be written as JSON, None for no content."""
    _rooms()
    request.role = _role(broker, request)
    match request.path:
        case ["lookup", "v2", "topic", domain, tenant, namespace, *local]:
            return _look_up(broker, request, TopicName(domain, tenant, namespace, "/".join(local)))
        case ["admin", "v2", "tenants"]:
            return sorted({name.partition("/")[0] for name in namespaces(broker)})
        case ["admin", "v2", "tenants" | "clusters" | "brokers", *rest]:
            return _cluster(request, rest)
        case ["admin", "v2", "namespaces", tenant]:
            return sorted(name for name in namespaces(broker) if name.startswith(f"{tenant}/"))
        case ["admin", "v2", "namespaces", tenant, namespace, *rest]:
            return _found(NAMESPACE_ROUTES, request.method, rest)(
                broker, request, f"{tenant}/{namespace}", rest
            )
        case ["admin", "v2", "schemas", tenant, namespace, local, "schema", *rest]:
            name = TopicName("persistent", tenant, namespace, local)
            return _found(TOPIC_ROUTES, request.method, ["schema"])(broker, request, name, rest)
        case ["admin", "v2", "persistent" | "non-persistent" as domain, tenant, namespace]:
            return [
                str(name) for name in broker.state.topics_in(f"{tenant}/{namespace}") if name.domain == domain
            ]
        case ["admin", "v2", "persistent" | "non-persistent" as domain, tenant, namespace, "partitioned"]:
            prefix = f"{domain}://{tenant}/{namespace}/"
            return sorted(name for name in broker.state.partitioned if name.startswith(prefix))
        case ["admin", "v2", "persistent" | "non-persistent" as domain, tenant, namespace, local, *rest]:
            name = parsed(f"{domain}://{tenant}/{namespace}/{local}")
            broker.service.authorize(request.role, name)
            return _found(TOPIC_ROUTES, request.method, rest)(broker, request, name, rest)
    raise HttpError(HTTPStatus.NOT_FOUND, f"the dev broker has no /{'/'.join(request.path)}")


def namespaces(broker: AsyncBroker) -> set[str]:
    """Return every namespace."""
    return set(broker.state.policies)


def _found(routes: dict[tuple[str, ...], Route], method: str, rest: list[str]) -> Route:
    for key, found in routes.items():
        pairs = zip(key, (method, *rest), strict=False)
        if len(key) == len(rest) + 1 and all(wanted in ("*", part) for wanted, part in pairs):
            return found
    raise HttpError(HTTPStatus.NOT_FOUND, f"the dev broker does not support {method} …/{'/'.join(rest)}")


def _look_up(broker: AsyncBroker, request: Request, name: TopicName) -> Any:
    broker.service.authorize(request.role, name)
    broker.state.check_namespace(name)
    broker.service.listener(request.query.get("listenerName", ""))
    urls = {"brokerUrl": broker.url, "nativeUrl": broker.url, "httpUrl": broker.admin_url}
    return urls | ({"brokerUrlTls": broker.tls_url} if broker.tls_url else {})


def _cluster(request: Request, rest: list[str]) -> Any:
    if request.method == "GET" and rest[-1:] == ["health"]:
        return "ok"
    if request.method == "GET":
        return ["standalone"]
    return None


def _role(broker: AsyncBroker, request: Request) -> str | None:
    scheme, _, credentials = request.headers.get("authorization", "").partition(" ")
    method = request.headers.get("x-pulsar-auth-method-name", "")
    if scheme.lower() == "basic":
        try:
            return broker.service.authenticate(method or "basic", b64decode(credentials))
        except Base64Error:
            raise HttpError(HTTPStatus.UNAUTHORIZED, "the credentials are not base64") from None
    if scheme.lower() == "bearer":
        return broker.service.authenticate(method or "token", credentials.encode())
    return broker.service.authenticate(method, b"")


@cache
def _rooms() -> None:
    """Import the modules whose functions answer."""
    for room in ("namespace_routes", "topic_routes", "subscription_routes"):
        import_module(f"ackwell.devbroker.admin.{room}")
