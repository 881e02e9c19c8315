"""Play a series on one version: `python -m tests.pulsar.rescue --help`."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.pulsar import kit
from tests.pulsar.rescue import held
from tests.pulsar.rescue.play import GROUP, play

SETTINGS = {
    # Data in the page cache survives a kill of the process.
    "journalSyncData": "false",
    "activeConsumerFailoverDelayTimeMs": "0",
    "acknowledgmentAtBatchIndexLevelEnabled": "true",
}


def others(broker: kit.Broker, asked: argparse.Namespace, folder: Path) -> int:
    """Play the series that are not histories."""
    topic = f"persistent://public/default/held-{asked.seed}"
    bad = 0
    for name, series, rounds in (
        ("unloads", held.unloads, asked.unloads),
        ("keys", held.keys, asked.keys),
        ("crashes", held.crashes, asked.crashes),
    ):
        if rounds:
            counted = series(broker, f"{topic}-{name}", rounds, folder)
            print(asked.version, name, dict(counted), flush=True)
            bad += sum(counted[each] for each in held.BAD)
    return bad > 0


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--version", default=kit.VERSIONS[0])
    parser.add_argument("--histories", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--unloads", type=int, default=0, help="held unloads, instead of histories")
    parser.add_argument("--crashes", type=int, default=0, help="held kills of the broker, as well")
    parser.add_argument("--keys", type=int, default=0, help="rounds of Key_Shared, as well")
    asked = parser.parse_args()
    counted: Counter[str] = Counter()
    with (
        tempfile.TemporaryDirectory() as folder,
        kit.running_broker(Path(folder), asked.version, **SETTINGS) as broker,
    ):
        if asked.unloads or asked.crashes or asked.keys:
            return others(broker, asked, Path(folder))
        for start in range(asked.seed, asked.seed + asked.histories, GROUP):
            found, problems = play(broker, range(start, min(start + GROUP, asked.seed + asked.histories)))
            counted += found
            print(*problems, sep="\n", flush=True)
            print(asked.version, dict(counted), flush=True)
    return counted["histories with problems"] > 0


if __name__ == "__main__":
    sys.exit(main())
