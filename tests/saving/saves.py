"""The successive states of a cursor, for the crash tests."""

from __future__ import annotations

import random
from collections.abc import Iterator

from ackwell import PositionInfo, PositionRangeSet


def states(seed: int, count: int, *, acks_per_save: int = 3, resets: bool = True) -> Iterator[PositionInfo]:
    """Return `count` states, each after more acks; `resets` adds states that no delta can express."""
    chance = random.Random(seed)
    ledger_id, mark_delete = 3, -1
    acked = PositionRangeSet()
    batches: dict[tuple[int, int], list[int]] = {}
    properties: dict[str, int] = {}
    for number in range(count):
        for _ in range(chance.randint(1, acks_per_save)):
            entry_id = mark_delete + 1 + int(chance.expovariate(1 / 20))
            match chance.choice(("ack", "ack", "range", "batch", "mark delete", "property")):
                case "ack":
                    acked.add(ledger_id, entry_id + 1)
                case "range":
                    acked.add_range(ledger_id + 1, entry_id, entry_id + chance.randint(1, 9))
                case "batch":
                    batches[ledger_id, entry_id] = [chance.getrandbits(10) | 1]
                case "mark delete":
                    mark_delete += chance.randint(1, 4)
                case "property":
                    properties = {"sequence": number}
        if chance.random() < 0.05 and resets:
            mark_delete = max(-1, mark_delete - 5)
            acked.clear()
            batches.clear()
        while acked.contains(ledger_id, mark_delete + 1):
            mark_delete += 1
        acked.remove_up_to(ledger_id, mark_delete)
        batches = {
            position: words
            for position, words in batches.items()
            if position > (ledger_id, mark_delete) and position not in acked
        }
        yield PositionInfo(
            ledger_id,
            mark_delete,
            individually_deleted=acked,
            batch_deleted=batches,
            properties={**properties, "save": number},
        )
