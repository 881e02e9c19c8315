"""Requests for a whole namespace: for its topics, its subscriptions, and all of its policies at once."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from zlib import crc32

from ackwell.devbroker.admin_api.requests import HttpError
from ackwell.devbroker.namespace_policies import (
    ANTI_AFFINITY,
    BUNDLE_NAMES,
    BUNDLES,
    CLUSTER,
    RefusedPolicyError,
    from_namespace_json,
    namespace_json,
)

if TYPE_CHECKING:
    from ackwell.devbroker.admin_api.requests import Request
    from ackwell.devbroker.subscriptions import TopicSubscription
    from ackwell.devbroker.topic import Topic


def existing_namespace(request: Request) -> str:
    """Return the namespace of the path; 404 if it does not exist."""
    if request.namespace not in request.state.shared.policies:
        # With authorization, a Pulsar broker checks that the tenant exists before it checks the namespace.
        is_tenant = request.state.settings.super_users is None or _has_tenant(request)
        raise HttpError(HTTPStatus.NOT_FOUND, f"{'Namespace' if is_tenant else 'Tenant'} does not exist")
    return request.namespace


def get_tenant_namespaces(request: Request) -> Any:
    """List a tenant's namespaces."""
    tenant = existing_tenant(request)
    return sorted(name for name in request.state.shared.policies if name.startswith(f"{tenant}/"))


def existing_tenant(request: Request) -> str:
    """Return the tenant of the path; 404 if it does not exist."""
    if not _has_tenant(request):
        raise HttpError(HTTPStatus.NOT_FOUND, "Tenant does not exist")
    return request.names["tenant"]


def _has_tenant(request: Request) -> bool:
    return request.names["tenant"] in request.state.tenants()


def get_topics(request: Request) -> Any:
    """List the topics of a namespace. Each partition is listed as a separate topic."""
    mode = request.query.get("mode", "PERSISTENT")
    return [
        str(name)
        for name in request.state.topics_in(existing_namespace(request))
        if mode == "ALL" or name.persistent is (mode == "PERSISTENT")
    ]


def create_namespace(request: Request) -> None:
    """Create a namespace with the policies in the body. Empty fields and unknown fields are ignored."""
    existing_tenant(request)
    if request.namespace in request.state.shared.policies:
        raise HttpError(HTTPStatus.CONFLICT, "Namespace already exists")
    given = request.object()
    for cluster in given.get("replication_clusters") or ():
        if cluster != CLUSTER:
            raise HttpError(
                HTTPStatus.FORBIDDEN,
                f"Cluster [{cluster}] is not in the list of allowed clusters of the tenant",
            )
    try:
        request.state.shared.policies[request.namespace] = from_namespace_json(given)
    except RefusedPolicyError as error:
        raise HttpError(HTTPStatus.PRECONDITION_FAILED, str(error)) from None


def delete_namespace(request: Request) -> None:
    """Delete a namespace. Refused if the namespace has topics."""
    namespace = existing_namespace(request)
    if request.flag("force"):
        raise HttpError(HTTPStatus.METHOD_NOT_ALLOWED, "Broker doesn't allow forced deletion of namespaces")
    if request.state.topics_in(namespace):
        raise HttpError(HTTPStatus.CONFLICT, "Cannot delete non empty namespace")
    del request.state.shared.policies[namespace]


def get_policies(request: Request) -> Any:
    """Return all policies of a namespace."""
    described = namespace_json(request.state.shared.policies[existing_namespace(request)])
    newer = {"is_allow_auto_update_schema_with_replicator": True} if request.state.settings.is_5 else {}
    return described | newer


def get_bundles_data(request: Request) -> Any:
    """Return the bundles of a namespace.

    Each namespace has four bundles, which the dev broker never splits.
    """
    existing_namespace(request)
    return {"boundaries": list(BUNDLES), "numBundles": len(BUNDLES) - 1}


def existing_bundle(request: Request) -> str | None:
    """Return the bundle in the path. None if the path contains no bundle; 412 if the bundle is unknown."""
    existing_namespace(request)
    bundle = request.names.get("bundle")
    if bundle not in (None, *BUNDLE_NAMES):
        raise HttpError(HTTPStatus.PRECONDITION_FAILED, f"Invalid bundle range {bundle}")
    return bundle


def _topics(request: Request) -> list[Topic]:
    """Return the topics of the bundle in the path. Without a bundle, return those of the whole namespace."""
    namespace, bundle = existing_namespace(request), existing_bundle(request)
    return [
        each
        for each in request.state.topics.values()
        if each.content.namespace == namespace and bundle in (None, bundle_of(each.content.full_name))
    ]


def _subscriptions(request: Request) -> list[TopicSubscription]:
    """Return the subscriptions of the topics that `_topics` returns.

    If the path contains the name of a subscription, return only the subscriptions of this name.
    """
    return [
        each
        for topic in _topics(request)
        for each in topic.subscriptions.values()
        if each.name == request.names.get("subscription", each.name)
    ]


def bundle_of(topic: str) -> str:
    """Return the bundle that contains a topic. The CRC-32 of the topic's name selects it, as in Pulsar."""
    return BUNDLE_NAMES[crc32(topic.encode()) >> 30]


def get_topic_hash_positions(request: Request) -> Any:
    """Return the hashes of all topics of a bundle. If the query names a topic, return only its hash."""
    wanted, names = request.query.get("topics"), [each.content.full_name for each in _topics(request)]
    return {
        "namespace": request.namespace,
        "bundle": request.names["bundle"],
        "topicHashPositions": {each: crc32(each.encode()) for each in names if wanted in (None, each)},
    }


def get_list_from_bundle(request: Request) -> Any:
    """List the non-persistent topics of a bundle."""
    return [each.content.full_name for each in _topics(request) if not each.name.persistent]


def get_anti_affinity_namespaces(request: Request) -> Any:
    """List the namespaces of a tenant that belong to the anti-affinity group in the path.

    400 if the query has no tenant.
    """
    tenant, stored = request.query.get("tenant"), request.state.shared.policies
    if not tenant:
        raise HttpError(HTTPStatus.BAD_REQUEST, "Tenant should not be null")
    names = (name for name in sorted(stored) if name.startswith(f"{tenant}/"))
    return [name for name in names if stored[name].get(ANTI_AFFINITY.field) == request.names["group"]]


def clear_namespace_backlog(request: Request) -> None:
    """Acknowledge all entries for every subscription of a namespace or bundle.

    If the path contains the name of a subscription, do this only for the subscriptions of this name.
    """
    for each in _subscriptions(request):
        each.clear_backlog()


clear_namespace_backlog_for_subscription = clear_namespace_backlog
clear_namespace_bundle_backlog = clear_namespace_backlog
clear_namespace_bundle_backlog_for_subscription = clear_namespace_backlog
clear_namespace_bundle_subscription_backlog = clear_namespace_backlog


def delete_namespace_bundle(request: Request) -> None:
    """Refuse to delete a bundle that has topics. Do nothing for a bundle without topics."""
    if _topics(request):
        raise HttpError(HTTPStatus.CONFLICT, "Cannot delete non empty bundle")


def unsubscribe_namespace(request: Request) -> None:
    """Delete all subscriptions with the name in the request. Refused if one of them has consumers."""
    found = _subscriptions(request)
    if any(each.consumers for each in found):
        raise HttpError(HTTPStatus.PRECONDITION_FAILED, "Subscription has active connected consumers")
    for each in found:
        each.delete()


unsubscribe_namespace_bundle = unsubscribe_namespace


def unload_namespace(request: Request) -> None:
    """Close every topic of a namespace or of a bundle, and load these topics again."""
    for topic in _topics(request):
        request.state.unload(topic)


unload_namespace_bundle = unload_namespace
