"""A subscription in SQLite with an error or a power loss at every single input and output call.

Afterwards every confirmed save is present, and the loaded state is exactly one of the saved states.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import pytest

from ackwell import Ledgers, PositionInfo, StoreError
from ackwell.store import SqliteStore
from ackwell.store.sqlite import JOURNAL_MAGIC
from ackwell.subscription import CommandAck, MessageId, Subscription, TransactionId
from tests.store.sqlite_io import FaultyIo, library

pytestmark = pytest.mark.skipif(library() is None, reason="this Python's SQLite is built in, out of reach")

ENTRIES = 60
#: The maximum number of attempts to start a life.
ERRORS_MAX = 5
saves = pytest.mark.parametrize(
    "saves", [pytest.param(4, marks=pytest.mark.slow), pytest.param(12, marks=pytest.mark.proof)]
)
LEDGERS = Ledgers({3: ENTRIES})


class Life:
    """A subscription that is used, saved, and sometimes closed and loaded, while calls fail."""

    def __init__(self, path: Path, *, restarts: bool) -> None:
        self.path = path
        self.restarts = restarts
        """Whether it restarts after an error; otherwise it continues and saves again."""
        self.saved: list[PositionInfo | None] = [None]
        """All states that were passed to a save."""
        self.confirmed = 0
        """The index of the last save that returned."""
        self.receipts = 0
        self.errors = 0
        self.chance = Random(5)

    def live(self, saves: int) -> None:
        done = 0
        while done < saves:
            try:
                with SqliteStore(self.path) as store:
                    subscription = self.load(store)
                    for _ in range(2):
                        self.use(subscription, done)
                        done += 1
                        self.save(subscription, store)
            except StoreError:
                self.errors += 1
                assert self.errors < ERRORS_MAX

    def load(self, store: SqliteStore) -> Subscription:
        subscription = Subscription.load("Shared", store, LEDGERS)
        assert subscription.recovery is not None
        self.check(subscription.recovery.position_info)
        subscription.add_consumer("a")
        subscription.flow("a", 1000)
        return subscription

    def check(self, found: PositionInfo | None) -> None:
        """Check that the loaded state is the last confirmed one or a later one; it is now confirmed."""
        possible = self.saved[self.confirmed :]
        assert found in possible, f"found none of {len(possible)} states"
        self.confirmed += possible.index(found)

    def use(self, subscription: Subscription, number: int) -> None:
        for position in subscription.next_reads(ENTRIES, 0):
            subscription.dispatch(*position, now_ms=0, batch_size=4)
        entry_id = self.chance.randrange(ENTRIES)
        message = MessageId(3, entry_id)
        subscription.handle("a", CommandAck(1, message_ids=(message,), request_id=number))
        subscription.ack("a", 3, self.chance.randrange(ENTRIES), (self.chance.choice((14, 6, 3)),))
        subscription.redeliver("a", [(3, self.chance.randrange(ENTRIES))])
        if number % 4 == 1:
            free = next(p for p in subscription.pending("a") if not subscription.ack_set(*p))
            held = CommandAck(1, message_ids=(MessageId(*free),), transaction=TransactionId(0, number))
            subscription.handle("a", held)
        if number % 5 == 4:
            # A delta cannot express this, so full saves and deletions occur, too.
            for transaction in subscription.transactions:
                subscription.abort(transaction)
            subscription.seek(3, self.chance.randrange(10))

    def save(self, subscription: Subscription, store: SqliteStore) -> None:
        self.saved.append(subscription.stage().info)
        index = len(self.saved) - 1
        try:
            receipts = subscription.save(store)
        except StoreError:
            if self.restarts:
                raise
            self.errors += 1
            return
        self.receipts += len(receipts)
        self.confirmed = index

    def end(self) -> None:
        """Load without faults and check that the last confirmed state is present."""
        with SqliteStore(self.path) as store:
            subscription = self.load(store)
            subscription.ack(None, 3, 1)
            self.save(subscription, store)
        assert self.confirmed == len(self.saved) - 1


def calls_of(path: Path, saves: int) -> int:
    """Return the number of calls in a life without faults."""
    with FaultyIo() as io:
        life = Life(path, restarts=False)
        life.live(saves)
        calls = io.calls
        life.end()
    assert life.errors == 0
    assert life.receipts == saves
    assert set(io.by_name) >= {"open", "read", "write", "sync", "lock", "size", "truncate", "delete"}
    return calls


@saves
@pytest.mark.parametrize(
    ("how", "restarts"),
    [("once", True), ("once", False), ("done all the same", False), ("until it starts again", True)],
)
def test_an_error_in_any_call_loses_nothing_that_was_confirmed(
    how: str, restarts: bool, saves: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    failed: Counter[str] = Counter()
    raised = 0
    calls = calls_of(tmp_path / "clean.db", saves)
    for number in range(calls):
        with FaultyIo() as io:
            io.fail_at, io.sticky, io.does_it = number, how.startswith("until"), how.startswith("done")
            life = Life(tmp_path / f"{number}.db", restarts=restarts)
            try:
                life.live(saves)
            except AssertionError:
                # While every call fails, it cannot restart.
                if not io.sticky or life.errors < ERRORS_MAX:
                    raise
            io.fail_at = None
            life.end()
            failed.update(io.failed[:1])
            raised += life.errors > 0
        assert io.failed, number
    with capsys.disabled():
        print(f"\nSQLite, {how}: {calls} calls, each failed: {dict(failed)}; {raised} errors raised", end=" ")
    # Some errors are invisible: SQLite does not need the truncation of its log, for example.
    assert raised > calls // 2
    assert failed.total() == calls


def test_a_file_whose_first_transaction_the_power_cut_short_is_a_new_one(tmp_path: Path) -> None:
    """The header is not written yet; the rollback journal shows that the file was empty."""
    path = tmp_path / "acks.db"
    path.write_bytes(bytes(4096))
    with pytest.raises(StoreError, match="file is not a database"):
        SqliteStore(path)
    numbers = (0, 1, 0, 512, 4096)
    header = JOURNAL_MAGIC + b"".join(number.to_bytes(4, "big") for number in numbers)
    Path(f"{path}-journal").write_bytes(header.ljust(512, b"\0"))
    with SqliteStore(path) as store:
        assert (store.generation, store.last_id) == (0, -1)
        assert store.append(b"a") == 0
    # A journal of another program is not accepted.
    path.write_bytes(bytes(4096))
    header = header[:16] + b"\0\0\0\1" + header[20:]
    Path(f"{path}-journal").write_bytes(header.ljust(512, b"\0"))
    with pytest.raises(StoreError, match="file is not a database"):
        SqliteStore(path)


@saves
def test_the_power_lost_at_any_call_leaves_what_was_confirmed(
    saves: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The files then hold the synced writes, and none or any sectors of the other writes."""
    found: Counter[str] = Counter()
    with FaultyIo() as io:
        life = Life(tmp_path / "acks.db", restarts=False)
        chance = Random(1)
        images: list[tuple[Path, int, int]] = []

        def lose_power() -> None:
            for kept in (None, chance):
                folder = tmp_path / f"{len(images)}"
                folder.mkdir()
                io.after_power_loss(folder, kept)
                images.append((folder, life.confirmed, len(life.saved)))

        io.before_call = lose_power
        life.live(saves + 2)
        io.before_call = None
        for folder, confirmed, saved in images:
            with SqliteStore(folder / "acks.db") as store:
                subscription = Subscription.load("Shared", store, LEDGERS)
            assert subscription.recovery is not None
            state = subscription.recovery.position_info
            possible = life.saved[confirmed:saved]
            assert state in possible, f"{folder}: lost"
            found["in flight" if possible.index(state) else "confirmed"] += 1
    with capsys.disabled():
        print(f"\nSQLite, power lost {len(images)} times: {dict(found)}", end=" ")
    assert found["confirmed"] > 200
    assert found["in flight"] > 10
