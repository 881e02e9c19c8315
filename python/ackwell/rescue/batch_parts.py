"""Acknowledged parts of batches: no rescue restores them, because the admin API does not show them.

A close writes them to the cursor ledger or to the metadata store. Brokers before 4.0.14, 4.2.5 and 5.0.0
read them back from the cursor ledger only. A close writes to the ledger if the ledger is open and the cursor
has more ranges than `managedLedgerMaxUnackedRangesToPersistInMetadataStore`. A broker opens the ledger of a
loaded cursor at the first acknowledgment, so `keep_parts` repeats an acknowledgment.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, Literal

from ackwell._native import PositionRangeSet
from ackwell.cursor.rules import existing
from ackwell.diagnosis.hidden import hidden_parts
from ackwell.errors import AckwellError
from ackwell.rescue.planning import attachable_type, is_loaded_anew
from ackwell.rescue.restoring import send

if TYPE_CHECKING:
    from ackwell.protocol.constants import SubscriptionType
    from ackwell.rescue.connection import Connection
    from ackwell.rescue.snapshot import Snapshot

Parts = Literal["kept", "kept once", "lost"]
"""Whether graceful closes of a topic keep acknowledged parts of batches: *kept* by every close, *kept once*
by the next close only, or *lost* in the next close."""

_OPEN_ATTEMPTS_MAX: Final = 50
_OPEN_PAUSE_S: Final = 0.1


def parts_after_close(live: Snapshot) -> Parts:
    """Return whether the next graceful closes of the topic keep acknowledged parts of batches."""
    settings = live.settings
    if settings is None:
        return "lost"
    if settings.batch_indexes_return or hidden_parts(live.stats, settings).at_most == 0:
        return "kept"
    return "kept once" if live.stats.cursor_ledger == "open" and _has_ledger_form(live) else "lost"


def lost_parts(before: Snapshot, live: Snapshot) -> bool:
    """Return whether a load of the topic may have lost acknowledged parts of batches.

    The result is True even if it is uncertain whether the snapshot `before` had such parts. It is False if an
    entry was acknowledged after the load.
    """
    return (
        live.stats.cursor_ledger == "none"
        and is_loaded_anew(before, live)
        and not (live.settings is not None and live.settings.batch_indexes_return)
        and not (before.settings is not None and hidden_parts(before.stats, before.settings).at_most == 0)
    )


def keep_parts(connection: Connection, live: Snapshot, before: Snapshot | None = None) -> bool:
    """Open the cursor ledger if the next close would otherwise lose acknowledged parts of batches.

    Return whether this opened the ledger. `before` is an earlier snapshot with the subscription type, which
    the live state does not show if no consumer has connected since the load. If no helper can attach, the
    ledger is not opened.
    """
    settings = live.settings
    if settings is None or live.stats.cursor_ledger == "open" or not _has_ledger_form(live):
        return False
    # On every release: the broker that loads the topic may have an older one.
    if hidden_parts(live.stats, settings).at_most == 0:
        return False
    try:
        # Several subscriptions are protected at once, and a binary connection serves one thread.
        with connection.renewed() as own:
            _repeat_acknowledgment(own, live.name, attachable_type(live, before))
            for _ in range(_OPEN_ATTEMPTS_MAX):
                if own.read_live(*live.name).stats.cursor_ledger == "open":
                    return True
                time.sleep(_OPEN_PAUSE_S)
    except AckwellError:
        # The parts are lost in the next close, which `parts_after_close` reports.
        pass
    return False


def _repeat_acknowledgment(connection: Connection, name: tuple[str, str], kind: SubscriptionType) -> None:
    """Acknowledge an entry that is already acknowledged."""
    with connection.attached(*name, kind):
        # A seek disconnects the helper, so its acknowledgment cannot follow a seek.
        stats = connection.read_live(*name).stats
        first = next(existing(stats.individually_deleted, stats.ledgers).positions(), None)
        if first is not None:
            entry = PositionRangeSet()
            entry.add(*first)
            send(connection, name, entry, {})


def _has_ledger_form(live: Snapshot) -> bool:
    """Return whether a close writes the cursor to its cursor ledger, if this ledger is open."""
    settings = live.settings
    return settings is not None and len(live.stats.individually_deleted) > settings.metadata_store_ranges
