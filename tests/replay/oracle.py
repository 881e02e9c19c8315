"""The cursor by plain sets: an oracle without code of the fold.

Every entry that exists is a tuple in a list, everything acknowledged a tuple in a set, and the mark-delete
position is found by walking over them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ackwell.replay.events import Kind

if TYPE_CHECKING:
    from ackwell.replay.events import Event

Name = tuple[str, str]
At = tuple[int, int]
EXISTS = (Kind.PUBLISH, Kind.DISPATCH, Kind.RECEIVE)
UP_TO = (Kind.ACK_CUMULATIVE, Kind.CLEAR_BACKLOG, Kind.SKIP, Kind.EXPIRE)


@dataclass
class Truth:
    """The expected row of `CURSORS`, or an expected error."""

    mark_delete: At = (0, -1)
    ranges: list[tuple[int, int, int]] = field(default_factory=list)
    batches: dict[At, list[int]] = field(default_factory=dict)
    backlog: int = 0
    unacked: int = 0
    is_error: bool = False

    def to_row(self) -> dict[str, object]:
        """Return the row under the names of the table; only `is_error` for an error."""
        if self.is_error:
            return {"is_error": True}
        text = ",".join(f"({ledger}:{lower}..{ledger}:{upper}]" for ledger, lower, upper in self.ranges)
        return {
            "is_error": False,
            "mark_delete": self.mark_delete,
            "individually_deleted": f"[{text}]",
            "range_count": len(self.ranges),
            "batch_deleted": {f"{at[0]}:{at[1]}": words for at, words in sorted(self.batches.items())},
            "backlog_entries": self.backlog,
            "unacked_messages": self.unacked,
        }


def truths(events: Iterable[Event]) -> dict[Name, Truth]:
    """Return the expected state of each subscription. Events are ordered by (file, sequence)."""
    ordered = sorted(events, key=lambda event: (event.file or "", event.sequence))
    names = {(event.topic, event.subscription) for event in ordered if event.subscription}
    found = {}
    for name in names:
        own = [e for e in ordered if e.topic == name[0] and e.subscription in ("", name[1])]
        truth = _truth(own, name[1])
        if truth is not None:
            found[name] = truth
    return found


def _truth(events: list[Event], subscription: str) -> Truth | None:  # noqa: C901 (all rules in one place)
    seeks = [n for n, e in enumerate(events) if e.kind is Kind.SEEK]
    deleted = [n for n, e in enumerate(events) if e.kind is Kind.UNSUBSCRIBE]
    if deleted and not (seeks and seeks[-1] > deleted[-1]):
        return None
    committed = {e.transaction for e in events if e.kind is Kind.COMMIT and e.subscription == subscription}
    size: dict[At, int] = {}
    length: dict[int, int] = {}
    acked: set[At] = set()
    left: dict[At, set[int]] = {}
    """The unacknowledged indexes after finite ack sets."""
    gone: dict[At, set[int]] = {}
    """The indexes that were acknowledged one by one."""
    up_to: At | None = None
    trimmed = 0
    for number, event in enumerate(events):
        void = bool(seeks) and number <= seeks[-1]
        at = (
            (-1, -1)
            if event.ledger_id is None or event.entry_id is None
            else (event.ledger_id, event.entry_id)
        )
        if event.kind in EXISTS:
            length[at[0]] = max(length.get(at[0], 0), at[1] + 1)
            told = event.batch_size
            if told is None and event.batch_index is not None:
                told = event.batch_index + 1
            size[at] = max(size.get(at, 0), told or 0)
        elif event.kind is Kind.TRIM:
            trimmed = max(trimmed, at[0])
        elif event.kind is Kind.ACK or event.kind in UP_TO:
            cumulative = event.kind is not Kind.ACK
            size[at] = max(size.get(at, 0), event.batch_size or 0)
            if event.ledger_id is None and event.kind is not Kind.CLEAR_BACKLOG:
                return Truth(is_error=True)
            if (
                event.transaction
                and event.transaction not in committed
                and event.kind is not Kind.CLEAR_BACKLOG
            ):
                continue
            if void:
                continue
            if event.ledger_id is None:
                if not length:
                    return Truth(is_error=True)
                at = max((ledger, entries - 1) for ledger, entries in length.items())
            partly = False
            if event.ack_set is not None:
                open_bits = {64 * n + b for n, w in enumerate(event.ack_set) for b in range(64) if w >> b & 1}
                partly = bool(open_bits)
                if partly:
                    left[at] = left.get(at, open_bits) & open_bits
            elif event.batch_index is not None:
                partly = True
                cleared = range(event.batch_index + 1) if cumulative else [event.batch_index]
                gone.setdefault(at, set()).update(cleared)
            if cumulative:
                at = (at[0], at[1] - 1) if partly else at
                up_to = at if up_to is None else max(up_to, at)
            elif not partly:
                acked.add(at)
    if seeks:
        last = events[seeks[-1]]
        assert last.ledger_id is not None
        assert last.entry_id is not None
        if last.ack_set is not None and any(last.ack_set):
            at = last.ledger_id, last.entry_id
            bits = {64 * n + b for n, w in enumerate(last.ack_set) for b in range(64) if w >> b & 1}
            left[at] = left.get(at, bits) & bits
    return _settle(length, size, acked, left, gone, up_to, (events[seeks[-1]] if seeks else None), trimmed)


def _settle(  # noqa: C901 (all rules in one place)
    length: dict[int, int],
    size: dict[At, int],
    acked: set[At],
    left: dict[At, set[int]],
    gone: dict[At, set[int]],
    up_to: At | None,
    seek: Event | None,
    trimmed: int,
) -> Truth:
    told = {*acked, *left, *gone} | ({up_to} if up_to is not None and up_to[1] >= 0 else set())
    first_published = min(length, default=None)
    for at in told:
        # Entries acknowledged in ledgers before the first publish existed before the recording.
        if first_published is None or at[0] < first_published:
            length[at[0]] = max(length.get(at[0], 0), at[1] + 1)
    trimmed = min(trimmed, max(length, default=0))
    length = {ledger: entries for ledger, entries in length.items() if ledger >= trimmed}
    left = {at: indexes for at, indexes in left.items() if at[0] >= trimmed}
    gone = {at: indexes for at, indexes in gone.items() if at[0] >= trimmed}
    if up_to is not None and up_to[0] < trimmed:
        up_to = None
    if any(at[1] >= length.get(at[0], 0) for at in told if at[0] >= trimmed):
        return Truth(is_error=True)
    exists = [(ledger, entry) for ledger in sorted(length) for entry in range(length[ledger])]
    open_indexes: dict[At, set[int]] = {}
    for at in {*left, *gone}:
        known = size.get(at, 0)
        indexes = gone.get(at, set())
        if at in left:
            rest = left[at] - indexes
        elif not known and (first_published is None or at[0] < first_published):
            rest = set(range((max(indexes) // 64 + 1) * 64)) - indexes
        elif not known or max(indexes) >= known:
            return Truth(is_error=True)
        else:
            rest = set(range(known)) - indexes
        if rest:
            open_indexes[at] = rest
        else:
            acked.add(at)
    mark = (exists[0][0], -1) if exists else (min(length, default=0), -1)
    if seek is not None:
        assert seek.ledger_id is not None
        assert seek.entry_id is not None
        before = [at for at in exists if at < (seek.ledger_id, seek.entry_id)]
        mark = before[-1] if before else (min(min(length, default=seek.ledger_id), seek.ledger_id), -1)
    if up_to is not None:
        before = [at for at in exists if at <= up_to]
        if before or up_to[1] >= 0:
            mark = max(mark, up_to if up_to[1] >= 0 else before[-1])
    for at in exists:
        if at > mark:
            if at not in acked:
                break
            mark = at
    beyond = [at for at in exists if at > mark]
    ranges: list[tuple[int, int, int]] = []
    for at in beyond:
        if at in acked:
            if ranges and ranges[-1][0] == at[0] and ranges[-1][2] == at[1] - 1:
                ranges[-1] = (*ranges[-1][:2], at[1])
            else:
                ranges.append((at[0], at[1] - 1, at[1]))
    batches = {}
    for at, indexes in open_indexes.items():
        if at > mark and at not in acked:
            words = [0] * (max(indexes) // 64 + 1)
            for index in indexes:
                words[index // 64] |= 1 << index % 64
            batches[at] = [word - (1 << 64) if word >> 63 else word for word in words]
    unacked = sum(
        len(open_indexes[at]) if at in batches else max(1, size.get(at, 0))
        for at in beyond
        if at not in acked
    )
    backlog = sum(at not in acked for at in beyond)
    return Truth(mark, ranges, batches, backlog, unacked)


def found_row(row: dict[str, object]) -> dict[str, object]:
    """Return the values of a row of `CURSORS`, to compare with `Truth.to_row`."""
    if row["error"] is not None:
        states = [
            name
            for name, value in row.items()
            if name not in ("topic", "subscription", "error") and value is not None
        ]
        assert states == [], "state columns are null where there is an error"
        return {"is_error": True}
    return {
        "is_error": False,
        "mark_delete": (row["mark_delete_ledger_id"], row["mark_delete_entry_id"]),
        "individually_deleted": row["individually_deleted"],
        "range_count": row["range_count"],
        "batch_deleted": dict(row["batch_deleted"]),  # type: ignore[call-overload]
        "backlog_entries": row["backlog_entries"],
        "unacked_messages": row["unacked_messages"],
    }
