"""Predicted losses of a restart, compared with recorded restarts of real brokers.

`vectors/restart.json` has recorded restarts of Apache Pulsar 4.2.4: the state in memory before and
after. Ranges are `[ledger, lower, length, stride, count]`: `count` ranges of `length` entries, one
every `stride`.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ackwell import Ledgers, Position, PositionInfo, PositionRangeSet
from ackwell.broker.batch_sizes import BatchSizes, Bounds
from ackwell.broker.broker_settings import BrokerSettings
from ackwell.broker.restart import RestartLoss, restart_loss
from ackwell.broker.stats import SubscriptionStats, read_stats
from ackwell.cursor.cursor_state import AckSetMapping, CursorState
from tests.shared import shared_path

if TYPE_CHECKING:
    from collections.abc import Callable

    from ackwell.broker.writes import CursorLedger, Restart

CASES: list[dict[str, Any]] = json.loads(
    Path(__file__).parents[1].joinpath("vectors").joinpath("restart.json").read_text()
)
RESTARTS: tuple[Restart, ...] = ("graceful", "crash")
HOLES = PositionRangeSet.parse("[(3:0..3:1],(3:2..3:3],(4:-1..4:0],(5:-1..5:9]]")


def ranges_of(rows: list[list[int]]) -> PositionRangeSet:
    ranges = PositionRangeSet()
    for ledger_id, lower, length, stride, count in rows:
        for number in range(count):
            start = lower + number * stride
            ranges.add_range(ledger_id, start, start + length)
    return ranges


def settings_of(config: dict[str, Any]) -> BrokerSettings:
    pairs = [f"{name}={str(value).lower()}" for name, value in config.items() if name != "restart"]
    return BrokerSettings.of("4.2").with_values(pairs)


def acknowledged(
    mark_delete: tuple[int, int],
    ranges: PositionRangeSet,
    ack_sets: AckSetMapping | None = None,
    ledgers: Ledgers | None = None,
) -> CursorState:
    return CursorState(Position(*mark_delete), ranges, ack_sets, ledgers)


def predict(case: dict[str, Any]) -> RestartLoss:
    return restart_loss(
        acknowledged(
            Position.parse(case["markDelete"]),
            ranges_of(case["ranges"]),
            {Position.parse(position): words for position, words in case["ackSets"].items()},
            ledgers=Ledgers(map(tuple, case["ledgers"])),
        ),
        settings=settings_of(case["settings"]),
        restart=case["restart"],
        cursor_ledger=case["cursorLedger"],
        batch_sizes=BatchSizes(each=case["messagesPerEntry"]),
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['scenario']}-{case['restart']}")
def test_the_prediction_is_what_the_broker_forgot(case: dict[str, Any]) -> None:
    loss = predict(case)
    before, after = ranges_of(case["ranges"]), ranges_of(case["rangesAfter"])
    left = PositionRangeSet.parse(str(before))
    for position in loss.ranges.positions():
        left.remove(*position)
    assert str(left) == str(after)
    assert loss.entries == before.cardinality - after.cardinality
    assert loss.partial_entries == len(case["ackSets"]) - len(case["ackSetsAfter"])
    if "ackedMessagesLost" in case:
        assert loss.messages.exact == case["ackedMessagesLost"]
    assert bool(loss.reasons) == bool(loss.entries or loss.partial_entries)


def test_recorded_cases_cover_both_forms_both_restarts_and_batches() -> None:
    seen = {(case["restart"], predict(case).form) for case in CASES}
    assert seen >= {
        ("graceful", "pulsar-ranges"),
        ("graceful", "pulsar-long-array"),
        ("crash", "pulsar-long-array"),
    }
    assert any(case["ackSets"] for case in CASES)
    assert sum(bool(case.get("ackedMessagesLost")) for case in CASES) >= 5


def test_every_recording_at_hand_agrees() -> None:
    traces = shared_path("data/traces")
    configs = {
        entry["scenario"]: entry["config"]
        for name in ("manifest.json", "ack_loss.json")
        for entry in json.loads((shared_path("data/raw") / name).read_text())
    }
    compared = 0
    for first, second in (("before", "after"), ("flushed", "unloaded")):
        for path in sorted(traces.glob(f"*.{first}.stats.json*")):
            scenario = path.name.split(".")[0]
            others = list(traces.glob(f"{scenario}.{second}.stats.json*"))
            # Where all was acknowledged the ledgers go with the topic's reload, and nothing compares.
            if not others or scenario == "shared_all_acked":
                continue
            config = configs[scenario]
            restart: Restart = config.get("restart", "graceful") if first == "before" else "graceful"
            (before,), (after,) = read_stats(path), read_stats(others[0])
            loss = restart_loss(
                before,
                settings=settings_of(config),
                restart=restart,
                cursor_ledger=before.cursor_ledger,
                batch_sizes=before.batch_sizes,
            )
            assert loss.entries == _acked(before) - _acked(after), scenario
            assert loss.partial_entries == len(before.batch_deleted or ()) - len(after.batch_deleted or ()), (
                scenario
            )
            compared += 1
    assert compared > 30


def _acked(stats: SubscriptionStats) -> int:
    return stats.individually_deleted.cardinality


@pytest.mark.parametrize(("limit", "kept"), [(-1, 1), (0, 1), (1, 2), (2, 3), (3, 4), (4, 4)])
def test_the_ranges_form_keeps_one_range_more_than_the_limit(limit: int, kept: int) -> None:
    settings = BrokerSettings.of("4.0").with_values([f"managedLedgerMaxUnackedRangesToPersist={limit}"])
    for restart in RESTARTS:
        loss = restart_loss(acknowledged((3, -1), HOLES), settings=settings, restart=restart)
        assert len(loss.ranges) == len(HOLES) - kept


@pytest.mark.parametrize(("limit", "lost"), [(0, 11), (1, 11), (2, 10), (3, 0), (13, 0)])
def test_the_long_array_form_keeps_whole_ledgers_until_their_entries_pass_the_limit(
    limit: int, lost: int
) -> None:
    settings = BrokerSettings().with_values([f"managedLedgerMaxUnackedRangesToPersist={limit}"])
    loss = restart_loss(acknowledged((3, -1), HOLES), settings=settings, restart="crash")
    assert (loss.entries, loss.form) == (lost, "pulsar-long-array")


def test_below_every_limit_a_ledger_the_long_array_form_falls_back_to_one_range() -> None:
    settings = BrokerSettings().with_values(["managedLedgerMaxUnackedRangesToPersist=-1"])
    loss = restart_loss(acknowledged((3, -1), HOLES), settings=settings, restart="crash")
    assert (len(loss.ranges), loss.form) == (3, "pulsar-ranges")


def test_a_close_with_few_ranges_goes_to_the_metadata_store_in_the_ranges_form() -> None:
    settings = BrokerSettings().with_values(["managedLedgerMaxUnackedRangesToPersist=2"])
    closed = restart_loss(acknowledged((3, -1), HOLES), settings=settings)
    assert (closed.place, closed.entries) == ("metadata store", 10)
    to_ledger = settings.with_values(["managedLedgerMaxUnackedRangesToPersistInMetadataStore=3"])
    assert restart_loss(acknowledged((3, -1), HOLES), settings=to_ledger).place == "cursor ledger"
    older_name = settings.with_values(["managedLedgerMaxUnackedRangesToPersistInZooKeeper=3"])
    assert restart_loss(acknowledged((3, -1), HOLES), settings=older_name).place == "cursor ledger"


def test_a_cursor_recovered_from_its_ledger_and_closed_again_goes_to_the_metadata_store() -> None:
    settings = BrokerSettings().with_values(
        [
            "managedLedgerMaxUnackedRangesToPersist=3",
            "managedLedgerMaxUnackedRangesToPersistInMetadataStore=0",
        ]
    )
    again = restart_loss(acknowledged((3, -1), HOLES), settings=settings, cursor_ledger="read-only")
    assert (again.place, again.entries) == ("metadata store", 0)
    tighter = settings.with_values(["managedLedgerMaxUnackedRangesToPersist=2"])
    assert (
        restart_loss(acknowledged((3, -1), HOLES), settings=tighter, cursor_ledger="read-only").entries == 10
    )


def test_a_crash_forgets_nothing_that_was_recovered_and_not_changed_since() -> None:
    settings = BrokerSettings().with_values(["managedLedgerMaxUnackedRangesToPersist=0"])
    loss = restart_loss(
        acknowledged((3, -1), HOLES), settings=settings, restart="crash", cursor_ledger="read-only"
    )
    assert loss.messages == loss.messages_before_flush == Bounds(0, 0)


def test_batch_indexes_survive_in_the_cursor_ledger_up_to_their_limit() -> None:
    ack_sets = {Position(3, 10 + n): (0b11,) for n in range(4)}
    settings = BrokerSettings().with_values(
        [
            "managedLedgerMaxUnackedRangesToPersistInMetadataStore=0",
            "managedLedgerMaxBatchDeletedIndexToPersist=3",
        ]
    )
    loss = restart_loss(
        acknowledged((3, -1), HOLES, ack_sets), settings=settings, batch_sizes=BatchSizes(each=10)
    )
    assert (loss.partial_entries, loss.messages) == (1, Bounds(8, 8))
    assert [reason.code for reason in loss.reasons] == ["batch-index-limit"]
    del ack_sets[Position(3, 10)]
    all_kept = restart_loss(acknowledged((3, -1), HOLES, ack_sets), settings, batch_sizes=BatchSizes(each=10))
    assert (all_kept.partial_entries, all_kept.reasons) == (0, ())
    few = settings.with_values(["managedLedgerMaxUnackedRangesToPersist=1"])
    cut = restart_loss(acknowledged((3, -1), HOLES, ack_sets), few, batch_sizes=BatchSizes(each=10))
    assert [reason.code for reason in cut.reasons] == ["entry-limit"]


def test_batch_indexes_are_not_read_back_from_the_metadata_store() -> None:
    loss = restart_loss(
        acknowledged((3, -1), HOLES, {Position(3, 10): (0b11,)}), batch_sizes=BatchSizes(each=10)
    )
    assert (loss.partial_entries, loss.messages) == (1, Bounds(8, 8))
    assert loss.reasons[0].issues == ("apache/pulsar#20585", "apache/pulsar#26475")


def test_batch_indexes_alone_are_never_written_before_a_crash() -> None:
    loss = restart_loss(acknowledged((3, -1), PositionRangeSet(), {Position(3, 1): (0b11,)}), restart="crash")
    assert (loss.partial_entries, loss.messages.at_least) == (1, 1)
    assert [each.code for each in loss.reasons] == ["batch-index-not-written"]


def test_it_hangs_on_timing_whether_batch_indexes_without_ranges_were_written_with_the_mark_delete() -> None:
    sizes = BatchSizes(each=10)
    loss = restart_loss(
        acknowledged((3, 5), PositionRangeSet(), {Position(3, 6): (0b11,)}),
        restart="crash",
        batch_sizes=sizes,
    )
    assert loss.messages == Bounds(0, 8)


def test_with_batch_index_acknowledgment_off_no_batch_index_is_read_back() -> None:
    loss = restart_loss(
        acknowledged((3, -1), HOLES, {Position(3, 10): (1,)}),
        settings=BrokerSettings.of("4.0"),
        restart="crash",
    )
    assert [reason.code for reason in loss.reasons] == ["batch-index-off"]


def test_only_entries_that_exist_beyond_the_mark_delete_position_count() -> None:
    # Odd states keep ranges at or below the mark-delete position, past a ledger's end and in unknown
    # ledgers; they count for the limit and are not messages.
    ranges = PositionRangeSet.parse("[(3:-1..3:4],(3:6..3:99],(8:-1..8:9]]")
    settings = BrokerSettings().with_values(["managedLedgerMaxUnackedRangesToPersist=0"])
    loss = restart_loss(
        acknowledged((3, 4), ranges, ledgers=Ledgers({3: 10, 4: 5})), settings=settings, restart="crash"
    )
    assert str(loss.ranges) == "[]"
    off = settings.with_values(["managedLedgerPersistIndividualAckAsLongArray=false"])
    loss = restart_loss(
        acknowledged((3, 4), ranges, ledgers=Ledgers({3: 10, 4: 5})), settings=off, restart="crash"
    )
    assert str(loss.ranges) == "[(3:6..3:9]]"


def test_an_entry_that_bookkeeper_refuses_falls_back_to_the_metadata_store_or_is_lost() -> None:
    ranges = PositionRangeSet()
    for entry_id in range(0, 20_000, 2):
        ranges.add(7, entry_id + 1)
    settings = BrokerSettings.of("4.0").with_values(["maxMessageSize=65536"])
    for restart in RESTARTS:
        loss = restart_loss(acknowledged((7, -1), ranges), settings=settings, restart=restart)
        assert (loss.place, loss.messages) == ("metadata store", Bounds(0, 10_000))
    wider = settings.with_values(["maxMessageSize=5242880"])
    assert restart_loss(acknowledged((7, -1), ranges), settings=wider, restart="crash").messages == Bounds(
        0, 0
    )


def test_the_worst_case_of_a_crash_is_everything_since_the_position_on_disk() -> None:
    ledgers = Ledgers({3: 10, 4: 5, 5: 10})
    known = restart_loss(
        acknowledged((3, 5), HOLES, ledgers=ledgers), restart="crash", persisted_mark_delete=(3, 2)
    )
    assert known.messages_before_flush == Bounds(0, 3 + 11)
    unknown = restart_loss(acknowledged((3, 5), HOLES, ledgers=ledgers), restart="crash")
    assert unknown.messages_before_flush == Bounds(0, 6 + 11)
    assert restart_loss(acknowledged((3, 5), HOLES), restart="crash").messages_before_flush == Bounds(0, None)
    graceful = restart_loss(acknowledged((3, 5), HOLES, ledgers=ledgers))
    assert graceful.messages_before_flush == graceful.messages


@pytest.mark.parametrize("persisted", [(-1, -1), (0, 5), (2, 9), (3, -1)])
def test_a_position_on_disk_before_the_first_ledger_leaves_all_its_entries(
    persisted: tuple[int, int],
) -> None:
    """Of a cursor that wrote nothing yet a broker says -1:-1."""
    ledgers = Ledgers({3: 10})
    loss = restart_loss(
        acknowledged((3, 5), PositionRangeSet(), ledgers=ledgers),
        restart="crash",
        persisted_mark_delete=persisted,
    )
    assert loss.messages_before_flush == Bounds(0, 6)


def test_messages_are_counted_by_the_batches_of_the_entries_lost() -> None:
    settings = BrokerSettings.of("4.0").with_values(["managedLedgerMaxUnackedRangesToPersist=2"])
    sizes = BatchSizes(of={(5, 0): 7, (5, 9): 3, (3, 1): 100})
    assert restart_loss(
        acknowledged((3, -1), HOLES), settings=settings, batch_sizes=sizes
    ).messages == Bounds(18, 18)


def test_settings_are_those_of_the_version_and_unknown_names_are_refused() -> None:
    assert not BrokerSettings.of("4.0.8").long_array
    assert BrokerSettings.of("4.2").long_array
    assert BrokerSettings().with_values(["managedLedgerMaxEntriesPerLedger=5000"]) == BrokerSettings()
    for wrong, said in (
        ("managedLedgerMaxUnackedRanges=1", "did you mean 'managedLedgerMaxUnackedRangesToPersist'"),
        ("managedLedgerMaxUnackedRangesToPersist", "expected name=value"),
        ("managedLedgerMaxUnackedRangesToPersist=many", "is a whole number"),
        ("managedLedgerMaxBatchDeletedIndexToPersist=9223372036854775808", "expected an int64"),
        ("managedLedgerPersistIndividualAckAsLongArray=yes", "is true or false"),
    ):
        with pytest.raises(ValueError, match=said):
            BrokerSettings().with_values([wrong])
    with pytest.raises(ValueError, match=r"known are 4\.0, 4\.2"):
        BrokerSettings.of("3.3")


@pytest.mark.parametrize(
    ("ranges", "most", "place"),
    [(2, 10, "metadata store"), (3, 10, "cursor ledger"), (3, 0, "metadata store")],
)
def test_more_ranges_than_the_metadata_store_takes_go_to_the_ledger_unless_it_takes_none(
    ranges: int, most: int, place: str
) -> None:
    settings = BrokerSettings.of("4.2").with_values(
        [
            "managedLedgerMaxUnackedRangesToPersistInMetadataStore=2",
            f"managedLedgerMaxUnackedRangesToPersist={most}",
        ]
    )
    holes = PositionRangeSet([(3, 2 * number + 1, 2 * number + 2) for number in range(ranges)])
    assert restart_loss(acknowledged((3, -1), holes), settings=settings).place == place


@pytest.mark.parametrize("most", [-1, 0])
def test_without_room_for_batch_indexes_none_is_kept(most: int) -> None:
    settings = BrokerSettings.of("4.2").with_values([f"managedLedgerMaxBatchDeletedIndexToPersist={most}"])
    holes = PositionRangeSet([(3, 1, 2)])
    loss = restart_loss(
        acknowledged((3, -1), holes, {Position(3, 9): (2,)}), settings=settings, restart="crash"
    )
    assert loss.partial_entries == 1


def test_a_source_without_ack_sets_is_not_one_that_does_not_show_them() -> None:
    def loss(batch_deleted: dict[Position, tuple[int, ...]] | None) -> Bounds:
        return restart_loss(
            acknowledged((3, -1), HOLES, batch_deleted, ledgers=Ledgers({3: 8})),
            batch_sizes=BatchSizes(each=10),
        ).messages

    assert loss({}) == Bounds(0, 0)
    assert loss(None) == Bounds(0, 54)


def test_what_bounds_the_messages_of_entries_of_unknown_size() -> None:
    sizes = BatchSizes(each=None, total_messages=20, total_entries=10)
    assert sizes.acked(2, {Position(3, 9): (0b110,)}) == Bounds(3, 11)
    assert BatchSizes(each=10, total_messages=20, total_entries=10).most_hidden(5) == 10
    assert BatchSizes(each=2, of={(3, 1): 100}).most_hidden(5) is None
    # Totals of different moments: fewer messages than entries.
    torn = BatchSizes(each=None, total_messages=5, total_entries=10)
    assert (torn.acked(3), torn.most_hidden(3)) == (Bounds(3, 3), 0)


def test_listed_sizes_count_only_with_whole_entries() -> None:
    sizes = BatchSizes(each=1, of={(3, 1): 7, (3, 9): 3})
    assert sizes.acked(0, {Position(3, 9): (0b10,)}) == Bounds(2, 2)


@pytest.mark.parametrize(("limit", "most"), [(7, 0), (6, 36)])
def test_hidden_ack_sets_survive_where_each_unacked_entry_may_have_one(limit: int, most: int) -> None:
    settings = BrokerSettings().with_values([f"managedLedgerMaxBatchDeletedIndexToPersist={limit}"])
    loss = restart_loss(
        acknowledged((3, 2), PositionRangeSet.parse("[(3:4..3:6]]"), None, ledgers=Ledgers({3: 9})),
        settings=settings,
        restart="crash",
        batch_sizes=BatchSizes(each=10),
        persisted_mark_delete=(3, 2),
    )
    # Three more entries may have had ack sets when it was written, which counted then.
    assert loss.messages == Bounds(0, most)
    # Everything that was not flushed: the wholly acknowledged entries, and hidden messages of four others.
    assert loss.messages_before_flush == Bounds(0, 20 + 36)


def test_hidden_ack_sets_without_a_range_may_not_have_been_written() -> None:
    loss = restart_loss(
        acknowledged((3, 4), PositionRangeSet(), None, ledgers=Ledgers({3: 9})),
        restart="crash",
        batch_sizes=BatchSizes(each=10),
    )
    assert (loss.place, loss.messages) == ("cursor ledger", Bounds(0, 36))
    assert [reason.code for reason in loss.reasons] == ["batch-index-hidden"]


@pytest.mark.parametrize(("version", "limit", "most"), [("5.0.1", 9, 0), ("5.0.1", 8, 36), ("4.2.4", 9, 36)])
def test_a_close_of_5_0_keeps_hidden_ack_sets_without_a_range(version: str, limit: int, most: int) -> None:
    settings = BrokerSettings.of(version).with_values([f"managedLedgerMaxBatchDeletedIndexToPersist={limit}"])
    loss = restart_loss(
        acknowledged((3, 4), PositionRangeSet(), None, ledgers=Ledgers({3: 9})),
        settings,
        "graceful",
        batch_sizes=BatchSizes(each=10),
    )
    # Four entries may have ack sets, and five before them may have had ack sets at the last write.
    assert (loss.place, loss.messages) == ("metadata store", Bounds(0, most))


@pytest.mark.parametrize(("mark_delete", "at_least"), [((3, -1), 8), ((3, 0), 0)])
def test_a_cursor_before_the_first_entry_has_written_no_ledger(
    mark_delete: tuple[int, int], at_least: int
) -> None:
    for ledgers in (None, Ledgers({3: 9})):
        loss = restart_loss(
            acknowledged(mark_delete, PositionRangeSet(), {Position(3, 5): (0b11,)}, ledgers=ledgers),
            restart="crash",
            batch_sizes=BatchSizes(each=10),
        )
        assert loss.messages == Bounds(at_least, 8)


def test_the_worst_case_of_a_crash_counts_the_batches_that_the_mark_delete_position_passed() -> None:
    loss = restart_loss(
        acknowledged((3, 5), PositionRangeSet.parse("[(3:6..3:7]]"), {}, ledgers=Ledgers({3: 10})),
        restart="crash",
        batch_sizes=BatchSizes(of={(3, 4): 7, (3, 7): 3, (3, 9): 100}),
        persisted_mark_delete=(3, 2),
    )
    assert loss.messages_before_flush == Bounds(0, 1 + 7 + 1 + 3)


@pytest.mark.parametrize("form", ["pulsar-ranges", "pulsar-long-array"])
def test_an_entry_of_just_the_size_that_bookkeeper_takes_is_written(form: str) -> None:
    size = len(PositionInfo(3, -1, individually_deleted=HOLES).encode(form=form))
    long_array = str(form == "pulsar-long-array").lower()
    settings = BrokerSettings().with_values([f"managedLedgerPersistIndividualAckAsLongArray={long_array}"])
    for limit, place in ((size, "cursor ledger"), (size - 1, "metadata store")):
        tight = settings.with_values([f"nettyMaxFrameSizeBytes={limit}"])
        loss = restart_loss(acknowledged((3, -1), HOLES), settings=tight, restart="crash")
        assert (loss.place, loss.messages.at_most) == (place, 0 if place == "cursor ledger" else 13)


def test_a_single_range_far_into_a_ledger_is_too_large_for_the_long_array_form() -> None:
    far = PositionRangeSet([(3, 10_000_000, 10_000_001)])
    settings = BrokerSettings().with_values(["maxMessageSize=65536"])
    loss = restart_loss(acknowledged((3, -1), far), settings=settings, restart="crash")
    assert (loss.place, loss.messages) == ("metadata store", Bounds(0, 1))
    assert loss.reasons[0].code == "entry-too-large"
    ranges_form = settings.with_values(["managedLedgerPersistIndividualAckAsLongArray=false"])
    assert restart_loss(acknowledged((3, -1), far), settings=ranges_form, restart="crash").messages == Bounds(
        0, 0
    )


def test_listed_batches_hide_acks_even_where_every_other_entry_is_one_message() -> None:
    assert BatchSizes(of={(3, 1): 100}).most_hidden(5) is None
    assert BatchSizes(of={(3, 1): 100}, total_messages=109, total_entries=10).most_hidden(5) == 99
    assert BatchSizes(of={(3, 1): 100}).most_hidden(0) == 0


def test_settings_of_a_broker_that_are_not_known_here_are_ignored() -> None:
    told = {"aSettingOfAPlugin": "x", "managedLedgerMaxUnackedRangesToPersist": "7"}
    assert BrokerSettings().with_known(told) == BrokerSettings(max_unacked_ranges_to_persist=7)


def test_the_older_name_of_the_metadata_stores_limit_counts_only_above_zero() -> None:
    for older, ranges in (("-1", 20), ("0", 20), ("1", 1)):
        settings = BrokerSettings().with_values(
            [
                "managedLedgerMaxUnackedRangesToPersistInMetadataStore=20",
                f"managedLedgerMaxUnackedRangesToPersistInZooKeeper={older}",
            ]
        )
        assert settings.metadata_store_ranges == ranges


def test_an_entry_has_room_for_a_message_and_its_frame_as_far_as_the_bookies_take_it() -> None:
    settings = BrokerSettings().with_values(["maxMessageSize=65536"])
    assert settings.max_entry_bytes == 65_536 + 10_240
    assert settings.with_values(["nettyMaxFrameSizeBytes=70000"]).max_entry_bytes == 70_000


@pytest.mark.parametrize(
    ("version", "nearest"),
    [
        ("2.11.4", "4.0"),
        ("4.0", "4.0"),
        ("4.1.9", "4.0"),
        ("4.2.4", "4.2"),
        ("4.10", "4.2"),
        ("5.0.0-M1", "5.0.0-M1"),
        ("5.0.7", "5.0"),
        ("10.1", "5.0"),
    ],
)
def test_a_version_has_the_defaults_of_the_newest_known_one_up_to_it(version: str, nearest: str) -> None:
    assert BrokerSettings.nearest(version) == BrokerSettings.of(nearest)


@pytest.mark.parametrize(
    ("unwritten_entries", "more", "most"), [(None, 12, 23), (0, 0, 0), (1, 1, 1), (3, 3, 3), (100, 12, 23)]
)
def test_a_bound_of_what_was_not_written_narrows_the_worst_case_of_a_crash(
    unwritten_entries: int | None, more: int, most: int
) -> None:
    """A limit also cuts 11 entries, which are certainly lost, if one range is kept."""
    state = acknowledged((3, -1), HOLES, {}, Ledgers({2: 10, 3: 10, 4: 10, 5: 20}))
    for kept, certain, at_most in ((1, 11, 11 + more), (10_000, 0, most)):
        settings = BrokerSettings.of("4.2").with_values([f"managedLedgerMaxUnackedRangesToPersist={kept}"])
        loss = restart_loss(state, settings, "crash", unwritten_entries=unwritten_entries)
        assert (loss.messages, loss.messages_before_flush) == (
            Bounds(certain, certain),
            Bounds(certain, at_most),
        )


COVERED = BrokerSettings().with_values(
    [
        "managedLedgerMaxBatchDeletedIndexToPersist=3",
        "managedLedgerMaxUnackedRangesToPersistInMetadataStore=0",
    ]
)
ACKED_PARTS: dict[Position, tuple[int, ...]] = {Position(1, entry_id): (0b0111,) for entry_id in range(5)}


def test_the_ack_set_of_a_wholly_acknowledged_entry_does_not_count_for_the_limit() -> None:
    """As 4.2.4 and 5.0.1 do (tests/pulsar/test_covered_ack_sets.py): the ack set of 1:2 survives."""
    settings = COVERED.with_values(["managedLedgerMaxBatchDeletedIndexToPersist=1"])
    ack_sets: dict[Position, tuple[int, ...]] = {Position(1, 1): (0b0111,), Position(1, 2): (0b0111,)}
    state = acknowledged((1, -1), PositionRangeSet.parse("[(1:0..1:1]]"), ack_sets, ledgers=Ledgers({1: 5}))
    for restart in RESTARTS:
        loss = restart_loss(state, settings, restart, batch_sizes=BatchSizes(each=4), unwritten_entries=0)
        assert (loss.messages, loss.reasons) == (Bounds(0, 0), ())


def test_ack_sets_that_a_cumulative_acknowledgment_covered_count_for_the_limit() -> None:
    """Seen live on three versions (tests/pulsar/test_covered_ack_sets.py): 1:3 and 1:4 were redelivered."""
    ranges = PositionRangeSet.parse("[(1:5..1:6],(1:7..1:8]]")
    sizes = BatchSizes(each=4)
    state = acknowledged((1, 1), ranges, ACKED_PARTS, ledgers=Ledgers({1: 9}))
    closed = restart_loss(state, COVERED, "graceful", batch_sizes=sizes)
    # The write before the close drops them.
    assert closed.messages == Bounds(0, 2)
    assert [reason.code for reason in closed.reasons] == ["batch-index-limit"]
    # The write that counted them is over, and they are gone from memory.
    left = {position: words for position, words in ACKED_PARTS.items() if position > (1, 1)}
    state = acknowledged((1, 1), ranges, left, ledgers=Ledgers({1: 9}))
    killed = restart_loss(state, COVERED, "crash", batch_sizes=sizes, unwritten_entries=0)
    assert killed.messages == Bounds(0, 2)
    assert [reason.code for reason in killed.reasons] == ["batch-index-limit"]
    assert restart_loss(state, COVERED, "graceful", batch_sizes=sizes).messages == Bounds(0, 0)
    # Without an entry before the mark-delete position there was none.
    state = acknowledged(
        (2, -1), PositionRangeSet.parse("[(2:5..2:6]]"), {Position(2, 1): (7,)}, Ledgers({2: 9})
    )
    assert restart_loss(state, COVERED, "crash", batch_sizes=sizes).messages == Bounds(0, 0)


def alternating(acked: int) -> CursorState:
    """Return a state in which every second entry of ledgers of 5,000 entries is acknowledged."""
    ledgers = [(ledger_id, 5_000) for ledger_id in range(3, 3 + acked // 2_500)]
    ranges = [(ledger_id, entry, entry + 1) for ledger_id, _ in ledgers for entry in range(0, 5_000, 2)]
    return acknowledged((3, -1), PositionRangeSet(ranges), {}, Ledgers(ledgers))


def after_an_open_entry() -> CursorState:
    """Return a state in which all entries but the first are acknowledged: 250,000 in 51 ledgers."""
    ranges = [(3, 0, 4_999), *((3 + n, -1, 4_999) for n in range(1, 50)), (53, -1, 0)]
    return acknowledged((3, -1), PositionRangeSet(ranges), {}, Ledgers({3 + n: 5_000 for n in range(51)}))


@pytest.mark.parametrize(
    ("version", "state", "lost"),
    [
        ("4.2.4", partial(alternating, 30_000), {"graceful": 17_500, "crash": 17_500}),
        ("5.0.0-M1", partial(alternating, 30_000), {"graceful": 0, "crash": 0}),
        ("5.0.1", partial(alternating, 30_000), {"graceful": 0, "crash": 0}),
        ("5.0.0-M1", partial(alternating, 300_000), {"graceful": 97_500, "crash": 97_500}),
        ("5.0.1", partial(alternating, 300_000), {"graceful": 100_000, "crash": 100_000}),
        ("4.2.4", after_an_open_entry, {"graceful": 0, "crash": 235_001}),
        ("5.0.0-M1", after_an_open_entry, {"graceful": 0, "crash": 45_001}),
        ("5.0.1", after_an_open_entry, {"graceful": 0, "crash": 50_001}),
    ],
)
def test_a_restart_loses_as_much_as_the_limits_of_the_release(
    version: str, state: Callable[[], CursorState], lost: dict[str, int]
) -> None:
    settings, made = BrokerSettings.of(version), state()
    assert {
        restart: restart_loss(made, settings, restart, unwritten_entries=0).messages.exact
        for restart in RESTARTS
    } == lost


@pytest.mark.parametrize(
    ("version", "lost", "form"),
    [
        ("4.2.4", [0, 1, 6], "pulsar-long-array"),
        ("5.0.0-M1", [0, 1, 6], "pulsar-long-array"),
        ("5.0.1", [5, 7, 7], "pulsar-ranges"),
    ],
)
def test_a_ledger_is_written_if_the_total_with_or_before_it_is_within_the_limit(
    version: str, lost: list[int], form: str
) -> None:
    """Seen live on 5.0.1: of eight single acknowledgments in one ledger, a limit of 3 keeps three."""
    limits = [(3, [8]), (10, [6, 6, 1]), (3, [4, 6])]
    found = []
    for limit, acked in limits:
        settings = BrokerSettings.of(version).with_values(
            [
                f"managedLedgerMaxUnackedRangesToPersist={limit}",
                "managedLedgerMaxUnackedRangesToPersistInMetadataStore=1",
            ]
        )
        ranges = PositionRangeSet(
            [(3 + n, 2 * entry, 2 * entry + 1) for n, count in enumerate(acked) for entry in range(count)]
        )
        loss = restart_loss(acknowledged((3, -1), ranges, {}), settings)
        found.append(loss.messages.exact)
        if len(acked) == 1:
            assert loss.form == form
    assert found == lost


PARTS: dict[Position, tuple[int, ...]] = {Position(3, entry): (0b0111,) for entry in range(4)}


@pytest.mark.parametrize(
    ("version", "lost"),
    [("4.0.13", 4), ("4.0.14", 0), ("4.2.4", 4), ("4.2.5", 0), ("5.0.0-M1", 4), ("5.0.1", 0)],
)
def test_batch_indexes_are_read_back_from_the_metadata_store_from_these_releases_on(
    version: str, lost: int
) -> None:
    settings = BrokerSettings.of(version).with_values(["acknowledgmentAtBatchIndexLevelEnabled=true"])
    state = acknowledged((3, -1), PositionRangeSet(), PARTS)
    loss = restart_loss(state, settings, batch_sizes=BatchSizes(each=4))
    assert (loss.messages.exact, loss.place) == (lost, "metadata store")


@pytest.mark.parametrize("ledger", ["none", "read-only", "open"])
def test_batch_indexes_alone_are_written_with_the_next_flush_of_5_0(ledger: CursorLedger) -> None:
    state = acknowledged((3, -1), PositionRangeSet(), PARTS, Ledgers({3: 10}))
    found = {
        version: restart_loss(
            state,
            BrokerSettings.of(version),
            "crash",
            cursor_ledger=ledger,
            batch_sizes=BatchSizes(each=4),
            persisted_mark_delete=(3, -1),
        )
        for version in ("5.0.0-M1", "5.0.1")
    }
    assert found["5.0.1"].messages == Bounds(0, 0)
    assert found["5.0.1"].messages_before_flush == Bounds(0, 4)
    assert found["5.0.0-M1"].messages.at_most == 4
    limit = BrokerSettings.of("5.0").with_values(["managedLedgerMaxBatchDeletedIndexToPersist=1"])
    loss = restart_loss(state, limit, "crash", cursor_ledger=ledger, batch_sizes=BatchSizes(each=4))
    assert (loss.messages, [each.code for each in loss.reasons]) == (Bounds(3, 3), ["batch-index-limit"])
