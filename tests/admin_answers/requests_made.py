"""The requests: method, path and body, in the order in which they are made."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

Row = tuple[str, str, Any]

RATE: Final = {
    "dispatchThrottlingRateInMsg": 10,
    "dispatchThrottlingRateInByte": 1000,
    "ratePeriodInSecond": 1,
}
QUORUMS: Final = {
    "bookkeeperEnsemble": 1,
    "bookkeeperWriteQuorum": 1,
    "bookkeeperAckQuorum": 1,
    "managedLedgerMaxMarkDeleteRate": 1.0,
}
INACTIVE: Final = {
    "inactiveTopicDeleteMode": "delete_when_no_subscriptions",
    "maxInactiveDurationSeconds": 60,
    "deleteWhileInactive": True,
}
QUOTA: Final = {"limitSize": 1000, "policy": "producer_exception"}
RETENTION: Final = {"retentionTimeInMinutes": 10, "retentionSizeInMB": 10}
PUBLISH_RATE: Final = {"publishThrottlingRateInMsg": 10, "publishThrottlingRateInByte": 1000}
SUBSCRIBE_RATE: Final = {"subscribeThrottlingRatePerConsumer": 10, "ratePeriodInSecond": 30}

POLICIES: Final[tuple[tuple[str, str, Any], ...]] = (
    ("POST autoSubscriptionCreation", "", {"allowAutoSubscriptionCreation": False}),
    (
        "POST autoTopicCreation",
        "",
        {"allowAutoTopicCreation": True, "topicType": "partitioned", "defaultNumPartitions": 3},
    ),
    ("POST backlogQuota", "POST backlogQuota", QUOTA),
    ("PUT compactionThreshold", "POST compactionThreshold", 1000),
    ("POST deduplication", "POST deduplicationEnabled", True),
    ("POST deduplicationSnapshotInterval", "POST deduplicationSnapshotInterval", 100),
    ("POST delayedDelivery", "POST delayedDelivery", {"active": True, "tickTime": 1000}),
    ("POST dispatchRate", "POST dispatchRate", RATE),
    ("POST encryptionRequired", "", True),
    ("POST entryFilters", "POST entryFilters", {"entryFilterNames": "a"}),
    ("POST inactiveTopicPolicies", "POST inactiveTopicPolicies", INACTIVE),
    ("POST isAllowAutoUpdateSchema", "", False),
    ("POST maxConsumersPerSubscription", "POST maxConsumersPerSubscription", 3),
    ("POST maxConsumersPerTopic", "POST maxConsumers", 3),
    ("POST maxProducersPerTopic", "POST maxProducers", 3),
    ("POST maxSubscriptionsPerTopic", "POST maxSubscriptionsPerTopic", 3),
    ("POST maxTopicsPerNamespace", "", 30),
    ("POST maxUnackedMessagesPerConsumer", "POST maxUnackedMessagesOnConsumer", 3),
    ("POST maxUnackedMessagesPerSubscription", "POST maxUnackedMessagesOnSubscription", 30),
    ("POST messageTTL", "POST messageTTL?messageTTL=60", 60),
    ("PUT offloadDeletionLagMs", "", 5),
    ("PUT offloadThreshold", "", 5),
    ("POST persistence", "POST persistence", QUORUMS),
    ("PUT properties", "PUT properties", {"a": "b"}),
    ("POST publishRate", "POST publishRate", PUBLISH_RATE),
    ("POST replication", "", ["standalone"]),
    ("POST replicatorDispatchRate", "POST replicatorDispatchRate", RATE),
    ("POST retention", "POST retention", RETENTION),
    ("PUT schemaCompatibilityStrategy", "PUT schemaCompatibilityStrategy", "BACKWARD"),
    ("POST schemaValidationEnforced", "POST schemaValidationEnforced", True),
    ("POST subscribeRate", "POST subscribeRate", SUBSCRIBE_RATE),
    ("POST subscriptionAuthMode", "", "Prefix"),
    ("POST subscriptionDispatchRate", "POST subscriptionDispatchRate", RATE),
    ("POST subscriptionExpirationTime", "", 60),
    ("POST subscriptionTypesEnabled", "POST subscriptionTypesEnabled", ["Exclusive", "Shared"]),
    ("POST antiAffinity", "", "group"),
    ("POST permissions/role", "", ["produce", "consume"]),
    ("", "POST maxMessageSize", 1000),
)
"""The request for a policy of a namespace, the one for a topic, and the value; a request may be missing."""


def _requests(rows: Iterable[tuple[str, Any]]) -> Iterator[Row]:
    """Yield the requests that are not missing. A path with a query has the value in the query."""
    for request, value in rows:
        method, _, path = request.partition(" ")
        if path:
            yield method, path, None if "?" in path else value


OF_NAMESPACES: Final = tuple(_requests((request, value) for request, _, value in POLICIES))
OF_TOPICS: Final = tuple(_requests((request, value) for _, request, value in POLICIES))

READ_AS: Final = {"backlogQuota": "backlogQuotaMap", "permissions/role": "permissions"}
"""Policies that are read under another name."""

NAMESPACE: Final = "/admin/v2/namespaces/t/n"
TOPICS: Final = "/admin/v2/persistent/t/n"
WITH_POLICIES: Final = "/admin/v2/namespaces/t/policies"
TOPIC_WITH_POLICIES: Final = "/admin/v2/persistent/t/policies/orders"
SCHEMA: Final = "/admin/v2/schemas/t/n/typed"
TRANSACTIONS: Final = "/admin/v3/transactions"

AVRO: Final = '{"type":"record","name":"A","fields":[{"name":"x","type":"int"}]}'
AVRO_2: Final = AVRO.replace("}]", '},{"name":"y","type":"int","default":0}]')
TYPED: Final = {"type": "AVRO", "schema": AVRO, "properties": {"p": "q"}}

BEGUN: Final[tuple[Row, ...]] = (
    ("PUT", "/admin/v2/tenants/t", {"allowedClusters": ["standalone"]}),
    ("PUT", NAMESPACE, None),
    ("PUT", f"{TOPICS}/orders", None),
    ("PUT", f"{TOPICS}/orders", None),
    ("PUT", f"{TOPICS}/parts/partitions", 2),
    ("PUT", f"{TOPICS}/orders/subscription/s", None),
    ("PUT", f"{TOPICS}/parts/subscription/s", None),
    ("PUT", f"{TOPICS}/parts/subscription/s", None),
    ("PUT", WITH_POLICIES, None),
    ("PUT", TOPIC_WITH_POLICIES, None),
)
"""Requests that create the objects of the others."""


def policies() -> Iterator[Row]:
    """Set, read, apply and remove each policy of a namespace and of a topic."""
    for _, path, _ in OF_TOPICS:
        yield "GET", f"{TOPIC_WITH_POLICIES}/{_read(path)}?applied=true", None
    for base, rows in ((WITH_POLICIES, OF_NAMESPACES), (TOPIC_WITH_POLICIES, OF_TOPICS)):
        for method, path, value in rows:
            yield method, f"{base}/{path}", value
            yield "GET", f"{base}/{_read(path)}", None
        if base == WITH_POLICIES:
            yield "GET", WITH_POLICIES, None
        for _, path, _ in rows:
            yield "DELETE", f"{base}/{path.partition('?')[0]}", None
            yield "GET", f"{base}/{_read(path)}", None


def _read(path: str) -> str:
    name = path.partition("?")[0]
    return READ_AS.get(name, name)


OF_THE_BROKER: Final[tuple[Row, ...]] = (
    ("GET", "/admin/v2/clusters", None),
    ("GET", "/admin/v2/clusters/standalone", None),
    ("GET", "/admin/v2/clusters/none", None),
    ("GET", "/admin/v2/clusters/standalone/failureDomains", None),
    ("GET", "/admin/v2/clusters/standalone/namespaceIsolationPolicies", None),
    ("GET", "/admin/v2/clusters/standalone/peers", None),
    ("GET", "/admin/v2/brokers/standalone", None),
    ("GET", "/admin/v2/brokers/leaderBroker", None),
    ("GET", "/admin/v2/brokers/version", None),
    ("GET", "/admin/v2/brokers/health", None),
    ("GET", "/admin/v2/brokers/ready", None),
    ("GET", "/admin/v2/brokers/configuration", None),
    ("GET", "/admin/v2/brokers/configuration/values", None),
    ("GET", "/admin/v2/brokers/internal-configuration", None),
    ("GET", "/admin/v2/brokers/backlog-quota-check", None),
    ("GET", "/admin/v2/tenants", None),
    ("GET", "/admin/v2/tenants/t", None),
    ("GET", "/admin/v2/tenants/none", None),
    ("PUT", "/admin/v2/tenants/t", {"allowedClusters": ["standalone"]}),
    ("PUT", "/admin/v2/tenants/other", {"allowedClusters": ["none"]}),
    ("POST", "/admin/v2/tenants/t", {"adminRoles": ["role"], "allowedClusters": ["standalone"]}),
    ("POST", "/admin/v2/tenants/none", {"allowedClusters": ["standalone"]}),
    ("DELETE", "/admin/v2/tenants/none", None),
    ("DELETE", "/admin/v2/tenants/t", None),
    ("GET", "/admin/v2/namespaces/t", None),
    ("GET", "/admin/v2/namespaces/none", None),
    ("GET", "/admin/v2/namespaces/t/none", None),
    ("PUT", NAMESPACE, None),
    ("GET", f"{NAMESPACE}/topics", None),
    ("GET", f"{NAMESPACE}/bundles", None),
    (
        "PUT",
        "/admin/v2/namespaces/t/n4",
        {"bundles": {"boundaries": [], "numBundles": 4}, "topicDispatchRate": {}},
    ),
    ("GET", "/admin/v2/namespaces/t/n4", None),
    ("DELETE", "/admin/v2/namespaces/t/n4", None),
    ("GET", "/lookup/v2/topic/persistent/t/n/orders", None),
    ("GET", "/lookup/v2/topic/persistent/t/n/orders/bundle", None),
    ("GET", "/lookup/v2/topic/persistent/none/n/orders", None),
    ("GET", "/admin/v2/bookies/racks-info", None),
    ("GET", "/admin/v2/broker-stats/topics", None),
    ("GET", "/admin/v2/nonsense", None),
)
"""Requests about the cluster, the broker, tenants and namespaces."""

EAST: Final = {"serviceUrl": "http://east:8080", "brokerServiceUrl": "pulsar://east:6650"}
ISOLATION: Final = {
    "namespaces": ["t/n"],
    "primary": ["b.*"],
    "secondary": [],
    "auto_failover_policy": {
        "policy_type": "min_available",
        "parameters": {"min_limit": "1", "usage_threshold": "80"},
    },
}
BUNDLE: Final = "t/bundles/0x00000000_0x40000000"
CLUSTERS: Final = "/admin/v2/clusters"
QUOTAS: Final = "/admin/v2/resource-quotas"
QUOTA_OF_BUNDLE: Final = {
    "msgRateIn": 1,
    "msgRateOut": 2,
    "bandwidthIn": 3,
    "bandwidthOut": 4,
    "memory": 5,
    "dynamic": False,
}
PERMISSION: Final = {"topic": "persistent://t/n/orders", "role": "writer", "actions": ["produce"]}


def _of_object(path: str, method: str, body: Any, collection: str) -> Iterator[Row]:
    """Read, store, change, list and delete an object; read and delete it when it does not exist, too."""
    yield "GET", path, None
    yield method, path, body
    yield method, path, body
    yield "GET", path, None
    yield "GET", collection, None
    yield "DELETE", path, None
    yield "GET", path, None
    yield "GET", collection, None


OF_STORED: Final[tuple[Row, ...]] = (
    *_of_object(f"{CLUSTERS}/east", "PUT", EAST, CLUSTERS),
    ("PUT", f"{CLUSTERS}/no%20name", EAST),
    ("POST", f"{CLUSTERS}/none", EAST),
    ("DELETE", f"{CLUSTERS}/none", None),
    *_of_object(
        f"{CLUSTERS}/standalone/failureDomains/rack",
        "POST",
        {"brokers": ["b:1"]},
        f"{CLUSTERS}/standalone/failureDomains",
    ),
    ("DELETE", f"{CLUSTERS}/standalone/failureDomains/rack", None),
    ("GET", f"{CLUSTERS}/none/failureDomains", None),
    ("POST", f"{CLUSTERS}/standalone/namespaceIsolationPolicies/alone", ISOLATION),
    ("GET", f"{CLUSTERS}/standalone/namespaceIsolationPolicies/alone", None),
    ("GET", f"{CLUSTERS}/standalone/namespaceIsolationPolicies", None),
    ("GET", f"{CLUSTERS}/standalone/namespaceIsolationPolicies/none", None),
    ("POST", f"{CLUSTERS}/standalone/namespaceIsolationPolicies/empty", {}),
    ("DELETE", f"{CLUSTERS}/standalone/namespaceIsolationPolicies/alone", None),
    ("GET", "/admin/v2/bookies/racks-info/b:1", None),
    ("POST", "/admin/v2/bookies/racks-info/b:1?group=default", {"rack": "/r", "hostname": "h"}),
    ("GET", "/admin/v2/bookies/racks-info/b:1", None),
    ("GET", "/admin/v2/bookies/racks-info", None),
    ("DELETE", "/admin/v2/bookies/racks-info/b:1", None),
    ("DELETE", "/admin/v2/bookies/racks-info/b:1", None),
    ("GET", "/admin/v2/resourcegroups", None),
    ("GET", "/admin/v2/resourcegroups/gold", None),
    ("PUT", "/admin/v2/resourcegroups/gold", {"publishRateInMsgs": 10}),
    ("PUT", "/admin/v2/resourcegroups/gold", {"dispatchRateInMsgs": 10}),
    ("GET", "/admin/v2/resourcegroups/gold", None),
    ("GET", "/admin/v2/resourcegroups", None),
    ("GET", f"{NAMESPACE}/resourcegroup", None),
    ("POST", f"{NAMESPACE}/resourcegroup/none", None),
    ("POST", f"{NAMESPACE}/resourcegroup/gold", None),
    ("GET", f"{NAMESPACE}/resourcegroup", None),
    ("DELETE", "/admin/v2/resourcegroups/gold", None),
    ("DELETE", f"{NAMESPACE}/resourcegroup", None),
    ("DELETE", "/admin/v2/resourcegroups/gold", None),
    ("PUT", "/admin/v2/namespaces/t/bundles", {"bundles": {"numBundles": 4}}),
    ("GET", QUOTAS, None),
    ("POST", QUOTAS, QUOTA_OF_BUNDLE),
    ("GET", QUOTAS, None),
    ("GET", f"{QUOTAS}/{BUNDLE}", None),
    ("POST", f"{QUOTAS}/{BUNDLE}", QUOTA_OF_BUNDLE),
    ("GET", f"{QUOTAS}/{BUNDLE}", None),
    ("DELETE", f"{QUOTAS}/{BUNDLE}", None),
    ("GET", f"{QUOTAS}/t/bundles/0x0_0x4", None),
    ("POST", f"{NAMESPACE}/antiAffinity", "group"),
    ("GET", "/admin/v2/namespaces/standalone/antiAffinity/group?tenant=t", None),
    ("GET", "/admin/v2/namespaces/standalone/antiAffinity/group", None),
    ("DELETE", f"{NAMESPACE}/antiAffinity", None),
    ("POST", f"{NAMESPACE}/entryFilters", {"entryFilterNames": ""}),
    ("PUT", f"{NAMESPACE}/properties", {"a": "b"}),
    ("PUT", f"{NAMESPACE}/properties", {"c": "d"}),
    ("GET", f"{NAMESPACE}/properties", None),
    ("PUT", f"{NAMESPACE}/property/e/f", None),
    ("GET", f"{NAMESPACE}/property/e", None),
    ("DELETE", f"{NAMESPACE}/property/e", None),
    ("DELETE", f"{NAMESPACE}/properties", None),
    ("POST", "/admin/v2/namespaces/grantPermissionsOnTopics", [PERMISSION]),
    ("GET", f"{TOPICS}/orders/permissions", None),
    ("POST", "/admin/v2/namespaces/revokePermissionsOnTopics", [PERMISSION]),
    ("POST", "/admin/v2/namespaces/revokePermissionsOnTopics", [PERMISSION]),
    ("GET", f"{TOPICS}/orders/permissions", None),
    ("POST", "/admin/v2/namespaces/grantPermissionsOnTopics", []),
    ("POST", f"{TOPICS}/orders/subscription/s/expireMessages/1000000", None),
)
"""Requests about objects that the dev broker only stores, and about the texts of a namespace."""

REFUSED: Final[tuple[Row, ...]] = (
    ("POST", f"{WITH_POLICIES}/deduplication", "x"),
    ("POST", f"{WITH_POLICIES}/messageTTL", -1),
    ("POST", f"{WITH_POLICIES}/maxProducersPerTopic", -1),
    ("POST", f"{WITH_POLICIES}/maxUnackedMessagesPerConsumer", -1),
    ("POST", f"{WITH_POLICIES}/retention", {"retentionTimeInMinutes": 0, "retentionSizeInMB": 1}),
    ("POST", f"{WITH_POLICIES}/persistence", QUORUMS | {"bookkeeperWriteQuorum": 2}),
    ("POST", f"{WITH_POLICIES}/subscriptionTypesEnabled", ["Nope"]),
    ("PUT", f"{WITH_POLICIES}/schemaCompatibilityStrategy", "NOPE"),
    ("POST", f"{WITH_POLICIES}/backlogQuota", {"limitSize": 1, "policy": "nope"}),
    (
        "POST",
        f"{WITH_POLICIES}/autoTopicCreation",
        {"allowAutoTopicCreation": True, "topicType": "partitioned"},
    ),
    ("PUT", f"{WITH_POLICIES}/compactionThreshold", -1),
    ("PUT", f"{TOPICS}/q/partitions", 0),
    ("PUT", f"{TOPICS}/q/partitions", -1),
    ("PUT", f"{TOPICS}/q/partitions", "3"),
    ("GET", f"{TOPICS}/none/stats", None),
    ("GET", f"{TOPICS}/none/internalStats", None),
    ("GET", f"{TOPICS}/none/partitions", None),
    ("GET", f"{TOPICS}/none/subscriptions", None),
    ("GET", f"{TOPICS}/none/retention", None),
    ("POST", f"{TOPICS}/none/retention", RETENTION),
    ("DELETE", f"{TOPICS}/none", None),
    ("DELETE", f"{TOPICS}/parts", None),
    ("DELETE", f"{TOPICS}/orders/partitions", None),
    ("DELETE", f"{TOPICS}/orders/subscription/none", None),
    ("POST", f"{TOPICS}/orders/subscription/none/skip_all", None),
    ("POST", f"{TOPICS}/parts/terminate", None),
    ("GET", f"{TOPICS}/parts/stats", None),
)
"""Requests that a broker refuses, and some that it surprisingly accepts."""

OF_TOPIC_STATE: Final[tuple[Row, ...]] = (
    ("GET", TOPICS, None),
    ("GET", f"{TOPICS}/partitioned", None),
    ("GET", f"{TOPICS}/orders/stats", None),
    ("GET", f"{TOPICS}/orders/stats?getPreciseBacklog=true&subscriptionBacklogSize=true", None),
    ("GET", f"{TOPICS}/orders/internalStats", None),
    ("GET", f"{TOPICS}/orders/internalStats?metadata=true", None),
    ("GET", f"{TOPICS}/orders/internal-info", None),
    ("GET", f"{TOPICS}/orders/partitions", None),
    ("GET", f"{TOPICS}/orders/subscriptions", None),
    ("GET", f"{TOPICS}/orders/lastMessageId", None),
    ("GET", f"{TOPICS}/orders/messageid/1", None),
    ("GET", f"{TOPICS}/orders/messageIdByIndex?index=0", None),
    ("GET", f"{TOPICS}/orders/examinemessage?initialPosition=earliest&messagePosition=1", None),
    ("GET", f"{TOPICS}/orders/subscription/s/position/1", None),
    ("GET", f"{TOPICS}/orders/subscription/s/position/99", None),
    ("GET", f"{TOPICS}/orders/subscription/s/analyzeBacklog", None),
    ("POST", f"{TOPICS}/orders/subscription/s/analyzeBacklog", None),
    ("GET", f"{TOPICS}/orders/subscription/s/properties", None),
    ("PUT", f"{TOPICS}/orders/subscription/s/properties", {"a": "b"}),
    ("GET", f"{TOPICS}/orders/subscription/s/replicatedSubscriptionStatus", None),
    ("PUT", f"{TOPICS}/orders/backlogSize", {"ledgerId": 0, "entryId": 0}),
    ("GET", f"{TOPICS}/orders/compaction", None),
    ("PUT", f"{TOPICS}/orders/compaction", None),
    ("GET", f"{TOPICS}/orders/offload", None),
    ("POST", f"{TOPICS}/orders/subscription/s/skip/1", None),
    ("POST", f"{TOPICS}/orders/subscription/s/expireMessages/1000000", None),
    ("POST", f"{TOPICS}/orders/all_subscription/expireMessages/1000000", None),
    ("POST", f"{TOPICS}/orders/subscription/s/resetcursor/1", None),
    ("POST", f"{TOPICS}/orders/subscription/s/skip_all", None),
    ("POST", f"{TOPICS}/orders/trim", None),
    ("DELETE", f"{TOPICS}/orders/truncate", None),
    ("PUT", f"{TOPICS}/orders/unload", None),
    ("GET", f"{TOPICS}/orders/stats", None),
    ("GET", f"{TOPICS}/parts/partitions", None),
    ("GET", f"{TOPICS}/parts/partitioned-stats", None),
    ("GET", f"{TOPICS}/parts/partitioned-stats?perPartition=false", None),
    ("GET", f"{TOPICS}/parts/partitioned-internalStats", None),
    ("GET", f"{TOPICS}/parts/internal-info", None),
    ("GET", f"{TOPICS}/parts/subscriptions", None),
    ("POST", f"{TOPICS}/parts/partitions", 3),
    ("POST", f"{TOPICS}/parts/partitions", 1),
    ("POST", f"{TOPICS}/parts/createMissedPartitions", None),
    ("POST", f"{TOPICS}/parts/terminate/partitions", None),
    ("POST", f"{TOPICS}/orders/terminate", None),
    ("POST", f"{NAMESPACE}/clearBacklog", None),
    ("POST", f"{NAMESPACE}/clearBacklog/s", None),
    ("POST", f"{NAMESPACE}/unsubscribe/s2", None),
    ("PUT", f"{NAMESPACE}/unload", None),
    ("DELETE", f"{TOPICS}/orders/subscription/s", None),
    ("DELETE", f"{TOPICS}/parts/partitions?force=true", None),
    ("DELETE", f"{TOPICS}/orders?force=true", None),
)
"""Requests about topics and subscriptions; the last ones delete them."""

OF_SCHEMAS: Final[tuple[Row, ...]] = (
    ("PUT", f"{TOPICS}/typed", None),
    ("GET", f"{SCHEMA}/schema", None),
    ("POST", f"{SCHEMA}/schema", TYPED),
    ("POST", f"{SCHEMA}/schema", TYPED | {"schema": AVRO_2}),
    ("GET", f"{SCHEMA}/schema", None),
    ("GET", f"{SCHEMA}/schema/0", None),
    ("GET", f"{SCHEMA}/schema/9", None),
    ("GET", f"{SCHEMA}/schemas", None),
    ("GET", f"{SCHEMA}/metadata", None),
    ("POST", f"{SCHEMA}/compatibility", TYPED | {"schema": AVRO.replace("x", "z")}),
    ("POST", f"{SCHEMA}/compatibility", {"type": "STRING", "schema": "", "properties": {}}),
    ("POST", f"{SCHEMA}/version", TYPED),
    ("POST", f"{SCHEMA}/version", {"type": "STRING", "schema": "", "properties": {}}),
    ("POST", f"{SCHEMA}/schema", {"type": "AVRO", "schema": "nonsense", "properties": {}}),
    ("POST", f"{SCHEMA}/schema", {"type": "NOPE", "schema": "", "properties": {}}),
    ("DELETE", f"{SCHEMA}/schema", None),
    ("DELETE", f"{SCHEMA}/schema", None),
    ("GET", f"{SCHEMA}/schema", None),
)
"""Requests about the schemas of a topic."""

OF_TRANSACTIONS: Final[tuple[Row, ...]] = (
    ("GET", f"{TRANSACTIONS}/coordinators", None),
    ("GET", f"{TRANSACTIONS}/coordinatorStats", None),
    ("GET", f"{TRANSACTIONS}/coordinatorStats?coordinatorId=0", None),
    ("GET", f"{TRANSACTIONS}/coordinatorInternalStats/0", None),
    ("GET", f"{TRANSACTIONS}/coordinatorInternalStats/0?metadata=true", None),
    ("GET", f"{TRANSACTIONS}/slowTransactions/0", None),
    ("GET", f"{TRANSACTIONS}/slowTransactions/0?coordinatorId=0", None),
    ("GET", f"{TRANSACTIONS}/slowTransactions/100000000", None),
    ("GET", f"{TRANSACTIONS}/transactionMetadata/0/TXN", None),
    ("GET", f"{TRANSACTIONS}/transactionMetadata/0/999999", None),
    ("GET", f"{TRANSACTIONS}/transactionMetadata/99/0", None),
    ("GET", f"{TRANSACTIONS}/transactionInBufferStats/t/n/orders/0/TXN", None),
    ("GET", f"{TRANSACTIONS}/transactionInBufferStats/t/n/orders/0/999999", None),
    ("GET", f"{TRANSACTIONS}/transactionInPendingAckStats/t/n/orders/s/0/TXN", None),
    ("GET", f"{TRANSACTIONS}/transactionInPendingAckStats/t/n/orders/none/0/TXN", None),
    ("GET", f"{TRANSACTIONS}/transactionBufferStats/t/n/orders", None),
    ("GET", f"{TRANSACTIONS}/transactionBufferStats/t/n/orders?lowWaterMarks=true", None),
    ("GET", f"{TRANSACTIONS}/transactionBufferStats/t/n/none", None),
    ("GET", f"{TRANSACTIONS}/pendingAckStats/t/n/orders/s", None),
    ("GET", f"{TRANSACTIONS}/pendingAckStats/t/n/orders/none", None),
    ("GET", f"{TRANSACTIONS}/pendingAckInternalStats/t/n/orders/s", None),
    ("GET", f"{TRANSACTIONS}/pendingAckInternalStats/t/n/orders/s?metadata=true", None),
    ("GET", f"{TRANSACTIONS}/transactionBufferInternalStats/t/n/orders", None),
    ("GET", f"{TRANSACTIONS}/positionStatsInPendingAck/t/n/orders/s/LEDGER/0", None),
    ("GET", f"{TRANSACTIONS}/positionStatsInPendingAck/t/n/orders/s/LEDGER/9", None),
    ("POST", f"{TRANSACTIONS}/abortTransaction/0/TXN", None),
    ("POST", f"{TRANSACTIONS}/abortTransaction/0/TXN", None),
    ("GET", f"{TRANSACTIONS}/transactionMetadata/0/TXN", None),
)
"""Requests about an open transaction, which published to a topic and acknowledged on a subscription."""


def all_requests() -> list[Row]:
    """Return the requests in order. The traffic of a client precedes `OF_TRANSACTIONS`."""
    return [
        *BEGUN,
        *policies(),
        *OF_THE_BROKER,
        *OF_STORED,
        *REFUSED,
        *OF_SCHEMAS,
        *OF_TRANSACTIONS,
        *OF_TOPIC_STATE,
    ]
