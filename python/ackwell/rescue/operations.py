"""Operations with a helper: unload without losses, copy a subscription, acknowledge single entries."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ackwell._native import PositionRangeSet
from ackwell.cluster.admin import quoted, topic_path
from ackwell.errors import StatsError
from ackwell.object_paths import local_path
from ackwell.protocol.constants import SubscriptionType
from ackwell.regular_files import write_file
from ackwell.rescue.batch_parts import keep_parts
from ackwell.rescue.checksums import with_sha256
from ackwell.rescue.holding import held
from ackwell.rescue.planning import Plan, attachable_type, known_settings, refuse_internal
from ackwell.rescue.policy_readers import check_read
from ackwell.rescue.refusals import RefusedError
from ackwell.rescue.restoring import Report, check_restored, restore_after_unload, send
from ackwell.rescue.snapshot import Snapshot, dump, read_snapshots, take

if TYPE_CHECKING:
    from ackwell.rescue.connection import Connection

_SEAT_ATTEMPTS_MAX: Final = 5
"""The maximum number of attempts to attach a helper to an Exclusive subscription."""


def unload(
    connection: Connection,
    topic: str,
    subscription: str,
    *,
    journal: str | Path,
    hold: bool = True,
    on_note: Callable[[str], None] = lambda _: None,
) -> Report:
    """Unload a topic without losing acknowledgments of one subscription.

    The steps are: hold, snapshot, unload, restore, release. The snapshot is stored next to the journal until
    the last step. If a snapshot exists at the start, an earlier run was interrupted. The call then completes
    that run and does not unload the topic again.

    If the unload or the restore fails, the call raises `AckwellError`, and the hold and the snapshot remain.
    The same applies if a broker lost restored acknowledgments before the release. Without `hold`, consumers
    may receive messages that they had acknowledged.

    If a broker has not read the hold after a wait, the call raises `AckwellError` and does not unload.
    `on_note` is called as in `check_read`.
    """
    journal = local_path(journal)
    kept = journal.with_name(f"{journal.name}.snapshot.json")
    name = topic, subscription
    # After an unload, the topic does not show the subscription's type until a consumer connects. The snapshot
    # of an interrupted run has the type.
    attachable_type(connection.read_live(*name), _read(kept, name) if kept.exists() else None)
    restored: list[Plan] = []

    def check() -> None:
        for made in restored:
            check_restored(made, connection)

    def keeps() -> bool:
        # The snapshot exists, so the topic may be unloaded, but no restore has succeeded.
        return kept.exists() and not restored

    holding: AbstractContextManager[None] = (
        held(connection, *name, journal, check=check, keeps=keeps)
        if hold or journal.exists()
        else nullcontext()
    )
    with holding:
        unloads = not kept.exists()
        if unloads:
            if hold:
                check_read(connection.admin, topic, on_note=on_note)
            # Look up the broker now. After the unload, the helper must attach without any delay.
            connection.open(topic)
            answer, before = take(connection.admin, *name)
            if keep_parts(connection, before):
                answer, before = take(connection.admin, *name)
            attachable_type(before)
            # Check that the limit of ranges is known, because the plan after the unload needs it.
            known_settings(before.settings)
            facts = connection.admin.facts(answer.owner)
            value = dump(answer, subscription, facts, connection.admin.cluster)
            write_file(kept, json.dumps(with_sha256(value)).encode(), new=True)
        else:
            before = _read(kept, name)
        made, report = _unloaded(connection, before, unloads=unloads)
        restored.append(made)
    if before.type is SubscriptionType.KEY_SHARED:
        connection.wake(*name)
    # The snapshot may be missing, if another run ended at the same time.
    kept.unlink(missing_ok=True)
    return report


def _unloaded(connection: Connection, before: Snapshot, *, unloads: bool) -> tuple[Plan, Report]:
    for attempt in range(_SEAT_ATTEMPTS_MAX):
        if unloads:
            connection.change("unload", "PUT", *before.name, "unload")
        try:
            return restore_after_unload(before, connection)
        except RefusedError as refused:
            # Another consumer attached before the helper. Unload the topic again. Nothing is delivered to the
            # consumer while the subscription is held.
            if refused.code != "exclusive-consumer" or not unloads or attempt == _SEAT_ATTEMPTS_MAX - 1:
                raise
    raise AssertionError("unreachable")


def _read(file: Path, name: tuple[str, str]) -> Snapshot:
    """Read the snapshot of an earlier run.

    Raises `StatsError` if the file is not a snapshot, or is the snapshot of another subscription.
    """
    found = next(read_snapshots([file]))
    if not isinstance(found, Snapshot):
        raise StatsError(found.reason, found.source)
    if found.name != name:
        of = f"{found.name[1]!r} of {found.name[0]}"
        raise StatsError(
            f"the snapshot of {of}, from an earlier run with this journal; name another journal", str(file)
        )
    return found


def copy(connection: Connection, topic: str, subscription: str, new: str) -> Report:
    """Create the subscription `new`. In `new`, acknowledge the entries that `subscription` has acknowledged.

    Partly acknowledged batches are not copied.
    """
    source = check_copyable(connection, topic, subscription, new)
    ledger_id, entry_id = source.stats.mark_delete_position
    body = {"ledgerId": ledger_id, "entryId": entry_id}
    connection.change("create", "PUT", topic, new, f"subscription/{quoted(new)}", body)
    made = connection.read_live(topic, new)
    left = source.acked - made.acked
    sent = 0
    if len(left):
        with connection.attached(topic, new, SubscriptionType.SHARED):
            sent = send(connection, (topic, new), left, {})
        made = connection.read_live(topic, new)
    missing = (source.acked - made.acked).cardinality + (made.acked - source.acked).cardinality
    return Report(topic=topic, subscription=new, sent=sent, missing=missing, ack_sets=0)


def check_copyable(connection: Connection, topic: str, subscription: str, new: str) -> Snapshot:
    """Check that a subscription can be copied to the name `new`. Return the live state of the subscription.

    Raises `RefusedError` if the check fails.
    """
    source = connection.read_live(topic, subscription)
    attachable_type(source, planned=SubscriptionType.SHARED if source.type is None else source.type)
    refuse_internal(new)
    path = f"{topic_path(topic)}/subscriptions"
    taken = connection.admin.ask(path)
    if not isinstance(taken, list):
        raise StatsError("expected a list of names", connection.admin.endpoint.address(path))
    if new in taken:
        raise RefusedError("exists", topic=topic, subscription=new)
    return source


def ack(
    connection: Connection, topic: str, subscription: str, positions: Iterable[tuple[int, int]]
) -> Report:
    """Acknowledge the entries at `positions` for a subscription; return the report."""
    left = unacknowledged(connection.read_live(topic, subscription), positions)
    sent = 0
    if len(left):
        kind = attachable_type(connection.read_live(topic, subscription))
        with connection.attached(topic, subscription, kind):
            sent = send(connection, (topic, subscription), left, {})
        live = connection.read_live(topic, subscription)
        left -= live.acked
        if live.type is SubscriptionType.KEY_SHARED:
            connection.wake(topic, subscription)
    return Report(topic=topic, subscription=subscription, sent=sent, missing=left.cardinality, ack_sets=0)


def unacknowledged(live: Snapshot, positions: Iterable[tuple[int, int]]) -> PositionRangeSet:
    """Return the given positions that are not acknowledged in the live state.

    Raises `RefusedError` if the topic has no entry at a position.
    """
    attachable_type(live)
    left = PositionRangeSet()
    for position in positions:
        if not live.stats.ledgers.contains(*position):
            raise RefusedError(
                "no-such-entry", topic=live.stats.topic, position=f"{position[0]}:{position[1]}"
            )
        if position not in live.acked:
            left.add(*position)
    return left
