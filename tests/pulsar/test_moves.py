"""The predictions of `ackwell what-if` equal the broker's behaviour.

`make lab-test-pulsar MOVES=100 SEED=1 VERSIONS="4.2.4 4.0.7 5.0.0-M1 5.0.1"`: 100 random seeks, resets,
skips, expiries and clears per version, each on the state after the previous one, through the admin API.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError

import pytest

from ackwell import Position
from ackwell.broker.stats import SubscriptionStats, from_answer
from ackwell.cluster.admin import Admin
from ackwell.cluster.endpoint import Endpoint
from ackwell.cursor.cursor_state import existing
from ackwell.cursor.rules import acknowledged
from ackwell.diagnosis.what_if import EARLIEST, LATEST, Move, MoveEffect, MoveKind, what_if
from ackwell.errors import StatsError
from tests.pulsar import kit
from tests.pulsar.lives.examine import SETTINGS
from tests.pulsar.lives.life import SUBSCRIPTION, Life

if TYPE_CHECKING:
    from pathlib import Path

MOVES = int(os.environ.get("MOVES", "20"))
SEED = int(os.environ.get("SEED", "1"))
VERSIONS = os.environ.get("VERSIONS", kit.VERSIONS[0]).split()
MOVES_A_LIFE = 8
PATIENCE_S = 5.0


class Mover:
    """Random moves on one life, each predicted and then made."""

    def __init__(self, broker: kit.Broker, seed: int) -> None:
        self._broker = broker
        self._chance = random.Random(seed)
        self._admin = Admin(Endpoint(url=f"http://127.0.0.1:{broker.ports.admin}"))
        self.life = Life(broker, seed)
        self._path = f"persistent/{self.life.topic.removeprefix('persistent://')}/subscription/{SUBSCRIPTION}"
        self._times_ms: list[int] = []
        self.unknown = 0
        """The number of moves without a prediction."""

    def again(self) -> None:
        """Publish and acknowledge more messages; afterwards no consumer is connected."""
        self.life.load()
        self._times_ms.append(int(time.time() * 1000))
        self.life.act()
        self._times_ms.append(int(time.time() * 1000))
        self.life.leave()
        time.sleep(0.3)

    def stats(self) -> SubscriptionStats:
        """Return the statistics of the admin API."""
        (found,) = from_answer(self.life.answer(), self.life.topic, "move")
        assert isinstance(found, SubscriptionStats), found
        return found

    def move(self) -> tuple[Move, str | None]:
        """Make a random move; return it with the wrong predictions."""
        before = self.stats()
        # Deleted entries are not delivered, even if the cursor is before them: a seek to the start of an
        # empty topic moves it before the ledger of the last entry, which may be deleted.
        messages = {p: acked for p, acked in self.life.acked().items() if before.ledgers.contains(*p)}
        kind = self._chance.choice(list(MoveKind))
        if kind is MoveKind.SKIP:
            # After a seek, the counter of 4.0.7 is wrong, so the backlog is unknown.
            backlog = len(messages) if before.backlog_entries is None else before.backlog_entries
            move = Move(kind, entries=self._chance.randint(1, max(backlog, 1) + 2))
            path, body = f"skip/{move.entries}", None
        elif kind is MoveKind.CLEAR_BACKLOG:
            move, path, body = Move(kind), "skip_all", None
        else:
            move, path, body = self._to(kind, before)
        try:
            predicted = what_if(before, move, self._broker.version)
        except StatsError:
            # After a seek on 4.0.7, the counter contradicts the acknowledgments, so they are unknown.
            predicted = None
            self.unknown += 1
        with suppress(HTTPError):
            # Asked to expire nothing, a broker may answer with a conflict.
            self._broker.admin("POST", f"{self._path}/{path}", body)
        deadline = time.monotonic() + PATIENCE_S
        if predicted is None:
            time.sleep(PATIENCE_S / 2)
            return move, None
        while (wrong := self._wrong(predicted, messages)) and time.monotonic() < deadline:
            # An expiry goes on after its answer.
            time.sleep(0.2)
        return move, wrong and f"{self.life.seed} {move}: {wrong}; before {before.mark_delete_position} " + (
            f"{before.individually_deleted}, {list(before.ledgers)}, {self.life.settings}"
        )

    def _to(self, kind: MoveKind, stats: SubscriptionStats) -> tuple[Move, str, Any]:
        """Choose a position, or a time that the broker is asked for."""
        chance, ledgers = self._chance, stats.ledgers
        command = "expireMessages" if kind is MoveKind.EXPIRE else "resetcursor"
        if kind is MoveKind.RESET_CURSOR:
            time_ms = chance.choice(self._times_ms)
            return Move(kind, self._admin.position_at(self.life.topic, time_ms)), f"{command}/{time_ms}", None
        ledger_id, entries = chance.choice(list(ledgers))
        position = Position(ledger_id, chance.randint(0, max(entries - 1, 0)))
        if kind is MoveKind.SEEK and chance.random() < 0.3:
            position = chance.choice((EARLIEST, LATEST))
        body = {
            "ledgerId": position.ledger_id,
            "entryId": position.entry_id,
            "partitionIndex": -1,
            "isExcluded": False,
            "batchIndex": -1,
        }
        return Move(kind, position), command, body

    def _wrong(self, predicted: MoveEffect, messages: dict[Position, int]) -> str | None:
        after = self.stats()
        now = acknowledged(after.ledgers, after.mark_delete_position, after.individually_deleted)
        expected = existing(predicted.after, after.ledgers)
        if now != expected:
            return f"acknowledged are {now}, not {expected}"
        bits = self.life.acked()
        for what, count, moved in (
            ("returned", predicted.returned, {p: old & ~bits[p] for p, old in messages.items()}),
            ("vanished", predicted.vanished, {p: bits[p] & ~old for p, old in messages.items()}),
        ):
            found = sum(each.bit_count() for each in moved.values())
            if found < count.at_least or (count.at_most is not None and found > count.at_most):
                return f"{found} messages {what}, predicted {count}"
        return None


@pytest.mark.parametrize("version", VERSIONS)
def test_a_move_does_what_was_predicted(
    version: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made: Counter[str] = Counter()
    unknown = 0
    wrong = []
    with kit.running_broker(tmp_path, version, **SETTINGS) as broker:
        for number in range(-(-MOVES // MOVES_A_LIFE)):
            mover = Mover(broker, 1_000_000 * SEED + number)
            for _ in range(MOVES_A_LIFE):
                mover.again()
                move, said = mover.move()
                made[move.kind] += 1
                wrong += [said] if said else []
            unknown += mover.unknown
    with capsys.disabled():
        print(f"\n{version}: {made.total()} moves, {unknown} not predicted, {len(wrong)} wrong: {dict(made)}")
    assert not unknown or version.startswith("4.0")
    assert unknown < made.total() / 2
    assert not wrong, "\n".join(wrong)
