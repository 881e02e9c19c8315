"""Write a checkup or a list of holes as Prometheus text.

The textfile collector of the node exporter reads this text.

Names follow Prometheus' conventions: a prefix and base units. A value that can decrease is a gauge. A number
of messages is an interval, so it has two samples, `_min` and `_max`. An unknown upper bound is `+Inf`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ackwell.diagnosis.checkup import Checkup
    from ackwell.diagnosis.doctor import Diagnosis
    from ackwell.diagnosis.holes import Blockage

Sample = tuple[dict[str, str], float]


def prometheus_text(checkup: Checkup) -> str:
    """Return a checkup in Prometheus' text exposition format, version 0.0.4."""
    return prometheus_lines(_families(checkup))


def prometheus_holes(found: Iterable[Blockage]) -> str:
    """Return the oldest hole of each subscription as Prometheus text; an unknown age has no sample."""
    pinned: list[Sample] = []
    acked_after: list[Sample] = []
    age: list[Sample] = []
    message_age: list[Sample] = []
    for blocked in found:
        labels = {"topic": blocked.topic, "subscription": blocked.subscription}
        pinned.append((labels, blocked.pinned_bytes))
        acked_after.append((labels, blocked.acked_after))
        if blocked.blocked_ms is not None:
            age.append((labels, blocked.blocked_ms / 1000))
        if blocked.message_age_seconds is not None:
            message_age.append((labels, blocked.message_age_seconds))
    prefix = "ackwell_subscription_oldest_hole"
    families = (
        (f"{prefix}_pinned_bytes", "Bytes of the ledgers that cannot be deleted.", pinned),
        (f"{prefix}_acked_entries", "Acknowledged entries after the oldest hole.", acked_after),
        (f"{prefix}_seconds", "For how long the mark-delete position has not moved.", age),
        (f"{prefix}_message_age_seconds", "How old the oldest message of the backlog is.", message_age),
    )
    return prometheus_lines(families)


def prometheus_lines(families: Iterable[tuple[str, str, list[Sample]]]) -> str:
    """Return metric families as Prometheus text. A family is its name, its help text and its samples.

    A family is a counter if its name ends with `_total`, otherwise a gauge.
    """
    return "".join(f"{line}\n" for line in _lines(families))


def _lines(families: Iterable[tuple[str, str, list[Sample]]]) -> Iterator[str]:
    for name, text, samples in families:
        yield f"# HELP {name} {text}"
        yield f"# TYPE {name} {'counter' if name.endswith('_total') else 'gauge'}"
        for labels, value in samples:
            shown = ",".join(f'{key}="{_escaped(label)}"' for key, label in labels.items())
            yield f"{name}{{{shown}}} {_number(value)}" if shown else f"{name} {_number(value)}"


def _families(checkup: Checkup) -> Iterator[tuple[str, str, list[Sample]]]:
    lost_min: list[Sample] = []
    lost_max: list[Sample] = []
    severity: list[Sample] = []
    delivery: list[Sample] = []
    backlog: list[Sample] = []
    ranges: list[Sample] = []
    used: list[Sample] = []
    contradictions: list[Sample] = []
    age: list[Sample] = []
    health: list[Sample] = []
    unwritten: list[Sample] = []
    for diagnosis in checkup.diagnoses:
        stats = diagnosis.stats
        labels = {"topic": stats.topic, "subscription": stats.subscription}
        severity.append((labels, diagnosis.verdict.severity))
        found = diagnosis.delivery
        delivery.append(({**labels, "verdict": str(found.verdict), "code": found.code.code}, 1))
        if stats.backlog_entries is not None:
            backlog.append((labels, stats.backlog_entries))
        if stats.range_count is not None:
            ranges.append((labels, stats.range_count))
        contradictions.append((labels, len(stats.contradictions)))
        if stats.dispatch is not None and stats.dispatch.oldest_age_seconds is not None:
            age.append((labels, stats.dispatch.oldest_age_seconds))
        if stats.cursor_state is not None:
            health.append(({**labels, "state": stats.cursor_state}, int(_is_healthy(diagnosis))))
        if diagnosis.unwritten_ms is not None:
            unwritten.append((labels, diagnosis.unwritten_ms / 1000))
        if not diagnosis.restarts and diagnosis.messages_lost.at_most is None:
            lost_min += [({**labels, "restart": restart}, 0) for restart in checkup.restarts]
            lost_max += [({**labels, "restart": restart}, float("inf")) for restart in checkup.restarts]
        for loss in diagnosis.restarts:
            count = loss.messages_before_flush
            at_most = float("inf") if count.at_most is None else count.at_most
            lost_min.append(({**labels, "restart": loss.restart}, count.at_least))
            lost_max.append(({**labels, "restart": loss.restart}, at_most))
        used += [({**labels, "setting": usage.setting}, usage.share) for usage in diagnosis.usage]
    verdicts: list[Sample] = [({"verdict": str(v)}, count) for v, count in checkup.verdicts.items()]
    prefix = "ackwell_subscription"
    yield f"{prefix}_severity", "Verdict: 0 fine, 1 unproven, 2 at risk, 3 losing, 4 unwritable.", severity
    yield (
        f"{prefix}_acked_messages_lost_min",
        "Acknowledged messages that a restart loses, at least.",
        lost_min,
    )
    yield (
        f"{prefix}_acked_messages_lost_max",
        "Acknowledged messages that a restart loses, at most.",
        lost_max,
    )
    yield f"{prefix}_backlog_entries", "Entries that are not wholly acknowledged.", backlog
    yield f"{prefix}_acked_ranges", "Acknowledged ranges beyond the mark-delete position.", ranges
    yield (
        f"{prefix}_contradictions",
        "Invariants that the broker's answer breaks; what depends on them has no sample.",
        contradictions,
    )
    yield f"{prefix}_oldest_message_age_seconds", "How old the oldest message of the backlog is.", age
    yield (
        f"{prefix}_cursor_healthy",
        "1 for a cursor whose acknowledgments are written; 0 if its ledger cannot be created or written.",
        health,
    )
    yield (
        f"{prefix}_cursor_unwritten_seconds",
        "For how long, at least, the cursor has acknowledgments that are not written, or switches ledgers.",
        unwritten,
    )
    yield f"{prefix}_limit_used_ratio", "Used part of a limit past which acknowledgments are lost.", used
    yield f"{prefix}_delivery", "Whether it delivers, 1 for its verdict and the code of the reason.", delivery
    yield "ackwell_subscriptions", "Subscriptions of each verdict.", verdicts
    yield "ackwell_sources_unread", "Topics or files that could not be read.", [({}, len(checkup.unread))]
    yield (
        "ackwell_doctor_last_run_timestamp_seconds",
        "When the doctor ran.",
        [({}, checkup.time_ms / 1000)],
    )


def _is_healthy(diagnosis: Diagnosis) -> bool:
    """Return False if the findings show that the cursor is closed, or that it is not written."""
    codes = {reason.code for reason in diagnosis.reasons} | {diagnosis.delivery.reason}
    return not codes & {"cursor-not-written", "cursor-not-open"}


def _number(value: float) -> str:
    return "+Inf" if value == float("inf") else repr(value)


def _escaped(label: str) -> str:
    return label.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
