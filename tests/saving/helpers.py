"""States, and ledgers with their saves."""

from __future__ import annotations

from hypothesis import strategies as st

from ackwell import PositionInfo
from ackwell.saving.journal import Journal
from ackwell.store import MemoryLedger, MemoryStore

ENTRIES = st.integers(0, 40)
POSITIONS = st.tuples(st.integers(3, 4), ENTRIES)
STATES = st.builds(
    PositionInfo,
    st.integers(3, 4),
    st.integers(-1, 20),
    individually_deleted=st.lists(st.tuples(st.integers(3, 4), ENTRIES, st.integers(1, 9))).map(
        lambda runs: [(ledger_id, lower, lower + length) for ledger_id, lower, length in runs]
    ),
    batch_deleted=st.dictionaries(POSITIONS, st.sampled_from([(1,), (2,), (0, 1)]), max_size=4),
    redelivery_counts=st.dictionaries(POSITIONS, st.integers(0, 3), max_size=4),
    properties=st.dictionaries(st.sampled_from("ab"), st.integers(0, 2)),
    idle_since=st.sampled_from([None, 5]),
    unknown_fields=st.sampled_from([b"", bytes([0xF8, 0x01, 7])]),
)


def loaded(ledger: MemoryLedger) -> PositionInfo | None:
    return Journal(MemoryStore(ledger, read_only=True)).load().position_info


def saved(*states: PositionInfo, form: str = "compact") -> MemoryLedger:
    """Return a ledger with these saves."""
    ledger = MemoryLedger()
    journal = Journal(MemoryStore(ledger), form=form)
    for state in states:
        journal.save(state)
    return ledger


def damage(ledger: MemoryLedger, entry_id: int, bit: int = 40) -> None:
    data = bytearray(ledger.entries[entry_id])
    data[bit // 8] ^= 1 << bit % 8
    ledger.entries[entry_id] = bytes(data)
