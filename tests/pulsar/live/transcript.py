"""The answers of a broker to a sequence, and their check against our settings.

A sequence is played on a broker once. Its transcript is then replayed on `Subscription` under any settings.
Under the preset it has to agree in every delivery and every state; under one with a wrong field it must not.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence as Many
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, Self

import ackwell._native as native
from ackwell import Position
from ackwell.errors import ErrorCode
from tests.pulsar.live import actions, compare
from tests.pulsar.live.client import Delivered
from tests.pulsar.live.operations import Sequence
from tests.pulsar.live.ours import Ours
from tests.pulsar.live.restarts import Prediction

_ACTIONS = {each.__name__: each for each in actions.Action.__args__}


class Step(NamedTuple):
    """An action and the broker's result."""

    action: actions.Action | None
    """`None`: a restart of the broker."""
    how: str
    """The restart of the topic: "graceful" or "crash"; empty without a restart."""
    error: int | None
    published: tuple[tuple[Position, int], ...]
    """Position and sequence id."""
    closed: tuple[int, ...]
    """The consumers that the broker closed."""
    delivered: tuple[Delivered, ...]
    before: dict[str, Any] | None
    """The state before the topic was closed, if it was restarted."""
    after: dict[str, Any]
    raced: str
    """The race of the broker's that explains why it delivered otherwise; else empty."""


class Transcript(NamedTuple):
    """A sequence as a broker played it."""

    name: str
    version: str
    topic: str
    producer: str
    sequence: Sequence
    begun: dict[str, Any]
    """The state of the new subscription."""
    steps: tuple[Step, ...]

    def to_json(self) -> str:
        rows = [
            step._asdict() | {"action": step.action and [type(step.action).__name__, *step.action]}
            for step in self.steps
        ]
        sequence = json.loads(self.sequence.to_json())
        return json.dumps(self._asdict() | {"steps": rows, "sequence": sequence}, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Self:
        fields = json.loads(text)
        sequence = Sequence.from_json(json.dumps(fields["sequence"]))
        return cls(**fields | {"sequence": sequence, "steps": tuple(map(_step, fields["steps"]))})


def _step(row: dict[str, Any]) -> Step:
    return Step(
        action=None if row["action"] is None else _action(*row["action"]),
        how=row["how"],
        error=row["error"],
        published=tuple((Position(*position), number) for position, number in row["published"]),
        closed=tuple(row["closed"]),
        delivered=tuple(
            Delivered(consumer, Position(*position), count, tuple(ack_set), epoch)
            for consumer, position, count, ack_set, epoch in row["delivered"]
        ),
        before=row["before"],
        after=row["after"],
        raced=row["raced"],
    )


def _action(name: str, *values: Any) -> actions.Action:
    fields = dict(zip(_ACTIONS[name]._fields, map(_tuples, values), strict=True))
    if "position" in fields:
        fields["position"] = Position(*fields["position"])
    if fields.get("positions") is not None:
        fields["positions"] = tuple(Position(*each) for each in fields["positions"])
    if "message_ids" in fields:
        fields["message_ids"] = tuple((Position(*each[0]), *each[1:]) for each in fields["message_ids"])
    action: actions.Action = _ACTIONS[name](**fields)
    return action


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def read(path: Path) -> list[Transcript]:
    """Read transcripts, one a line."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [Transcript.from_json(line) for line in lines]


def write(path: Path, transcripts: list[Transcript]) -> None:
    """Write transcripts, one a line; the same bytes for the same transcripts."""
    data = "".join(each.to_json() + "\n" for each in transcripts).encode()
    path.write_bytes(gzip.compress(data, mtime=0))


def judged(
    transcript: Transcript, wrong: str | None = None, *, engine: ModuleType | None = None
) -> str | None:
    """Replay a transcript under its version's preset, with a field `wrong`; return the first difference."""
    sequence = transcript.sequence
    ours = Ours(sequence, transcript.topic, transcript.version, wrong=wrong, engine=engine or native)
    ours.begin(transcript.begun)
    for number, step in enumerate(transcript.steps):
        found = _replayed(ours, step, transcript)
        if found:
            return f"{transcript.name}, step {number}, {step.action}: {'; '.join(found)}"
    return None


def _replayed(ours: Ours, step: Step, transcript: Transcript) -> list[str]:
    if step.how:
        assert step.before is not None
        prediction = Prediction(step.before, ours, transcript.sequence, transcript.version)
        missed = prediction.missed_by(step.after, "crash" if step.how == "crash" else "graceful")
        ours.recover(prediction.cursor(step.after))
        ours.look(step.after)
        missed += prediction.kept(step.after, ours.subscription.cursor)
        return missed or differences(ours, step.after)
    if isinstance(step.action, actions.Unsubscribe):
        ours.start_again(step.after)
        return differences(ours, step.after)
    if isinstance(step.action, actions.Publish):
        for (position, number), (size, key) in zip(step.published, step.action.entries, strict=True):
            ours.published(position, size, key, transcript.producer, number, step.action.deliver_at_ms)
    assert step.action is not None
    if not isinstance(step.action, actions.Expire) or step.error is None:
        otherwise = ours.answers_otherwise(step.action)
        refusal = ours.apply(step.action)
        if not otherwise and refusal != (None if step.error is None else ErrorCode(step.error)):
            return [f"ours answers {refusal!r}, the broker {step.error}"]
    for consumer_id in step.closed:
        ours.gone(consumer_id)
    predicted, after = ours.predicted()
    found = []
    if step.raced:
        ours.take(list(step.delivered))
        ours.adopt(step.after)
    elif same_deliveries(predicted, ours.plain(list(step.delivered))):
        ours.subscription = after
    else:
        found = [f"ours delivers {shown(predicted)}, the broker {shown(step.delivered)}"]
    ours.look(step.after)
    return found or differences(ours, step.after)


def differences(ours: Ours, dump: dict[str, Any]) -> list[str]:
    """Return the differences between our model and a state of the broker."""
    theirs = compare.of_broker(dump, ours.ledgers, individual=ours.individual)
    return compare.differences(ours.state(), theirs)


def same_deliveries(ours: Many[Delivered], broker: Many[Delivered]) -> bool:
    """Return whether every consumer gets the same messages in the same order.

    The order between two consumers is not visible. On Key_Shared, a broker serves the consumers of a read in
    the order of a hash map of objects.
    """
    return _by_consumer(ours) == _by_consumer(broker)


def is_beginning(part: Many[Delivered], whole: Many[Delivered]) -> bool:
    """Return whether every consumer gets a prefix of its messages."""
    mine = _by_consumer(whole)
    return all(each == mine.get(who, [])[: len(each)] for who, each in _by_consumer(part).items())


def _by_consumer(delivered: Many[Delivered]) -> dict[int, list[Delivered]]:
    found: dict[int, list[Delivered]] = {}
    for each in delivered:
        found.setdefault(each.consumer_id, []).append(each)
    return found


def shown(delivered: Many[Delivered]) -> str:
    """Return deliveries as text: consumer, entry, redelivery count and ack set."""
    return " ".join(
        f"{each.consumer_id}<{each.position.ledger_id}:{each.position.entry_id}"
        f"{'*' * each.redelivery_count}{list(each.ack_set) or ''}"
        for each in delivered
    )
