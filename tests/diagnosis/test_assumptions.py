"""Predictions without the settings of the broker: intervals that contain every value of them."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import pytest

from ackwell.broker.batch_sizes import Bounds
from ackwell.broker.broker_settings import BrokerSettings
from ackwell.broker.writes import RESTARTS, Restart
from ackwell.diagnosis.assumptions import DECISIVE, VERSION
from ackwell.diagnosis.doctor import Verdict, diagnose
from tests.broker.answers import answer, holes, subscription
from tests.cluster.fake_admin import broker, served
from tests.commands import command
from tests.diagnosis.test_doctor_lives import recorded

ALL = DECISIVE | {VERSION}
GRACEFUL: tuple[Restart, ...] = ("graceful",)


def test_a_verdict_on_assumed_settings_is_not_exact_and_names_the_limit_at_which_it_changes() -> None:
    stats = subscription(holes(500))
    known = diagnose(stats, restarts=GRACEFUL)
    assert (known.verdict, known.messages_lost) == (Verdict.FINE, Bounds(0, 0))
    found = diagnose(stats, restarts=GRACEFUL, assumed=DECISIVE)
    assert (found.verdict, found.messages_lost) == (Verdict.UNPROVEN, Bounds(0, 499))
    (reason,) = found.reasons
    assert reason.code == "settings-assumed"
    least = "no range is lost if managedLedgerMaxUnackedRangesToPersist ≥ 499; the default is 10,000"
    assert least in reason.text
    for limit, lost in ((499, 0), (498, 1)):
        settings = BrokerSettings().with_values([f"managedLedgerMaxUnackedRangesToPersist={limit}"])
        assert diagnose(stats, settings, restarts=GRACEFUL).messages_lost == Bounds(lost, lost)
    assert found.to_json()["restarts"]["graceful"]["ackedEntriesLost"] is None


def test_nothing_is_assumed_of_a_subscription_that_no_setting_can_harm() -> None:
    found = diagnose(subscription("[]"), restarts=GRACEFUL, assumed=ALL)
    assert (found.verdict, found.messages_lost, found.reasons) == (Verdict.FINE, Bounds(0, 0), ())


def test_a_loss_by_an_assumed_limit_is_a_risk() -> None:
    found = diagnose(subscription(holes(12_000)), BrokerSettings.of("4.0"), assumed=DECISIVE)
    assert found.verdict is Verdict.AT_RISK
    assert found.messages_lost.at_least == 0
    assert {"range-limit", "settings-assumed"} <= {reason.code for reason in found.reasons}


@pytest.mark.parametrize("batches", [False, True])
def test_the_interval_contains_the_prediction_for_every_value(batches: bool) -> None:
    memory = {"batchDeletedIndexes": {f"4:{n}": [5] for n in range(30)}} if batches else {}
    stats = subscription(holes(40), **memory)
    found = {each.restart: each.messages_before_flush for each in diagnose(stats, assumed=ALL).restarts}
    values = {
        "managedLedgerMaxUnackedRangesToPersist": (0, 20, 39, 10_000),
        "managedLedgerMaxUnackedRangesToPersistInMetadataStore": (0, 1_000),
        "managedLedgerMaxBatchDeletedIndexToPersist": (0, 7, 10_000),
        "managedLedgerPersistIndividualAckAsLongArray": ("false", "true"),
        "acknowledgmentAtBatchIndexLevelEnabled": ("false", "true"),
    }
    for version in ("4.0", "4.2", "5.0"):
        for chosen in product(*values.values()):
            changes = [f"{name}={value}" for name, value in zip(values, chosen, strict=True)]
            for loss in diagnose(stats, BrokerSettings.of(version).with_values(changes)).restarts:
                bounds, inner = found[loss.restart], loss.messages_before_flush
                assert bounds.at_least <= inner.at_least, (version, changes)
                assert bounds.at_most is None or inner.at_most is not None
                assert bounds.at_most is None or (inner.at_most or 0) <= bounds.at_most, (version, changes)


def test_a_stated_limit_of_zookeeper_leaves_the_one_of_the_metadata_store_without_effect() -> None:
    stats = subscription(holes(600), batchDeletedIndexes={"4:0": [5]})
    assumed = {"managedLedgerMaxUnackedRangesToPersistInMetadataStore"}
    stated = BrokerSettings().with_values(["managedLedgerMaxUnackedRangesToPersistInZooKeeper=500"])
    found = diagnose(stats, stated, restarts=GRACEFUL, assumed=assumed)
    assert (found.messages_lost, found.reasons) == (Bounds(0, 0), ())
    (*_, reason) = diagnose(stats, restarts=GRACEFUL, assumed=assumed).reasons
    assert reason.code == "settings-assumed"


def test_no_recorded_restart_is_outside_the_interval_without_its_settings() -> None:
    exact = 0
    for case in recorded():
        count = case.diagnosis(assumed=ALL).messages_lost
        assert count.at_least <= case.lost
        assert count.at_most is None or case.lost <= count.at_most
        exact += count.exact is not None
    assert exact


def test_a_committed_transaction_makes_no_loss_certain() -> None:
    """On 4.2.4 ten plain and ten committed acknowledgments at a limit of 5: 5 came back, not 15."""
    settings = BrokerSettings().with_values(
        ["managedLedgerMaxUnackedRangesToPersist=5", "transactionCoordinatorEnabled=true"]
    )
    found = diagnose(subscription(holes(20)), settings, restarts=GRACEFUL)
    assert (found.verdict, found.messages_lost) == (Verdict.AT_RISK, Bounds(0, 14))


def test_a_token_that_may_not_read_the_configuration_decides_nothing() -> None:
    told = served()
    told["/admin/v2/persistent/shop/eu/orders/internalStats"] = answer(holes(500))["internalStats"]
    told["/admin/v2/brokers/configuration/runtime"] = 401
    with broker(told) as (url, _):
        arguments = ("doctor", "--admin", url, "--restart", "graceful")
        _, text = command(*arguments)
        _, stated = command(*arguments, "--broker-setting", "defaults")
    assert "because (settings-assumed)" in text
    assert "managedLedgerMaxUnackedRangesToPersist ≥ 499" in text
    assert "redelivered: 0 to 499" in text
    assert "redelivered: 0\n" in stated


def test_files_have_no_settings_until_they_are_stated(tmp_path: Path) -> None:
    source = tmp_path / "answer.json"
    source.write_text(json.dumps(answer(holes(500))))

    def lost(*options: str) -> tuple[object, list[str]]:
        printed = json.loads(command("doctor", "--format", "json", *options, source)[1])
        (found,) = printed["subscriptions"]
        return found["restarts"]["graceful"]["ackedMessagesLost"]["max"], printed["broker"]["assumedSettings"]

    assert lost() == (500, sorted(ALL))
    assert lost("--broker-version", "4.2") == (499, sorted(DECISIVE))
    limit = "managedLedgerMaxUnackedRangesToPersist"
    assert lost("--broker-version", "4.2", "--broker-setting", f"{limit}=499") == (
        0,
        sorted(DECISIVE - {limit}),
    )
    assert lost("--broker-setting", "defaults") == (0, [])


def test_every_decisive_setting_is_one_of_the_broker() -> None:
    names = [f"{name}={value}" for name, value in BrokerSettings().named().items() if name in DECISIVE]
    assert len(names) == len(DECISIVE)
    assert BrokerSettings().with_values(names) == BrokerSettings()
    assert set(RESTARTS) == {"graceful", "crash"}
