"""The settings of a broker: defaults by version, and errors for invalid values."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from ackwell.broker.broker_settings import BrokerSettings, defaults, dynamic_settings, is_setting
from ackwell.releases import RELEASES
from ackwell.subscription import SubscriptionSettings

DEFAULTS: dict[str, int | bool] = {
    "managedLedgerMaxUnackedRangesToPersist": 10_000,
    "managedLedgerMaxUnackedRangesToPersistInMetadataStore": 1_000,
    "managedLedgerMaxUnackedRangesToPersistInZooKeeper": -1,
    "managedLedgerMaxBatchDeletedIndexToPersist": 10_000,
    "managedLedgerPersistIndividualAckAsLongArray": True,
    "managedLedgerUnackedRangesOpenCacheSetEnabled": True,
    "acknowledgmentAtBatchIndexLevelEnabled": True,
    "managedLedgerCursorPositionFlushSeconds": 60,
    "bookkeeperClientTimeoutInSeconds": 30,
    "maxMessageSize": 5_242_880,
    "nettyMaxFrameSizeBytes": 5_253_120,
    "maxUnackedMessagesPerConsumer": 50_000,
    "maxUnackedMessagesPerSubscription": 200_000,
    "keySharedLookAheadMsgInReplayThresholdPerConsumer": 2_000,
    "keySharedLookAheadMsgInReplayThresholdPerSubscription": 20_000,
    "delayedDeliveryFixedDelayDetectionLookahead": 50_000,
    "dispatcherPauseOnAckStatePersistentEnabled": False,
    "transactionCoordinatorEnabled": False,
}
"""As `conf/broker.conf` of Pulsar 4.2.4 has them."""
CHANGED: dict[str, dict[str, int | bool]] = {
    "4.0": {
        "managedLedgerPersistIndividualAckAsLongArray": False,
        "acknowledgmentAtBatchIndexLevelEnabled": False,
    },
    "4.2": {},
    "5.0.0-M1": {
        "managedLedgerMaxUnackedRangesToPersist": 200_000,
        "managedLedgerMaxUnackedRangesToPersistInMetadataStore": 200_000,
        "managedLedgerMaxBatchDeletedIndexToPersist": 200_000,
        "keySharedLookAheadMsgInReplayThresholdPerConsumer": 4_000,
        "keySharedLookAheadMsgInReplayThresholdPerSubscription": 40_000,
    },
}
CHANGED["5.0"] = CHANGED["5.0.0-M1"]
SAME = {
    "4.0": ["4.0.7", "4.0.13"],
    "4.2": ["4.2.0", "4.2.4"],
    "5.0.0-M1": ["5.0.0-M2"],
    "5.0": ["5.0.0", "5.0.1"],
}
READ_BY_PRESETS = {
    "dispatcherMaxReadBatchSize",
    "dispatcherMaxRoundRobinBatchSize",
    "maxUnackedMessagesPerConsumer",
    "maxUnackedMessagesPerSubscription",
    "keySharedLookAheadMsgInReplayThresholdPerConsumer",
    "keySharedLookAheadMsgInReplayThresholdPerSubscription",
}
RULES = [
    "ranges_beyond_limit",
    "releases_passed_messages",
    "has_open_cache_set",
    "counts_the_ledger_itself",
    "reads_batch_indexes_back",
    "writes_batch_indexes_alone",
    "pauses_on_batch_indexes",
]


@pytest.mark.parametrize("version", CHANGED)
def test_the_defaults_are_those_of_the_release(version: str) -> None:
    settings = BrokerSettings.of(version)
    assert settings.named() == DEFAULTS | CHANGED[version]
    for same in SAME[version]:
        assert BrokerSettings.of(same) == settings, same
    assert BrokerSettings.DEFAULT_VERSION == "4.2"
    assert BrokerSettings() == BrokerSettings.of("4.2")


def test_each_rule_holds_from_its_release_on() -> None:
    held = {
        version: [getattr(BrokerSettings.of(version), rule) for rule in RULES]
        for version in ("4.0.7", "4.0.14", "4.2.4", "4.2.5", "5.0.0-M1", "5.0.0", "5.0")
    }
    released_5_0 = [0, True, False, True, True, True, True]
    assert held == {
        "4.0.7": [1, False, True, False, False, False, False],
        "4.0.14": [1, False, True, False, True, False, False],
        "4.2.4": [1, True, True, False, False, False, False],
        "4.2.5": [1, True, True, False, True, False, False],
        "5.0.0-M1": [0, True, True, False, False, False, False],
        "5.0.0": released_5_0,
        "5.0": released_5_0,
    }


def test_the_nearest_version_is_the_newest_that_is_not_newer() -> None:
    versions = {"2.11.0": "4.0", "4.0.7": "4.0", "4.1.2": "4.0", "4.2.0": "4.2", "4.9": "4.2", "6.1": "5.0"}
    for version, taken in versions.items():
        nearest, expected = BrokerSettings.nearest(version), BrokerSettings.of(taken)
        assert nearest.named() == expected.named(), version
    assert BrokerSettings.nearest("6.1") == BrokerSettings.of("5.0")
    with pytest.raises(ValueError, match=r"version '4\.1' are not known; known are 4.0, 4.2"):
        BrokerSettings.of("4.1")


def test_presets_of_the_subscription_have_the_defaults_of_the_release() -> None:
    for release in RELEASES:
        table, settings = defaults(release), SubscriptionSettings.pulsar(release)
        assert {
            "dispatcherMaxReadBatchSize": settings.read_batch_size,
            "dispatcherMaxRoundRobinBatchSize": settings.round_robin_batch_size,
            "maxUnackedMessagesPerConsumer": settings.max_unacked_per_consumer,
            "maxUnackedMessagesPerSubscription": settings.max_unacked_per_subscription,
            "keySharedLookAheadMsgInReplayThresholdPerConsumer": settings.look_ahead_per_consumer,
            "keySharedLookAheadMsgInReplayThresholdPerSubscription": settings.look_ahead_per_subscription,
        } == {name: int(table[name]) for name in table if name in READ_BY_PRESETS}, release


@pytest.mark.parametrize("name", DEFAULTS)
def test_each_setting_is_taken_by_the_brokers_own_name(name: str) -> None:
    default = DEFAULTS[name]
    value = not default if isinstance(default, bool) else default + 7
    changed = BrokerSettings().with_values([f" {name} = {str(value).lower()} "])
    assert changed.named() == DEFAULTS | {name: value}
    assert sum(asdict(changed)[each] != old for each, old in asdict(BrokerSettings()).items()) == 1
    assert BrokerSettings().with_known({name: str(value).lower(), "brokerName": "b"}) == changed
    for wrong in ("", "x", "1.5"):
        with pytest.raises(ValueError, match=name):
            BrokerSettings().with_values([f"{name}={wrong}"])


@pytest.mark.parametrize("given", ["", "=", "=5", "managedLedgerMaxUnackedRangesToPersist"])
def test_what_is_not_a_setting_is_refused_with_an_example(given: str) -> None:
    with pytest.raises(ValueError, match=r"not a broker setting: .*; expected name=value") as caught:
        BrokerSettings().with_values([given])
    assert repr(given) in str(caught.value)


@pytest.mark.parametrize("given", [None, 5, b"maxMessageSize=1", ["maxMessageSize=1"]])
def test_a_setting_that_is_not_a_text_is_refused(given: object) -> None:
    with pytest.raises(TypeError, match=f"broker_conf contains a value of type {type(given).__name__}; "):
        BrokerSettings().with_values([given])  # type: ignore[list-item]


def test_the_rate_of_writes_is_a_number() -> None:
    name = "managedLedgerDefaultMarkDeleteRateLimit"
    assert BrokerSettings.of("5.0.1").cursor_writes_per_second == 1
    assert BrokerSettings().with_values([f"{name}=0.25"]).cursor_writes_per_second == 0.25
    for wrong in ("", "x", "nan", "inf"):
        with pytest.raises(ValueError, match=f"{name} is a number, not {wrong!r}"):
            BrokerSettings().with_values([f"{name}={wrong}"])


def test_a_setting_that_does_not_matter_here_is_passed_over_and_one_that_is_none_is_not() -> None:
    assert BrokerSettings().with_values(["brokerDeduplicationEnabled=true"]) == BrokerSettings()
    with pytest.raises(ValueError, match="no broker setting is called 'nothingLikeIt'"):
        BrokerSettings().with_values(["nothingLikeIt=1"])


def test_every_setting_of_every_release_is_known() -> None:
    counts = {release: len(defaults(release)) for release in RELEASES}
    assert counts == {"4.0.7": 536, "4.2.4": 568, "5.0.0-M1": 594, "5.0.1": 612}
    assert all(is_setting(name) for release in RELEASES for name in defaults(release))
    removed = set(defaults("4.2.4")) - set(defaults("5.0.1"))
    assert "managedLedgerUnackedRangesOpenCacheSetEnabled" in removed
    assert "subscriptionSharedUseClassicPersistentImplementation" in removed
    # docs/pulsar.md: no release has the setting of the draft PIP-493.
    assert not is_setting("keySharedNegativeAckOrderingEnabled")


def test_every_dynamic_setting_of_a_release_is_a_setting_of_it() -> None:
    counts = {release: len(dynamic_settings(release)) for release in RELEASES}
    assert counts == {"4.0.7": 154, "4.2.4": 159, "5.0.0-M1": 175, "5.0.1": 190}
    assert all(set(dynamic_settings(release)) <= set(defaults(release)) for release in RELEASES)
    assert "managedLedgerMaxUnackedRangesToPersist" not in dynamic_settings("5.0.1")


def test_a_removed_setting_has_no_effect() -> None:
    off = ["managedLedgerUnackedRangesOpenCacheSetEnabled=false"]
    forms = {version: BrokerSettings.of(version).with_values(off).long_array for version in RELEASES}
    assert forms == {"4.0.7": False, "4.2.4": False, "5.0.0-M1": False, "5.0.1": True}
