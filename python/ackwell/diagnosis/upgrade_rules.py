"""Describe the broker rules that changed between releases, for the report about an upgrade."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

RULES: Final[Mapping[str, Mapping[Any, str]]] = {
    "ranges_beyond_limit": {
        0: "the ranges form keeps exactly as many ranges as the limit",
        1: "the ranges form keeps one range more than the limit (apache/pulsar#25548)",
    },
    "has_open_cache_set": {
        False: "managedLedgerUnackedRangesOpenCacheSetEnabled is removed, so the long-array form is always "
        "available",
        True: "managedLedgerUnackedRangesOpenCacheSetEnabled decides whether the long-array form is "
        "available",
    },
    "counts_the_ledger_itself": {
        True: "in the long-array form a ledger is written only if the total with its own entries is within "
        "the limit (apache/pulsar#26127)",
        False: "in the long-array form a ledger is written if the total of the ledgers before it is within "
        "the limit",
    },
    "reads_batch_indexes_back": {
        True: "batch indexes are read back from the metadata store (apache/pulsar#26474)",
        False: "batch indexes in the metadata store are not read back (apache/pulsar#20585)",
    },
    "writes_batch_indexes_alone": {
        True: "acknowledging only parts of batches writes the cursor (apache/pulsar#26498)",
        False: "acknowledging only parts of batches does not write the cursor",
    },
    "pauses_on_batch_indexes": {
        True: "dispatcherPauseOnAckStatePersistentEnabled also pauses on partly acknowledged batches "
        "(apache/pulsar#26553)",
        False: "dispatcherPauseOnAckStatePersistentEnabled pauses on ranges only",
    },
    "releases_passed_messages": {
        True: "skipped, cleared and expired messages leave the counts of consumers",
        False: "skipped, cleared and expired messages stay in the counts of consumers",
    },
}
"""Maps each rule of `BrokerSettings` to one sentence for each value that the rule may have after the
upgrade."""

CONSUMER_RULES: Final[Mapping[str, Mapping[Any, str]]] = {
    "read_batch_size": {
        100: "one read of a dispatcher has at most 100 entries",
        500: "one read of a dispatcher has at most 500 entries",
    },
    "partial_ack_unblocks": {
        True: "acknowledging part of a batch unblocks a consumer that reached its limit",
        False: "acknowledging part of a batch does not unblock a consumer that reached its limit",
    },
    "transaction_part_unblocks": {
        True: "acknowledging part of a batch in a transaction unblocks a consumer that reached its limit",
        False: "acknowledging part of a batch in a transaction does not unblock a consumer",
    },
    "empty_redelivery_unblocks": {
        True: "a request to redeliver entries that are not pending unblocks a consumer",
        False: "a request to redeliver entries that are not pending does not unblock a consumer",
    },
    "partial_ack_lowers_pending": {
        True: "each acknowledged part of a batch lowers its pending count",
        False: "acknowledged parts of a batch do not lower its pending count",
    },
    "replace_ack_sets": {
        True: "a cumulative acknowledgment inside a batch replaces the earlier ack set",
        False: "a cumulative acknowledgment inside a batch adds to the earlier ack set",
    },
    "refuse_cumulative_behind": {
        True: "a cumulative acknowledgment before the mark-delete position is an error",
        False: "a cumulative acknowledgment before the mark-delete position changes nothing",
    },
}
"""Maps each rule of `SubscriptionSettings` or `CursorSettings` that differs between releases to one sentence
for each value that the rule may have after the upgrade."""
