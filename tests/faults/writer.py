"""A process that saves a cursor again and again until it is killed: `python -m tests.faults.writer`.

Arguments: the store (`sqlite PATH` or `pulsar URL TOPIC`), the form, the seed of the states. Prints the
number of each save once it has returned, after that of the state it began from (-1 for none).
"""

from __future__ import annotations

import itertools
import sys

from ackwell.saving.journal import Journal
from ackwell.store import SqliteStore, Store
from tests.saving.saves import states

#: Small, so that many saves are in parts.
ENTRY_BYTES_MAX = 400


def open_store(kind: str, *where: str) -> Store:
    """Open the store that the arguments name."""
    if kind == "sqlite":
        return SqliteStore(*where)
    from ackwell.store.pulsar import PulsarStore

    return PulsarStore(*where)


def saved(journal: Journal) -> int:
    """Load the cursor; return the number of its save, -1 for none."""
    state = journal.load().position_info
    return -1 if state is None else state.properties["save"]


def main() -> None:
    """Save until killed."""
    *where, form, seed = sys.argv[1:]
    journal = Journal(open_store(*where), form=form, entry_bytes_max=ENTRY_BYTES_MAX)
    number = saved(journal)
    print(number, flush=True)
    for state in itertools.islice(states(int(seed), sys.maxsize), number + 1, None):
        journal.save(state)
        print(state.properties["save"], flush=True)


if __name__ == "__main__":
    main()
