"""Requests about a namespace: its topics, its policies."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from ackwell.devbroker.admin.requests import HttpError

if TYPE_CHECKING:
    from ackwell.devbroker.admin.requests import Backend, Request


def topics(backend: Backend, request: Request, namespace: str, _: list[str]) -> Any:
    """List the topics, partitions one by one."""
    existing_namespace(backend, namespace)
    mode = request.query.get("mode", "PERSISTENT")
    return [
        str(name)
        for name in backend.state.topics_in(namespace)
        if mode == "ALL" or name.persistent is (mode == "PERSISTENT")
    ]


def create(backend: Backend, request: Request, namespace: str, _: list[str]) -> None:
    """Make a namespace."""
    tenant = namespace.partition("/")[0]
    if tenant not in backend.state.tenants():
        raise HttpError(HTTPStatus.NOT_FOUND, f"Tenant {tenant} not found")
    if namespace in backend.state.shared.policies:
        raise HttpError(HTTPStatus.CONFLICT, "Namespace already exists")
    backend.state.shared.policies[namespace] = dict(request.json() or {})


def delete(backend: Backend, request: Request, namespace: str, _: list[str]) -> None:
    """Delete a namespace; refused while it has topics."""
    existing_namespace(backend, namespace)
    if request.query.get("force") == "true":
        raise HttpError(HTTPStatus.METHOD_NOT_ALLOWED, "Broker doesn't allow forced deletion of namespaces")
    if backend.state.topics_in(namespace):
        raise HttpError(HTTPStatus.CONFLICT, "Cannot delete non empty namespace")
    del backend.state.shared.policies[namespace]


def existing_namespace(backend: Backend, namespace: str) -> None:
    """Answer 404 for a namespace that was not made."""
    if namespace not in backend.state.shared.policies:
        raise HttpError(HTTPStatus.NOT_FOUND, f"Namespace {namespace} not found")


def policies(backend: Backend, _request: Request, namespace: str, _: list[str]) -> Any:
    """Return all policies that were set."""
    existing_namespace(backend, namespace)
    return backend.state.shared.policies[namespace]


def policy(backend: Backend, _request: Request, namespace: str, rest: list[str]) -> Any:
    """Return one policy."""
    existing_namespace(backend, namespace)
    return backend.state.shared.policies.get(namespace, {}).get(rest[0])


def set_policy(backend: Backend, request: Request, namespace: str, rest: list[str]) -> None:
    """Set a policy; those that the dev broker does not know of are kept and do nothing."""
    existing_namespace(backend, namespace)
    backend.state.set_policy(namespace, rest[0], request.json())


def remove_policy(backend: Backend, _request: Request, namespace: str, rest: list[str]) -> None:
    """Remove a policy."""
    existing_namespace(backend, namespace)
    backend.state.set_policy(namespace, rest[0], None)
