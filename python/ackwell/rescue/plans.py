"""Plan files: the plans of `ackwell rescue plan` as JSON, with the subscriptions that it refused."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ackwell.errors import StatsError
from ackwell.rescue.checksums import read_with_sha256, with_sha256
from ackwell.rescue.planning import Plan
from ackwell.sources import SourceKind

if TYPE_CHECKING:
    from ackwell.rescue.refusals import RefusedError

PLAN_VERSION: Final = 1


def plan_text(plans: Sequence[Plan], refused: Sequence[Mapping[str, str]], time_ms: int) -> str:
    """Return the text of a plan file that was made at `time_ms`; `refused` holds values of `refusal_json`."""
    value = {
        "version": PLAN_VERSION,
        "timeMs": time_ms,
        "plans": [each.to_json() for each in plans],
        "refused": list(refused),
    }
    return json.dumps(with_sha256(value))


def refusal_json(error: RefusedError, topic: str, subscription: str) -> dict[str, str]:
    """Return the JSON values of a refused subscription."""
    return {"topic": topic, "subscription": subscription, "code": error.code, "reason": str(error)}


def read_plans(file: str | Path) -> list[Plan]:
    """Return the plans of a plan file; raises `StatsError` for any other file."""
    plans = read_with_sha256(Path(file), SourceKind.PLAN, PLAN_VERSION, key="plans")["plans"]
    if not isinstance(plans, list):
        raise StatsError(f"not {SourceKind.PLAN}", str(file))
    return [Plan.of_json(each, str(file)) for each in plans]
