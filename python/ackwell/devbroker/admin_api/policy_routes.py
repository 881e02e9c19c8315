"""Requests for one policy of a namespace or a topic. The table in `namespace_policies` lists the policies."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from http import HTTPStatus
from json import dumps
from typing import TYPE_CHECKING, Any, Final

from ackwell.devbroker.admin_api.namespace_routes import existing_namespace
from ackwell.devbroker.admin_api.requests import NO_CONTENT, OK, STORED_ONLY, HttpError, RawAnswer
from ackwell.devbroker.admin_api.topic_routes import with_partitions
from ackwell.devbroker.broker_state import parse_topic_name
from ackwell.devbroker.namespace_policies import (
    BACKLOG_QUOTA,
    HOLD,
    NO_PERMISSIONS,
    OF_NAMESPACES,
    OF_TOPICS,
    QUOTA_OF_SIZE,
    QUOTA_TYPES,
    SUBSCRIPTION_RATE,
    TYPES,
    NamespacePolicy,
    RefusedPolicyError,
    applied_default,
    checked,
    rate_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from ackwell.devbroker.admin_api.requests import Request

_NAMESPACE: Final = "/admin/v2/namespaces/{tenant}/{namespace}/"
_TOPIC: Final = "/admin/v2/{domain}/{tenant}/{namespace}/{topic}/"


def handler(path: str, method: str) -> Callable[[Request], Any] | None:
    """Return the function that answers the HTTP method `method` of a policy's route.

    Return None for a route that does not belong to a policy.
    """
    for prefix, table in ((_NAMESPACE, OF_NAMESPACES), (_TOPIC, OF_TOPICS)):
        policy = table.get(path.removeprefix(prefix))
        if path.startswith(prefix) and policy is not None:
            return partial({"GET": _get, "DELETE": _remove}.get(method, _set), policy=policy)
    return None


def _is_topic(request: Request) -> bool:
    return "topic" in request.names


def _stored(request: Request) -> dict[str, Any]:
    """Return all stored policies of the topic in the path. Without a topic, return those of the namespace."""
    if _is_topic(request):
        with_partitions(request)
        return request.state.shared.topic_policies.get(str(request.topic.partitioned), {})
    existing_namespace(request)
    return request.state.shared.policies[request.namespace]


def _store(request: Request, key: str, value: Any) -> None:
    """Store one policy of the topic or namespace in the path. The value None removes the policy."""
    _stored(request)
    if _is_topic(request):
        request.state.set_topic_policy(request.topic, key, value)
    else:
        request.state.set_policy(request.namespace, key, value)


def _key(request: Request, policy: NamespacePolicy) -> str:
    """Return the key under which a policy is stored.

    If the dev broker does not apply the policy, add the header `STORED_ONLY` to the answer.
    """
    if not policy.enforced:
        request.notes |= STORED_ONLY
    return policy.topic if _is_topic(request) else policy.field


def _get(request: Request, *, policy: NamespacePolicy) -> Any:
    """Return one policy. With the query parameter `applied`, return the value that applies to a topic.

    The applied value is the topic's policy, otherwise the namespace's policy, otherwise the default.
    """
    found = _stored(request).get(_key(request, policy))
    if not _is_topic(request):
        if found is None:
            return policy.unset
        # A policy of free text is answered as plain text. All other values, also enumerations, are JSON.
        return _text(found) if _is_text(policy) else found
    if request.flag("applied"):
        found = request.state.shared.policy(request.topic, policy)
        found = applied_default(policy, request.state.settings) if found is None else found
        # For the subscription types, the value of `found` can come from a broker setting. It is not a policy.
        return NO_CONTENT if found is None and policy.topic in (*ABSENT, TYPES.topic) else found
    if found is None:
        return NO_CONTENT if policy.topic in ABSENT else UNSET.get(policy.topic)
    return found


ABSENT: Final = ("maxConsumersPerSubscription", "maxMessageSize", "maxSubscriptionsPerTopic", "publishRate")
"""The policies of topics for which a Pulsar broker answers 204 if the topic has no such policy."""

UNSET: Final = {"subscriptionTypesEnabled": [], "schemaValidationEnforced": False}
"""The answers for policies that a topic does not have. For policies that are missing here, the answer is
empty."""


def _set(request: Request, *, policy: NamespacePolicy) -> RawAnswer | None:
    value = request.body.decode("utf-8", "replace") or None if _is_text(policy) else request.json()
    if value is None:
        # For two policies of topics, the query contains the value. For a flag, an empty body means true.
        value = request.query.get(policy.topic, True if policy.example is False else None)
    _store(request, _key(request, policy), _checked(policy, value))
    # A Pulsar broker answers a change of the replication clusters with 200, and other changes with 204.
    return OK if policy.name == "replication" and not _is_topic(request) else None


def _is_text(policy: NamespacePolicy) -> bool:
    return policy.example == "" and not policy.choices


def _checked(policy: NamespacePolicy, value: Any) -> Any:
    """Return a policy's value in Pulsar's JSON form. 400 or 412 if a Pulsar broker refuses the value."""
    try:
        return checked(policy, value)
    except RefusedPolicyError as error:
        status = HTTPStatus.BAD_REQUEST if error.is_shape else HTTPStatus.PRECONDITION_FAILED
        raise HttpError(status, str(error)) from None


def _remove(request: Request, *, policy: NamespacePolicy) -> None:
    _store(request, _key(request, policy), None)


def remove_offload_policies(request: Request) -> None:
    """Remove the offload policies."""
    _remove(request, policy=OF_TOPICS["offloadPolicies"])


# Policies with a part of their name in the path or the query


def get_backlog_quota_map(request: Request) -> Any:
    """Return the backlog quotas as a map from quota type to quota."""
    stored: dict[str, Any] = _stored(request).get(_key(request, BACKLOG_QUOTA), {})
    if request.flag("applied"):
        unlimited = {"limit": -1, "limitSize": -1, "limitTime": -1, "policy": HOLD}
        of_namespace = request.state.shared.policies[request.namespace].get(BACKLOG_QUOTA.field, {})
        return dict.fromkeys(QUOTA_TYPES, unlimited) | of_namespace | stored
    return stored


def set_backlog_quota(request: Request) -> None:
    """Set the backlog quota of one quota type."""
    kind = request.query.get("backlogQuotaType")
    # If the query has no type, a request for a namespace sets both types. A request for a topic sets only the
    # first type.
    kinds = [kind] if kind else QUOTA_TYPES[:1] if _is_topic(request) else QUOTA_TYPES
    given = _checked(BACKLOG_QUOTA, dict.fromkeys(kinds, request.json()))
    _add_to(request, _key(request, BACKLOG_QUOTA), given)


def remove_backlog_quota(request: Request) -> None:
    """Remove the backlog quota of one quota type."""
    _remove_from(request, _key(request, BACKLOG_QUOTA), request.query.get("backlogQuotaType", QUOTA_OF_SIZE))


def _add_to(request: Request, key: str, values: dict[str, Any]) -> None:
    """Add values to the JSON object that is stored as the policy `key`."""
    _store(request, key, _stored(request).get(key, {}) | values or None)


def _remove_from(request: Request, key: str, name: str) -> Any:
    """Remove one value from the JSON object that is stored as the policy `key`, and return the value."""
    known = dict(_stored(request).get(key, {}))
    removed = known.pop(name, None)
    _store(request, key, known or None)
    return removed


_PROPERTIES: Final = "properties"


def get_property(request: Request) -> Any:
    """Return one property of a namespace, as plain text without JSON quotes."""
    return _text(_stored(request).get(_PROPERTIES, {}).get(request.names["key"]))


def _text(value: str | None) -> RawAnswer | None:
    return None if value is None else RawAnswer(value.encode(), {})


def set_properties(request: Request) -> None:
    """Add properties to a namespace."""
    _add_to(request, _key(request, OF_NAMESPACES[_PROPERTIES]), _given_properties(request))


def _given_properties(request: Request) -> dict[str, str]:
    return {name: str(value) for name, value in request.object().items()}


def set_property(request: Request) -> None:
    """Set one property of a namespace."""
    _add_to(request, _PROPERTIES, {request.names["key"]: request.names["value"]})


def remove_property(request: Request) -> Any:
    """Remove one property of a namespace, and return its value."""
    return _text(_remove_from(request, _PROPERTIES, request.names["key"]))


def topics_get_properties(request: Request) -> Any:
    """Return the properties of a topic."""
    return _stored(request).get(_PROPERTIES, {})


def update_properties(request: Request) -> None:
    """Add properties to a topic."""
    _add_to(request, _PROPERTIES, _given_properties(request))


def topics_remove_properties(request: Request) -> None:
    """Remove one property of a topic."""
    _remove_from(request, _PROPERTIES, request.query.get("key", ""))


def delete_topic_policies(request: Request) -> None:
    """Remove all policies of a topic."""
    for name in _stored(request):
        if name != _PROPERTIES:
            _store(request, name, None)


def get_subscription_level_dispatch_rate(request: Request) -> Any:
    """Return the dispatch rate of one subscription."""
    return _stored(request).get(rate_of(request.names["subscription"]))


def set_subscription_level_dispatch_rate(request: Request) -> None:
    """Set the dispatch rate of one subscription."""
    _store(request, rate_of(request.names["subscription"]), _checked(SUBSCRIPTION_RATE, request.json()))


def remove_subscription_level_dispatch_rate(request: Request) -> None:
    """Remove the dispatch rate of one subscription."""
    _store(request, rate_of(request.names["subscription"]), None)


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
    """Grant a role the permission for actions on a namespace."""
    _grant(request, "namespace_auth", request.names["role"], sorted(request.texts()))


def revoke_permissions_on_namespace(request: Request) -> None:
    """Revoke all permissions of a role on a namespace."""
    _grant(request, "namespace_auth", request.names["role"], None)


def get_permission_on_subscription(request: Request) -> Any:
    """Return, for each subscription of a namespace, the roles that may use it."""
    return _roles(request)["subscription_auth_roles"]


def grant_permission_on_subscription(request: Request) -> None:
    """Permit roles to use a subscription."""
    _grant(request, "subscription_auth_roles", request.names["subscription"], sorted(request.texts()))


def revoke_permission_on_subscription(request: Request) -> None:
    """Forbid a role to use a subscription."""
    name, role = request.names["subscription"], request.names["role"]
    kept = [each for each in _roles(request)["subscription_auth_roles"].get(name, []) if each != role]
    _grant(request, "subscription_auth_roles", name, kept)


def get_permissions_on_topic(request: Request) -> Any:
    """Return the permissions of a topic by role. They include the permissions of its namespace."""
    with_partitions(request)
    roles = _roles(request)
    return roles["namespace_auth"] | roles["destination_auth"].get(str(request.topic), {})


def grant_permissions_on_topic(request: Request) -> None:
    """Grant a role the permission for actions on a topic."""
    known = _roles(request)["destination_auth"].get(str(request.topic), {})
    granted = {request.names["role"]: sorted(request.texts())}
    _grant(request, "destination_auth", str(request.topic), known | granted)


def revoke_permissions_on_topic(request: Request) -> None:
    """Revoke all permissions of a role on a topic. 412 if the role has no permission on the topic."""
    known = dict(_roles(request)["destination_auth"].get(str(request.topic), {}))
    if known.pop(request.names["role"], None) is None:
        raise HttpError(HTTPStatus.PRECONDITION_FAILED, "Permissions are not set at the topic level")
    _grant(request, "destination_auth", str(request.topic), known)


def grant_permissions_on_topics(request: Request) -> None:
    """Grant permissions on several topics of one namespace."""
    for each in _of_topics(request):
        grant_permissions_on_topic(each)


def revoke_permissions_on_topics(request: Request) -> None:
    """Revoke permissions on several topics of one namespace."""
    for each in _of_topics(request):
        known = _roles(each)["destination_auth"].get(str(each.topic), {})
        kept = {role: actions for role, actions in known.items() if role != each.names["role"]}
        _grant(each, "destination_auth", str(each.topic), kept)


def _of_topics(request: Request) -> list[Request]:
    """Return one request for each topic that the body lists. 400 if the topics have different namespaces."""
    given = request.json()
    try:
        names = [parse_topic_name(each["topic"]) for each in given]
        rows = [(each["role"], each.get("actions") or []) for each in given]
    except (TypeError, KeyError):
        raise HttpError(HTTPStatus.BAD_REQUEST, "expected a list of objects with topic and role") from None
    if len({name.in_namespace for name in names}) != 1:
        raise HttpError(HTTPStatus.BAD_REQUEST, "The namespace should be the same")
    return [
        replace(
            request,
            names=dict(zip(("domain", "tenant", "namespace", "topic"), name, strict=True)) | {"role": role},
            body=dumps(actions).encode(),
        )
        for name, (role, actions) in zip(names, rows, strict=True)
    ]
