"""The life of one seed: a subscription on a failing disk, with one owner or two.

Each guarantee is checked at the first operation that could break it:

- **Durability**: a confirmed save survives any crash.
- **Atomicity**: a loaded state is exactly one of the saved states, never a mixture.
- **No silent loss**: a state older than the newest one is loaded only on request; a damaged entry is reported
  or has no effect. Only the loss of the newest writes of a disk that lied about its syncs cannot be detected;
  it is counted.
- **Never early**: no delivery before its time or before the end of a back-off, no receipt before a save.
- **Conservation of counters, one place per entry**: `Model.check`, which calls `Subscription.validate`.
- **Fencing**: a fenced owner changes nothing, and confirms only states in the store.
- **Liveness**: at the end every message can be delivered and acknowledged.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from ackwell.errors import CorruptStateError, FencedError, NotLoadedError, StoreError
from ackwell.position import Position
from ackwell.subscription import Subscription, SubscriptionType
from tests.simulation.disk import WRITE_FAULTS, CrashError, Disk, DiskStore
from tests.simulation.owner import Owner, Save, Topic
from tests.subscription.model import Message, State, observed

if TYPE_CHECKING:
    from ackwell.engine import Engine

OPERATIONS_MIN: Final = 50
OPERATIONS_MAX: Final = 60
#: Entries of a ledger. They are few, so that a log has several ledgers.
LEDGER_ENTRIES: Final = 6
ENTRIES_MAX: Final = 24

#: Outcomes that a sample of lives must show, in addition to the faults of the disk.
OUTCOMES: Final = (
    "saves",
    "saves in parts",
    "receipts",
    "deliveries",
    "suspects delivered",
    "tries counted when a consumer was lost",
    "tries counted by a load",
    "loads",
    "owners killed between operations",
    "owners replaced",
    "loads in the middle of a save",
    "saves in the middle of a load",
    "writes refused by a fence",
    "saves refused, as not loaded",
    "found: the save in flight",
    "found: what was confirmed",
    "damage: exact all the same",
    "damage: refused",
    "damage: older state taken, as asked",
    "damage: nothing whole, replaced as asked",
    "a torn last entry skipped",
    "newest writes lost by a disk that lied, which nothing can see",
)

EMPTY: Final = State({}, {}, {})


@dataclass
class Life:
    """The life of one seed. `trace` is called with a description of every operation."""

    seed: int
    engine: Engine | None = None
    trace: Callable[[str], None] | None = None
    seen: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        chance = self.random = random.Random(self.seed)
        kind = chance.choices(("Shared", "Key_Shared", "Exclusive", "Failover"), (45, 25, 15, 15))[0]
        self.topic = Topic.of(chance, kind, self.engine)
        self.disk = Disk(
            chance,
            atomic_appends=chance.random() < 0.7,
            entry_bytes_max=chance.choice((24, 60, 1 << 20)),
        )
        self.owner: Owner | None = None
        self.zombies: list[Owner] = []
        self.owners = 0
        self.nothing = Save(EMPTY)
        """The state before the first save."""
        self.saves: list[Save] = [self.nothing]
        self.confirmed = self.nothing
        self.lied = False
        # Some lives have few faults, so that long chains of saves occur.
        self.trouble = chance.choice((0.0, 0.5, 1.0, 2.0))

    def say(self, *words: object) -> None:
        if self.trace is not None:
            name = self.owner.name if self.owner else "-"
            self.trace(
                f"{self.seen['operations']:4} {self.topic.now_ms:6} ms  {name:3} {' '.join(map(str, words))}"
            )

    def live(self) -> Counter[str]:
        """Run the life; raise `AssertionError` if a guarantee is broken. Return the counts of events."""
        try:
            operations = self.random.randint(OPERATIONS_MIN, OPERATIONS_MAX)
            self.publish()
            while self.seen["operations"] < operations:
                self.seen["operations"] += 1
                self.step()
            self.end()
        except Exception as error:
            error.add_note(
                f"in operation {self.seen['operations']} of seed {self.seed}; "
                f"to see all of it: python -m tests.simulation {self.seed}"
            )
            raise
        self.seen.update(self.disk.faults)
        return self.seen

    def step(self) -> None:
        """Do one operation, or cause a fault."""
        chance = self.random
        if self.disk.full and chance.random() < 0.25:
            self.disk.full = False
            self.say("the disk has space")
        if chance.random() < 0.12 * self.trouble:
            (go_wrong,) = chance.choices(TROUBLE, cum_weights=TROUBLE_WEIGHTS)
            go_wrong(self)
            return
        if self.owner is None:
            self.load()
            return
        if chance.random() < 0.1:
            self.publish()
        owner = self.owner
        if self.zombies and chance.random() < 0.2:
            owner = chance.choice(self.zombies)
        (operation,) = chance.choices(OPERATIONS, cum_weights=OPERATION_WEIGHTS)
        if operation is None:
            self.save(owner)
        else:
            self.say("" if owner is self.owner else f"(fenced {owner.name})", *operation(owner))
        if chance.random() < 0.1:
            owner.model.advance(self.topic.now_ms)
            owner.subscription.advance(self.topic.now_ms)
            owner.model.check(owner.subscription, self.topic.now_ms)

    def publish(self) -> None:
        """Append messages to the log."""
        chance, log = self.random, self.topic.log
        for _ in range(min(chance.randint(1, 8), ENTRIES_MAX - len(log))):
            ledger, entry = divmod(len(log), LEDGER_ENTRIES)
            position = Position(3 + 2 * ledger, entry)
            delay = chance.choice((0, 0, 0, 900, 6_000))
            message = Message(
                (1 << chance.choice((1, 1, 2, 3, 70))) - 1,
                1 + 20_000 * chance.randrange(3) if self.topic.kind == "Key_Shared" else 0,
                self.topic.now_ms + delay if delay else 0,
            )
            self.topic.ledgers.grow(position.ledger_id, position.entry_id + 1)
            log[position] = message
            self.say("published", position, message)

    # Saves

    def save(self, owner: Owner) -> None:
        """Save. A confirmed state must survive from then on."""
        store = self.store_of(owner)
        attempt = Save(owner.model.state(), owner, owner.model.all_in_hand())
        before, store.author = store.appended, attempt
        self.saves.append(attempt)
        try:
            receipts = owner.subscription.save(store)
        except (StoreError, CrashError) as error:
            self.did_not_save(owner, attempt, error, wrote=store.appended > before)
            return
        finally:
            self.disk.disarm()
            store.interrupt = None
        self.say("saved", f"{store.appended - before} entries up to {self.disk.ledger.last_id}")
        owner.given(receipts)
        self.seen["saves"] += 1
        self.seen["saves in parts"] += store.appended - before > 1
        if store.appended == before:
            self.saved_nothing(owner, attempt)
        else:
            # An owner that started without loading and has not saved has fenced no other owner.
            fenced = store.generation < self.disk.ledger.generation
            assert not fenced, "an owner that was fenced wrote"
            assert self.confirmed is owner.saved, "a save was built on another one than the newest"
            attempt.returned, attempt.entry_id = True, self.disk.ledger.last_id
            owner.saved = attempt
            self.disk.single_path = False
            if self.owner is not owner:
                # No owner has fenced it, and none has saved since.
                self.own(owner)
        if owner is self.owner:
            self.confirmed = owner.saved
        if not self.random.randrange(8):
            self.durable_position(owner, attempt.state)

    def did_not_save(self, owner: Owner, attempt: Save, error: BaseException, *, wrote: bool) -> None:
        """Check the error of a save, and react as an owner does."""
        self.say("cannot save:", error)
        if isinstance(error, CrashError):
            self.crashed(owner, error)
            return
        if wrote:
            owner.raised = attempt
        generation = self.store_of(owner).generation
        if isinstance(error, FencedError):
            assert self.disk.ledger.generation > generation, f"no other owner, and: {error}"
            self.seen["writes refused by a fence"] += 1
        elif isinstance(error, NotLoadedError):
            newest = self.disk.author.get(self.disk.ledger.last_id)
            theirs = isinstance(newest, Save) and newest.owner is owner
            assert not wrote, f"written, and: {error}"
            assert not theirs, f"no other owner wrote, and: {error}"
            self.seen["saves refused, as not loaded"] += 1
        else:
            return
        if owner is self.owner:
            # It is not the owner, or has an outdated view of its store, so it starts again.
            self.owner = None

    def saved_nothing(self, owner: Owner, attempt: Save) -> None:
        """Check a save without writes, whose state must be that of the previous save."""
        # The previous save may have raised an error after its last write.
        same = [each for each in (owner.saved, owner.raised) if each and each.state == attempt.state]
        assert same, f"a save wrote nothing of {attempt.state}, after {owner.saved.state}"
        owner.saved = same[0]
        owner.saved.entry_id = max(each for each, save in self.disk.author.items() if save is same[0])

    def durable_position(self, owner: Owner, state: State) -> None:
        """Check that a saved state has everything up to the durable position acknowledged."""
        durable = owner.subscription.durable_mark_delete_position
        for position, message in self.topic.log.items():
            assert position > durable or state.acked.get(position, 0) == message.bits, (
                f"{position} is before the durable position {durable}, and not acknowledged in a saved state"
            )

    def store_of(self, owner: Owner) -> DiskStore:
        assert isinstance(owner.store, DiskStore)
        return owner.store

    # Loads

    def candidates(self, last_id: int) -> list[State]:
        """Return the states that a ledger up to this entry may contain: the saves since one that returned."""
        found = []
        while last_id >= 0:
            attempt = self.disk.author.get(last_id)
            if not isinstance(attempt, Save):
                break
            found.append(attempt.state)
            if attempt.entry_id == last_id:
                return found
            if attempt.returned:
                # The entry that completes it is lost.
                found.pop()
            while self.disk.author.get(last_id) is attempt:
                last_id -= 1
        return [*found, EMPTY]

    def load(self, during: Callable[[], object] | None = None) -> None:
        """Start an owner from the disk. The previous owner is fenced, and may not have noticed yet."""
        disk, store = self.disk, DiskStore(self.disk)
        alone = self.owner is None and not self.zombies
        if alone and disk.ledger.last_id < 0 and self.random.random() < 0.4:
            # Without any save, a subscription may also start by saving.
            subscription = Subscription(
                SubscriptionType(self.topic.kind), self.topic.ledgers, **self.topic.options()
            )
            self.say("begins without loading")
            self.begin(store, subscription, self.nothing)
            return
        if during is not None:
            store.interrupt = self.random.randrange(3), during
        generation = disk.ledger.generation
        try:
            subscription = self.topic.load(store)
        except CorruptStateError as error:
            self.refused(error, fenced=disk.ledger.generation != generation and during is None)
            return
        except StoreError as error:
            self.say("cannot load:", error)
            return
        except CrashError as crash:
            self.crashed(None, crash)
            return
        finally:
            disk.disarm()
            store.interrupt = None
        self.found(store, subscription, asked=False)

    def refused(self, error: CorruptStateError, *, fenced: bool) -> None:
        """Check the reason for a refusal, and react as an operator does."""
        self.say("cannot load:", error)
        assert self.disk.damaged or self.lied, f"nothing is damaged, and loading fails: {error}"
        assert not fenced, "a load that failed has fenced the owner"
        self.strong_promise()
        self.seen["damage: refused"] += 1
        self.load_older()

    def load_older(self) -> None:
        """Load an older state, as an operator would, or start again if no state is whole."""
        store = DiskStore(self.disk)
        try:
            subscription = self.topic.load(store, take_older=True)
        except CorruptStateError as error:
            self.say("cannot load an older one:", error)
            self.replace(store)
            return
        except StoreError as error:
            self.say("cannot load:", error)
            return
        except CrashError as crash:
            self.crashed(None, crash)
            return
        self.seen["damage: older state taken, as asked"] += 1
        self.found(store, subscription, asked=True)

    def replace(self, store: DiskStore) -> None:
        """Replace an unreadable state by an empty subscription."""
        subscription = Subscription(
            SubscriptionType(self.topic.kind), self.topic.ledgers, **self.topic.options()
        )
        attempt = Save(EMPTY)
        store.author = attempt
        self.saves.append(attempt)
        try:
            subscription.save(store, replace=True)
        except StoreError as error:
            self.say("cannot replace:", error)
            return
        except CrashError as crash:
            self.crashed(None, crash)
            return
        finally:
            self.disk.disarm()
        attempt.returned, attempt.entry_id = True, self.disk.ledger.last_id
        self.seen["damage: nothing whole, replaced as asked"] += 1
        self.begin(store, subscription, attempt)

    def found(self, store: DiskStore, subscription: Subscription, *, asked: bool) -> None:
        """Check the loaded state, and make its subscription the owner."""
        disk, recovery = self.disk, subscription.recovery
        assert recovery is not None
        damaged, last_id = disk.damaged, disk.ledger.last_id
        state = observed(subscription, self.topic.log)
        torn = False
        if last_id in damaged and not disk.atomic_appends and not asked:
            # The last entry may be skipped, which is reported; with it the whole save that it completes.
            torn = any(each.entry_id == last_id for each in recovery.skipped)
            ended = disk.author.get(last_id)
            while torn and last_id >= 0 and disk.author.get(last_id) is ended:
                last_id -= 1
            self.seen["a torn last entry skipped"] += torn
        if asked:
            possible = [each.state for each in self.saves]
            assert recovery.older or recovery.damaged, "an older state was loaded without a report"
        else:
            possible = self.candidates(last_id)
            assert not recovery.older, "an older state was loaded without a request"
            assert damaged or not recovery.damaged, f"whole entries are said to be damaged: {recovery}"
            self.seen["damage: exact all the same"] += bool(damaged) and not torn
        assert state in possible, (
            f"the state that was loaded was never saved, or is not the newest: {state}; {possible} may be"
        )
        self.durability(state, torn=torn, asked=asked)
        self.seen["loads"] += 1
        self.say("loaded", f"entry {recovery.entry_id} of {disk.ledger.last_id}")
        save = disk.author.get(recovery.entry_id)
        if not isinstance(save, Save):
            save = self.nothing
        assert save.state == state
        # From now on an owner builds on this save, whether it returned or not.
        save.entry_id = recovery.entry_id
        self.begin(store, subscription, save)

    def durability(self, state: State, *, torn: bool, asked: bool) -> None:
        """Check that the confirmed state was loaded, unless the disk lied."""
        if state == self.confirmed.state:
            self.seen["found: what was confirmed"] += 1
            return
        after = self.saves[self.saves.index(self.confirmed) + 1 :]
        if any(each.state == state for each in after):
            self.seen["found: the save in flight"] += 1
            return
        if asked or torn:
            return
        assert self.lied, "a save that was confirmed is not there"
        self.seen["newest writes lost by a disk that lied, which nothing can see"] += 1

    def strong_promise(self) -> None:
        """Check that a single damaged entry outside of the newest save loses nothing."""
        disk = self.disk
        if len(disk.damaged) != 1 or self.lied or disk.single_path:
            return
        (damaged,) = disk.damaged
        newest = disk.author.get(disk.ledger.last_id)
        whole = isinstance(newest, Save) and newest.entry_id == disk.ledger.last_id
        of_newest = not whole or disk.author.get(damaged) is newest
        assert of_newest, f"one damaged entry, {damaged}, lost a save of other entries"

    def begin(self, store: DiskStore, subscription: Subscription, save: Save) -> None:
        """Start a new owner from a state."""
        self.owners += 1
        self.own(Owner(f"#{self.owners}", self.topic, subscription, save, store))
        assert self.owner is not None
        self.owner.seen = self.seen
        self.confirmed = save
        self.lied = False
        self.owner.model.check(subscription, self.topic.now_ms)
        self.seen["tries counted by a load"] += len(save.in_hand)

    def own(self, owner: Owner) -> None:
        """Make this owner the owner of the store. The previous one may not have noticed yet."""
        before, self.owner = self.owner, owner
        self.zombies = [each for each in self.zombies if each is not owner]
        if before is not None:
            self.zombies = [*self.zombies[-1:], before]
            self.seen["owners replaced"] += 1

    # Trouble

    def crashed(self, owner: Owner | None, crash: CrashError) -> None:
        """Remove the owners that died in a crash."""
        self.say("crash:", crash)
        self.seen["crashes"] += 1
        if crash.power:
            self.owner, self.zombies = None, []
        elif owner is self.owner:
            self.owner = None
        else:
            self.zombies = [each for each in self.zombies if each is not owner]

    def killed(self) -> None:
        """Kill the owner between two operations."""
        if self.owner is not None:
            self.seen["owners killed between operations"] += 1
            self.crashed(self.owner, CrashError(power=False))

    def power(self) -> None:
        """Cut the power between two operations."""
        self.lied = self.lied or self.disk.lies
        self.disk.lose_power()
        self.crashed(None, CrashError(power=True))

    def takeover(self) -> None:
        """Another owner loads, and this one continues."""
        self.say("another owner comes")
        self.load()

    def takeover_in_a_save(self) -> None:
        """Another owner loads during a save."""
        owner = self.owner
        if owner is None:
            return
        store = self.store_of(owner)

        def come() -> None:
            store.interrupt = None
            author, self.owner = store.author, None
            self.load()
            store.author = author
            if self.owner is None:
                self.owner = owner
            else:
                self.zombies = [*self.zombies[-1:], owner]
                self.seen["owners replaced"] += 1
                self.seen["loads in the middle of a save"] += 1
                if self.random.random() < 0.5:
                    self.owner.ack_part()
                    self.save(self.owner)

        store.interrupt = self.random.randrange(2), lambda: self.in_between(come)
        self.say("another owner comes in the middle of this:")
        self.save(owner)

    def save_in_a_takeover(self) -> None:
        """The owner saves while another one loads."""
        owner = self.owner
        if owner is None:
            return

        def late() -> None:
            if self.owner is owner:
                self.seen["saves in the middle of a load"] += 1
                self.save(owner)

        self.say("another owner comes, and in the middle of its load:")
        self.load(lambda: self.in_between(late))

    def in_between(self, act: Callable[[], object]) -> None:
        """Run another process during an operation, which a power loss ends."""
        before = self.disk.faults["power lost"]
        act()
        if self.disk.faults["power lost"] > before:
            raise CrashError(power=True)

    def fault_in_a_write(self) -> None:
        """A write fails, or the process or the machine dies during it."""
        (fault,) = self.random.choices(WRITE_FAULTS, (1, 1, 1, 1, 3))
        if self.disk.lies and fault == WRITE_FAULTS[-1]:
            self.lied = True
        self.say("to strike:", fault)
        self.disk.arm(fault, self.random.choice((0, 0, 0, 1, 1, 2)))
        if self.owner is None or self.random.random() < 0.15:
            self.load()
        else:
            self.owner.ack_part()
            self.save(self.owner)

    def read_error(self) -> None:
        """A read fails during a load or a save."""
        self.disk.fail_a_read(self.random.randrange(12))
        if self.owner is None or self.random.random() < 0.7:
            self.load()
        else:
            self.save(self.owner)

    def disk_full(self) -> None:
        """The disk is full for a while."""
        self.disk.full = True
        self.say("the disk is full")

    def bit_flip(self) -> None:
        """Flip a bit of an entry, and cut the power."""
        if self.disk.ledger.entries:
            entry_id = self.random.choice(list(self.disk.ledger.entries))
            self.disk.flip_a_bit(entry_id)
            self.say("a bit of entry", entry_id, "flipped")
            self.power()

    def duplicate(self) -> None:
        """The last entry is written twice."""
        if self.disk.ledger.entries:
            self.disk.write_twice()
            self.say("the last entry was written twice")

    def written_over(self) -> None:
        """An entry is overwritten by another one."""
        entries = self.disk.ledger.entries
        if len(entries) > 1:
            entry_id = self.random.choice(list(entries))
            self.disk.write_over(entry_id)
            self.say("entry", entry_id, "was written over")
            self.power()

    def unreadable(self) -> None:
        """An entry is in a bad sector until the disk is replaced."""
        entries = self.disk.ledger.entries
        if entries:
            self.disk.unreadable = {self.random.choice(list(entries))}
            self.killed()
            self.load()
            self.disk.unreadable.clear()

    def lie(self) -> None:
        """The disk starts or stops to ignore syncs."""
        if self.disk.lies:
            self.disk.tell_the_truth()
        else:
            self.disk.lie()
        self.say("the disk lies" if self.disk.lies else "the disk is honest")

    def end(self) -> None:
        """Repair the disk, then deliver and acknowledge everything, and check that it is durable."""
        disk = self.disk
        disk.full = False
        disk.disarm()
        disk.tell_the_truth()
        for _ in range(2):
            if self.owner is None:
                self.load()
        assert self.owner is not None, "no owner could begin on a whole disk"
        self.drain(self.owner)
        self.save(self.owner)
        if self.owner is None:
            # It had an outdated view of its store.
            self.load()
            assert self.owner is not None
            self.drain(self.owner)
            self.save(self.owner)
        self.owner = None
        self.load()
        assert self.owner is not None
        assert self.owner.subscription.cursor.backlog_entries == 0, "an acknowledgment did not last"

    def drain(self, owner: Owner) -> None:
        """Make an owner deliver everything that remains, and count the rounds."""
        rounds = owner.drain()
        self.seen[f"drained in {rounds} rounds"] += 1
        self.say("drained in", rounds, "rounds")


#: Faults and their weights.
_TROUBLE: Final[dict[Callable[[Life], None], float]] = {
    Life.fault_in_a_write: 20,
    Life.lie: 8,
    Life.disk_full: 6,
    Life.killed: 6,
    Life.power: 6,
    Life.save_in_a_takeover: 6,
    Life.takeover: 6,
    Life.takeover_in_a_save: 6,
    Life.bit_flip: 5,
    Life.read_error: 5,
    Life.unreadable: 3,
    Life.written_over: 3,
    Life.duplicate: 2,
}
#: Operations of an owner and their weights; None is a save.
_OPERATIONS: Final[dict[Callable[[Owner], tuple[object, ...]] | None, float]] = {
    None: 28,
    Owner.dispatch: 25,
    Owner.ack_part: 10,
    Owner.ack_in_transaction: 9,
    Owner.ack: 8,
    Owner.time_passes: 8,
    Owner.join_or_leave: 7,
    Owner.ack_with_receipt: 6,
    Owner.nack: 6,
    Owner.ack_cumulative: 5,
    Owner.more_permits: 5,
    Owner.end_transaction: 4,
    Owner.redeliver: 4,
    Owner.ack_many: 3,
    Owner.seek: 0.7,
}
TROUBLE: Final = list(_TROUBLE)
TROUBLE_WEIGHTS: Final = list(accumulate(_TROUBLE.values()))
OPERATIONS: Final = list(_OPERATIONS)
OPERATION_WEIGHTS: Final = list(accumulate(_OPERATIONS.values()))
