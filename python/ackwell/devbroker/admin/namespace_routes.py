"""Requests for a namespace: its topics and its policies."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from ackwell.devbroker.admin.requests import HttpError
from ackwell.devbroker.policies import POLICIES, check_value

if TYPE_CHECKING:
    from ackwell.devbroker.admin.requests import Backend, Request

_OF_CLUSTERS: Final = {"bundles", "replication_clusters"}
"""Arguments of a new namespace that have no meaning for a single broker."""


def topics(backend: Backend, request: Request, namespace: str, _: list[str]) -> Any:
    """List the topics, each partition separately."""
    existing_namespace(backend, namespace)
    mode = request.query.get("mode", "PERSISTENT")
    return [
        str(name)
        for name in backend.state.topics_in(namespace)
        if mode == "ALL" or name.persistent is (mode == "PERSISTENT")
    ]


def create(backend: Backend, request: Request, namespace: str, _: list[str]) -> None:
    """Create a namespace."""
    tenant = namespace.partition("/")[0]
    if tenant not in backend.state.tenants():
        raise HttpError(HTTPStatus.NOT_FOUND, f"Tenant {tenant} not found")
    if namespace in backend.state.shared.policies:
        raise HttpError(HTTPStatus.CONFLICT, "Namespace already exists")
    given = dict(request.json() or {})
    for name in given.keys() - _OF_CLUSTERS:
        check_policy(name, given[name])
    backend.state.shared.policies[namespace] = given


def delete(backend: Backend, request: Request, namespace: str, _: list[str]) -> None:
    """Delete a namespace; refused while it has topics."""
    existing_namespace(backend, namespace)
    if request.query.get("force") == "true":
        raise HttpError(HTTPStatus.METHOD_NOT_ALLOWED, "Broker doesn't allow forced deletion of namespaces")
    if backend.state.topics_in(namespace):
        raise HttpError(HTTPStatus.CONFLICT, "Cannot delete non empty namespace")
    del backend.state.shared.policies[namespace]


def existing_namespace(backend: Backend, namespace: str) -> None:
    """Answer 404 if a namespace does not exist."""
    if namespace not in backend.state.shared.policies:
        raise HttpError(HTTPStatus.NOT_FOUND, f"Namespace {namespace} not found")


def policies(backend: Backend, _request: Request, namespace: str, _: list[str]) -> Any:
    """Return all policies that are set."""
    existing_namespace(backend, namespace)
    return backend.state.shared.policies[namespace]


def policy(backend: Backend, _request: Request, namespace: str, rest: list[str]) -> Any:
    """Return one policy."""
    existing_namespace(backend, namespace)
    return backend.state.shared.policies.get(namespace, {}).get(rest[0])


def set_policy(backend: Backend, request: Request, namespace: str, rest: list[str]) -> None:
    """Set a policy; 501 for a policy that the dev broker does not implement."""
    existing_namespace(backend, namespace)
    value = request.json()
    check_policy(rest[0], value)
    backend.state.set_policy(namespace, rest[0], value)


def clear_backlog(backend: Backend, _request: Request, namespace: str, rest: list[str]) -> None:
    """Acknowledge all entries, for every subscription or for those of one name."""
    existing_namespace(backend, namespace)
    for each in backend.state.subscriptions():
        if each.content.namespace == namespace and each.name in (rest[1:] or [each.name]):
            each.clear_backlog()


def unload(backend: Backend, _request: Request, namespace: str, _: list[str]) -> None:
    """Close every topic and load it again."""
    existing_namespace(backend, namespace)
    for topic in list(backend.state.topics.values()):
        if topic.content.namespace == namespace:
            backend.state.unload(topic)


def check_policy(name: str, value: Any) -> None:
    """Refuse a policy that the dev broker does not implement, and a value that a broker refuses."""
    if name not in POLICIES:
        raise HttpError(
            HTTPStatus.NOT_IMPLEMENTED,
            f"the dev broker does not implement the policy {name!r}; it implements {', '.join(POLICIES)}",
        )
    try:
        check_value(name, value)
    except ValueError as error:
        raise HttpError(HTTPStatus.PRECONDITION_FAILED, str(error)) from None


def remove_policy(backend: Backend, _request: Request, namespace: str, rest: list[str]) -> None:
    """Remove a policy."""
    existing_namespace(backend, namespace)
    backend.state.set_policy(namespace, rest[0], None)
