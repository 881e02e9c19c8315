"""Answers to requests for tenants, for lookups, and for the cluster's only broker."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from ackwell.broker.broker_settings import dynamic_settings
from ackwell.devbroker.admin_api.namespace_routes import bundle_of, existing_tenant
from ackwell.devbroker.admin_api.requests import NO_CONTENT, OK, STORED_ONLY, HttpError, RawAnswer
from ackwell.devbroker.admin_api.topic_stats import stats
from ackwell.devbroker.namespace_policies import BUNDLE_NAMES, CLUSTER

if TYPE_CHECKING:
    from ackwell.devbroker.admin_api.requests import Request


# Tenants


def get_tenants(request: Request) -> Any:
    """List the tenants."""
    return sorted(request.state.tenants())


def get_tenant_admin(request: Request) -> Any:
    """Return the roles and clusters of a tenant."""
    tenant = existing_tenant(request)
    return request.state.made_tenants.get(tenant) or {"allowedClusters": [CLUSTER]}


def _tenant(request: Request) -> dict[str, Any]:
    given = request.json()
    if not isinstance(given, dict):
        raise HttpError(HTTPStatus.PRECONDITION_FAILED, "TenantInfo is null")
    clusters = given.get("allowedClusters") or []
    if not clusters:
        raise HttpError(HTTPStatus.PRECONDITION_FAILED, "Clusters can not be empty")
    if set(clusters) - {CLUSTER}:
        raise HttpError(HTTPStatus.PRECONDITION_FAILED, "Clusters do not exist")
    roles = given.get("adminRoles")
    return ({} if roles is None else {"adminRoles": roles}) | {"allowedClusters": clusters}


def create_tenant(request: Request) -> None:
    """Create a tenant."""
    tenant = request.names["tenant"]
    if tenant in request.state.tenants():
        raise HttpError(HTTPStatus.CONFLICT, "Tenant already exists")
    request.state.made_tenants[tenant] = _tenant(request)


def update_tenant(request: Request) -> None:
    """Change the roles and clusters of a tenant."""
    request.state.made_tenants[existing_tenant(request)] = _tenant(request)


def delete_tenant(request: Request) -> None:
    """Delete a tenant; 409 if it has namespaces."""
    tenant = existing_tenant(request)
    if request.flag("force"):
        raise HttpError(HTTPStatus.METHOD_NOT_ALLOWED, "Broker doesn't allow forced deletion of tenants")
    if any(name.startswith(f"{tenant}/") for name in request.state.shared.policies):
        raise HttpError(HTTPStatus.CONFLICT, "The tenant still has active namespaces")
    request.state.made_tenants.pop(tenant, None)


# The broker


def _broker_id(request: Request) -> str:
    return request.service.admin_url.rpartition("/")[2]


def get_active_brokers(request: Request) -> Any:
    """List the active brokers, which are only this broker."""
    return [_broker_id(request)]


def get_leader_broker(request: Request) -> Any:
    """Return the leader of the cluster's brokers, which is this broker."""
    return {"serviceUrl": request.service.admin_url, "brokerId": _broker_id(request)}


def get_owned_namespaces(request: Request) -> Any:
    """Return the bundles that this broker owns, which are all bundles."""
    if request.names["brokerId"] != _broker_id(request):
        raise HttpError(HTTPStatus.NOT_FOUND, f"Broker id '{request.names['brokerId']}' not found")
    owned = {"broker_assignment": "shared", "is_controlled": False, "is_active": True}
    namespaces = sorted(request.state.shared.policies)
    return {f"{name}/{bundle}": owned for name in namespaces for bundle in BUNDLE_NAMES}


def version(request: Request) -> Any:
    """Return the emulated Pulsar release, as plain text without JSON quotes."""
    return RawAnswer(request.state.settings.release.encode(), {})


def health_check(_request: Request) -> Any:
    """Answer that the broker is healthy."""
    return RawAnswer(b"ok", {})


is_ready = health_check


def get_internal_configuration_data(_request: Request) -> Any:
    """Return the addresses of the metadata stores.

    They are placeholders, because the dev broker has no such store.
    """
    return {
        "metadataStoreUrl": "memory:dev-broker",
        "configurationMetadataStoreUrl": "memory:dev-broker",
        "ledgersRootPath": "/ledgers",
        # The older names of the two stores.
        "zookeeperServers": "memory:dev-broker",
        "configurationStoreServers": "memory:dev-broker",
    }


def get_runtime_configuration(request: Request) -> Any:
    """Return the broker settings that determine which acknowledgments a restart loses.

    `ackwell doctor` reads these settings.
    """
    return {name: str(value).lower() for name, value in request.state.settings.broker.named().items()}


def get_all_dynamic_configurations(request: Request) -> Any:
    """Return the settings that were changed at run time."""
    return dict(request.state.dynamic_settings)


def get_dynamic_configuration_name(request: Request) -> Any:
    """List the settings that can be changed at run time."""
    return dynamic_settings(request.state.settings.release)


def _dynamic_setting(request: Request) -> str:
    """Return the name of the setting in the path. 412 if this setting cannot be changed at run time."""
    name = request.names["configName"]
    if name not in dynamic_settings(request.state.settings.release):
        raise HttpError(HTTPStatus.PRECONDITION_FAILED, f"{name} is a non-dynamic configuration")
    request.notes |= STORED_ONLY
    return name


def update_dynamic_configuration(request: Request) -> RawAnswer:
    """Store a new value of a setting. The dev broker does not use the value."""
    request.state.dynamic_settings[_dynamic_setting(request)] = request.names["configValue"]
    return OK


def delete_dynamic_configuration(request: Request) -> RawAnswer:
    """Remove the stored value of a setting."""
    request.state.dynamic_settings.pop(_dynamic_setting(request), None)
    return OK


def backlog_quota_check(request: Request) -> RawAnswer:
    """Check the backlog quotas of all topics now. If a topic exceeds a quota, apply the quota's policy."""
    request.state.check_backlog_quotas()
    return NO_CONTENT


def get_topics2(request: Request) -> Any:
    """Return the statistics of every topic, grouped by namespace and bundle."""
    described: dict[str, Any] = {}
    for name, topic in request.state.topics.items():
        bundles = described.setdefault(topic.name.in_namespace, {})
        domains = bundles.setdefault(bundle_of(name), {})
        domains.setdefault(topic.name.domain, {})[name] = stats(topic)
    return described


# Lookups


def lookup_topic_async(request: Request) -> Any:
    """Return the addresses of the broker that owns a topic, which is this broker."""
    request.state.check_namespace(request.topic)
    request.service.listener(request.query.get("listenerName", ""))
    urls = {
        "brokerUrl": request.service.url,
        "httpUrl": request.service.admin_url,
        "nativeUrl": request.service.url,
        "brokerUrlSsl": request.service.tls_url or "",
    }
    urls |= {"brokerUrlTls": request.service.tls_url} if request.service.tls_url else {}
    return urls | ({"brokerId": _broker_id(request)} if request.state.settings.is_5 else {})


def get_namespace_bundle(request: Request) -> Any:
    """Return the bundle that contains a topic, as plain text without JSON quotes."""
    return RawAnswer(bundle_of(str(request.topic)).encode(), {})
