"""Plan files: JSON with the plans of `ackwell rescue plan` and the subscriptions that the command refused."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ackwell.errors import StatsError
from ackwell.object_paths import local_path
from ackwell.rescue.checksums import read_with_sha256, with_sha256
from ackwell.rescue.planning import Plan
from ackwell.sources import SourceKind, wrong_kind

if TYPE_CHECKING:
    from ackwell.rescue.refusals import RefusedError

PLAN_VERSION: Final = 1


def plan_text(plans: Sequence[Plan], refused: Sequence[Mapping[str, str]], time_ms: int) -> str:
    """Return the text of a plan file.

    `refused` has a result of `refusal_json` for each refused subscription. `time_ms` is the time of the plan.
    """
    value = {
        "version": PLAN_VERSION,
        "timeMs": time_ms,
        "plans": [each.to_json() for each in plans],
        "refused": list(refused),
    }
    return json.dumps(with_sha256(value))


def refusal_json(error: RefusedError, topic: str, subscription: str) -> dict[str, str]:
    """Return JSON values that describe a refused subscription and the reason."""
    return {"topic": topic, "subscription": subscription, "code": error.code, "reason": str(error)}


def read_plans(file: str | Path) -> list[Plan]:
    """Return the plans in a plan file. Raises `StatsError` if the file is not a plan file."""
    plans = read_with_sha256(local_path(file), SourceKind.PLAN, PLAN_VERSION, key="plans")["plans"]
    if not isinstance(plans, list):
        raise StatsError(wrong_kind(SourceKind.PLAN, SourceKind.PLAN), str(file))
    return [Plan.of_json(each, str(file)) for each in plans]
