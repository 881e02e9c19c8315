"""The table of the dev broker's routes is that of the broker's own annotations."""

from __future__ import annotations

import os
import re
import subprocess
from importlib.resources import files

import pytest

from tests.pulsar import kit

VERSIONS = {"4.2.4": "4.2", "5.0.1": "5.0"}

PREFIXES = {".v3.": "/admin/v3", ".lookup.": "/lookup", ".rest.": "/topics"}
"""Maps a part of a class's name to the prefix of its routes; all others have `/admin/v2`."""


def reflected(release: str) -> set[tuple[str, str]]:
    """Return the method and the path of each route of a release, with `{}` for parameters."""
    env = {**os.environ, "ACKWELL_PULSAR_VERSION": release}
    printed = subprocess.run(
        [kit.BIN / "routes.sh"], env=env, capture_output=True, text=True, check=True
    ).stdout
    found = set()
    for line in printed.splitlines():
        method, path, owner = line.split("\t")
        prefix = next((each for part, each in PREFIXES.items() if part in owner), "/admin/v2")
        # A parameter may have a regular expression.
        found.add((method, structure(prefix + re.sub(r"{(\w+)\s*:[^}]*}", r"{\1}", path))))
    return found


def structure(path: str) -> str:
    path = re.sub(r"^(/admin/v2|/topics)/(non-)?persistent/", r"\1/{domain}/", path)
    return re.sub(r"{[^}]*}", "{}", path).rstrip("/")


@pytest.mark.pulsar
@pytest.mark.parametrize(("release", "version"), VERSIONS.items())
def test_the_table_has_the_routes_of_the_release(release: str, version: str) -> None:
    lines = (files("ackwell.devbroker.admin_api") / "routes.tsv").read_text().splitlines()
    rows = [line.split("\t") for line in lines]
    table = {(row[1], structure(row[0])) for row in rows if version in row[3].split(",")}
    assert table == reflected(release)
    assert len(table) > 500
