"""Short random histories of subscriptions, with all kinds of events, in order."""

from __future__ import annotations

import random
from typing import Any

from ackwell.replay.events import Event, Kind


def random_history(  # noqa: C901 (a die with many faces)
    seed: int, *, by_topic: bool = False, sizes: tuple[int, ...] = (70,)
) -> list[Event]:
    """The life of one subscription; `by_topic` records each publish once for the topic.

    With batches, each second entry is one, with one of the `sizes`.
    """
    draw = random.Random(seed)
    name = f"topic-{seed // 2}", f"sub-{seed % 2}"
    file = draw.choice([None, "b"])
    batch = draw.random() < 0.5
    entries = {ledger: draw.randint(1, 6) for ledger in draw.sample(range(3, 20), 3)}
    published: list[tuple[int, int]] = []
    todo = [(ledger, entry) for ledger in sorted(entries) for entry in range(entries[ledger])]
    events: list[Event] = []

    def happen(kind: Kind, *, topic: bool = False, **fields: Any) -> None:
        at = (2**60 if seed == 7 else 0) + len(events)
        subscription = "" if topic and by_topic else name[1]
        events.append(Event(name[0], subscription, at, kind, file=file, **fields))

    def size_of(ledger: int, entry: int) -> int | None:
        return sizes[(ledger + entry // 2) % len(sizes)] if batch and entry % 2 else None

    def ack_set(size: int) -> tuple[int, ...]:
        """Return random words for a batch. The last word has only the bits of the batch."""
        full, rest = divmod(size, 64)
        return (*(draw.getrandbits(63) for _ in range(full)), *([draw.getrandbits(rest)] if rest else []))

    while todo or draw.random() < 0.9:
        if todo and (not published or draw.random() < 0.4):
            ledger, entry = todo.pop(0)
            published.append((ledger, entry))
            size = size_of(ledger, entry)
            for index in range(size or 1):
                happen(
                    Kind.PUBLISH,
                    topic=True,
                    ledger_id=ledger,
                    entry_id=entry,
                    batch_index=index if size else None,
                    batch_size=draw.choice([None, size]) if size else None,
                )
            continue
        ledger, entry = draw.choice(published)
        at: dict[str, Any] = {"ledger_id": ledger, "entry_id": entry}
        size = size_of(ledger, entry)
        if size and draw.random() < 0.8:
            at |= draw.choice(
                [
                    {"batch_index": draw.randrange(size)},
                    {"batch_index": draw.randrange(size), "batch_size": size},
                    {"ack_set": ack_set(size)},
                    {"ack_set": (-draw.getrandbits(63),)},
                    {"ack_set": (0,)},
                    {"ack_set": ()},
                ]
            )
        roll = draw.random()
        if roll < 0.74:
            happen(Kind.ACK, **at)
        elif roll < 0.78:
            happen(Kind.ACK, transaction=draw.choice("1234"), **at)
        elif roll < 0.80:
            happen(draw.choice([Kind.COMMIT, Kind.ABORT]), transaction=draw.choice("1234"))
        elif roll < 0.86:
            happen(Kind.ACK_CUMULATIVE, transaction=draw.choice([None, None, "1"]), **at)
        elif roll < 0.88:
            kind, transaction = draw.choice([Kind.SKIP, Kind.EXPIRE]), draw.choice([None, None, "1"])
            happen(kind, transaction=transaction, ledger_id=ledger, entry_id=entry)
        elif roll < 0.92:
            place: dict[str, Any] = {n: at[n] for n in at if n in ("ledger_id", "entry_id", "ack_set")}
            happen(Kind.SEEK, **place)
        elif roll < 0.94:
            cleared: dict[str, Any] = draw.choice([{}, {"ledger_id": ledger, "entry_id": entry}])
            happen(Kind.CLEAR_BACKLOG, **cleared)
        elif roll < 0.95:
            happen(Kind.TRIM, topic=True, ledger_id=draw.choice(sorted(entries)[:2]), entry_id=0)
        elif roll < 0.97:
            detail = f'{{"acknowledgmentAtBatchIndexLevelEnabled": {draw.choice(["true", "true"])}}}'
            happen(Kind.META, detail=detail)
        elif roll < 0.98:
            happen(Kind.DISPATCH, consumer="c", ledger_id=ledger, entry_id=entry)
        else:
            happen(Kind.CONSUMER_OPEN, consumer="c", detail="Shared")
    return events
