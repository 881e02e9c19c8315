"""The doctor's verdicts from one overview of each broker, and a closer look at few topics."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from typing import Any
from unittest.mock import Mock

import pytest

from ackwell.broker.overview import TopicOverview, overviews_of
from ackwell.broker.stats import SubscriptionStats, UnreadableSource
from ackwell.cluster.admin import Admin
from ackwell.cluster.endpoint import Endpoint
from ackwell.diagnosis.checkup import Checkup, JudgedBroker
from ackwell.errors import StatsError
from ackwell.rescue.windows import endangered
from tests.cluster.overviews import NAMESPACE, Broker, cluster, overview_of, random_answers, topic_name
from tests.commands import ackwell

COUNT = 48


@pytest.fixture(scope="module")
def answers() -> dict[str, dict[str, Any]]:
    return random_answers(COUNT)


@pytest.fixture
def brokers(answers: dict[str, dict[str, Any]]) -> Iterator[list[Broker]]:
    with cluster(answers) as made:
        yield made


def admin(brokers: list[Broker]) -> Admin:
    return Admin(Endpoint(url=brokers[0].url))


def judged(found: Iterator[SubscriptionStats | UnreadableSource]) -> dict[str, tuple[str, ...]]:
    """Return the verdicts of each topic on both restarts and on its delivery."""
    limit = ["managedLedgerMaxUnackedRangesToPersist=4"]
    checkup = Checkup.of(found, JudgedBroker.of("4.2", limit, others_are_defaults=True))
    assert not checkup.unread
    return {
        each.stats.topic: (
            str(each.verdict_of("graceful")),
            str(each.verdict_of("crash")),
            str(each.delivery.verdict),
        )
        for each in checkup.diagnoses
    }


def test_a_survey_has_the_verdicts_of_the_slow_way_with_fewer_requests(brokers: list[Broker]) -> None:
    slow = judged(admin(brokers).read())
    assert sum(len(each.requested_topics()) for each in brokers) > COUNT
    with_overview = {each.topic for each in admin(brokers).survey() if _is_brief(each)}
    assert COUNT / 4 < len(with_overview) < COUNT / 2
    fast = judged(admin(brokers).survey())
    assert fast.keys() == slow.keys()
    unproven = 0
    for topic, (graceful, crash, delivery) in slow.items():
        assert fast[topic][0] == graceful, topic
        assert fast[topic][2] == delivery, topic
        if fast[topic][1] != crash:
            # The overview cannot prove that the last acknowledgments are written.
            assert (topic in with_overview, crash, fast[topic][1]) == (True, "fine", "unproven")
            unproven += 1
    assert unproven < len(with_overview)
    assert {"losing", "fine"} <= {each[0] for each in slow.values()}


def _is_brief(each: SubscriptionStats | UnreadableSource) -> bool:
    return isinstance(each, SubscriptionStats) and each.overview is not None


def test_owners_are_asked_directly(brokers: list[Broker]) -> None:
    list(admin(brokers).survey())
    for each in brokers:
        assert set(each.requested_topics()) <= set(each.topics)
    assert all(each.requested_topics() for each in brokers)


@pytest.mark.parametrize("answer", [401, 403, 404, 501, b"<html>", {"shop/eu": 3}, ["x"], 7])
def test_without_an_overview_every_topic_is_requested(brokers: list[Broker], answer: Any) -> None:
    for each in brokers:
        each.table["/admin/v2/broker-stats/topics"] = answer
    found = list(admin(brokers).survey())
    assert len(found) == COUNT
    assert not any(map(_is_brief, found))


def test_the_topics_of_one_broker_without_an_overview_are_requested(brokers: list[Broker]) -> None:
    del brokers[1].table["/admin/v2/broker-stats/topics"]
    found = list(admin(brokers).survey())
    assert len(found) == COUNT
    assert {each.owner for each in found if _is_brief(each)} == {brokers[0].host}  # type: ignore[union-attr]


def test_a_named_topic_is_requested(brokers: list[Broker]) -> None:
    names = [topic_name(number) for number in range(COUNT)]
    (drained, *_) = [each.topic for each in admin(brokers).survey([NAMESPACE]) if _is_brief(each)]
    assert drained in names
    (found,) = admin(brokers).survey([str(drained)])
    assert not _is_brief(found)
    both = list(admin(brokers).survey([NAMESPACE, str(drained).removeprefix("persistent://")]))
    assert not any(_is_brief(each) for each in both if each.topic == drained)


def test_a_topic_that_moved_since_the_overview_is_found_at_its_new_owner(
    answers: dict[str, dict[str, Any]],
) -> None:
    with cluster(answers) as brokers:
        # The overview of broker 1 has topics that broker 0 owns.
        brokers[1].table["/admin/v2/broker-stats/topics"] = overview_of(answers)
        brokers[0].table["/admin/v2/broker-stats/topics"] = {}
        found = list(admin(brokers).survey())
        assert len(found) == COUNT
        assert not any(isinstance(each, UnreadableSource) for each in found)
        owners = {each.topic: each.owner for each in found if not _is_brief(each)}  # type: ignore[union-attr]
        assert all(owners[topic] == each.host for each in brokers for topic in each.topics if topic in owners)


def test_a_window_protects_what_an_old_overview_does_not_show(brokers: list[Broker]) -> None:
    wanted = {each.stats.topic for each in endangered(admin(brokers), [], ("graceful",)).restorable}
    assert wanted
    for each in brokers:
        (bundles,) = each.table["/admin/v2/broker-stats/topics"].values()
        for shown in bundles["0x00000000_0xffffffff"]["persistent"].values():
            for subscription in shown["subscriptions"].values():
                subscription |= {"msgBacklog": 0, "totalNonContiguousDeletedMessagesRange": 0}
    assert {each.stats.topic for each in endangered(admin(brokers), [], ("graceful",)).restorable} == wanted


def test_a_window_counts_the_losses_that_no_rescue_restores(brokers: list[Broker]) -> None:
    found = endangered(admin(brokers), [], ("graceful", "crash"))
    assert found.without_ranges
    assert all(each.messages_lost.at_most != 0 for each in found.without_ranges)
    assert not any(each.stats.individually_deleted for each in found.without_ranges)
    assert all(each.stats.individually_deleted for each in found.restorable)
    printed = ackwell("rescue", "begin", "--admin", brokers[0].url, "--restart", "both").out
    assert f"not held: {len(found.without_ranges)} without acknowledged ranges" in " ".join(printed.split())


SUBSCRIPTION: dict[str, Any] = {
    "consumers": [{"avgMessagesPerEntry": 1, "blockedConsumerOnUnackedMsgs": False}],
    "msgBacklog": 5,
    "msgRateOut": 3.5,
    "messageAckRate": 3.4,
    "totalNonContiguousDeletedMessagesRange": 0,
    "type": "Shared",
    "blockedSubscriptionOnUnackedMsgs": False,
}


def needs_closer_look(**changes: Any) -> bool:
    shown = {name: value for name, value in {**SUBSCRIPTION, **changes}.items() if value != "missing"}
    return TopicOverview("t", "", "s", 0, False, {"healthy": SUBSCRIPTION, "s": shown}).needs_closer_look


def test_a_backlog_that_moves_needs_no_closer_look() -> None:
    assert not needs_closer_look()
    (one, other) = TopicOverview("t", "", "s", 0, False, {"a": SUBSCRIPTION, "b": SUBSCRIPTION}).stats()
    assert (one.backlog_entries, one.range_count, other.subscription) == (5, 0, "b")
    assert not needs_closer_look(msgBacklog=0, consumers=[], msgRateOut=0.0, messageAckRate=0.0)


@pytest.mark.parametrize(
    "changes",
    [
        {"totalNonContiguousDeletedMessagesRange": 1},
        {"totalNonContiguousDeletedMessagesRange": "missing"},
        {"msgBacklog": "missing"},
        {"msgBacklog": -1},
        {"msgBacklog": "5"},
        {"type": "missing"},
        {"type": 3},
        {"msgRateOut": 0.0},
        {"messageAckRate": 0.0},
        {"messageAckRate": "missing"},
        {"consumers": []},
        {"consumers": [3]},
        {"consumers": [{"avgMessagesPerEntry": 2}]},
        {"consumers": [{"blockedConsumerOnUnackedMsgs": True}]},
        {"blockedSubscriptionOnUnackedMsgs": True},
    ],
    ids=str,
)
def test_a_sign_or_a_missing_field_needs_a_closer_look(changes: dict[str, Any]) -> None:
    assert needs_closer_look(**changes)


def test_a_subscription_that_is_not_an_object_needs_a_closer_look() -> None:
    overview = overview_of({})
    overview[NAMESPACE] = {"bundle": {"persistent": {"t": {"subscriptions": {"s": None}}, "u": {}}}}
    (found,) = overviews_of(overview, "", "source", 0)
    assert found.topic == "t"
    assert found.needs_closer_look
    with pytest.raises(StatsError, match="not an answer of `broker-stats/topics`"):
        list(overviews_of({NAMESPACE: {"bundle": {"persistent": []}}}, "", "source", 0))


def test_the_doctor_surveys_and_every_topic_examines_each(brokers: list[Broker]) -> None:
    options = ("doctor", "--admin", brokers[0].url, NAMESPACE, "--fail-on", "never", "--format", "json")
    surveyed, examined = (
        json.loads(ackwell(*options, *more).out)["subscriptions"] for more in ((), ("--every-topic",))
    )
    notes = [note for each in surveyed for note in each["notes"] if "--every-topic" in note]
    assert COUNT / 4 < len(notes) < COUNT / 2
    assert not any("--every-topic" in note for each in examined for note in each["notes"])
    names = [sorted(each["topic"] for each in some) for some in (surveyed, examined)]
    assert names[0] == names[1]
    drained = next(each for each in surveyed if each["notes"] and "--every-topic" in each["notes"][0])
    assert (drained["backlogEntries"], drained["ranges"], drained["markDeletePosition"]) == (0, 0, None)
    assert ackwell("doctor", "--every-topic", "file.json").code == 2


@pytest.mark.slow
def test_a_second_survey_after_some_seconds_compares_only_what_both_examined(brokers: list[Broker]) -> None:
    options = ("doctor", "--admin", brokers[0].url, NAMESPACE, "--fail-on", "never", "--watch", "1")
    done = ackwell(*options, "--format", "json")
    assert done.code == 0, done.err
    assert len(json.loads(done.out)["subscriptions"]) == COUNT


def test_the_authorities_are_loaded_once_for_all_brokers(
    brokers: list[Broker], monkeypatch: pytest.MonkeyPatch
) -> None:
    create = Mock(wraps=ssl.create_default_context)
    monkeypatch.setattr(ssl, "create_default_context", create)
    client = admin(brokers)
    assert list(client.survey())
    assert [client.facts(each.host).version for each in brokers] == ["4.2.4", "4.2.4"]
    assert create.call_count == 1
