"""The folder of `ackwell rescue watch`. After a kill at any point, a new watch continues from these files.

    STATE/NAME.snapshot.json                the last observation of a topic with a subscription at risk
    STATE/NAME.plan.json                    the plan of a subscription, until it is carried out
    STATE/refused/NAME.TIME.snapshot.json   the observation before a loss that is not restored
    STATE/refused/NAME.TIME.plan.json       a plan that no longer matches the live state

An operator can use the files in `refused` with `ackwell rescue plan` and `apply`.

If acknowledgments are missing, the watch writes the plan first. Then it replaces the last observation, from
which the plan was made, with the new observation. After a kill between the two writes, the folder therefore
has the plan and the observation from which the plan was made.
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
"""The topic and the subscription."""


class WatchFolder:
    """The observations and plans of one watch."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "refused").mkdir(parents=True, exist_ok=True)

    def observations(self) -> dict[str, dict[str, Snapshot]]:
        """Read the observations. Return a map from topic to subscription to snapshot.

        Raises `StatsError` for a damaged file.
        """
        found: dict[str, dict[str, Snapshot]] = {}
        for file in self._files(".snapshot.json"):
            for each in read_snapshots([file]):
                if isinstance(each, UnreadableSource):
                    raise StatsError(each.reason, each.source)
                topic, subscription = each.name
                found.setdefault(topic, {})[subscription] = each
        return found

    def plans(self) -> dict[Name, Plan]:
        """Read the plans that are not carried out yet. Return them by topic and subscription."""
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
        """Remove the observation of a topic. It is not needed if no subscription of the topic is at risk."""
        self._observation(topic).unlink(missing_ok=True)

    def write_plan(self, plan: Plan, time_ms: int) -> None:
        """Write the plan of a subscription. `ackwell rescue apply` accepts the file."""
        write_file(self._plan(plan.name), plan_text([plan], [], time_ms).encode())

    def remove_plan(self, name: Name) -> None:
        """Remove the plan of a subscription, because the plan is carried out or refused."""
        self._plan(name).unlink(missing_ok=True)

    def keep_refused(self, name: Name, time_ms: int) -> Path | None:
        """Copy the last observation of a topic to `refused`, for an operator.

        Return the path of the copy, or None if there is no observation.
        """
        observation = self._observation(name[0])
        if not observation.exists():
            return None
        file = self.folder / "refused" / f"{_digest(list(name))}.{time_ms}.snapshot.json"
        write_file(file, observation.read_bytes())
        return file

    def refuse_plan(self, name: Name, time_ms: int) -> Path:
        """Move a refused plan to `refused`, for an operator; return its new path."""
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
