"""Check each rule of the presets with directed cases: `python -m tests.pulsar.live.wrong`.

Every directed case runs on a broker of each version. Its transcript must agree with the preset. For each
field of the preset, at least one transcript must disagree if the field has a wrong value. This proves every
row of `docs/pulsar.md`. Part of `make lab-test-pulsar`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

from ackwell.cursor.cursor_settings import CursorSettings
from ackwell.subscription import SubscriptionSettings
from tests.pulsar import kit
from tests.pulsar.live import runs
from tests.pulsar.live.directed import CASES, Directed, PlayedCase
from tests.pulsar.live.play import DifferenceError
from tests.pulsar.live.transcript import Transcript, judged, write

KEPT = Path(__file__).parents[2] / "vectors" / "broker.jsonl.gz"

NOT_OF_A_BROKER = {
    # The limits that a sequence sets, and rules of the client or of ackwell only.
    "cursor",
    "max_unacked_per_consumer",
    "max_unacked_per_subscription",
    "allow_out_of_order_delivery",
    "look_ahead_per_consumer",
    "look_ahead_per_subscription",
    "nack_backoff",
    "nack_holds_until_acked",
    "ack_timeout_ms",
    "ack_timeout_tick_ms",
    # No client of a broker reports its entries in hand, so the default behaves like the preset.
    "lost_counts",
    "max_redeliver_count",
    "pause_above_ranges",
}
RULES = tuple(
    each.name
    for settings in (SubscriptionSettings, CursorSettings)
    for each in fields(settings)
    if each.name not in NOT_OF_A_BROKER
)
"""Every field of a preset that is a rule of the broker."""


def found(transcripts: list[Transcript]) -> dict[str, list[str]]:
    """Return for each rule the names of its cases whose transcripts detect a wrong value."""
    fields_of = {case.name: case.field for case in CASES}
    return {
        rule: [
            each.name
            for each in transcripts
            if fields_of[each.name] == rule and judged(each, rule) is not None
        ]
        for rule in RULES
    }


def played(broker: kit.Broker, case: Directed) -> tuple[Transcript, str | None]:
    """Play a case on a broker; return the transcript, and the difference under the preset."""

    def player(*arguments: Any) -> PlayedCase:
        one = PlayedCase(*arguments)
        one.case = case
        return one

    one = player(broker, case.sequence)
    try:
        list(one.run())
    except DifferenceError as difference:
        one.theirs.disconnect()
        return one.transcript._replace(name=case.name), str(difference)
    return one.transcript._replace(name=case.name), None


class Verdict(NamedTuple):
    """The results of the directed cases on one version."""

    transcripts: list[Transcript]
    differences: list[str]
    """Differences from the preset."""
    convicted: dict[str, list[str]]
    """Wrong rule → the cases that detect it."""


def judge(folder: Path, version: str) -> Verdict:
    """Run all cases on a broker of a version, and judge the transcripts with each field set wrong."""
    transcripts, differences = [], []
    with kit.running_broker(folder, version, **runs.settings(transactions=True)) as broker:
        for case in CASES:
            transcript, difference = played(broker, case)
            difference = difference or judged(transcript)
            transcripts.append(transcript)
            if difference is not None:
                differences.append(f"{version}: {case.name}: {difference}")
    return Verdict(transcripts, differences, found(transcripts))


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--versions", nargs="+", default=list(kit.VERSIONS))
    parser.add_argument("--keep", action="store_true", help=f"write the transcripts to {KEPT.name}")
    asked = parser.parse_args()
    verdicts = {}
    for version in asked.versions:
        with tempfile.TemporaryDirectory() as folder:
            verdicts[version] = judge(Path(folder), version)
        print("\n".join(verdicts[version].differences))
    wrong = sum(len(each.differences) for each in verdicts.values())
    print("| wrong rule | " + " | ".join(asked.versions) + " |")
    for rule in RULES:
        counts = [len(each.convicted[rule]) for each in verdicts.values()]
        wrong += counts.count(0)
        cells = [f"found by {count}" if count else "NOT FOUND" for count in counts]
        print(f"| {rule} | " + " | ".join(cells) + " |")
    if asked.keep and not wrong:
        write(KEPT, [transcript for each in verdicts.values() for transcript in each.transcripts])
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
