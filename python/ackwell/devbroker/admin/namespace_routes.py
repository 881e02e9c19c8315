"""Requests about a namespace: its topics, its policies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ackwell.devbroker.admin.routes import on_namespace

if TYPE_CHECKING:
    from ackwell.devbroker.admin.http import Request
    from ackwell.devbroker.broker import AsyncBroker


@on_namespace("GET", "topics")
def topics(broker: AsyncBroker, request: Request, namespace: str, _: list[str]) -> Any:
    """List the topics, partitions one by one."""
    mode = request.query.get("mode", "PERSISTENT")
    return [
        str(name)
        for name in broker.state.topics_in(namespace)
        if mode == "ALL" or name.persistent is (mode == "PERSISTENT")
    ]


@on_namespace("PUT")
def create(broker: AsyncBroker, request: Request, namespace: str, _: list[str]) -> None:
    """Make a namespace; any may be used without."""
    broker.state.policies.setdefault(namespace, {}).update(request.json() or {})
    broker.state.save_facts()


@on_namespace("GET")
def policies(broker: AsyncBroker, _request: Request, namespace: str, _: list[str]) -> Any:
    """Give all policies that were set."""
    return broker.state.policies.get(namespace, {})


@on_namespace("GET", "*")
def policy(broker: AsyncBroker, _request: Request, namespace: str, rest: list[str]) -> Any:
    """Give one policy."""
    return broker.state.policies.get(namespace, {}).get(rest[0])


@on_namespace("PUT", "*")
@on_namespace("POST", "*")
def set_policy(broker: AsyncBroker, request: Request, namespace: str, rest: list[str]) -> None:
    """Set a policy; those that the dev broker does not know of are kept and do nothing."""
    broker.state.policies.setdefault(namespace, {})[rest[0]] = request.json()
    broker.state.save_facts()


@on_namespace("DELETE", "*")
def remove_policy(broker: AsyncBroker, _request: Request, namespace: str, rest: list[str]) -> None:
    """Remove a policy."""
    broker.state.policies.get(namespace, {}).pop(rest[0], None)
    broker.state.save_facts()
