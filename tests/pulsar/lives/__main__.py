"""Examine lives on one version: `python -m tests.pulsar.lives --help`."""

from __future__ import annotations

import argparse
import gzip
import os
import sys
import tempfile
from pathlib import Path

from tests.pulsar import kit
from tests.pulsar.lives.case import Case, summary
from tests.pulsar.lives.examine import IDLE_S, PAUSES_S, SETTINGS, examined


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--version", default=kit.VERSIONS[0])
    parser.add_argument("--lives", type=int, default=20, help="subscriptions at once")
    parser.add_argument("--processes", type=int, default=4, help="broker processes, one after the other")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--idle", action="store_true", help="the consumers are idle before each restart")
    parser.add_argument("--record", type=Path, help="where to write the cases, a line each, compressed")
    asked = parser.parse_args()
    cases: list[Case] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        gzip.open(asked.record or os.devnull, "wt") as sink,
        kit.running_broker(Path(folder), asked.version, **SETTINGS) as broker,
    ):
        pauses_s = (IDLE_S,) if asked.idle else PAUSES_S
        for case in examined(broker, asked.lives, asked.processes, asked.seed, pauses_s):
            cases.append(case)
            sink.write(case.to_json() + "\n")
            wrong = case.wrong()
            if wrong:
                print(f"case {len(cases)}: {wrong}; {case.settings}", flush=True)
            if len(cases) % asked.lives == 0:
                print(f"{asked.version}: {summary(cases)}", flush=True)
    print(f"{asked.version}: {summary(cases)}, {sum(case.wrong() is not None for case in cases)} wrong")
    return any(case.wrong() for case in cases)


if __name__ == "__main__":
    sys.exit(main())
