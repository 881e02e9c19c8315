"""The dev broker's answers to admin requests have the status and the shape of a real broker's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import pytest

pytest.importorskip("google.protobuf")

from ackwell.devbroker import Broker, DevBrokerSettings
from tests.admin_answers.recorded import VERSIONS, recorded
from tests.admin_answers.requests_made import all_requests
from tests.admin_answers.shapes import answers

TRANSACTIONS: Final = "GET /admin/v3/transactions"

DIFFERENT: Final = {
    "GET /admin/v2/namespaces/t/policies": "Pulsar adds the broker's offload settings",
    "DELETE /admin/v2/persistent/t/policies/orders/properties": "Pulsar has an internal error without a key",
    "GET /admin/v2/broker-stats/topics": "Pulsar describes the topics of its last statistics",
    "POST /admin/v2/namespaces/t/policies/subscriptionTypesEnabled (again)": "Pulsar has an internal error",
    "POST /admin/v2/schemas/t/n/typed/compatibility": "Pulsar has an internal error",
    "POST /admin/v2/schemas/t/n/typed/compatibility (again)": "Pulsar has an internal error",
    "POST /admin/v2/schemas/t/n/typed/schema (again) (again) (again)": "Pulsar has an internal error",
    "DELETE /admin/v2/schemas/t/n/typed/schema (again)": "Pulsar writes a version for each deletion",
    f"{TRANSACTIONS}/coordinatorInternalStats/0": "refused by name: it has no such ledger",
    f"{TRANSACTIONS}/coordinatorInternalStats/0?metadata=true": "refused by name: it has no such ledger",
    f"{TRANSACTIONS}/transactionInPendingAckStats/t/n/orders/none/0/TXN": "Pulsar has an internal error",
    f"{TRANSACTIONS}/pendingAckStats/t/n/orders/none": "Pulsar has an internal error",
    f"{TRANSACTIONS}/pendingAckInternalStats/t/n/orders/s": "refused by name: it has no such ledger",
    f"{TRANSACTIONS}/pendingAckInternalStats/t/n/orders/s?metadata=true": "refused by name",
    f"{TRANSACTIONS}/transactionBufferInternalStats/t/n/orders": "refused by name: it has no such ledger",
    "POST /admin/v3/transactions/abortTransaction/0/TXN (again)": "Pulsar has an internal error",
    "GET /admin/v2/persistent/t/n/orders/internalStats?metadata=true": "ledgers have no metadata",
    "POST /admin/v2/namespaces/t/n/clearBacklog/s": "Pulsar has an internal error on this subscription",
}
"""The requests with another answer, and the reason."""

UNKNOWN_FIGURES: Final = frozenset(
    {
        "__compaction",
        "backlogQuotaLimitSize",
        "backlogQuotaLimitTime",
        "bytesOutInternalCounter",
        "compaction",
        "deduplicationStatus",
        "delayedMessageIndexSizeInBytes",
        "dispatchThrottledBytesEventsByBrokerLimit",
        "dispatchThrottledBytesEventsBySubscriptionLimit",
        "dispatchThrottledBytesEventsByTopicLimit",
        "dispatchThrottledMsgEventsByBrokerLimit",
        "dispatchThrottledMsgEventsBySubscriptionLimit",
        "dispatchThrottledMsgEventsByTopicLimit",
        "drainingHashesClearedTotal",
        "earliestMsgPublishTimeInBacklog",
        "earliestMsgPublishTimeInBacklogs",
        "filterAcceptedMsgCount",
        "filterProcessedMsgCount",
        "filterRejectedMsgCount",
        "filterRescheduledMsgCount",
        "firstConsumedFlowTimestamp",
        "firstMessagesSentTimestamp",
        "lastAckedTime",
        "lastAckedTimestamp",
        "lastConsumedFlowTimestamp",
        "lastConsumedTime",
        "lastConsumedTimestamp",
        "lastExpireTimestamp",
        "lastMarkDeleteAdvancedTimestamp",
        "lastOffloadFailureTimeStamp",
        "lastOffloadLedgerId",
        "lastOffloadSuccessTimeStamp",
        "msgChunkPublished",
        "msgExpired",
        "msgRateExpired",
        "nonContiguousDeletedMessagesRanges",
        "nonContiguousDeletedMessagesRangesSerializedSize",
        "offloadedStorageSize",
        "oldestBacklogMessageAgeSeconds",
        "ownerBroker",
        "publishRateLimitedTimes",
        "systemTopicBytesInCounter",
        "totalMsgExpired",
    }
)
"""Fields of topics' statistics that the dev broker leaves out, or of which Pulsar leaves out one."""


def differences(ours: Any, theirs: Any, path: str = "") -> Iterator[str]:
    """Yield the places at which two shapes differ, except `UNKNOWN_FIGURES`."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for name in sorted((ours.keys() ^ theirs.keys()) - UNKNOWN_FIGURES):
            yield f"{path}.{name} is only in {'ours' if name in ours else 'theirs'}"
        for name in sorted(ours.keys() & theirs.keys()):
            yield from differences(ours[name], theirs[name], f"{path}.{name}")
    elif isinstance(ours, list) and isinstance(theirs, list) and ours and theirs:
        yield from differences(ours[0], theirs[0], f"{path}[]")
    elif ours != theirs:
        yield f"{path}: {ours} instead of {theirs}"


def as_object(answer: Sequence[Any]) -> dict[str, Any]:
    return dict(zip(("status", "body"), answer, strict=True))


@pytest.mark.parametrize(("release", "version"), VERSIONS.items())
def test_the_answers_have_the_shape_of_a_real_broker_s(release: str, version: str) -> None:
    theirs = recorded(release)
    assert len(theirs) == len(all_requests()) > 400
    with Broker(settings=DevBrokerSettings(version=version)) as broker:
        ours = answers(broker.admin_url, broker.url, pause_s=0)
    found = {name: list(differences(as_object(ours[name]), as_object(theirs[name]))) for name in theirs}
    different = {name: places for name, places in found.items() if places}
    unexpected = {name: places for name, places in different.items() if name not in DIFFERENT}
    assert not unexpected
    assert sorted(different) == sorted(DIFFERENT), "a request that is named as different has the same answer"
