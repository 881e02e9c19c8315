"""Write `ackwell/broker/settings.tsv`: every setting of each release with its default, by reflection.

    python -m tests.pulsar.settings_table

runs the broker's own class once with one processor and once with seven. A default that differs between these
runs depends on the machine.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

from ackwell.broker import broker_settings
from ackwell.broker.broker_settings import ABSENT, MACHINE
from ackwell.releases import RELEASES
from tests.pulsar import kit

MACHINES = (
    ("-XX:ActiveProcessorCount=1", "-Xmx256m"),
    ("-XX:ActiveProcessorCount=7", "-Xmx600m"),
)
"""JVM options of two machines with another number of processors and another size of memory."""


def reflected(version: str) -> dict[str, str]:
    """Return the default of each setting of a release, as the table has it."""
    one, other = (_defaults(version, options) for options in MACHINES)
    return {name: MACHINE if value != other[name] else value or "(empty)" for name, value in one.items()}


def _defaults(version: str, options: Iterable[str]) -> dict[str, str]:
    printed = subprocess.run(
        [kit.BIN / "settings.sh", *options],
        env={**os.environ, "ACKWELL_PULSAR_VERSION": version},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return dict(line.split("\t") for line in printed.splitlines())


def table(columns: Mapping[str, Mapping[str, str]]) -> str:
    """Return the table of the defaults by release: a line for each setting, a column for each release."""
    lines = ["\t".join(["setting", *columns])]
    names = sorted({name for column in columns.values() for name in column}, key=str.lower)
    lines += ["\t".join([name, *(each.get(name, ABSENT) for each in columns.values())]) for name in names]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write the table."""
    written = table({version: reflected(version) for version in RELEASES})
    Path(broker_settings.__file__).with_name("settings.tsv").write_text(written, encoding="ascii")


if __name__ == "__main__":
    main()
