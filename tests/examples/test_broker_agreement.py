"""Every recorded trace leads to the positions that the broker reported."""

from __future__ import annotations

from pathlib import Path

import pytest

from ackwell.replay.files import event_files, read_events
from examples.agreement import Verdict, replayed_agreements
from tests.shared import shared_folder

EXAMPLES = Path(__file__).parents[2] / "examples" / "traces"
SHARED = shared_folder("data/traces")
TRACES = event_files([SHARED or EXAMPLES])

# Acknowledged messages that the real broker lost at an unload or a restart, and the reasons.
FORGOTTEN = {
    # A batch-index acknowledgment alone opens no cursor ledger, and the metadata that a close writes for it
    # is not read again (apache/pulsar#20585, apache/pulsar#26475).
    "batch_partial.unloaded.stats.json": 1776,
    "cumulative_batch.unloaded.stats.json": 5,
    "holes_batch_graceful.after.stats.json": 2400,
    "mx_longs_batch.unloaded.stats.json": 186,
    "mx_ranges_batch.unloaded.stats.json": 186,
    # Long arrays: the limit counts acknowledged entries, ledger by ledger.
    "holes_long_10k_crash.after.stats.json": 17500,
    "holes_long_10k_graceful.after.stats.json": 17500,
    "oldest_long_10k_crash.after.stats.json": 10000,
    # Ranges: one more than the limit is kept, the rest is not (apache/pulsar#25548).
    "holes_ranges_10k_graceful.after.stats.json": 19999,
    "mx_max100_ranges_random50.unloaded.stats.json": 1233,
}


@pytest.mark.slow
@pytest.mark.parametrize("trace", TRACES, ids=lambda path: path.name)
def test_a_trace_leads_to_the_brokers_positions(trace: Path) -> None:
    compared = list(replayed_agreements(read_events([trace])))
    assert len(compared) >= 2
    for agreement in compared:
        name = agreement.snapshot.removesuffix(".gz")
        if name in FORGOTTEN:
            assert agreement.verdict is Verdict.FORGOT
            assert agreement.forgotten_messages == FORGOTTEN[name]
        else:
            assert agreement.verdict is Verdict.AGREES, agreement
