"""Play random sequences on one version: `python -m tests.pulsar.live --help`."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from tests.pulsar import kit
from tests.pulsar.live import runs
from tests.pulsar.live.operations import Sequence, drawn, drawn_returned
from tests.pulsar.live.play import Played, Playing

GROUP = 20


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--version", default=kit.VERSIONS[0])
    parser.add_argument("--sequences", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--transactions", action="store_true")
    parser.add_argument("--returned", action="store_true", help="Key_Shared with many returned entries")
    parser.add_argument("--no-restarts", dest="restarts", action="store_false")
    parser.add_argument("--shrink", type=int, default=0, help="how many differences to shrink")
    parser.add_argument("--case", type=Path, help="a saved sequence")
    parser.add_argument("--client", action="store_true", help="through the official Python client")
    parser.add_argument("--verbose", action="store_true")
    asked = parser.parse_args()
    if asked.case:
        sequences = [Sequence.from_json(asked.case.read_text())]
    else:
        seeds = range(asked.seed, asked.seed + asked.sequences)
        sequences = [
            drawn_returned(each)
            if asked.returned
            else drawn(each, transactions=asked.transactions, restarts=asked.restarts)
            for each in seeds
        ]
    player: Callable[[kit.Broker, Sequence], Playing] = Played
    if asked.client:
        from tests.pulsar.official.play import PlayedByClient as player  # noqa: N813
    settings = runs.settings(transactions=sequences[0].transactions)
    different, compared, races = 0, 0, 0
    played: Counter[str] = Counter()
    with (
        tempfile.TemporaryDirectory() as folder,
        kit.running_broker(Path(folder), asked.version, **settings) as broker,
    ):
        for start in range(0, len(sequences), GROUP):
            for result in runs.play(broker, sequences[start : start + GROUP], asked.seed + start, player):
                compared += result.compared
                races += len(result.races)
                played += result.played
                for race in result.races if asked.verbose else ():
                    print(f"race in seed {result.sequence.seed}, step {race}", flush=True)
                if result.difference is None:
                    print(f"seed {result.sequence.seed}: {result.compared} comparisons", flush=True)
                    continue
                different += 1
                if different <= asked.shrink and not asked.client:
                    result = runs.shrunk(broker, result, asked.seed + start)
                    print(result.sequence.to_json())
                    print("\n".join(result.history))
                elif asked.verbose:
                    print("\n".join(result.history))
                sequence = result.sequence
                print(
                    f"seed {sequence.seed} {sequence.type} {sequence.settings} {result.difference}",
                    flush=True,
                )
    counted = f"{len(sequences)} sequences, {compared} comparisons, {different} with differences"
    print(f"{asked.version}: {counted}, {races} races; {runs.shares(played)}")
    return different > 0


if __name__ == "__main__":
    sys.exit(main())
