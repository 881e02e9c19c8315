"""The settings of a broker: defaults by version, and errors for invalid values."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from ackwell.broker.broker_settings import BrokerSettings

DEFAULTS = {
    "managedLedgerMaxUnackedRangesToPersist": 10_000,
    "managedLedgerMaxUnackedRangesToPersistInMetadataStore": 1_000,
    "managedLedgerMaxUnackedRangesToPersistInZooKeeper": -1,
    "managedLedgerMaxBatchDeletedIndexToPersist": 10_000,
    "managedLedgerPersistIndividualAckAsLongArray": True,
    "managedLedgerUnackedRangesOpenCacheSetEnabled": True,
    "acknowledgmentAtBatchIndexLevelEnabled": True,
    "managedLedgerCursorPositionFlushSeconds": 60,
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
OLDER = {
    "managedLedgerPersistIndividualAckAsLongArray": False,
    "acknowledgmentAtBatchIndexLevelEnabled": False,
}


def test_the_defaults_are_those_of_the_version() -> None:
    assert BrokerSettings().named() == DEFAULTS
    assert BrokerSettings.of("4.0").named() == DEFAULTS | OLDER
    for version in ("4.2", "4.2.4", "5.0", "5.0.0-M1"):
        assert BrokerSettings.of(version).named() == DEFAULTS
    beyond = {version: BrokerSettings.of(version).ranges_beyond_limit for version in ("4.0", "4.2", "5.0")}
    assert beyond == {"4.0": 1, "4.2": 1, "5.0": 0}
    drops = {
        version: BrokerSettings.of(version).releases_passed_messages for version in ("4.0", "4.2", "5.0")
    }
    assert drops == {"4.0": False, "4.2": True, "5.0": True}
    assert BrokerSettings.NEWEST_VERSION == "4.2"


def test_the_nearest_version_is_the_newest_that_is_not_newer() -> None:
    versions = {"2.11.0": "4.0", "4.0.7": "4.0", "4.1.2": "4.0", "4.2.0": "4.2", "4.9": "4.2", "6.1": "5.0"}
    for version, taken in versions.items():
        assert BrokerSettings.nearest(version) == BrokerSettings.of(taken), version
    with pytest.raises(ValueError, match=r"version '4\.1' are not known; known are 4.0, 4.2"):
        BrokerSettings.of("4.1")


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


def test_a_setting_that_does_not_matter_here_is_passed_over_and_one_that_is_none_is_not() -> None:
    assert BrokerSettings().with_values(["brokerDeduplicationEnabled=true"]) == BrokerSettings()
    with pytest.raises(ValueError, match="no broker setting is called 'nothingLikeIt'"):
        BrokerSettings().with_values(["nothingLikeIt=1"])
