"""Plans and refusals, from two answers of a broker."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from dataclasses import replace
from itertools import chain, combinations
from pathlib import Path
from typing import Any

import pytest

from ackwell import PositionRangeSet, rescue
from ackwell.cluster.admin import BrokerFacts
from ackwell.cursor.cursor_state import CursorState
from ackwell.errors import StatsError
from ackwell.position import Position
from ackwell.protocol.constants import SubscriptionType
from ackwell.rescue import planning
from ackwell.rescue.planning import Plan, commands, plan, remaining
from ackwell.rescue.refusals import RefusedError, texts
from ackwell.rescue.snapshot import Snapshot, snapshots_of, stated_settings

TOPIC = "persistent://shop/eu/orders"
HOLES = "[(3:1..3:2],(3:3..3:4],(3:5..3:6],(3:7..3:8]]"
KEPT = "[(3:1..3:2],(3:3..3:4]]"


def answer(
    mark: str,
    ranges: str,
    ledgers: Mapping[int, int],
    *,
    name: str = "billing",
    topic: str = TOPIC,
    **shown: Any,
) -> Snapshot:
    """Return a snapshot; the last ledger is the open one."""
    newest = max(ledgers)
    internal = {
        "lastConfirmedEntry": f"{newest}:{ledgers[newest] - 1}",
        "currentLedgerEntries": ledgers[newest],
        "ledgers": [
            {
                "ledgerId": key,
                "entries": 0 if key == newest else count,
                "size": 0 if key == newest else 9 * count,
            }
            for key, count in ledgers.items()
        ],
        "cursors": {name: {"markDeletePosition": mark, "individuallyDeletedMessages": ranges}},
    }
    whole = {key: shown.pop(key) for key in ("ongoingTxnCount",) if key in shown}
    facts = shown.pop("facts", FACTS)
    time_ms = shown.pop("time_ms", 1_000_000)
    of = {"type": "Shared", "isDurable": True} | shown
    document = {"internalStats": internal, "stats": {"subscriptions": {name: of}} | whole, "t": time_ms}
    (found,) = snapshots_of(document, topic, "answer", facts, "standalone")
    assert isinstance(found, Snapshot), found
    return found


def facts_of(ranges: int) -> BrokerFacts:
    """Return the facts of a broker that saves this number of ranges."""
    settings = {
        "managedLedgerMaxUnackedRangesToPersist": str(ranges),
        "managedLedgerPersistIndividualAckAsLongArray": "false",
    }
    return BrokerFacts(version="4.2.4", settings=settings, assumed=())


FACTS = facts_of(ranges=1)
BEFORE = answer("3:0", HOLES, {3: 20})
AFTER = {3: 20, 4: 5}


def refused(before: Snapshot, now: Snapshot, **options: Any) -> RefusedError:
    with pytest.raises(RefusedError) as caught:
        plan(before, now, **options)
    assert str(caught.value).endswith(caught.value.remedy)
    return caught.value


def test_what_a_graceful_restart_cut_is_planned() -> None:
    made = plan(BEFORE, answer("3:0", KEPT, AFTER, type="None"))
    assert str(made.missing) == "[(3:5..3:6],(3:7..3:8]]"
    assert made.type is SubscriptionType.SHARED
    kept = "the ranges before the first missing entry can be the 2 that a restart keeps"
    assert made.passed[-1] == kept
    assert made.unknown[0] == "acknowledgments after the snapshot"


def test_a_plan_survives_its_file_and_a_broken_file_is_named() -> None:
    made = plan(BEFORE, answer("3:0", KEPT, AFTER))
    value = made.to_json()
    again = Plan.of_json(value)
    assert again.to_json() == value
    assert again.missing == made.missing
    for key in value:
        with pytest.raises(StatsError, match="not a plan"):
            Plan.of_json({each: value[each] for each in value if each != key}, "plan.json")
    for more in (-1, 1):
        with pytest.raises(StatsError, match="entries, and ranges of"):
            Plan.of_json(value | {"entries": value["entries"] + more})


def test_a_plan_as_json_has_everything_that_was_decided_and_checked() -> None:
    parts = {Position(3, 9): (5,)}
    made = plan(BEFORE, answer("3:0", KEPT, AFTER), ack_sets=shown(HOLES, parts))
    assert made.to_json() == {
        "cluster": "standalone",
        "brokerVersion": "4.2.4",
        "limits": BEFORE.settings.named() if BEFORE.settings else None,
        "topic": TOPIC,
        "subscription": "billing",
        "type": "Shared",
        "restart": "graceful",
        "snapshotTimeMs": 1_000_000,
        "snapshotDigest": BEFORE.digest,
        "ledgers": {"3": 20, "4": 5},
        "now": {"markDeletePosition": "3:0", "individuallyDeletedMessages": KEPT},
        "entries": 2,
        "ranges": "[(3:5..3:6],(3:7..3:8]]",
        "ackSets": {"3:9": [5]},
        "checksPassed": [
            "the ledgers of the snapshot are the topic's ledgers, without a gap",
            "the topic was loaded anew since the snapshot",
            "the mark-delete position did not move back",
            "the ranges before the first missing entry can be the 2 that a restart keeps",
        ],
        "notKnown": [
            "acknowledgments after the snapshot",
            "a seek that left as many acknowledgments as the limit would look the same",
        ],
    }
    assert replace(Plan.of_json(made.to_json()), now=made.now) == made
    assert made.limits["managedLedgerMaxUnackedRangesToPersist"] == 1


def test_a_plan_that_contradicts_itself_is_not_read() -> None:
    value = plan(BEFORE, answer("3:0", KEPT, AFTER)).to_json()
    with pytest.raises(StatsError, match="3 entries, and ranges of 2") as caught:
        Plan.of_json(value | {"entries": 3}, "plan.json")
    assert caught.value.source == "plan.json"
    wrongs: list[Any] = [None, [], 3, *(value | {key: []} for key in ("type", "ranges", "ledgers"))]
    for wrong in wrongs:
        with pytest.raises(StatsError, match="not a plan of `ackwell rescue plan`"):
            Plan.of_json(wrong)
    assert Plan.of_json(value | {"type": None}).type is None


def test_what_is_not_known_is_said() -> None:
    now = answer("3:-1", "[]", AFTER)
    by_crash = plan(BEFORE, now, restart="crash")
    assert by_crash.passed[2:] == (
        "you stated with --restart crash that there was no seek since the snapshot",
    )
    assert by_crash.unknown == (
        "acknowledgments after the snapshot",
        "parts of batches: the admin API does not show them (--acks)",
    )
    idle = plan(BEFORE, answer("3:0", HOLES, AFTER))
    assert (idle.passed, idle.unknown) == ((), by_crash.unknown)


def test_the_version_and_the_limits_are_the_snapshots_else_the_live_ones() -> None:
    other = BrokerFacts(version="4.0.7", settings={"managedLedgerMaxUnackedRangesToPersist": "1"}, assumed=())
    live = answer("3:0", KEPT, AFTER, facts=other)
    assert plan(BEFORE, live).version == "4.2.4"
    made = plan(answer("3:0", HOLES, {3: 20}, facts=None), live)
    assert (made.version, made.limits["managedLedgerMaxUnackedRangesToPersist"]) == ("4.0.7", 1)
    unknown = plan(
        answer("3:0", HOLES, {3: 20}, facts=None), answer("3:0", KEPT, AFTER, facts=None), restart="crash"
    )
    assert (unknown.version, unknown.limits) == (None, {})


def test_the_lowest_limit_of_both_counts_and_a_negative_one_keeps_nothing() -> None:
    def facts(limit: int) -> BrokerFacts:
        own = {"managedLedgerMaxUnackedRangesToPersist": str(limit)}
        own["managedLedgerPersistIndividualAckAsLongArray"] = "false"
        return BrokerFacts(version="4.2.4", settings=own, assumed=())

    for before, after in ((9, 1), (1, 9)):
        old = answer("3:0", HOLES, {3: 20}, facts=facts(before))
        assert (
            plan(old, answer("3:0", KEPT, AFTER, facts=facts(after)))
            .passed[-1]
            .endswith("2 that a restart keeps")
        )
    old = answer("3:0", HOLES, {3: 20}, facts=facts(2))
    assert refused(old, answer("3:0", KEPT, AFTER, facts=facts(2))).code == "fewer-than-limit"
    # A negative limit means 0; one more range is kept in any case.
    for limit in (0, -1, -5):
        now = answer("3:0", "[(3:1..3:2]]", AFTER, facts=facts(limit))
        assert (
            plan(answer("3:0", HOLES, {3: 20}, facts=facts(limit)), now)
            .passed[-1]
            .endswith("1 that a restart keeps")
        )


def test_the_words_of_a_refusal_have_their_numbers() -> None:
    few = refused(BEFORE, answer("3:0", "[(3:1..3:2],(3:7..3:8]]", AFTER))
    assert "at most 1 ranges can have been kept" in str(few)
    assert "with losses keeps 2." in str(few)
    other = refused(BEFORE, answer("3:0", KEPT, {3: 19, 4: 5}))
    assert f"ledger 3 of {TOPIC} had 20 entries and has 19 now" in str(other)
    back = refused(BEFORE, answer("3:-1", KEPT, AFTER))
    assert "moved back from 3:0 to 3:-1" in str(back)
    differ = refused(BEFORE, answer("3:0", KEPT, AFTER), ack_sets=shown("[(3:9..3:12]]", {}))
    assert "3 entries are only in --acks, and 4 only in the snapshot" in str(differ)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"),
        (119, "119 s"),
        (120, "2 min"),
        (7_199, "120 min"),
        (7_200, "2 h"),
        (720_000, "200 h"),
    ],
)
def test_the_age_of_a_snapshot_in_words(seconds: int, words: str) -> None:
    late = answer("3:-1", "[]", AFTER, time_ms=1_000_000 + seconds * 1_000)
    assert f"The snapshot is {words} old" in refused(BEFORE, late).remedy
    unknown = answer("3:-1", "[]", AFTER, time_ms=None)
    assert "The snapshot is of unknown age" in refused(BEFORE, unknown).remedy


def test_if_nothing_was_lost_nothing_is_planned() -> None:
    assert not plan(BEFORE, answer("3:0", HOLES, {3: 20}))
    assert not plan(BEFORE, answer("3:19", "[]", AFTER))
    # The type is not needed, because most subscriptions of a cluster have no losses.
    idle = answer("3:0", HOLES, {3: 20}, type="None")
    assert not plan(idle, idle)
    other = plan(BEFORE, answer("7:0", "[]", {7: 20}))
    assert not other
    assert "no ledger of the snapshot still exists" in other.unknown[1]


def test_entries_that_do_not_exist_any_more_are_not_planned() -> None:
    before = answer("3:0", "[(3:1..3:2],(4:1..4:2]]", {3: 20, 4: 9})
    made = plan(before, answer("4:-1", "[]", {4: 9, 5: 1}), restart="crash")
    assert str(made.missing) == "[(4:1..4:2]]"


@pytest.mark.parametrize(
    ("code", "mark", "ranges", "ledgers"),
    [
        ("not-loaded-anew", "3:0", KEPT, {3: 20}),
        ("mark-delete-back", "3:-1", KEPT, AFTER),
        ("first-range-gone", "3:0", "[]", AFTER),
        ("first-range-gone", "3:0", "[(3:3..3:4],(3:5..3:6],(3:7..3:8]]", AFTER),
        ("fewer-than-limit", "3:0", "[(3:1..3:2],(3:7..3:8]]", AFTER),
        ("other-entries", "3:0", KEPT, {3: 19, 4: 5}),
    ],
)
def test_what_no_graceful_restart_leaves_is_refused(
    code: str, mark: str, ranges: str, ledgers: dict[int, int]
) -> None:
    assert refused(BEFORE, answer(mark, ranges, ledgers)).code == code


def test_the_users_word_for_a_crash_needs_the_same_topic_all_the_same() -> None:
    made = plan(BEFORE, answer("3:-1", "[]", AFTER), restart="crash")
    assert str(made.missing) == "[(3:-1..3:0],(3:1..3:2],(3:3..3:4],(3:5..3:6],(3:7..3:8]]"
    assert refused(BEFORE, answer("3:-1", "[]", {3: 20}), restart="crash").code == "not-loaded-anew"
    assert refused(BEFORE, answer("3:-1", "[]", {3: 19, 4: 1}), restart="crash").code == "other-entries"


@pytest.mark.parametrize(("mark", "ranges", "is_refused"), [("3:0", KEPT, False), ("3:0", "[]", True)])
def test_a_crash_keeps_the_acknowledgments_of_info_internal(mark: str, ranges: str, is_refused: bool) -> None:
    persisted = CursorState(Position(3, 0), PositionRangeSet.parse(KEPT), ledgers=BEFORE.stats.ledgers)
    before = replace(BEFORE, stats=replace(BEFORE.stats, persisted=persisted))
    now = answer(mark, ranges, AFTER)
    if is_refused:
        assert refused(before, now, restart="crash").code == "persisted-gone"
    else:
        assert "`info-internal`" in plan(before, now, restart="crash").passed[-1]


def test_the_age_of_the_snapshot_is_before_the_eyes_of_who_must_say() -> None:
    late = answer("3:-1", "[]", AFTER, time_ms=1_000_000 + 45 * 60_000)
    assert "The snapshot is 45 min old" in refused(BEFORE, late).remedy


def test_a_closed_ledger_of_another_length_or_size_is_another_one() -> None:
    before = answer("3:0", HOLES, {3: 20, 4: 3})
    assert refused(before, answer("3:0", KEPT, {3: 21, 4: 3, 5: 0})).code == "other-entries"
    for bytes_more in (-1, 1):
        now = answer("3:0", KEPT, {3: 20, 4: 3, 5: 0})
        first, *others = now.stats.ledger_sizes
        other = replace(first, size_bytes=first.size_bytes + bytes_more)
        now = replace(now, stats=replace(now.stats, ledger_sizes=(other, *others)))
        assert refused(before, now).code == "other-entries"
    # The open ledger of the snapshot may have grown.
    assert plan(before, answer("3:0", KEPT, {3: 20, 4: 7, 5: 0}))
    # A ledger before the open one was closed, even if the open one is empty.
    empty = answer("3:0", HOLES, {3: 20, 4: 0})
    assert refused(empty, answer("3:0", KEPT, {3: 21, 5: 0})).code == "other-entries"


def test_a_ledger_that_is_gone_behind_an_older_one_is_refused_unless_it_was_empty() -> None:
    before = answer("3:0", HOLES, {3: 20, 4: 3, 5: 2})
    assert refused(before, answer("3:0", KEPT, {3: 20, 5: 2, 6: 0})).code == "ledger-gap"
    before = answer("3:0", HOLES, {3: 20, 4: 0})
    assert plan(before, answer("3:0", KEPT, {3: 20, 5: 0}))


def test_a_seek_forward_does_not_count_what_it_passed() -> None:
    before = answer("3:0", "[(3:1..3:2],(3:15..3:16]]", {3: 20})
    assert refused(before, answer("3:14", "[]", AFTER)).code == "fewer-than-limit"


def test_a_run_of_entries_is_one_range_and_a_restart_cuts_none() -> None:
    two = answer("3:0", "[(3:1..3:5],(3:7..3:8],(3:9..3:10]]", {3: 20})
    # The four entries are one range; a restart keeps two.
    assert refused(two, answer("3:0", "[(3:1..3:5]]", AFTER)).code == "fewer-than-limit"
    # A seek into the middle of the second range.
    whole = answer("3:0", "[(3:1..3:2],(3:3..3:9]]", {3: 20})
    assert refused(whole, answer("3:5", "[]", AFTER)).code == "fewer-than-limit"
    # The acknowledgments in between may have been two ranges.
    assert plan(answer("3:0", "[(3:4..3:5],(3:9..3:10]]", {3: 20}), answer("3:0", "[(3:1..3:5]]", AFTER))
    assert plan(answer("3:0", "[(3:8..3:9]]", {3: 20}), answer("3:0", "[(3:1..3:4]]", AFTER))


@pytest.mark.parametrize(("topic", "acked", "may"), [(1_980, 8, False), (1_981, 5, True), (9_000, 4, False)])
def test_ledger_by_ledger_is_written_only_of_a_topic_that_can_have_so_many_ranges(
    topic: int, acked: int, may: bool
) -> None:
    """The first ledger has more entries than the limit, and the topic can have over 1,000 ranges."""
    settings = {"managedLedgerMaxUnackedRangesToPersist": "4"}
    facts = BrokerFacts(version="4.2.4", settings=settings, assumed=())
    kept = f"[(3:1..3:{1 + acked}]"
    before = answer("3:0", f"{kept},(4:2..4:3]]", {3: 20, 4: topic}, facts=facts)
    now = answer("3:0", f"{kept}]", {3: 20, 4: topic, 5: 0}, facts=facts)
    if may:
        assert str(plan(before, now).missing) == "[(4:2..4:3]]"
    else:
        assert refused(before, now).code == "fewer-than-limit"


@pytest.mark.parametrize(
    ("code", "shown"),
    [
        ("replicated", {"isReplicated": True}),
        ("not-durable", {"isDurable": False}),
        ("transactions", {"ongoingTxnCount": 1}),
        ("type-changed", {"type": "Failover"}),
    ],
)
def test_what_was_never_tried_is_refused(code: str, shown: dict[str, Any]) -> None:
    assert refused(BEFORE, answer("3:0", KEPT, AFTER, **shown)).code == code


def test_the_type_must_be_known_and_the_mode_must_let_a_helper_in() -> None:
    idle = answer("3:0", HOLES, {3: 20}, type="None")
    assert refused(idle, answer("3:0", KEPT, AFTER, type="None")).code == "no-type"
    for mode in ({"keySharedMode": "STICKY"}, {"allowOutOfOrderDelivery": True}):
        sticky = answer("3:0", HOLES, {3: 20}, type="Key_Shared", **mode)
        assert refused(sticky, answer("3:0", KEPT, AFTER, type="None")).code == "key-shared-mode"


def test_the_brokers_own_subscriptions_and_topics_that_keep_nothing_are_refused() -> None:
    for code, of in (
        ("internal", {"name": "__compaction"}),
        ("not-durable", {"topic": "non-persistent://shop/eu/orders"}),
    ):
        assert refused(answer("3:0", HOLES, {3: 20}, **of), answer("3:0", KEPT, AFTER, **of)).code == code


def test_without_the_limit_a_graceful_restart_cannot_be_judged() -> None:
    before, now = answer("3:0", HOLES, {3: 20}, facts=None), answer("3:0", KEPT, AFTER, facts=None)
    assert refused(before, now).code == "limit-unknown"
    assert stated_settings(before, now, ["maxMessageSize=5"]) is None
    stated = stated_settings(before, now, ["managedLedgerMaxUnackedRangesToPersist=1"])
    assert str(plan(before, now, brokers=[stated]).missing) == "[(3:5..3:6],(3:7..3:8]]"
    defaults = stated_settings(before, now, [], others_are_defaults=True)
    assert refused(before, now, brokers=[defaults]).code == "fewer-than-limit"
    assert plan(before, now, restart="crash")
    zero = BrokerFacts(version="5.0.0", settings={"managedLedgerMaxUnackedRangesToPersist": "0"}, assumed=())
    assert refused(BEFORE, answer("3:0", KEPT, AFTER, facts=zero)).code == "nothing-kept"


def shown(ranges: str, parts: Mapping[Position, tuple[int, ...]]) -> CursorState:
    return CursorState(Position(3, 0), PositionRangeSet.parse(ranges), parts)


def test_parts_of_batches_come_from_a_state_that_shows_them() -> None:
    parts = {Position(3, 9): (5,), Position(3, 7): (1,), Position(3, 6): (1,), Position(9, 0): (1,)}
    made = plan(BEFORE, answer("3:0", KEPT, AFTER), ack_sets=shown(HOLES, parts))
    # Acknowledged entries and entries that do not exist have no ack sets.
    assert made.ack_sets == {Position(3, 7): (1,), Position(3, 9): (5,)}
    assert (
        refused(BEFORE, answer("3:0", KEPT, AFTER), ack_sets=shown("[(3:9..3:10]]", parts)).code
        == "acks-differ"
    )
    # A state that was taken earlier, or later, than the snapshot.
    for ranges in (KEPT, f"{HOLES[:-1]},(3:10..3:11]]"):
        made = plan(BEFORE, answer("3:0", KEPT, AFTER), ack_sets=shown(ranges, {Position(3, 9): (5,)}))
        assert made.ack_sets == {Position(3, 9): (5,)}


def test_the_parts_of_batches_in_a_snapshot_are_planned() -> None:
    parts = {Position(3, 9): (5,)}
    before = replace(BEFORE, stats=replace(BEFORE.stats, batch_deleted=parts))
    now = answer("3:0", KEPT, AFTER)
    made = plan(before, now)
    assert made.ack_sets == parts
    assert "--acks" not in str(made.unknown)
    other = {Position(3, 11): (3,)}
    assert plan(before, now, ack_sets=shown(HOLES, other)).ack_sets == other
    assert plan(BEFORE, now).ack_sets == {}


def test_the_most_ranges_before_an_entry_are_those_of_the_best_choice() -> None:
    chance, end = random.Random(53), (3, 6)
    entries = [*((2, each) for each in range(4)), *((3, each) for each in range(7))]

    def ranges(acked: set[tuple[int, int]]) -> int:
        """Return the number of ranges that do not end at the last entry."""
        return sum((ledger, entry + 1) not in acked for ledger, entry in acked - {end})

    for _ in range(300):
        given = {each: chance.choice("tpp-") for each in entries}
        then, perhaps = ([each for each in entries if given[each] == kind] for kind in "tp")
        choices = (combinations(perhaps, count) for count in range(len(perhaps) + 1))
        most = max(ranges({*then, *choice}) for choice in chain.from_iterable(choices))
        kept, newer = (PositionRangeSet([(of, at - 1, at) for of, at in each]) for each in (then, perhaps))
        assert planning._ranges_max(kept, newer, end) == most, given


def test_a_loss_of_parts_alone_needs_a_kept_range() -> None:
    parts = {Position(3, 9): (5,)}
    whole = answer("3:0", HOLES, AFTER)
    assert plan(BEFORE, whole, ack_sets=shown(HOLES, parts)).ack_sets == parts
    none = answer("3:0", "[]", {3: 20})
    assert refused(none, answer("3:0", "[]", AFTER), ack_sets=shown("[]", parts)).code == "no-range-kept"
    made = plan(none, answer("3:0", "[]", AFTER), ack_sets=shown("[]", parts), restart="crash")
    assert made.ack_sets == parts


def test_ack_sets_of_what_was_acknowledged_or_trimmed_since_are_not_sent() -> None:
    parts = {Position(3, 9): (5,), Position(3, 11): (5,)}
    made = plan(BEFORE, answer("3:0", KEPT, AFTER), ack_sets=shown(HOLES, parts))
    live = answer("3:0", "[(3:1..3:2],(3:3..3:4],(3:8..3:9]]", AFTER)
    assert remaining(made, live)[1] == {Position(3, 11): (5,)}


def test_the_snapshot_of_another_cluster_is_refused() -> None:
    live = answer("3:0", KEPT, AFTER)
    other = Snapshot(live.stats, live.shown, live.topic_shown, live.broker, "another")
    error = refused(BEFORE, other)
    assert error.code == "other-cluster"
    assert "the snapshot is of 'standalone', and this is 'another'" in str(error).replace("cluster ", "")


def test_only_what_is_still_missing_is_left_of_a_plan() -> None:
    made = plan(BEFORE, answer("3:0", KEPT, AFTER))
    live = answer("3:0", "[(3:1..3:2],(3:3..3:4],(3:5..3:6]]", AFTER)
    assert str(remaining(made, live)[0]) == "[(3:7..3:8]]"
    with pytest.raises(RefusedError, match="1 entries were acknowledged when the plan was made"):
        remaining(made, answer("3:0", "[(3:1..3:2]]", AFTER))
    with pytest.raises(RefusedError, match="or a seek"):
        remaining(made, answer("3:-1", KEPT, AFTER))
    other = Snapshot(live.stats, live.shown, live.topic_shown, live.broker, "another")
    with pytest.raises(RefusedError, match="'standalone', and this is 'another'") as caught:
        remaining(made, other)
    assert caught.value.code == "other-cluster"


def test_acknowledgments_are_cut_into_commands() -> None:
    entries = PositionRangeSet([(3, -1, 2_499)])
    sizes = [len(ids) for ids in commands(entries, {Position(4, 0): (1,)})]
    assert sizes == [1_000, 1_000, 501]
    assert list(commands(PositionRangeSet(), {})) == []


def test_a_command_carries_a_thousand_positions_of_either_kind() -> None:
    exact = list(commands(PositionRangeSet([(3, -1, 999)]), {}))
    assert [len(ids) for ids in exact] == [1_000]
    assert exact[0][0] == (Position(3, 0), ())
    parts = {Position(4, entry): (entry,) for entry in range(2_001)}
    assert [len(ids) for ids in commands(PositionRangeSet(), parts)] == [1_000, 1_000, 1]
    assert list(commands(PositionRangeSet(), parts))[2] == [(Position(4, 2_000), (2_000,))]


def test_what_is_left_of_a_plan_follows_from_the_ledgers_that_are_left() -> None:
    parts = {Position(3, 9): (5,), Position(4, 1): (5,)}
    before = answer("3:0", HOLES, {3: 20, 4: 3})
    now = {3: 20, 4: 3, 5: 1}
    made = plan(before, answer("3:0", KEPT, now), ack_sets=shown(HOLES, parts))
    trimmed = answer("4:-1", "[]", {4: 3, 5: 1})
    missing, sets = remaining(made, trimmed)
    assert (len(missing), sets) == (0, {Position(4, 1): (5,)})
    with pytest.raises(RefusedError) as caught:
        remaining(made, answer("3:0", KEPT, {3: 20, 4: 2, 5: 1}))
    assert caught.value.code == "other-entries"
    with pytest.raises(RefusedError) as caught:
        remaining(made, answer("3:0", KEPT, now, type="Failover"))
    assert caught.value.code == "type-changed"
    # A cluster without a name is not another cluster.
    live = answer("3:0", KEPT, now)
    nameless = Snapshot(live.stats, live.shown, live.topic_shown, live.broker, None)
    assert len(remaining(made, nameless)[0]) == 2


def test_each_refusal_of_the_list_is_raised_in_one_place_and_has_a_test() -> None:
    room = Path(rescue.__file__).parent
    files = [*room.glob("*.py"), room.parent / "cli/rescue_command.py"]
    code = "".join(each.read_text() for each in files)
    # Without the example in a docstring.
    raised = re.findall(r'(?<!str\()RefusedError\(\s*"([a-z-]+)"', code)
    assert sorted(raised) == sorted(texts())
    here = "".join(each.read_text() for each in Path(__file__).parent.glob("*.py"))
    assert {name for name in texts() if name not in here} == set()


def test_a_closed_ledger_that_grew_since_the_plan_is_another_one() -> None:
    made = plan(BEFORE, answer("3:0", KEPT, AFTER))
    assert remaining(made, answer("3:0", KEPT, {3: 20, 4: 9}))
    with pytest.raises(RefusedError) as caught:
        remaining(made, answer("3:0", KEPT, {3: 21, 4: 5}))
    assert caught.value.code == "other-entries"
