"""Keep the acknowledged parts of batches over a restart. A rescue cannot restore them afterwards.

The admin API does not show these parts. When a topic is closed, the broker writes the parts to the cursor
ledger or to the metadata store. Pulsar 4.0.14, 4.2.5, 5.0.0 and later patches of these releases read the
parts from both; older brokers read the parts only from the cursor ledger. A close writes to the cursor ledger
if this ledger is open and the cursor has more ranges than
`managedLedgerMaxUnackedRangesToPersistInMetadataStore`. A broker opens the cursor ledger at the first
acknowledgment after it has loaded the cursor. So `keep_parts` repeats an acknowledgment to open the ledger.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, Literal

from ackwell._native import PositionRangeSet
from ackwell.broker.writes import closes_to_ledger
from ackwell.cursor.cursor_state import existing
from ackwell.diagnosis.hidden import hidden_parts
from ackwell.errors import AckwellError
from ackwell.rescue.planning import attachable_type, is_loaded_anew
from ackwell.rescue.restoring import send

if TYPE_CHECKING:
    from ackwell.protocol.constants import SubscriptionType
    from ackwell.rescue.connection import Connection
    from ackwell.rescue.snapshot import Snapshot

Parts = Literal["kept", "kept once", "lost"]
"""Whether graceful closes of a topic keep the acknowledged parts of batches. Every close keeps *kept* parts,
only the next close keeps *kept once* parts, and the next close loses *lost* parts."""

_OPEN_ATTEMPTS_MAX: Final = 50
_OPEN_PAUSE_S: Final = 0.1


def parts_after_close(live: Snapshot) -> Parts:
    """Return whether the next graceful closes of the topic keep the acknowledged parts of batches."""
    settings = live.settings
    if settings is None:
        return "lost"
    if settings.batch_indexes_return or hidden_parts(live.stats, settings).at_most == 0:
        return "kept"
    return "kept once" if live.stats.cursor_ledger == "open" and _has_ledger_form(live) else "lost"


def lost_parts(before: Snapshot, live: Snapshot) -> bool:
    """Return whether a load of the topic since the snapshot `before` may have lost parts of batches.

    Parts are the acknowledged messages of partly acknowledged batches. The result is True even if it is
    uncertain whether there were such parts. The result is False if an entry was acknowledged after the load,
    because the loss can then not be detected.
    """
    return (
        live.stats.cursor_ledger == "none"
        and is_loaded_anew(before, live)
        and not (live.settings is not None and live.settings.batch_indexes_return)
        and not (before.settings is not None and hidden_parts(before.stats, before.settings).at_most == 0)
    )


def keep_parts(connection: Connection, live: Snapshot, before: Snapshot | None = None) -> bool:
    """Make the broker open the cursor ledger, if the next close would otherwise lose parts of batches.

    Return whether the function opened the ledger. If no helper can attach, the ledger stays closed. `before`
    is an earlier snapshot that shows the type of the subscription. The live state does not show the type if
    no consumer has connected since the topic was loaded.
    """
    settings = live.settings
    if settings is None or live.stats.cursor_ledger == "open" or not _has_ledger_form(live):
        return False
    # Do this on every release, because an older broker may load the topic next.
    if hidden_parts(live.stats, settings).at_most == 0:
        return False
    try:
        # Several threads protect subscriptions at the same time, so each needs its own binary connection.
        with connection.renewed() as own:
            _repeat_acknowledgment(own, live.name, attachable_type(live, before))
            for _ in range(_OPEN_ATTEMPTS_MAX):
                if own.read_live(*live.name).stats.cursor_ledger == "open":
                    return True
                time.sleep(_OPEN_PAUSE_S)
    except AckwellError:
        # The next close loses the parts. `parts_after_close` reports this to the user.
        pass
    return False


def _repeat_acknowledgment(connection: Connection, name: tuple[str, str], kind: SubscriptionType) -> None:
    """Acknowledge the first individually deleted entry again, if there is one."""
    with connection.attached(*name, kind):
        # Read the state while the helper is attached. A later seek disconnects the helper, so the
        # acknowledgment cannot undo a seek.
        stats = connection.read_live(*name).stats
        first = next(existing(stats.individually_deleted, stats.ledgers).positions(), None)
        if first is not None:
            entry = PositionRangeSet()
            entry.add(*first)
            send(connection, name, entry, {})


def _has_ledger_form(live: Snapshot) -> bool:
    """Return whether a close would write the cursor to the cursor ledger, if this ledger were open.

    This depends on the number of ranges.
    """
    settings = live.settings
    return settings is not None and closes_to_ledger(live.stats, settings, "open")
