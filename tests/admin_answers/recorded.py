"""The recorded answers of real brokers to the requests: `answers.json`.

`make lab-test-pulsar ANSWERS=1` writes them. The file has a line for each request. Releases with the same
answer share it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.admin_answers.shapes import Answer

VERSIONS: Final = {"4.2.4": "4.2", "5.0.1": "5.0"}
"""Maps a release to the version that the dev broker emulates."""

_FILE: Final = Path(__file__).with_name("answers.json")


def recorded(release: str) -> dict[str, Answer]:
    """Return the answers of a release by request."""
    rows: dict[str, dict[str, Answer]] = json.loads(_FILE.read_text(encoding="ascii"))
    return {
        name: (status, body)
        for name, row in rows.items()
        for releases, (status, body) in row.items()
        if release in releases.split()
    }


def record(release: str, answers: Mapping[str, Answer]) -> None:
    """Store the answers of a release."""
    by_release = {each: recorded(each) for each in VERSIONS} | {release: answers}
    names = sorted({name for each in by_release.values() for name in each})
    rows = (f"{json.dumps(name)}: {json.dumps(_row(name, by_release), sort_keys=True)}" for name in names)
    _FILE.write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="ascii")


def _row(name: str, by_release: Mapping[str, Mapping[str, Answer]]) -> dict[str, Answer]:
    """Return the answers to a request by the releases that gave them."""
    row: dict[str, Answer] = {}
    for release, answers in by_release.items():
        if name in answers:
            same = next((each for each, answer in row.items() if answer == answers[name]), None)
            if same is not None:
                del row[same]
            row[release if same is None else f"{same} {release}"] = answers[name]
    return row
