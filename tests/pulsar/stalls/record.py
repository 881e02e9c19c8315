"""Make every cause on a version, keep two dumps of each: `python -m tests.pulsar.stalls.record --help`."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.pulsar import kit
from tests.pulsar.stalls.causes import BETWEEN_S, CAUSES, SETTINGS, made


def recorded(broker: kit.Broker, only: str | None = None) -> list[dict[str, Any]]:
    """Return a case for each cause."""
    cases = []
    for each in CAUSES:
        if only and only not in each.name:
            continue
        with made(broker, each) as scene:
            first = scene.answer()
            time.sleep(BETWEEN_S)
            answers = [first, scene.answer()]
        cases.append(
            {
                "version": broker.version,
                "code": each.code_on(broker.version),
                "name": each.name,
                "settings": each.settings,
                "answers": answers,
            }
        )
        print(broker.version, each.name, flush=True)
    return cases


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--version", default=kit.VERSIONS[0])
    parser.add_argument("--only", help="a part of the name of a cause")
    parser.add_argument("output", type=Path)
    asked = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        kit.running_broker(Path(folder), asked.version, **SETTINGS) as broker,
    ):
        cases = recorded(broker, asked.only)
    asked.output.write_text("".join(json.dumps(case, separators=(",", ":")) + "\n" for case in cases))
    return 0


if __name__ == "__main__":
    sys.exit(main())
