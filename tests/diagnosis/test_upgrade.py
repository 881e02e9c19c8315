"""Upgrades and downgrades: the loss in the rolling restart, and the changes that matter afterwards."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from itertools import permutations
from typing import TYPE_CHECKING, Any

import pytest

from ackwell.broker.batch_sizes import Bounds
from ackwell.broker.broker_settings import BrokerSettings, defaults, is_setting
from ackwell.broker.metadata_node import closing_request_bytes
from ackwell.broker.stats import SubscriptionStats, UnreadableSource, parse_stats
from ackwell.diagnosis.checkup import JudgedBroker
from ackwell.diagnosis.doctor import Verdict, diagnose
from ackwell.diagnosis.upgrade import BrokerUpgrade, UpgradeCheck, upgrade_of
from ackwell.diagnosis.upgrade_rules import CONSUMER_RULES, RULES
from ackwell.releases import RELEASES
from ackwell.subscription import SubscriptionSettings
from tests.broker.answers import answer, holes, subscription
from tests.broker.test_stats import stats

if TYPE_CHECKING:
    from ackwell.diagnosis.upgrade import SubscriptionUpgrade


def upgrade(before: str = "4.2.4", after: str = "5.0.1", *settings: str, **changes: str) -> BrokerUpgrade:
    configured = defaults(before) | changes
    source = JudgedBroker.of(
        before, [f"{name}={value}" for name, value in changes.items()], others_are_defaults=True
    )
    return BrokerUpgrade.of(source, after, configured=configured, assignments=settings)


def moved(found: SubscriptionUpgrade) -> list[int | None]:
    return [each.messages_lost.exact for each in found.moves]


def single(ranges: int, entries: int = 100_000) -> SubscriptionStats:
    """A state of single messages, all in one ledger."""
    told = answer(holes(ranges), entries=entries)
    told["stats"] = stats(2 * entries)
    (found,) = parse_stats(json.dumps(told).encode(), "answer.json")
    return found


def test_the_second_move_writes_to_the_metadata_store_under_the_old_limit() -> None:
    """The first close writes the whole ledger in the long-array form, the second one 10,001 ranges."""
    found = upgrade_of(single(15_000), upgrade())
    assert moved(found) == [0, 4_999]
    assert found.lost == Bounds(0, 4_999)
    assert (found.lost_now("graceful"), found.lost_after("graceful")) == (Bounds(0, 0), Bounds(0, 0))
    assert found.verdict is Verdict.LOSING
    assert moved(upgrade_of(single(15_000), upgrade(), moves=1)) == [0]


def test_a_small_state_is_moved_without_a_loss() -> None:
    found = upgrade_of(single(5), upgrade())
    assert (found.lost, found.is_worse, found.changes) == (Bounds(0, 0), False, ())
    # A crash before the last write is as possible afterwards as now.
    assert (found.verdict, found.now.verdict) == (Verdict.FINE, Verdict.UNPROVEN)


def test_a_downgrade_reads_every_range_and_forgets_them_at_the_next_write() -> None:
    few = {"managedLedgerMaxUnackedRangesToPersistInMetadataStore": "1000"}
    found = upgrade_of(single(30_000), upgrade("5.0.1", "4.2.4", **few))
    assert found.lost == Bounds(0, 0)
    assert (found.lost_now("graceful"), found.lost_after("graceful")) == (Bounds(0, 0), Bounds(0, 19_999))
    assert found.is_worse
    assert found.verdict is Verdict.LOSING
    assert "managedLedgerMaxUnackedRangesToPersist" in [each.name for each in found.changes]
    (setting,) = found.settings
    helped = upgrade_of(single(30_000), upgrade("5.0.1", "4.2.4", setting, **few))
    assert (helped.lost_after("graceful"), helped.is_worse) == (Bounds(0, 0), False)


def test_an_upgrade_to_larger_limits_names_them_as_an_improvement() -> None:
    old = {"managedLedgerPersistIndividualAckAsLongArray": "false"}
    found = upgrade_of(single(30_000), upgrade(**old))
    assert moved(found) == [19_999, 19_999]
    assert (found.lost_now("crash"), found.lost_after("crash")) == (Bounds(19_999, 30_000), Bounds(0, 30_000))
    # The setting that was changed stays, and a default changes.
    assert found.changes[0].name == "managedLedgerMaxUnackedRangesToPersist"
    assert found.improvements == set(found.changes)
    assert not found.upgrade.target.settings.persist_individual_ack_as_long_array


def test_a_setting_that_was_changed_stays_and_a_removed_one_has_no_effect() -> None:
    found = upgrade(
        managedLedgerMaxUnackedRangesToPersist="500",
        managedLedgerUnackedRangesOpenCacheSetEnabled="false",
        subscriptionSharedUseClassicPersistentImplementation="true",
    )
    assert found.target.settings.max_unacked_ranges_to_persist == 500
    assert found.target.settings.max_batch_deleted_index_to_persist == 200_000
    assert found.removed == {
        "managedLedgerUnackedRangesOpenCacheSetEnabled": "false",
        "subscriptionSharedUseClassicPersistentImplementation": "true",
    }
    # 4.2.4 wrote ranges, because its open cache set was off; 5.0.1 writes the long-array form.
    assert (found.source.settings.long_array, found.target.settings.long_array) == (False, True)
    over_two = [f"({ledger}:{2 * n}..{ledger}:{2 * n + 1}]" for ledger in (3, 4) for n in range(300)]
    effect = upgrade_of(subscription(f"[{','.join(over_two)}]"), found)
    assert "has_open_cache_set" in [each.name for each in effect.changes]
    given = upgrade("4.2.4", "5.0.1", "managedLedgerMaxUnackedRangesToPersist=7")
    assert given.target.settings.max_unacked_ranges_to_persist == 7


def test_a_setting_of_the_new_broker_is_checked() -> None:
    with pytest.raises(ValueError, match="did you mean"):
        upgrade("4.2.4", "5.0.1", "managedLedgerMaxUnackedRanges=1")
    with pytest.raises(ValueError, match="are not known"):
        upgrade("4.2.4", "3.3")


def batches() -> SubscriptionStats:
    """A state with an ack set: half of entry 4 is acknowledged."""
    told = answer(holes(1), entries=100, batchDeletedIndexes={"3:4": [0b1111100000]})
    told["stats"] = stats(2_000)
    (found,) = parse_stats(json.dumps(told).encode(), "answer.json")
    return found


def test_ack_sets_in_the_metadata_store_survive_if_the_new_broker_reads_them() -> None:
    assert diagnose(batches(), BrokerSettings.of("4.2.4"), restarts=("graceful",)).messages_lost.at_least
    found = upgrade_of(batches(), upgrade())
    first, second = found.moves
    assert first.messages_lost == Bounds(0, 0)
    # The old broker loads the topic in between, and reads no ack sets.
    assert second.messages_lost.at_least
    assert [each.code for each in second.reasons] == ["batch-index-not-read-back"]
    back = upgrade_of(batches(), upgrade("5.0.1", "4.2.4"))
    assert [each.messages_lost.at_least > 0 for each in back.moves] == [True, True]
    # 4.0 keeps no acknowledgments of parts of batches by default, and so reads none.
    away = upgrade_of(batches(), upgrade("5.0.1", "4.0.7"))
    assert [each.messages_lost.at_least > 0 for each in away.moves] == [True, True]


def test_hidden_ack_sets_are_counted_for_every_close() -> None:
    told = answer(holes(1), entries=100)
    told["stats"] = stats(1_000)
    (hidden,) = parse_stats(json.dumps(told).encode(), "answer.json")
    found = upgrade_of(hidden, upgrade())
    assert [each.messages_lost for each in found.moves] == [Bounds(0, 0), Bounds(0, 800)]
    assert [each.verdict for each in found.moves] == [Verdict.FINE, Verdict.UNPROVEN]


def test_ack_sets_that_the_old_broker_loaded_from_the_metadata_store_are_hidden() -> None:
    """No consumer connected since the topic was loaded; 5.0.1 read ack sets, and 4.2.4 does not."""
    told = answer(holes(1), entries=100)
    told["stats"] = stats(1_000)
    told["stats"]["subscriptions"] = {"sub": {"type": "None", "consumers": []}}
    told["internalStats"]["cursors"]["sub"] |= {"state": "NoLedger", "cursorLedger": -1}
    (idle,) = parse_stats(json.dumps(told).encode(), "answer.json")
    assert upgrade_of(idle, upgrade("5.0.1", "4.2.4")).lost.at_most
    # 4.2.4 read no ack sets.
    assert upgrade_of(idle, upgrade()).lost == Bounds(0, 0)


def test_a_broker_that_has_the_release_is_not_restarted() -> None:
    found = upgrade_of(single(30_000), upgrade("5.0.1", "5.0"))
    assert (found.moves, found.lost, found.changes) == ((), Bounds(0, 0), ())
    assert found.verdict is Verdict.FINE


def test_a_record_that_a_second_close_cannot_write_is_unwritable() -> None:
    """The ranges go to the cursor ledger first, and to the metadata store if it was only read."""
    source = JudgedBroker.of(
        "4.2.4", ["managedLedgerMaxUnackedRangesToPersist=200000"], others_are_defaults=True
    )
    large = single(150_000, 400_000)
    assert closing_request_bytes(large, source.settings) is None
    found = upgrade_of(large, BrokerUpgrade.of(source, "5.0.1"))
    assert [each.verdict for each in found.moves] == [Verdict.FINE, Verdict.UNWRITABLE]
    loaded = diagnose(replace(large, cursor_ledger="read-only"), source.settings, restarts=("graceful",))
    assert loaded.verdict is Verdict.UNWRITABLE
    assert any("acknowledge one entry first" in remedy.text for remedy in loaded.remedies)


def test_without_acknowledgments_nothing_is_known() -> None:
    found = upgrade_of(replace(single(5), shows_cursor=False), upgrade())
    assert (found.lost, found.verdict) == (Bounds(0, None), Verdict.UNPROVEN)
    assert found.to_json()["markDeletePosition"] is None


def test_the_worst_subscription_is_first_and_each_broker_is_listed_once() -> None:
    def named(name: str, owner: str, state: SubscriptionStats) -> SubscriptionStats:
        return replace(state, topic=name, owner=owner)

    found: list[SubscriptionStats | UnreadableSource] = [
        named("a", "one", single(5)),
        named("b", "two", single(15_000)),
        named("c", "two", single(30_000)),
        UnreadableSource("file", None, "cannot be read"),
    ]
    check = UpgradeCheck.of(found, lambda owner: upgrade())
    assert [each.stats.topic for each in check.subscriptions] == ["c", "b", "a"]
    assert (check.verdict, len(check.upgrades), len(check.unread)) == (Verdict.LOSING, 1, 1)
    assert [each.stats.topic for each in check.losing] == ["c", "b"]
    values = check.to_json()
    json.dumps([values, *(each.to_json() for each in check.subscriptions)])
    counts = {each["name"]: each["subscriptions"] for each in values["changes"]}
    assert counts["managedLedgerMaxUnackedRangesToPersist"] == 2
    assert counts["managedCursorInfoCompressionType"] == 0
    nothing = UpgradeCheck.of([], lambda owner: upgrade())
    assert (nothing.verdict, len(nothing.upgrades)) == (Verdict.FINE, 1)


def test_the_settings_of_several_subscriptions_are_one_list() -> None:
    few = {"managedLedgerMaxUnackedRangesToPersistInMetadataStore": "1000"}
    states = [replace(single(count, 200_000), topic=str(count)) for count in (30_000, 90_000)]
    check = UpgradeCheck.of(states, lambda owner: upgrade("5.0.1", "4.2.4", **few))
    assert check.settings == ("managedLedgerMaxUnackedRangesToPersist=200000",)


@pytest.mark.parametrize(("before", "after"), [*permutations(RELEASES, 2)])
def test_every_rule_that_differs_has_a_sentence(before: str, after: str) -> None:
    found = upgrade(before, after)
    assert all(change.text or is_setting(change.name) for change in found.changes)
    in_settings = {each.name for each in fields(BrokerSettings)} | {"cursor"}
    old, new = (SubscriptionSettings.pulsar(version) for version in (before, after))
    for one, other in ((old, new), (old.cursor, new.cursor)):
        for each in fields(one):
            if getattr(one, each.name) != getattr(other, each.name) and each.name not in in_settings:
                assert CONSUMER_RULES[each.name][getattr(other, each.name)] in found.consumer_rules


def test_every_rule_of_the_broker_is_described() -> None:
    rules = {each.name for each in fields(BrokerSettings) if "name" not in each.metadata}
    differ: set[Any] = {
        name
        for name in rules
        if len({str(getattr(BrokerSettings.of(release), name)) for release in RELEASES}) > 1
    }
    assert differ - {"cursor_info_compression", "ledger_info_compression"} == RULES.keys()


def test_a_plain_state_of_the_sample_is_read() -> None:
    assert upgrade_of(subscription(holes(5)), upgrade()).stats.range_count == 5
