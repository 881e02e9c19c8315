"""Both engines fold events into the same states, report the same flaws, and read the same bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ackwell import PositionInfo, _native
from ackwell.errors import AckwellError, Flaw
from ackwell.replay.event_columns import NULL, Columns, columns_of
from ackwell.replay.events import Action, Event, Kind
from ackwell.replay.fold import ACTIONS, Fold
from ackwell.replay.resets import NO_RESETS, Resets, find_resets
from tests import reference
from tests.replay.cases import CASES
from tests.replay.histories import random_history

ENGINES: tuple[Any, ...] = (_native, reference)


HARMLESS = (Action.NOTHING, Action.NAMED, Action.COMMIT)


def outcomes(fold: Fold) -> list[Any]:
    """Return the state of each pair, or the reason why it has none."""
    found: list[Any] = []
    for pair in range(len(fold.partials)):
        try:
            info, ledgers, sizes = fold.partials.cursor(pair)
        except AckwellError as error:
            found.append((type(error), str(error), getattr(error, "position", None)))
        else:
            found.append((info.encode("pulsar-ranges"), list(ledgers), sizes))
        partials = fold.partials
        found.append((partials.flaw(pair), partials.is_deleted(pair), partials.last_published(pair)))
    return found


def states(fold: Fold) -> list[tuple[int, int, bytes]]:
    rows = fold.partials.encode()
    assert rows["taken"] == len(fold.partials)
    ends = rows["states"]["offsets"].tolist()
    bounds = zip(rows["pairs"].tolist(), rows["ledger_ids"].tolist(), ends, ends[1:], strict=False)
    return [
        (pair, ledger_id, bytes(rows["states"]["data"][start:end])) for pair, ledger_id, start, end in bounds
    ]


@pytest.mark.parametrize("resets_known", [True, False])
@pytest.mark.parametrize("ordered", [True, False])
def test_both_engines_fold_random_histories_to_the_same(resets_known: bool, ordered: bool) -> None:
    for seed in range(0, 200, 5):
        events = [
            event for near in (seed, seed + 1) for event in random_history(near, by_topic=seed % 2 == 0)
        ]
        resets: Resets | None = find_resets(lambda: [columns_of(events)]) if resets_known else None  # noqa: B023
        folds = [Fold(resets, ordered=ordered, engine=engine) for engine in ENGINES]
        for fold in folds:
            fold.feed(columns_of(events[::2]))
            fold.feed(columns_of(events[1::2]))
        native, twin = folds
        assert outcomes(native) == outcomes(twin), seed
        again = [Fold(engine=engine) for engine in ENGINES]
        for fold, rows in zip(again, (states(twin), states(native)), strict=True):
            for number, (topic, subscription) in enumerate(native.names()):
                assert fold.pair((topic, subscription)) == number
            pairs, ledger_ids, data = zip(*rows, strict=True)
            fold.merge(np.array(pairs), np.array(ledger_ids), list(data))
        assert outcomes(again[0]) == outcomes(again[1]) == outcomes(native), seed


@pytest.mark.parametrize("ordered", [True, False])
def test_events_without_an_order_follow_the_state_from_which_a_fold_starts(ordered: bool) -> None:
    """Such events follow the state, both in one fold and if they are joined later."""
    events = [Event("t", "s", 1, Kind.ACK, ledger_id=3, entry_id=entry_id) for entry_id in (1, 3)]
    columns = columns_of(events)._replace(sequences=None, files=None)
    for engine in ENGINES:
        started, alone = (Fold(NO_RESETS, ordered=ordered, engine=engine) for _ in range(2))
        started.start(("t", "s"), PositionInfo(3, 0), [(3, 5)])
        alone.feed(columns)
        joined = Fold(engine=engine)
        for part in (states(started), states(alone)):
            pairs, ledger_ids, data = zip(*part, strict=True)
            joined.pair(("t", "s"))
            joined.merge(np.array(pairs), np.array(ledger_ids), list(data))
        started.feed(columns)
        for fold in (started, joined):
            info, _, _ = fold.partials.cursor(0)
            assert (info.position, str(info.individually_deleted)) == ((3, 1), "[(3:2..3:3]]")


def drawn_run(seed: int) -> Columns:
    """Return consecutive rows of few ledgers without batches, which the native engine handles as one run."""
    rng = np.random.default_rng(seed)
    rows = 300
    kinds = (
        [
            *4 * [Action.EXISTS, Action.ACK],
            Action.DELIVERED,
            Action.UP_TO,
            Action.NOTHING,
            Action.NAMED,
            Action.COMMIT,
        ]
        if seed % 3
        else [Action.EXISTS, Action.ACK, Action.UP_TO, Action.TRIM, Action.DELETE, Action.UNKNOWN]
    )
    reach = int(rng.choice([40, 2_000, 10**12]))
    entries = rng.integers(0, reach, rows)
    if seed % 4 == 0:
        entries[rng.integers(rows)] = rng.choice([-1, NULL, 2**63 - 1])
    codes = np.repeat(rng.integers(0, 3, 10), rows // 10).astype(np.int32)
    return Columns(
        (None, ["t"]) if seed % 2 else (codes, ["t", "u", "v"]),
        (codes, ["", "s", "s2"]) if seed % 5 == 0 else (None, ["s"]),
        (rng.integers(0, len(kinds), rows).astype(np.int32), [str(kind) for kind in kinds]),
        np.repeat(rng.integers(3, 6, 30), rows // 30),
        entries,
        np.arange(rows) if seed % 7 else None,
    )


@pytest.mark.parametrize("ordered", [True, False])
def test_both_engines_take_runs_of_rows_alike(ordered: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    numbered = {str(number): number for number in map(int, Action)}
    monkeypatch.setattr("ackwell.replay.fold.ACTIONS", ACTIONS | numbered)
    everything = columns_of(
        [
            Event(topic, subscription, 0, Kind.PUBLISH, ledger_id=ledger_id, entry_id=10**12)
            for topic in "tuv"
            for subscription in ("s", "s2")
            for ledger_id in (3, 4, 5)
        ]
    )
    folded = torn = 0
    for seed in range(60):
        folds = [Fold(NO_RESETS, ordered=ordered, engine=engine) for engine in ENGINES]
        flawed = [
            [fold.feed(rows) for rows in (everything, drawn_run(seed), drawn_run(seed + 1))] for fold in folds
        ]
        assert flawed[0] == flawed[1], seed
        assert outcomes(folds[0]) == outcomes(folds[1]), seed
        folded += sum(isinstance(found[0], bytes) for found in outcomes(folds[0]))
        # A later seek shows which acknowledgments are before, between or after it.
        for pair in range(len(folds[0].partials)):
            before = folds[0].partials.flaw(pair)
            for fold in folds:
                fold.partials.seek(pair, 0, seed * 7 % 340, 3, 5)
            torn += folds[0].partials.flaw(pair) != before
        assert outcomes(folds[0]) == outcomes(folds[1]), seed
    assert folded > 50
    assert torn > 20 or not ordered


@pytest.mark.parametrize("ordered", [True, False])
def test_both_engines_fold_rows_of_many_mixed_subscriptions_to_the_same(ordered: bool) -> None:
    """A fold reorders such rows in groups of subscriptions."""
    events = [
        Event("t", f"s{number}", 4 * number + at, Kind.ACK, ledger_id=3, entry_id=(number + at) % 7)
        for at in range(4)
        for number in range(700)
    ]
    events += [Event("t", "", 9_000, Kind.PUBLISH, ledger_id=3, entry_id=9)]
    rng = np.random.default_rng(7)
    for subscriptions in (700, 512, 300):
        mixed = [event for event in events if int(event.subscription[1:] or 0) < subscriptions]
        mixed = [mixed[place] for place in rng.permutation(len(mixed))]
        mixed[400] = mixed[400]._replace(entry_id=-5)
        folds = [Fold(NO_RESETS, ordered=ordered, engine=engine) for engine in ENGINES]
        assert [fold.feed(columns_of(mixed)) for fold in folds] == [True, True]
        assert outcomes(folds[0]) == outcomes(folds[1])


def drawn_names(rng: Any, rows: int) -> tuple[Any, ...]:
    """Return topics, subscriptions, kinds and transactions of `rows` rows, as codes and their numbers."""
    kinds = np.array([Action.ACK, Action.UP_TO, Action.COMMIT, Action.EXISTS, Action.NAMED], np.int32)
    transactions = rng.permutation(np.array([0, 0, 7, 70_000, 2**31 - 1], np.int32))

    def codes(numbers: Any) -> Any:
        run = int(rng.integers(1, 5))
        drawn = np.repeat(rng.integers(0, len(numbers), rows), run)[:rows].astype(np.int32)
        return (None if rng.random() < 0.2 else drawn), numbers

    names = np.arange(3, dtype=np.int32)
    return codes(names), codes(names), codes(kinds), codes(transactions)


@pytest.mark.parametrize("takes_commits", [True, False])
def test_both_engines_find_the_same_uncommitted_rows(takes_commits: bool) -> None:
    rng = np.random.default_rng(5)
    found_some = {True: 0, False: 0}
    for _ in range(100):
        native, twin = (engine.Partials() for engine in ENGINES)
        for partials in (native, twin):
            partials.pair(1, 1)
            partials.commit_many(np.zeros(2, np.int64), np.array([7, 2**31 - 1], np.int32))
        for _ in range(3):
            rows = int(rng.integers(0, 60))
            names = drawn_names(rng, rows)
            expected = twin.uncommitted_rows(*names, np.zeros(rows, np.int64), takes_commits=takes_commits)
            found = native.uncommitted_rows(*names, np.zeros(rows, np.int64), takes_commits=takes_commits)
            assert (found.dtype, found.tolist()) == (np.int64, expected.tolist())
            found_some[bool(len(found))] += 1
        others = [engine.Partials() for engine in ENGINES]
        numbers = np.array([2, 0, 1], np.int32)
        of_transactions = np.zeros(2**17, np.int32)
        of_transactions[[7, 70_000]] = 5, 6
        for ours, other in zip((native, twin), others, strict=True):
            pair = other.pair(1, 1)
            other.commit_many(np.array([pair, pair]), np.array([7, 70_000], np.int32))
            ours.absorb(other, numbers, numbers, of_transactions)
        rows = 40
        names = drawn_names(rng, rows)[:3]
        named = rng.integers(0, 3, rows).astype(np.int32), np.array([0, 5, 6], np.int32)
        left = [
            each.uncommitted_rows(*names, named, np.zeros(rows, np.int64), takes_commits=False).tolist()
            for each in (native, twin)
        ]
        assert left[0] == left[1]
    assert min(found_some.values()) > 20


def test_both_engines_refuse_commits_and_codes_that_are_not_known() -> None:
    one = np.zeros(1, np.int32)
    commit, ack = np.array([Action.COMMIT], np.int32), np.array([Action.ACK], np.int32)
    known, transaction = (one, one), (one, np.array([3], np.int32))
    for engine in ENGINES:
        partials, other = engine.Partials(), engine.Partials()
        for pairs, transactions, why in (
            ([0], [3], "pair"),
            ([-1], [3], "pair"),
            ([], [3], "lengths|longer"),
        ):
            with pytest.raises(ValueError, match=why):
                partials.commit_many(np.array(pairs, np.int64), np.array(transactions, np.int32))
        partials.pair(0, 0)
        for why, wrong in (
            ("a code that", (known, known, (one, commit), (one + 1, one))),
            ("that is not known", (known, known, (one, np.array([99], np.int32)), transaction)),
            ("lengths", (known, (np.zeros(2, np.int32), one), (one, commit), transaction)),
        ):
            with pytest.raises(ValueError, match=why):
                partials.uncommitted_rows(*wrong, one, takes_commits=True)
        rows = known, known, (one, ack), transaction
        assert partials.uncommitted_rows(*rows, one, takes_commits=True).tolist() == [0]
        other.commit_many(np.array([other.pair(0, 0)]), np.array([3], np.int32))
        if engine is _native:
            with pytest.raises(ValueError, match="no number"):
                partials.absorb(other, one, one, one)


@pytest.mark.parametrize("resets_known", [True, False])
def test_both_engines_fold_what_was_once_wrong_to_the_same(resets_known: bool) -> None:
    for name, events in CASES.items():
        resets = find_resets(lambda: [columns_of(events)]) if resets_known else None  # noqa: B023
        folds = [Fold(resets, engine=engine) for engine in ENGINES]
        for fold in folds:
            fold.feed(columns_of(events))
        assert outcomes(folds[0]) == outcomes(folds[1]), name


def test_both_engines_find_the_same_flaws() -> None:
    good: dict[str, Any] = {
        "topic": "t",
        "subscription": "s",
        "sequence": 5,
        "kind": Kind.ACK,
        "ledger_id": 3,
        "entry_id": 0,
    }
    for wrong in (
        {"ledger_id": -1},
        {"entry_id": None},
        {"batch_index": 1 << 20},
        {"batch_index": -1},
        {"batch_size": -1},
        {"sequence": -1},
        {"batch_size": (1 << 20) + 1},
        {"ack_set": (1,) * ((1 << 14) + 1)},
        {"entry_id": 2**63 - 1},
    ):
        found = []
        for engine in ENGINES:
            fold = Fold(engine=engine)
            row = fold.feed(columns_of([Event(**good | wrong)]))
            found.append((row, fold.partials.flaw(0), fold.partials.first_flawed()))
        assert found[0] == found[1]
        assert found[0][1] is not None


def test_both_engines_miss_a_kind_a_sequence_and_a_subscription_each_alone() -> None:
    columns = columns_of([Event("t", "s", 5, Kind.ACK, ledger_id=3, entry_id=0)])
    none = np.array([-(2**63)])
    for wrong in (
        columns._replace(kinds=(None, [None])),
        columns._replace(sequences=none),
        columns._replace(subscriptions=(None, [""])),
    ):
        for engine in ENGINES:
            fold = Fold(engine=engine)
            fold.feed(columns)
            assert fold.partials.flaw(0) is None
            fold.feed(wrong)
            flaws = [fold.partials.flaw(pair) for pair in range(len(fold.partials))]
            assert [flaw["flaw"] for flaw in flaws if flaw] == [Flaw.INCOMPLETE]


def test_both_engines_say_of_a_kind_that_they_do_not_know_it() -> None:
    columns = columns_of([Event("t", "s", 5, Kind.ACK, ledger_id=3, entry_id=0)])
    for engine in ENGINES:
        fold = Fold(engine=engine)
        fold.feed(columns._replace(kinds=(np.zeros(1, np.int32), ["explode"])))
        assert fold.partials.flaw(0)["flaw"] == Flaw.UNKNOWN_KIND


def test_both_engines_refuse_a_seek_that_comes_between_acknowledgments_folded_before() -> None:
    for at, between in ((1, False), (3, True), (5, True), (7, False), (9, False)):
        events = [
            Event("t", "s", sequence, Kind.ACK, ledger_id=3, entry_id=sequence) for sequence in (3, 5, 7)
        ]
        seek = Event("t", "s", at, Kind.SEEK, ledger_id=3, entry_id=0)
        for engine in ENGINES:
            fold = Fold(engine=engine)
            fold.feed(columns_of(events))
            fold.feed(columns_of([seek]))
            assert (fold.partials.flaw(0) is not None) == between, at


@pytest.mark.parametrize("ordered", [True, False])
def test_what_follows_a_state_is_joined_with_it_in_any_order(ordered: bool) -> None:
    yesterday = PositionInfo(3, 1, [(3, 2, 4)])
    good: dict[str, Any] = {"ledger_id": 3}
    events = [Event("t", "s", at, Kind.PUBLISH, entry_id=at, **good) for at in range(5, 9)]
    events += [Event("t", "s", 10 + at, Kind.ACK, entry_id=at, **good) for at in (2, 7)]
    for engine in ENGINES:
        started, followed = (Fold(NO_RESETS, ordered=ordered, engine=engine) for _ in range(2))
        started.start(("t", "s"), yesterday, [(3, 5)])
        followed.feed(columns_of(events))
        parts = [states(started), states(followed)]
        for rows in (parts[0] + parts[1], parts[1] + parts[0]):
            joined = Fold(engine=engine)
            joined.pair(("t", "s"))
            pairs, ledger_ids, data = zip(*rows, strict=True)
            joined.merge(np.array(pairs), np.array(ledger_ids), list(data))
            info, ledgers, _ = joined.partials.cursor(0)
            assert list(ledgers) == [(3, 9)]
            assert info.position == (3, 4)
            assert list(info.individually_deleted) == [(3, 6, 7)]
