"""Write `ackwell/broker/settings.tsv`: every setting of each release, by reflection.

    python -m tests.pulsar.settings_table

runs the broker's own class once with one processor and once with seven. A default that differs between these
runs depends on the machine.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from ackwell.broker import broker_settings
from ackwell.broker.broker_settings import ABSENT, MACHINE, NEVER
from ackwell.releases import RELEASES
from tests.pulsar import kit

MACHINES = (
    ("-XX:ActiveProcessorCount=1", "-Xmx256m"),
    ("-XX:ActiveProcessorCount=7", "-Xmx600m"),
)
"""JVM options of two machines with another number of processors and another size of memory."""


class Setting(NamedTuple):
    """One setting of a release."""

    default: str
    is_dynamic: bool
    """Whether the broker changes it at run time."""


def reflected(version: str) -> dict[str, Setting]:
    """Return each setting of a release, with its default as the table has it."""
    one, other = (_settings(version, options) for options in MACHINES)
    return {
        name: given._replace(default=MACHINE if given != other[name] else given.default or "(empty)")
        for name, given in one.items()
    }


def _settings(version: str, options: Iterable[str]) -> dict[str, Setting]:
    printed = subprocess.run(
        [kit.BIN / "settings.sh", *options],
        env={**os.environ, "ACKWELL_PULSAR_VERSION": version},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    rows = (line.split("\t") for line in printed.splitlines())
    return {name: Setting(default, is_dynamic == "true") for name, default, is_dynamic in rows}


_NONE = Setting(ABSENT, is_dynamic=False)


def table(columns: Mapping[str, Mapping[str, Setting]]) -> str:
    """Return the table: a line for each setting, a column for each release, and the dynamic releases."""
    lines = ["\t".join(["setting", *columns, "dynamic"])]
    for name in sorted({name for column in columns.values() for name in column}, key=str.lower):
        by_release = {release: column.get(name, _NONE) for release, column in columns.items()}
        dynamic = ",".join(release for release, each in by_release.items() if each.is_dynamic)
        lines.append("\t".join([name, *(each.default for each in by_release.values()), dynamic or NEVER]))
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write the table."""
    written = table({version: reflected(version) for version in RELEASES})
    Path(broker_settings.__file__).with_name("settings.tsv").write_text(written, encoding="ascii")


if __name__ == "__main__":
    main()
