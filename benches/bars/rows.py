"""The rows of a table of bars: the limits of ackwell's figures, and whether they are reached."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import Protocol

from benches.bars.sides import OURS, Figure, Samples


@dataclass(frozen=True)
class Verdict:
    """The outcome of a row; `reached` is None if a required figure was not measured."""

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
        """Compare ackwell's figure with the bar, and return the outcome."""


def medians(samples: Samples, workload: str, operation: str) -> dict[str, float]:
    """Return the median of each measured side for an operation on a workload."""
    return {
        figure.side: median(values)
        for figure, values in samples.items()
        if (figure.workload, figure.operation) == (workload, operation) and values
    }


@dataclass(frozen=True)
class AtMost:
    """A row that limits ackwell's figure to a number. The figures of peers are only shown."""

    row: str
    workload: str
    operation: str
    limit: float
    unit: str = ""

    def judge(self, samples: Samples) -> Verdict:
        """Compare ackwell's figure with the limit."""
        peers = medians(samples, self.workload, self.operation)
        ours = peers.pop(OURS, None)
        reached = None if ours is None else ours <= self.limit
        return Verdict(self.row, f"≤ {self.limit:g} {self.unit}".strip(), ours, "", None, peers, reached)


@dataclass(frozen=True)
class AgainstBest:
    """A row that limits ackwell's figure to `factor` times the figure of the best peer.

    The best peer has the smallest figure of the peers in `among`, by default of all peers.
    """

    row: str
    workload: str
    operation: str
    factor: float
    among: tuple[str, ...] | None = None

    def judge(self, samples: Samples) -> Verdict:
        """Compare the ratio with the factor; every peer in `among` must have been measured."""
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
    """Return a row that limits ackwell's figure to `factor` times the figure of `side`."""
    return AgainstBest(row, workload, operation, factor, (side,))


@dataclass(frozen=True)
class AgainstOurs:
    """A row that limits ackwell's figure to `factor` times its figure on the workload `base`.

    The table shows the figure on `base` in the column of peers.
    """

    row: str
    workload: str
    operation: str
    base: str
    factor: float

    def judge(self, samples: Samples) -> Verdict:
        """Compare the ratio with the factor."""
        ours = medians(samples, self.workload, self.operation).get(OURS)
        base = medians(samples, self.base, self.operation).get(OURS)
        bar = f"≤ {self.factor:g} × {self.base}"
        if ours is None or base is None:
            return Verdict(self.row, bar, ours, "", None, {}, None)
        ratio = ours / base
        return Verdict(self.row, bar, ours, self.base, ratio, {self.base: base}, ratio <= self.factor)


def figures(samples: Samples) -> list[dict[str, object]]:
    """Return every figure with its median and the number of its samples, as JSON values."""

    def entry(figure: Figure, values: list[float]) -> dict[str, object]:
        return {**figure._asdict(), "median": round(median(values), 4), "samples": len(values)}

    return [entry(figure, values) for figure, values in samples.items() if values]
