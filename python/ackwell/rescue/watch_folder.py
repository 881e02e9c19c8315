"""The folder of `ackwell rescue watch`, from which a watch continues after a kill at any point.

    STATE/NAME.snapshot.json                the last observation of a topic with a subscription at risk
    STATE/NAME.plan.json                    the plan of a subscription, until it is carried out
    STATE/refused/NAME.TIME.snapshot.json   the observation before a loss that is not restored
    STATE/refused/NAME.TIME.plan.json       a plan that no longer matches the live state

An operator can use the files in `refused` with `ackwell rescue plan` and `apply`.

When acknowledgments are missing, the plan is written before the new observation replaces the last one. A kill
between the two writes therefore loses neither the plan nor the last observation.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING

from ackwell.broker.stats import UnreadableSource
from ackwell.errors import StatsError
from ackwell.regular_files import write_file
from ackwell.rescue.checksums import with_sha256
from ackwell.rescue.plans import plan_text, read_plans
from ackwell.rescue.snapshot import Snapshot, read_snapshots

if TYPE_CHECKING:
    from ackwell.cluster.admin import BrokerFacts, TopicAnswer
    from ackwell.rescue.planning import Plan

Name = tuple[str, str]
"""A topic and a subscription."""


class WatchFolder:
    """The observations and plans of one watch."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "refused").mkdir(parents=True, exist_ok=True)

    def observations(self) -> dict[str, dict[str, Snapshot]]:
        """Return the snapshots of each topic by subscription; `StatsError` for a damaged file."""
        found: dict[str, dict[str, Snapshot]] = {}
        for file in self._files(".snapshot.json"):
            for each in read_snapshots([file]):
                if isinstance(each, UnreadableSource):
                    raise StatsError(each.reason, each.source)
                topic, subscription = each.name
                found.setdefault(topic, {})[subscription] = each
        return found

    def plans(self) -> dict[Name, Plan]:
        """Return the plans that are not carried out yet, by subscription."""
        plans = (each for file in self._files(".plan.json") for each in read_plans(file))
        return {each.name: each for each in plans}

    def write_observation(self, answer: TopicAnswer, facts: BrokerFacts, cluster: str | None) -> None:
        """Replace the observation of a topic."""
        value = {
            **answer.to_json(),
            "schemaVersion": 1,
            "cluster": cluster,
            "broker": {"version": facts.version, "settings": facts.settings},
        }
        write_file(self._observation(answer.topic), json.dumps(with_sha256(value)).encode())

    def remove_observation(self, topic: str) -> None:
        """Remove the observation of a topic without a subscription at risk."""
        self._observation(topic).unlink(missing_ok=True)

    def write_plan(self, plan: Plan, time_ms: int) -> None:
        """Write a plan file, which `ackwell rescue apply` accepts."""
        write_file(self._plan(plan.name), plan_text([plan], [], time_ms).encode())

    def remove_plan(self, name: Name) -> None:
        """Remove a plan that is carried out or refused."""
        self._plan(name).unlink(missing_ok=True)

    def keep_refused(self, name: Name, time_ms: int) -> Path | None:
        """Keep a topic's last observation for an operator; return its file, or None if there is none."""
        observation = self._observation(name[0])
        if not observation.exists():
            return None
        file = self.folder / "refused" / f"{_digest(list(name))}.{time_ms}.snapshot.json"
        write_file(file, observation.read_bytes())
        return file

    def refuse_plan(self, name: Name, time_ms: int) -> Path:
        """Keep a refused plan for an operator; return the file."""
        file = self.folder / "refused" / f"{_digest(list(name))}.{time_ms}.plan.json"
        self._plan(name).replace(file)
        return file

    def _files(self, suffix: str) -> list[Path]:
        # `glob` would skip a folder that cannot be listed.
        return sorted(file for file in self.folder.iterdir() if file.name.endswith(suffix))

    def _plan(self, name: Name) -> Path:
        return self.folder / f"{_digest(list(name))}.plan.json"

    def _observation(self, topic: str) -> Path:
        return self.folder / f"{_digest(topic)}.snapshot.json"


def _digest(name: object) -> str:
    return hashlib.sha256(json.dumps(name).encode()).hexdigest()[:16]
