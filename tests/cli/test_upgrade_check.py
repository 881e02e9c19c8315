"""`ackwell upgrade-check`: from dumps and from a live broker, and the commands of a rescue."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.broker.answers import answer, holes
from tests.cluster.fake_admin import broker, served
from tests.commands import ackwell

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def dump(tmp_path: Path) -> str:
    """A file of 12,000 holes in one ledger."""
    path = tmp_path / "orders.json"
    path.write_text(json.dumps(answer(holes(12_000))))
    return str(path)


STATED = ("--broker-setting", "defaults")


def checked(*arguments: str) -> tuple[int, dict[str, Any]]:
    done = ackwell("upgrade-check", "--format", "json", *arguments)
    return done.code, json.loads(done.out)


def test_the_json_has_every_move_and_the_restarts_before_and_after(dump: str) -> None:
    code, found = checked("--to", "5.0.1", "--from", "4.2.4", *STATED, dump)
    assert (code, found["verdict"]) == (4, "losing")
    (only,) = found["subscriptions"]
    moves = [each["ackedMessagesLost"]["graceful"] for each in only["moves"]]
    assert moves == [{"min": 0, "max": 0, "exact": True}, {"min": 1_999, "max": 1_999, "exact": True}]
    assert only["ackedMessagesRedelivered"] == {"min": 0, "max": 1_999, "exact": False}
    assert [each["before"]["version"] for each in found["brokers"]] == ["4.2.4"]
    assert [each["after"]["version"] for each in found["brokers"]] == ["5.0.1"]
    assert only["restartAfter"]["ackedMessagesLost"]["graceful"]["max"] == 0
    code, found = checked("--to", "5.0.1", "--from", "4.2.4", *STATED, "--moves", "1", dump)
    assert (code, found["subscriptions"][0]["ackedMessagesRedelivered"]["max"]) == (0, 0)


def test_the_table_names_the_loss_its_cause_and_the_commands(dump: str) -> None:
    done = ackwell("upgrade-check", "--to", "5.0.1", "--from", "4.2", *STATED, dump)
    assert done.code == 4
    for text in (
        "before: broker 4.2, settings from the defaults of 4.2; after: broker 5.0.1",
        "0 to 1,999",
        "moved again without an acknowledgment: losing, acknowledged messages redelivered: 1,999",
        "improves later restarts: managedLedgerMaxUnackedRangesToPersist: 10000 becomes 200000",
        "a cumulative acknowledgment inside a batch adds to the earlier ack set",
        "ackwell rescue begin --admin URL --owner HOST:PORT --output HOST --yes",
        "ackwell rescue end HOST --admin URL --yes",
    ):
        assert text in done.out
    # 5.0.1 keeps the state in the metadata store, and would keep it in the cursor ledger, too.
    assert "managedLedgerMaxUnackedRangesToPersistInMetadataStore" not in done.out


@pytest.mark.parametrize("equals", ["=", " = "])
def test_a_stated_setting_stays_after_the_upgrade(dump: str, equals: str) -> None:
    setting = f"managedLedgerMaxUnackedRangesToPersist{equals}20"
    _, found = checked("--to", "5.0.1", "--from", "4.2.4", *STATED, "--broker-setting", setting, dump)
    (made,) = found["brokers"]
    for settings in (made["before"]["settings"], made["after"]["settings"]):
        assert settings["managedLedgerMaxUnackedRangesToPersist"] == 20


def test_a_downgrade_names_the_setting_that_keeps_everything(dump: str) -> None:
    few = "managedLedgerMaxUnackedRangesToPersistInMetadataStore=1000"
    options = ("--to", "4.2.4", "--from", "5.0.1", *STATED, "--broker-setting", few, "--moves", "1")
    done = ackwell("upgrade-check", *options, dump)
    assert done.code == 4
    assert "restarts of 4.2.4 are worse than restarts of the present release:" in done.out
    assert "cause: managedLedgerMaxUnackedRangesToPersist: 200000 becomes 10000" in done.out
    setting = "managedLedgerMaxUnackedRangesToPersist=50000"
    assert f"in the broker.conf of the new release, before its first start:\n    {setting}" in done.out
    assert ackwell("upgrade-check", *options, "--to-setting", setting, dump).code == 0


def test_without_settings_the_prediction_holds_for_every_value_of_them(dump: str) -> None:
    _, found = checked("--to", "5.0.1", dump)
    (only,) = found["subscriptions"]
    moves = [each["ackedMessagesLost"]["graceful"] for each in only["moves"]]
    # A broker that keeps no range loses all of them, and one with a large limit loses nothing.
    assert moves == [{"min": 0, "max": 12_000, "exact": False}] * 2
    assert only["restartAfter"]["ackedMessagesLost"]["graceful"]["max"] == 12_000
    _, found = checked("--to", "5.0.1", "--to-setting", "defaults", dump)
    assert found["subscriptions"][0]["restartAfter"]["ackedMessagesLost"]["graceful"]["max"] == 0


def test_the_settings_of_a_live_broker_stay_if_they_differ_from_their_defaults() -> None:
    answers = served()
    runtime = answers["/admin/v2/brokers/configuration/runtime"]
    runtime |= {
        "managedLedgerMaxUnackedRangesToPersist": "700",
        "subscriptionSharedUseClassicPersistentImplementation": "true",
        "dispatcherMaxReadBatchSize": "100",
    }
    with broker(answers) as (url, asked):
        code, found = checked("--to", "5.0.1", "--admin", url)
        shown = ackwell("upgrade-check", "--to", "5.0.1", "--admin", url).out
    assert code == 4
    (each,) = found["brokers"]
    assert each["before"]["settings"]["managedLedgerMaxUnackedRangesToPersist"] == 700
    assert each["after"]["settings"]["managedLedgerMaxUnackedRangesToPersist"] == 700
    assert each["after"]["settings"]["managedLedgerMaxBatchDeletedIndexToPersist"] == 200_000
    assert found["removedSettings"] == {"subscriptionSharedUseClassicPersistentImplementation": "true"}
    assert {method for method, _, _ in asked} == {"GET"}
    assert "remove from broker.conf: subscriptionSharedUseClassicPersistentImplementation" in shown
    assert f"ackwell rescue begin --admin {url}" in shown
    assert found["subscriptions"][0]["topic"] == "persistent://shop/eu/orders"


def test_a_cluster_that_has_the_release_needs_no_restart(dump: str) -> None:
    done = ackwell("upgrade-check", "--to", "5.0.1", "--from", "5.0.1", *STATED, dump)
    assert done.code == 0
    assert "for each broker" not in done.out
    assert "for each broker" in ackwell("upgrade-check", "--to", "5.0.1", "--from", "4.2.4", dump).out


def test_a_file_that_cannot_be_read_is_an_exit_code(tmp_path: Path) -> None:
    (tmp_path / "good.json").write_text(json.dumps(answer(holes(5))))
    (tmp_path / "bad.json").write_text("no")
    done = ackwell("upgrade-check", "--to", "5.0.1", str(tmp_path))
    assert done.code == 5
    assert "not read: " in done.err
    assert ackwell("upgrade-check", "--to", "5.0.1", str(tmp_path / "bad.json")).code == 5


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--to", "3.3"], "not known"),
        (["--to", "5.0.1", "--from", "x"], "not known"),
        (["--to", "5.0.1", "--to-setting", "managedLedgerMaxRanges=1"], "did you mean"),
        (["--to", "5.0.1", "--count-backlogs"], "ask a live broker"),
        ([], "Missing option"),
    ],
)
def test_a_wrong_command_line_is_refused(dump: str, arguments: list[str], text: str) -> None:
    done = ackwell("upgrade-check", *arguments, dump)
    assert done.code == 2
    assert text in " ".join(done.err.replace("│", " ").split())


def test_without_a_source_it_asks_for_one() -> None:
    assert ackwell("upgrade-check", "--to", "5.0.1").code == 2
