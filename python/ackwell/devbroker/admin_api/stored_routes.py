"""Requests for objects that the dev broker only stores: it writes, returns and deletes them.

The objects have no effect. They are other clusters, failure domains, isolation policies, racks of bookies,
resource groups and resource quotas.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ackwell.devbroker.admin_api.namespace_routes import existing_bundle, existing_namespace
from ackwell.devbroker.admin_api.requests import OK, STORED_ONLY, HttpError, RawAnswer
from ackwell.devbroker.namespace_policies import CLUSTER, RESOURCE_GROUP

if TYPE_CHECKING:
    from ackwell.devbroker.admin_api.requests import Request


class StoredKind(NamedTuple):
    """One kind of stored JSON object, such as a cluster."""

    path: str
    """The key under which an object is stored. Path parameters are in braces, as in `cluster {cluster}`."""
    missing: str
    """The error message for an object that does not exist."""
    defaults: dict[str, Any] = {}  # noqa: RUF012 - never changed

    def key(self, request: Request) -> str:
        """Return the key of the object in the path."""
        return self.path.format(**request.names)

    def find(self, request: Request) -> dict[str, Any] | None:
        """Return the object in the path, or None if it does not exist."""
        found: dict[str, Any] | None = request.state.resources.get(self.key(request))
        return found

    def get(self, request: Request) -> Any:
        """Return the object in the path. 404 if it does not exist."""
        found = self.find(request)
        if found is None:
            raise HttpError(HTTPStatus.NOT_FOUND, self.missing.format(**request.names))
        return found

    def put(self, request: Request, **more: str) -> None:
        """Store the object in the body.

        A missing or null field keeps its stored value. In a new object, such a field gets its default value.
        """
        request.notes |= STORED_ONLY
        given = {name: value for name, value in request.object().items() if value is not None}
        request.state.resources[self.key(request)] = self.defaults | (self.find(request) or {}) | given | more

    def delete(self, request: Request) -> None:
        """Delete the object in the path. 404 if it does not exist."""
        self.get(request)
        del request.state.resources[self.key(request)]

    def all(self, request: Request) -> dict[str, Any]:
        """Return all objects of this kind, by name."""
        prefix = self.path.rpartition("{")[0].format(**request.names)
        stored = sorted(request.state.resources.items())
        return {key.removeprefix(prefix): value for key, value in stored if key.startswith(prefix)}


_CLUSTERS: Final = StoredKind(
    "cluster {cluster}",
    "Cluster does not exist",
    {
        "brokerClientTlsEnabled": False,
        "tlsAllowInsecureConnection": False,
        "brokerClientTlsEnabledWithKeyStore": False,
    },
)
_DOMAINS: Final = StoredKind(
    "domain {cluster} {domainName}", "Domain {domainName} for cluster {cluster} does not exist"
)
_ISOLATION: Final = StoredKind(
    "isolation {cluster} {policyName}",
    "Cannot find NamespaceIsolationPolicy {policyName} for cluster {cluster}",
)
_BOOKIES: Final = StoredKind("bookie {bookie}", "Bookie rack placement configuration not found: {bookie}")
_GROUPS: Final = StoredKind(
    "group {resourcegroup}",
    "ResourceGroup does not exist",
    dict.fromkeys(
        ("publishRateInMsgs", "publishRateInBytes", "dispatchRateInMsgs", "dispatchRateInBytes"), -1
    ),
)
_QUOTAS: Final = StoredKind(
    "quota {tenant} {namespace} {bundle}",
    "",
    {
        "msgRateIn": 40.0,
        "msgRateOut": 120.0,
        "bandwidthIn": 100000.0,
        "bandwidthOut": 300000.0,
        "memory": 80.0,
        "dynamic": True,
    },
)


# Clusters


def get_clusters(request: Request) -> Any:
    """List the clusters."""
    return sorted([CLUSTER, *_CLUSTERS.all(request)])


def get_cluster(request: Request) -> Any:
    """Return the addresses of a cluster; 404 if it does not exist."""
    if request.names["cluster"] != CLUSTER:
        return _CLUSTERS.get(request)
    tls = request.service.tls_url
    return {
        "serviceUrl": request.service.admin_url,
        "brokerServiceUrl": request.service.url,
        **({"brokerServiceUrlTls": tls} if tls else {}),
        **_CLUSTERS.defaults,
        "brokerClientTlsTrustStoreType": "JKS",
        "brokerClientTlsKeyStoreType": "JKS",
        **({} if request.state.settings.is_5 else {"brokerClientSslFactoryPlugin": _SSL_FACTORY}),
    }


_SSL_FACTORY: Final = "org.apache.pulsar.common.util.DefaultPulsarSslFactory"


def _check_cluster(request: Request) -> None:
    """Raise the error 412 if the cluster in the path does not exist."""
    if request.names["cluster"] not in get_clusters(request):
        raise HttpError(HTTPStatus.PRECONDITION_FAILED, f"Cluster {request.names['cluster']} does not exist.")


def _other(request: Request) -> None:
    """Raise an error if the path names the dev broker's own cluster. This cluster cannot be changed."""
    if request.names["cluster"] == CLUSTER:
        raise HttpError(HTTPStatus.METHOD_NOT_ALLOWED, "the dev broker cannot change its own cluster")


def create_cluster(request: Request) -> RawAnswer:
    """Store a cluster that is not the dev broker's own. 409 if the cluster exists already."""
    if request.names["cluster"] in get_clusters(request):
        raise HttpError(HTTPStatus.CONFLICT, "Cluster already exists")
    if not request.names["cluster"].replace("-", "").replace("_", "").isalnum():
        raise HttpError(HTTPStatus.PRECONDITION_FAILED, "Cluster name is not valid")
    _CLUSTERS.put(request)
    return OK


def update_cluster(request: Request) -> RawAnswer:
    """Change a cluster that is not the dev broker's own."""
    get_cluster(request)
    _other(request)
    _CLUSTERS.put(request)
    return OK


def delete_cluster(request: Request) -> None:
    """Delete a cluster that is not the dev broker's own."""
    _other(request)
    _CLUSTERS.delete(request)


def get_failure_domains(request: Request) -> Any:
    """Return the failure domains of a cluster. The result is empty for an unknown cluster."""
    return _DOMAINS.all(request)


def set_failure_domain(request: Request) -> None:
    """Store a failure domain. 409 if another failure domain already contains one of its brokers."""
    _check_cluster(request)
    brokers = _brokers(request.object())
    for name, each in get_failure_domains(request).items():
        if name != request.names["domainName"] and (common := brokers & _brokers(each)):
            raise HttpError(HTTPStatus.CONFLICT, f"[{', '.join(sorted(common))}] already exists in {name}")
    _DOMAINS.put(request)


def _brokers(domain: dict[str, Any]) -> set[str]:
    brokers = domain.get("brokers") or []
    if not isinstance(brokers, list) or not all(isinstance(each, str) for each in brokers):
        raise HttpError(HTTPStatus.BAD_REQUEST, "the brokers are not a list of texts")
    return set(brokers)


get_domain = _DOMAINS.get


def delete_failure_domain(request: Request) -> RawAnswer:
    """Delete a failure domain."""
    _DOMAINS.delete(request)
    return OK


def get_namespace_isolation_policies(request: Request) -> Any:
    """Return the isolation policies of a cluster. 404 if the cluster has none."""
    get_cluster(request)
    found = _ISOLATION.all(request)
    if not found:
        raise HttpError(HTTPStatus.NOT_FOUND, "NamespaceIsolationPolicies for cluster does not exist")
    return found


get_namespace_isolation_policy = _ISOLATION.get


def set_namespace_isolation_policy(request: Request) -> None:
    """Store an isolation policy. 400 if the body lacks a required field."""
    _check_cluster(request)
    if not all(request.object().get(each) for each in ("namespaces", "primary", "auto_failover_policy")):
        raise HttpError(HTTPStatus.BAD_REQUEST, "Invalid format of input policy data")
    _ISOLATION.put(request)


delete_namespace_isolation_policy = _ISOLATION.delete


def get_peer_cluster(request: Request) -> Any:
    """Return the peer clusters of a cluster."""
    return get_cluster(request).get("peerClusterNames")


# Bookies


def get_bookies_rack_info(request: Request) -> Any:
    """Return the racks of all bookies, by group of bookies."""
    groups: dict[str, Any] = {}
    for name, info in _BOOKIES.all(request).items():
        groups.setdefault(info["group"], {})[name] = _without_group(info)
    return groups


def _without_group(info: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in info.items() if name != "group"}


def get_bookie_rack_info(request: Request) -> Any:
    """Return the rack of a bookie."""
    return _without_group(_BOOKIES.get(request))


def update_bookie_rack_info(request: Request) -> None:
    """Store the rack of a bookie."""
    _BOOKIES.put(request, group=request.query.get("group", "default"))


delete_bookie_rack_info = _BOOKIES.delete


def get_all_bookies(_request: Request) -> Any:
    """List the bookies; the dev broker has none."""
    return {"bookies": []}


# Resource groups and quotas


def get_resource_groups(request: Request) -> Any:
    """List the resource groups."""
    return list(_GROUPS.all(request))


get_resource_group = _GROUPS.get
create_or_update_resource_group = _GROUPS.put


def delete_resource_group(request: Request) -> None:
    """Delete a resource group. 412 if a namespace uses the group."""
    name = request.names["resourcegroup"]
    if any(each.get(RESOURCE_GROUP.field) == name for each in request.state.shared.policies.values()):
        raise HttpError(HTTPStatus.PRECONDITION_FAILED, "ResourceGroup is in use")
    _GROUPS.delete(request)


def set_namespace_resource_group(request: Request) -> None:
    """Assign a resource group to a namespace; 412 if the group does not exist."""
    if _GROUPS.find(request) is None:
        raise HttpError(HTTPStatus.PRECONDITION_FAILED, "ResourceGroup does not exist")
    existing_namespace(request)
    request.notes |= STORED_ONLY
    request.state.set_policy(request.namespace, RESOURCE_GROUP.field, request.names["resourcegroup"])


_DEFAULT: Final = {"tenant": "", "namespace": "", "bundle": ""}
"""The path parameters of the default quota. They are empty, because its route has none."""


def get_default_resource_quota(request: Request) -> Any:
    """Return the default quota, which applies to bundles without a quota."""
    request.names |= _DEFAULT
    return _QUOTAS.find(request) or _QUOTAS.defaults


def set_default_resource_quota(request: Request) -> None:
    """Store the default quota, which applies to bundles without a quota."""
    request.names |= _DEFAULT
    _QUOTAS.put(request)


def get_namespace_bundle_resource_quota(request: Request) -> Any:
    """Return the quota of a bundle."""
    existing_bundle(request)
    return _QUOTAS.find(request) or get_default_resource_quota(request)


def set_namespace_bundle_resource_quota(request: Request) -> None:
    """Store the quota of a bundle."""
    existing_bundle(request)
    _QUOTAS.put(request)


def remove_namespace_bundle_resource_quota(request: Request) -> None:
    """Remove the quota of a bundle."""
    existing_bundle(request)
    request.state.resources.pop(_QUOTAS.key(request), None)
