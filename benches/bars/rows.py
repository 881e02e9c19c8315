"""The rows of a table of bars: the limits of our figures, and whether they are reached."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import Protocol

from benches.bars.sides import OURS, Figure, Samples


@dataclass(frozen=True)
class Verdict:
    """A row's outcome; `reached` is None if a needed figure was not measured."""

    row: str
    bar: str
    ours: float | None
    best_peer: str
    ratio: float | None
    peers: dict[str, float]
    reached: bool | None


class Row(Protocol):
    """A row of the table."""

    def judge(self, samples: Samples) -> Verdict:
        """Hold our figure against the bar."""


def medians(samples: Samples, workload: str, operation: str) -> dict[str, float]:
    """Return the median of each measured side."""
    return {
        figure.side: median(values)
        for figure, values in samples.items()
        if (figure.workload, figure.operation) == (workload, operation) and values
    }


@dataclass(frozen=True)
class AtMost:
    """Our figure alone, against a limit; the peers' figures are shown, too."""

    row: str
    workload: str
    operation: str
    limit: float
    unit: str = ""

    def judge(self, samples: Samples) -> Verdict:
        """Compare our figure with the limit."""
        peers = medians(samples, self.workload, self.operation)
        ours = peers.pop(OURS, None)
        reached = None if ours is None else ours <= self.limit
        return Verdict(self.row, f"≤ {self.limit:g} {self.unit}".strip(), ours, "", None, peers, reached)


@dataclass(frozen=True)
class AgainstBest:
    """Our figure as a share of the best peer's, smaller being better."""

    row: str
    workload: str
    operation: str
    factor: float
    among: tuple[str, ...] | None = None

    def judge(self, samples: Samples) -> Verdict:
        """Compare the share with the factor; every peer in `among` must have been measured."""
        peers = medians(samples, self.workload, self.operation)
        ours = peers.pop(OURS, None)
        wanted = {side: value for side, value in peers.items() if self.among is None or side in self.among}
        bar = f"≤ {self.factor:.3g} × {'best' if self.among is None else '/'.join(self.among)}"
        if ours is None or not wanted or (self.among and len(wanted) < len(self.among)):
            return Verdict(self.row, bar, ours, "", None, peers, None)
        best = min(wanted, key=wanted.__getitem__)
        ratio = ours / wanted[best]
        return Verdict(self.row, bar, ours, best, ratio, peers, ratio <= self.factor)


def Against(  # noqa: N802 - reads as a kind of row
    row: str, workload: str, operation: str, side: str, factor: float
) -> AgainstBest:
    """Our figure as a share of one named side's."""
    return AgainstBest(row, workload, operation, factor, (side,))


@dataclass(frozen=True)
class AgainstOurs:
    """Our figure on a workload as a share of ours on another, which is shown in the column of peers."""

    row: str
    workload: str
    operation: str
    base: str
    factor: float

    def judge(self, samples: Samples) -> Verdict:
        """Compare the share with the factor."""
        ours = medians(samples, self.workload, self.operation).get(OURS)
        base = medians(samples, self.base, self.operation).get(OURS)
        bar = f"≤ {self.factor:g} × {self.base}"
        if ours is None or base is None:
            return Verdict(self.row, bar, ours, "", None, {}, None)
        ratio = ours / base
        return Verdict(self.row, bar, ours, self.base, ratio, {self.base: base}, ratio <= self.factor)


def figures(samples: Samples) -> list[dict[str, object]]:
    """Every figure as it is recorded."""

    def entry(figure: Figure, values: list[float]) -> dict[str, object]:
        return {**figure._asdict(), "median": round(median(values), 4), "samples": len(values)}

    return [entry(figure, values) for figure, values in samples.items() if values]
