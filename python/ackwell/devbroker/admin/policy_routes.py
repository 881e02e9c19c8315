"""Requests for the policies of a namespace or a topic, by the table of `ackwell.devbroker.policies`."""

from __future__ import annotations

from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from ackwell.devbroker.admin.namespace_routes import existing_namespace
from ackwell.devbroker.admin.requests import NO_CONTENT, OK, STORED_ONLY, HttpError, Raw
from ackwell.devbroker.admin.topic_routes import with_partitions
from ackwell.devbroker.policies import (
    BACKLOG_QUOTA,
    HOLD,
    NO_PERMISSIONS,
    OF_NAMESPACES,
    OF_TOPICS,
    QUOTA_OF_SIZE,
    QUOTA_TYPES,
    SUBSCRIPTION_RATE,
    TYPES,
    Policy,
    RefusedPolicyError,
    applied_default,
    checked,
    rate_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from ackwell.devbroker.admin.requests import Request

_NAMESPACE: Final = "/admin/v2/namespaces/{tenant}/{namespace}/"
_TOPIC: Final = "/admin/v2/{domain}/{tenant}/{namespace}/{topic}/"


def handler(path: str, method: str) -> Callable[[Request], Any] | None:
    """Return the function that answers a method of a policy's path; None if it is not such a path."""
    for prefix, table in ((_NAMESPACE, OF_NAMESPACES), (_TOPIC, OF_TOPICS)):
        policy = table.get(path.removeprefix(prefix))
        if path.startswith(prefix) and policy is not None:
            act = {"GET": _get, "DELETE": _remove}.get(method, _set)
            return partial(act, policy=policy, is_topic=table is OF_TOPICS)
    return None


def _stored(request: Request, *, is_topic: bool) -> dict[str, Any]:
    if is_topic:
        with_partitions(request)
        return request.state.shared.topic_policies.get(str(request.topic.partitioned), {})
    existing_namespace(request)
    return request.state.shared.policies[request.namespace]


def _get(request: Request, *, policy: Policy, is_topic: bool) -> Any:
    """Return a policy; with `applied`, a topic without the policy has the one of its namespace."""
    stored = _stored(request, is_topic=is_topic)
    if not policy.enforced:
        request.notes |= STORED_ONLY
    if not is_topic:
        return stored.get(policy.field, policy.unset)
    found = stored.get(policy.topic)
    if request.flag("applied"):
        found = request.state.shared.policy(request.topic, policy)
        found = applied_default(policy, request.state.settings) if found is None else found
        # The types of a broker's own setting are not a policy.
        return NO_CONTENT if found is None and policy.topic in (*ABSENT, TYPES.topic) else found
    if found is None:
        return NO_CONTENT if policy.topic in ABSENT else UNSET.get(policy.topic)
    return found


ABSENT: Final = ("maxConsumersPerSubscription", "maxMessageSize", "maxSubscriptionsPerTopic", "publishRate")
"""The policies for which a Pulsar broker answers 204 if a topic does not have them."""

UNSET: Final = {"subscriptionTypesEnabled": [], "schemaValidationEnforced": False}
"""The answers for a topic without a policy, unless they are empty."""


def _set(request: Request, *, policy: Policy, is_topic: bool) -> Raw | None:
    value = request.json()
    if value is None:
        # Two policies of topics have their value in the query; a flag without a body is set.
        value = request.query.get(policy.topic, True if policy.example is False else None)
    _write(request, policy, _checked(policy, value), is_topic=is_topic)
    # A Pulsar broker answers this one with 200.
    return OK if policy.name == "replication" and not is_topic else None


def _checked(policy: Policy, value: Any) -> Any:
    """Return a value in Pulsar's JSON form; 400 or 412 for a wrong one."""
    try:
        return checked(policy, value)
    except RefusedPolicyError as error:
        status = HTTPStatus.BAD_REQUEST if error.is_shape else HTTPStatus.PRECONDITION_FAILED
        raise HttpError(status, str(error)) from None


def _remove(request: Request, *, policy: Policy, is_topic: bool) -> None:
    _write(request, policy, None, is_topic=is_topic)


def _write(request: Request, policy: Policy, value: Any, *, is_topic: bool) -> None:
    _stored(request, is_topic=is_topic)
    if not policy.enforced:
        request.notes |= STORED_ONLY
    if is_topic:
        request.state.set_topic_policy(request.topic, policy.topic, value)
    else:
        request.state.set_policy(request.namespace, policy.field, value)


def remove_offload_policies(request: Request) -> None:
    """Remove the offload policies."""
    is_topic = "topic" in request.names
    _write(request, OF_TOPICS["offloadPolicies"], None, is_topic=is_topic)


# Policies with a part of their name in the path or the query


def _quotas(request: Request) -> dict[str, Any]:
    is_topic = "topic" in request.names
    stored = _stored(request, is_topic=is_topic)
    found: dict[str, Any] = stored.get(BACKLOG_QUOTA.topic if is_topic else BACKLOG_QUOTA.field, {})
    return found


def _write_quotas(request: Request, quotas: dict[str, Any]) -> None:
    _write(request, BACKLOG_QUOTA, quotas or None, is_topic="topic" in request.names)


def get_backlog_quota_map(request: Request) -> Any:
    """Return the backlog quotas by type."""
    stored = _quotas(request)
    if request.flag("applied"):
        unlimited = {"limit": -1, "limitSize": -1, "limitTime": -1, "policy": HOLD}
        of_namespace = request.state.shared.policies[request.namespace].get(BACKLOG_QUOTA.field, {})
        return dict.fromkeys(QUOTA_TYPES, unlimited) | of_namespace | stored
    return stored


def set_backlog_quota(request: Request) -> None:
    """Set the backlog quota of a type."""
    kind = request.query.get("backlogQuotaType")
    # Without a type, a namespace's request sets both, and a topic's request the first.
    kinds = [kind] if kind else QUOTA_TYPES[:1] if "topic" in request.names else QUOTA_TYPES
    given = _checked(BACKLOG_QUOTA, dict.fromkeys(kinds, request.json()))
    _write_quotas(request, _quotas(request) | given)


def remove_backlog_quota(request: Request) -> None:
    """Remove the backlog quota of a type."""
    kind = request.query.get("backlogQuotaType", QUOTA_OF_SIZE)
    _write_quotas(request, {name: quota for name, quota in _quotas(request).items() if name != kind})


def get_property(request: Request) -> Any:
    """Return one property of a namespace."""
    return _stored(request, is_topic=False).get("properties", {}).get(request.names["key"])


def set_property(request: Request) -> None:
    """Set one property of a namespace."""
    known = _stored(request, is_topic=False).get("properties", {})
    _write_properties(request, known | {request.names["key"]: request.names["value"]})


def remove_property(request: Request) -> Any:
    """Remove one property of a namespace, and return its value."""
    known = dict(_stored(request, is_topic=False).get("properties", {}))
    removed = known.pop(request.names["key"], None)
    _write_properties(request, known)
    return removed


def _write_properties(request: Request, properties: dict[str, str]) -> None:
    _write(request, OF_NAMESPACES["properties"], properties or None, is_topic=False)


def topics_get_properties(request: Request) -> Any:
    """Return the properties of a topic."""
    return _stored(request, is_topic=True).get("properties", {})


def update_properties(request: Request) -> None:
    """Add properties to a topic."""
    known = _stored(request, is_topic=True).get("properties", {})
    given = {str(name): str(value) for name, value in (request.json() or {}).items()}
    request.state.set_topic_policy(request.topic, "properties", known | given)


def topics_remove_properties(request: Request) -> None:
    """Remove one property of a topic."""
    known = dict(_stored(request, is_topic=True).get("properties", {}))
    known.pop(request.query.get("key", ""), None)
    request.state.set_topic_policy(request.topic, "properties", known or None)


def delete_topic_policies(request: Request) -> None:
    """Remove all policies of a topic."""
    for name in _stored(request, is_topic=True):
        if name != "properties":
            request.state.set_topic_policy(request.topic, name, None)


def get_subscription_level_dispatch_rate(request: Request) -> Any:
    """Return the dispatch rate of one subscription."""
    return _stored(request, is_topic=True).get(rate_of(request.names["subscription"]))


def set_subscription_level_dispatch_rate(request: Request) -> None:
    """Set the dispatch rate of one subscription."""
    _write_rate(request, _checked(SUBSCRIPTION_RATE, request.json()))


def remove_subscription_level_dispatch_rate(request: Request) -> None:
    """Remove the dispatch rate of one subscription."""
    _write_rate(request, None)


def _write_rate(request: Request, value: Any) -> None:
    _stored(request, is_topic=True)
    request.state.set_topic_policy(request.topic, rate_of(request.names["subscription"]), value)


# Permissions, which are enforced if `super_users` is set


def _roles(request: Request) -> dict[str, dict[str, Any]]:
    existing_namespace(request)
    stored: dict[str, dict[str, Any]] = request.state.shared.policies[request.namespace]
    return NO_PERMISSIONS | stored.get("auth_policies", {})


def _grant(request: Request, kind: str, name: str, value: Any) -> None:
    roles = _roles(request)
    changed = {each: kept for each, kept in roles[kind].items() if each != name}
    changed |= {name: value} if value else {}
    if request.state.settings.super_users is None or kind == "subscription_auth_roles":
        request.notes |= STORED_ONLY
    request.state.set_policy(request.namespace, "auth_policies", roles | {kind: changed})


def get_permissions(request: Request) -> Any:
    """Return the permissions of a namespace by role."""
    return _roles(request)["namespace_auth"]


def grant_permission_on_namespace(request: Request) -> None:
    """Grant actions on a namespace to a role."""
    _grant(request, "namespace_auth", request.names["role"], sorted(request.json() or []))


def revoke_permissions_on_namespace(request: Request) -> None:
    """Revoke all actions on a namespace from a role."""
    _grant(request, "namespace_auth", request.names["role"], None)


def get_permission_on_subscription(request: Request) -> Any:
    """Return the roles of each subscription of a namespace."""
    return _roles(request)["subscription_auth_roles"]


def grant_permission_on_subscription(request: Request) -> None:
    """Permit roles to use a subscription."""
    _grant(request, "subscription_auth_roles", request.names["subscription"], sorted(request.json() or []))


def revoke_permission_on_subscription(request: Request) -> None:
    """Forbid a role to use a subscription."""
    name, role = request.names["subscription"], request.names["role"]
    kept = [each for each in _roles(request)["subscription_auth_roles"].get(name, []) if each != role]
    _grant(request, "subscription_auth_roles", name, kept)


def get_permissions_on_topic(request: Request) -> Any:
    """Return the permissions of a topic by role, including those of its namespace."""
    with_partitions(request)
    roles = _roles(request)
    return roles["namespace_auth"] | roles["destination_auth"].get(str(request.topic), {})


def grant_permissions_on_topic(request: Request) -> None:
    """Grant actions on a topic to a role."""
    known = _roles(request)["destination_auth"].get(str(request.topic), {})
    granted = {request.names["role"]: sorted(request.json() or [])}
    _grant(request, "destination_auth", str(request.topic), known | granted)


def revoke_permissions_on_topic(request: Request) -> None:
    """Revoke all actions on a topic from a role; 412 if it has none."""
    known = dict(_roles(request)["destination_auth"].get(str(request.topic), {}))
    if known.pop(request.names["role"], None) is None:
        raise HttpError(HTTPStatus.PRECONDITION_FAILED, "Permissions are not set at the topic level")
    _grant(request, "destination_auth", str(request.topic), known)
