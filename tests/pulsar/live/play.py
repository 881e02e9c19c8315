"""One sequence, played on both sides, with a comparison after each operation."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Generator
from typing import TYPE_CHECKING, Any, Literal

from ackwell import Position
from ackwell.broker.codes import codes
from ackwell.releases import release_number
from tests.pulsar.live import compare, restarts
from tests.pulsar.live.actions import (
    Ack,
    ChangeType,
    Clear,
    Close,
    EndTransaction,
    Expire,
    Publish,
    Redeliver,
    Skip,
    Subscribe,
    Unload,
    Unsubscribe,
    Wait,
)
from tests.pulsar.live.choose import FAR_MS, action_of
from tests.pulsar.live.ours import Ours
from tests.pulsar.live.theirs import Theirs
from tests.pulsar.live.transcript import Step, Transcript, differences, is_beginning, same_deliveries, shown

if TYPE_CHECKING:
    from ackwell.subscription import Subscription
    from tests.pulsar import kit
    from tests.pulsar.live.actions import Action
    from tests.pulsar.live.client import Delivered
    from tests.pulsar.live.operations import Operation, Sequence

UNBLOCKING = Ack, Close, EndTransaction, Redeliver, Expire, Skip, Clear
"""The actions that may unblock a subscription: a read then starts on another thread."""

PATIENCE_S = 10.0
"""How long two states may differ before that is a difference. The broker works on after it answered."""

RESTS_ON_S = 2.0
"""How long a broker that rested may take to deliver after the next operation, which may not wake it."""

Restart = Literal["graceful", "crash"]


class DifferenceError(Exception):
    """A difference between the two sides: its operation and its details."""

    def __init__(self, step: int, what: object, found: list[str]) -> None:
        super().__init__(f"after operation {step}, {what}:\n  " + "\n  ".join(found))
        self.step = step
        self.found = found


def other_than_delays(found: list[str]) -> list[str]:
    """Return the differences that are not in the number of delayed messages."""
    return [each for each in found if not each.startswith("delayed: ")]


class Playing(ABC):
    """A running sequence: its history, and the states of both sides."""

    poll_s = 0.0
    """How long to wait before the broker is asked again."""

    def __init__(self, broker: kit.Broker, sequence: Sequence, engine: type[Ours] = Ours) -> None:
        self.sequence = sequence
        self._version = broker.version
        self.history: list[str] = []
        self.compared = 0
        self.played: Counter[str] = Counter()
        self.races: list[str] = []
        """Steps in which the broker did not deliver or looked ahead instead, with the reason why it may."""
        self._idle = self._rests = False
        self._full: set[int] = set()
        """The consumers that were full and not blocked before the action."""
        self._withheld: set[int] = set()
        """The consumers that had permits before the action which a broker withholds."""
        self.theirs = Theirs(broker, sequence)
        self.ours = engine(sequence, self.theirs.topic, broker.version)

    @abstractmethod
    def run(self) -> Generator[None, Restart, None]:
        """Run the sequence; yield before each restart of the broker, and receive the kind of restart."""

    @abstractmethod
    def _listen(self) -> None:
        """Process events other than deliveries before comparing the two sides."""

    @abstractmethod
    def _follow(self) -> tuple[bool, list[str]]:
        """Repeat the broker's action on the subscription; return whether it had an effect, and refusals."""

    def _prediction(self) -> restarts.Prediction:
        return restarts.Prediction(self.theirs.state(), self.ours, self.sequence, self._version)

    def _reload(self, step: int, kind: Restart, prediction: restarts.Prediction) -> dict[str, Any]:
        """Adopt the cursor that the broker loaded, after a check that it equals the predicted one."""
        dump = self.theirs.state()
        self.history.append(f"{step} reloaded after {kind}")
        self.played[f"reloaded after {kind}"] += 1
        found = prediction.missed_by(dump, kind)
        if found:
            raise DifferenceError(step, f"a restart ({kind})", found)
        self.ours.recover(prediction.cursor(dump))
        self.ours.look(dump)
        found = prediction.kept(dump, self.ours.subscription.cursor) + differences(self.ours, dump)
        if found:
            raise DifferenceError(step, f"a restart ({kind})", found)
        return dump

    def _settle(self, step: int, what: object) -> None:
        """Follow the broker until both states are equal; `DifferenceError` if they do not become equal."""
        start = time.monotonic()
        deadline = start + PATIENCE_S
        resting = False
        same = 0
        missed: list[str] = []
        while True:
            self._listen()
            before, refused = self._follow()
            missed += refused
            dump = self.theirs.state()
            self.ours.look(dump)
            after, refused = self._follow()
            missed += refused
            found = compare.differences(
                self.ours.state(),
                compare.of_broker(dump, self.ours.ledgers, individual=self.ours.individual),
            )
            if before or after:
                self._rests = resting = False
            waiting = [] if found or resting else self.ours.would_deliver()
            if waiting and time.monotonic() > start + (RESTS_ON_S if self._rests else PATIENCE_S):
                resting = self._rests or self._idle or self.ours.may_wait(self._full)
                if resting:
                    self.races += [] if self._rests else [f"{step} {what}: rests"]
                    self._rests, waiting = True, []
                    deadline += PATIENCE_S
            if waiting:
                found.append(f"ours would deliver {waiting[:5]}, the broker rests")
            same = 0 if found or before or after else same + 1
            if same == 2:
                break
            if time.monotonic() > deadline:
                raise DifferenceError(step, what, missed + found)
            time.sleep(self.poll_s)
        if missed:
            raise DifferenceError(step, what, missed)
        self.ours.subscription.validate()
        self.compared += 1


class Played(Playing):
    """A sequence of our own client's operations, with every delivery predicted."""

    def run(self) -> Generator[None, Restart, None]:
        """Run the sequence; yield before each restart of the broker, and receive the kind of restart."""
        # The broker ends a connection that is silent for a minute, so not before it is needed.
        self._begin()
        for step, operation in enumerate(self.sequence.operations):
            if operation.kind == "restart":
                before, prediction = self.theirs.state(), self._prediction()
                self.theirs.disconnect()
                kind = yield
                self.theirs.connect()
                self._came_back(step, None, kind, before, prediction)
            else:
                try:
                    self._step(step, operation)
                except (DifferenceError, KeyboardInterrupt):
                    raise
                except Exception as error:
                    raise DifferenceError(step, self.history[-1], [repr(error)]) from error
        self.theirs.disconnect()

    @property
    def transcript(self) -> Transcript:
        """The steps so far."""
        name = f"seed {self.sequence.seed}"
        client = self.theirs.client
        return Transcript(
            name,
            self._version,
            self.theirs.topic,
            client.producer_name,
            self.sequence,
            self._begun,
            tuple(self.steps),
        )

    def _begin(self) -> None:
        self.steps: list[Step] = []
        self.theirs.connect()
        self._begun = self.theirs.state()
        self.ours.begin(self._begun)

    def _step(self, step: int, operation: Operation) -> None:
        action = action_of(operation, self.ours)
        self.history.append(f"{step} {operation.kind}: {action}")
        if action is not None:
            self._count(operation.kind, action)
        if isinstance(action, (ChangeType, Unsubscribe)):
            for consumer_id in list(self.ours.consumers):
                self.play(step, Close(consumer_id))
        if isinstance(action, Publish) and not action.chunked:
            # One by one: how many of them a read finds that waits for entries is the broker's haste.
            for entry in action.entries:
                self.play(step, action._replace(entries=(entry,)))
            if operation.kind == "publish_soon":
                self.play(step, Wait(action.deliver_at_ms))
        elif action is not None:
            self.play(step, action)

    def _count(self, kind: str, action: Action) -> None:
        ours = self.ours
        self.played[kind] += 1
        self.played["delayed for ever"] += isinstance(action, Publish) and action.deliver_at_ms == FAR_MS
        self.played["in rolled ledgers"] += len(ours.ledgers) > 1
        self.played["after a trim"] += bool(ours.log) and not ours.ledgers.contains(*min(ours.log))
        self.played["in a partition"] += self.sequence.partition is not None
        self.played[f"on {ours.type}"] += 1

    def play(self, step: int, action: Action) -> None:
        """Play an action on both sides, and compare."""
        self._idle = self._wakes_nobody(action)
        self._full = self.ours.full - self.ours.blocked
        self._withheld = self.ours.withheld
        last = self.steps[-1].after if self.steps else {}
        self._queued = [Position(*each) for each in last.get("dispatcher", {}).get("replay", ())]
        self._was_blocked = self.ours.subscription._state.consumers.blocked
        if isinstance(action, Unload):
            before, prediction = self.theirs.state(), self._prediction()
            self.theirs.apply(action)
            self.theirs.closed()
            self._came_back(step, action, "graceful", before, prediction)
            return
        if isinstance(action, Unsubscribe):
            self.theirs.apply(action)
            dump = self.theirs.state()
            self.ours.start_again(dump)
            self.steps.append(Step(action, "", None, (), (), (), None, dump, ""))
            return
        otherwise = self.ours.answers_otherwise(action)
        error = self.theirs.apply(action)
        published, self.theirs.published = tuple(self.theirs.published), []
        if isinstance(action, Publish):
            for (position, number), (size, key) in zip(published, action.entries, strict=True):
                producer = self.theirs.client.producer_name
                self.ours.published(position, size, key, producer, number, action.deliver_at_ms)
        if not isinstance(action, Expire) or error is None:
            # The admin API refuses to expire entries near the end; in ackwell the caller decides.
            refusal = self.ours.apply(action)
            if error != refusal and not otherwise:
                raise DifferenceError(step, action, [f"ours answers {refusal!r}, the broker {error!r}"])
        closed, delivered, dump, raced = self._settled(step, action)
        code = None if error is None else int(error)
        self.steps.append(
            Step(action, "", code, published, tuple(closed), tuple(delivered), None, dump, raced)
        )

    def _settled(self, step: int, what: object) -> tuple[list[int], list[Delivered], dict[str, Any], str]:
        """Wait until the broker has made the predicted deliveries and both states are equal."""
        closed = self._left()
        predicted, after = self.ours.predicted()
        read_to = self.ours.read_position
        start = time.monotonic()
        came: list[Delivered] = []
        missed: list[str] = []
        same, agreed, raced = 0, False, ""
        while same < 2 or not agreed:
            taken = self.theirs.taken()
            dump = self.theirs.state()
            taken = self.ours.plain(taken + self.theirs.taken())
            closed += self._left()
            self.ours.look(dump)
            missed += self.ours.take(taken)
            came += taken
            agreed = same_deliveries(predicted, came)
            # The prediction has more information about reads and delays than the deliveries show.
            found = self._differences(after if agreed else self.ours.subscription, dump)
            # If the broker read other entries than ours, it also noted other delays.
            other = found if agreed else other_than_delays(found)
            same = 0 if other or taken else same + 1
            late = time.monotonic() - start
            if found and agreed and not came and late > RESTS_ON_S and (self._idle or self._rests):
                # Nothing is to be delivered, but delays are to be noted, which the next read does.
                agreed = bool(self._differences(self.ours.subscription, dump))
                raced = "" if agreed else "rests"
                if raced:
                    self.races.append(f"{step} {what}: {raced}")
                    self._rests = True
                    break
            if same >= 2 and not agreed and late > RESTS_ON_S:
                raced = self._race(what, predicted, came, read_to, dump)
                if raced:
                    how = f"{shown(predicted)}, the broker {shown(came)}"
                    missed += self._follow_race(f"{step} {what}: {raced}; {how}", dump)
                    break
            if late > PATIENCE_S:
                further = after.read_position < Position(*dump["cursor"]["readPosition"])
                if agreed and (further or self._read_before(read_to)) and not other_than_delays(found):
                    raced, agreed = "read before", False
                    missed += self._follow_race(f"{step} {what}: {raced}; {found[0]}", dump)
                    break
                missed += found
                missed += [] if agreed else [f"ours delivers {shown(predicted)}, the broker {shown(came)}"]
                raise DifferenceError(step, what, missed + self._around(dump))
        if agreed:
            self.ours.subscription = after
            self._rests, missed = False, []
        if missed:
            raise DifferenceError(step, what, missed)
        self.ours.subscription.validate()
        self.compared += 1
        return closed, came, dump, raced

    def _follow_race(self, race: str, dump: dict[str, Any]) -> list[str]:
        """Count a race, and adopt the entries that the broker read; return the other differences."""
        self.races.append(race)
        self.ours.adopt(dump)
        found = self._differences(self.ours.subscription, dump)
        return found + self._around(dump) if found else []

    def _around(self, dump: dict[str, Any]) -> list[str]:
        """Return the broker's state before and after the step, as text."""
        last = self.steps[-1].after if self.steps else {}
        return [
            f"before: {last.get('dispatcher')}, {last.get('consumers')}",
            f"after: {dump['dispatcher']}",
        ]

    def _differences(self, subscription: Subscription, dump: dict[str, Any]) -> list[str]:
        before, self.ours.subscription = self.ours.subscription, subscription
        try:
            return differences(self.ours, dump)
        finally:
            self.ours.subscription = before

    def _race(
        self,
        what: object,
        predicted: list[Delivered],
        came: list[Delivered],
        read_to: Position,
        dump: dict[str, Any],
    ) -> str:
        """Name the race that explains why the broker delivered otherwise; see the README.

        `read_to` is the read position before. In two of the races the broker may deliver more waiting
        entries. In the others it may deliver fewer; in two of these it may also look ahead instead.
        """
        late = is_beginning(came, predicted)
        if any(map(self.ours.is_acked, self._queued)) and (late or self._came_first(predicted, came)):
            return "acknowledged in the queue"
        ahead = all(each.position >= read_to for each in came if each not in predicted)
        waits = self.ours.may_wait(self._full) and not came
        if late and (self._rests or self._idle or waits):
            self._rests = True
            return "rests"
        if by_key := self._race_of_keys(predicted, dump, late=late, ahead=ahead):
            return by_key
        if isinstance(what, Redeliver) and self._got_more(what, predicted, came):
            return "withheld permits"
        if self._makes_tracker(predicted, came):
            return "tracker"
        more = [each.position for each in came if each not in predicted]
        if self._read_before(read_to) and is_beginning(predicted, came) and all(read_to <= p for p in more):
            return "read before"
        if isinstance(what, Publish) and self._was_blocked and not predicted and ahead and len(came) == 1:
            return "read before"
        if self._was_blocked and ahead and isinstance(what, UNBLOCKING):
            return "unblocked"
        left = [each.position for each in predicted if each not in came]
        if came and late and all(p < read_to and p not in self._queued for p in left):
            return "read later"
        return ""

    def _race_of_keys(
        self, predicted: list[Delivered], dump: dict[str, Any], *, late: bool, ahead: bool
    ) -> str:
        """Name the race of a broker of Key_Shared that looked ahead."""
        if self.ours.type != "Key_Shared":
            return ""
        if ahead and self.ours.given_back & {each.position for each in predicted}:
            # It waits without its hash, and is read whether its consumer may have it or not.
            return "without hash"
        last, read_position = self.ours.last, Position(*dump["cursor"]["readPosition"])
        at_end = last is not None and last < read_position
        if late and at_end and codes()["look-ahead-parked"].has(self._version):
            # It waits for an entry (apache/pulsar#26236).
            self._rests = True
            return "waits at the end"
        return ""

    def _read_before(self, read_to: Position) -> bool:
        """Return whether the broker's queue contains entries that our model did not read."""
        return any(read_to <= position for position in self._queued)

    def _came_first(self, predicted: list[Delivered], came: list[Delivered]) -> bool:
        """Return whether only the order between new entries and those of the queue is different."""
        parts = [
            [[each for each in run if (each.position in self._queued) == queued] for run in (predicted, came)]
            for queued in (True, False)
        ]
        return all(same_deliveries(*part) for part in parts)

    def _makes_tracker(self, predicted: list[Delivered], came: list[Delivered]) -> bool:
        """Return whether only messages with a delivery time came later or not yet, on 5.0.0 and later.

        There the first such message makes the tracker, on another thread.
        """
        if release_number(self._version) < release_number("5.0.0"):
            return False
        timed = {each.position for each in predicted if self.ours.log[each.position].deliver_at_ms}
        plain = [[each for each in run if each.position not in timed] for run in (predicted, came)]
        late = {each.position for each in predicted} - {each.position for each in came}
        more = {each.position for each in came} - {each.position for each in predicted}
        return bool(timed) and late <= timed and not more and same_deliveries(*plain)

    def _got_more(self, what: Redeliver, predicted: list[Delivered], came: list[Delivered]) -> bool:
        """Return whether a consumer got more of the queue than was predicted, by withheld permits."""
        more = [each for each in came if each not in predicted]
        waits = sorted({*self._queued, *(what.positions or ())})
        unacked = [each for each in waits if not self.ours.is_acked(each)]
        mine = [each.position for each in came if each.consumer_id == what.consumer_id]
        return (
            what.consumer_id in self._withheld
            and is_beginning(predicted, came)
            and all(each.consumer_id == what.consumer_id for each in more)
            and mine == unacked[: len(mine)]
        )

    def _came_back(
        self,
        step: int,
        action: Action | None,
        kind: Restart,
        before: dict[str, Any],
        prediction: restarts.Prediction,
    ) -> None:
        dump = self._reload(step, kind, prediction)
        self.steps.append(Step(action, kind, None, (), (), (), before, dump, ""))

    def _left(self) -> list[int]:
        closed = self.theirs.closed()
        for consumer_id in closed:
            self.ours.gone(consumer_id)
        return closed

    def _listen(self) -> None:
        self._left()

    def _follow(self) -> tuple[bool, list[str]]:
        taken = self.theirs.taken()
        return bool(taken), self.ours.take(taken)

    def _wakes_nobody(self, action: object) -> bool:
        """Return whether the broker reads nothing after an action, even if a consumer has permits."""
        if isinstance(action, Subscribe):
            return self.ours.individual
        if not isinstance(action, (Close, Redeliver)):
            return False
        held = self.ours.held(action.consumer_id)
        given_back = held if isinstance(action, Close) or action.positions is None else action.positions
        return not set(given_back) & set(held)
