"""The wait until every broker has read the topic policies, on a fake admin API of two brokers."""

from __future__ import annotations

import time
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any
from unittest.mock import ANY

import pytest

from ackwell.cluster.admin import REQUESTS_AT_ONCE, Admin
from ackwell.cluster.endpoint import Endpoint
from ackwell.errors import AckwellError
from ackwell.rescue.policy_readers import UnreadPolicies, check_read, wait_until_read
from tests.cluster.fake_admin import FakeBroker, broker
from tests.pauses import recorded_pauses

if TYPE_CHECKING:
    from collections.abc import Iterator

FIRST, SECOND = "127.0.0.1:1", "127.0.0.1:2"
EVENTS = "/admin/v2/persistent/shop/eu/__change_events"
TOPIC = "persistent://shop/eu/orders"
LAG = (
    f"1 of the 2 brokers with bundles of shop/eu ({FIRST}, {SECOND}) have not read the latest topic "
    "policies. If a topic moves to such a broker, the broker delivers messages of held subscriptions"
)


OLD_COPY = (
    "1 of the 2 brokers may have an old copy of the topic policies of shop/eu. If a topic moves to such a "
    "broker, the broker delivers messages of held subscriptions"
)


def reader(backlog: Any = 0, consumers: int = 1, connected_s: float = 70) -> dict[str, Any]:
    since = datetime.fromtimestamp(time.time() - connected_s).astimezone().isoformat()
    return {"msgBacklog": backlog, "consumers": [{"connectedSince": since}] * consumers}


TIMELESS = {"msgBacklog": 0, "consumers": [{"connectedSince": None}]}


def events(*readers: Any) -> dict[str, Any]:
    """Return the statistics of the topic of the policies."""
    named = {f"__system_reader-reader-{number}": each for number, each in enumerate(readers)}
    return {"subscriptions": {"__compaction": reader(7)} | named}


def answers(*readers: Any, second: str = "shop/eu", brokers: tuple[str, ...] = (FIRST, SECOND)) -> Any:
    """Return the answers of a cluster whose second broker owns a bundle of the namespace `second`."""
    bundles = "0x00000000_0x80000000", "0x80000000_0xffffffff"
    owned = {FIRST: f"shop/eu/{bundles[0]}", SECOND: f"{second}/{bundles[1]}"}
    return {
        "/admin/v2/clusters": ["global", "east"],
        "/admin/v2/brokers/east": list(brokers),
        f"{EVENTS}/stats": events(*readers),
    } | {
        f"/admin/v2/brokers/east/{host.replace(':', '%3A')}/ownedNamespaces": {bundle: {"is_active": True}}
        for host, bundle in owned.items()
    }


FAILS_FROM = {f"{EVENTS}/stats": 2, "/admin/v2/brokers/east": 3}
"""The number of the first request after the one that showed a lag."""


@contextmanager
def cluster(served: dict[str, Any]) -> Iterator[tuple[Admin, list[Any]]]:
    with broker(served) as (url, asked):
        yield Admin(Endpoint(url=url)), asked


@pytest.mark.parametrize(
    "served",
    [
        answers(reader(), reader()),
        # The reader of a broker without a bundle reconnects within a minute, or there is none.
        answers(reader(), second="shop/west"),
        answers(reader(connected_s=1), reader(connected_s=1), second="shop/west"),
        # The namespace `shop/eu2` has other policies.
        answers(reader(), second="shop/eu2"),
        # The statistics of a partitioned topic do not show the times of connections.
        answers() | {f"{EVENTS}/stats": None, f"{EVENTS}/partitioned-stats": events(*[TIMELESS] * 2)},
    ],
)
def test_nothing_is_reported_if_every_broker_with_a_bundle_has_read_the_policies(
    served: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses = recorded_pauses(monkeypatch, "ackwell.rescue.policy_readers")
    with cluster(served) as (admin, asked):
        assert list(wait_until_read(admin, [TOPIC, TOPIC])) == []
    assert pauses == []
    assert {method for method, _, _ in asked} == {"GET"}


@pytest.mark.parametrize("late", [[], [reader(2)], [reader(consumers=0)], [reader(None)], ["none"]])
def test_a_broker_that_does_not_read_is_waited_for_and_reported(
    late: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses = recorded_pauses(monkeypatch, "ackwell.rescue.policy_readers")
    with cluster(answers(reader(), *late)) as (admin, _):
        assert list(wait_until_read(admin, [TOPIC], 0)) == [UnreadPolicies("shop/eu", LAG, "unread")]
        with pytest.raises(AckwellError, match=r"^1 of the 2 brokers .*; run the same command again$"):
            check_read(admin, TOPIC, seconds=0)
    assert pauses == []


def test_a_broker_without_a_bundle_is_waited_for_until_its_reader_must_have_reconnected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pauses = recorded_pauses(monkeypatch, "ackwell.rescue.policy_readers")
    since = [reader(connected_s=70), reader(connected_s=60), reader(connected_s=1)]

    def stats(handler: FakeBroker) -> None:
        handler.answer(events(since.pop()))

    with cluster(answers(second="shop/west") | {f"{EVENTS}/stats": stats}) as (admin, _):
        assert list(wait_until_read(admin, [TOPIC])) == [UnreadPolicies("shop/eu", OLD_COPY, "waiting")]
    assert (pauses, since) == ([0.5, 0.5], [])
    reloaded = answers(reader(connected_s=1), second="shop/west")
    with cluster(reloaded) as (admin, _):
        assert list(wait_until_read(admin, [TOPIC], 0)) == [UnreadPolicies("shop/eu", OLD_COPY, "unread")]


@pytest.mark.parametrize("later", [0, 1])
def test_one_unread_entry_is_read_if_it_remains(later: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that reconnected does not acknowledge its last entry again. It acknowledges a new one."""
    pauses = recorded_pauses(monkeypatch, "ackwell.rescue.policy_readers")
    left = [events(reader(), reader(1))]

    def stats(handler: FakeBroker) -> None:
        handler.answer(left.pop() if left else events(reader(), reader(later)))

    with cluster(answers() | {f"{EVENTS}/stats": stats}) as (admin, _):
        assert list(wait_until_read(admin, [TOPIC])) == []
    assert pauses == [0.5]


def test_a_short_lag_is_not_announced(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses = recorded_pauses(monkeypatch, "ackwell.rescue.policy_readers")
    left = [events(reader(), reader(5))]

    def stats(handler: FakeBroker) -> None:
        handler.answer(left.pop() if left else events(reader(), reader()))

    with cluster(answers() | {f"{EVENTS}/stats": stats}) as (admin, _):
        assert list(wait_until_read(admin, [TOPIC])) == []
    assert pauses == [0.5]


def test_the_wait_ends_when_the_last_broker_has_read(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses = recorded_pauses(monkeypatch, "ackwell.rescue.policy_readers")
    left = [events(reader(), reader(5)), events(reader())]

    def stats(handler: FakeBroker) -> None:
        handler.answer(left.pop() if left else events(reader(), reader()))

    with cluster(answers() | {f"{EVENTS}/stats": stats}) as (admin, _):
        assert list(wait_until_read(admin, [TOPIC])) == [UnreadPolicies("shop/eu", LAG, "waiting")]
    assert pauses == [0.5, 0.5]


@pytest.mark.parametrize(
    "served",
    [
        answers(reader(), brokers=()),
        answers(reader()) | {"/admin/v2/brokers/east/127.0.0.1%3A2/ownedNamespaces": 403},
        answers(reader()) | {"/admin/v2/brokers/east/127.0.0.1%3A2/ownedNamespaces": []},
        answers(reader()) | {f"{EVENTS}/stats": None},
        # Another 412 than that of a bundle that moves.
        answers(reader()) | {f"{EVENTS}/stats": 412},
        answers(reader()) | {f"{EVENTS}/stats": {}},
        answers({"msgBacklog": 0, "consumers": [{"address": "/127.0.0.1:9"}]}, second="shop/west"),
        answers({"msgBacklog": 0, "consumers": [{"connectedSince": "now"}]}, second="shop/west"),
        answers(TIMELESS, second="shop/west"),
        answers({"msgBacklog": 0, "consumers": 1}, second="shop/west"),
    ],
)
def test_a_namespace_that_cannot_be_checked_is_reported_at_once(
    served: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses = recorded_pauses(monkeypatch, "ackwell.rescue.policy_readers")
    with cluster(served) as (admin, _):
        (found,) = wait_until_read(admin, [TOPIC])
        assert found == UnreadPolicies("shop/eu", ANY, "unknown")
        assert found.reason.startswith(
            "it is unknown whether each broker has read the topic policies of shop/eu: http://127.0.0.1:"
        )
        notes = list[str]()
        check_read(admin, TOPIC, on_note=notes.append)
        assert notes == [found.reason]
    assert pauses == []


def test_a_broker_that_does_not_answer_lags(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded_pauses(monkeypatch, "ackwell.rescue.policy_readers")
    with broker({}) as (url, _):
        gone = url.removeprefix("http://")
    owned = f"/admin/v2/brokers/east/{gone.replace(':', '%3A')}/ownedNamespaces"
    served = answers(reader(), reader(), brokers=(FIRST, gone)) | {owned: f"http://{gone}{owned}"}
    with cluster(served) as (admin, _):
        (found,) = wait_until_read(admin, [TOPIC], 0)
    assert found.state == "unread"
    assert f"the owner {gone} cannot be reached" in found.reason


@pytest.mark.parametrize("path", [f"{EVENTS}/stats", "/admin/v2/brokers/east"])
@pytest.mark.parametrize("code", [403, 503])
def test_a_failed_request_after_a_lag_does_not_end_the_wait(
    code: int, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded_pauses(monkeypatch, "ackwell.rescue.policy_readers", "ackwell.cluster.endpoint")
    served = answers(reader())
    first, asked = served[path], 0

    def fails(handler: FakeBroker) -> None:
        nonlocal asked
        asked += 1
        handler.answer(first if asked < FAILS_FROM[path] else code)

    with cluster(served | {path: fails}) as (admin, _):
        *_, last = wait_until_read(admin, [TOPIC], 0.5)
    assert last == UnreadPolicies("shop/eu", ANY, "unread")
    assert asked > FAILS_FROM[path]


@pytest.mark.parametrize(
    ("path", "code", "requests"),
    [
        ("stats", 429, 4),
        ("stats", 500, 4),
        ("stats", 503, 4),
        ("stats", 412, 1),
        ("partitioned-stats", 412, 1),
    ],
)
def test_a_temporary_failure_is_waited_for(
    path: str, code: int, requests: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client repeats a request three times. It does not repeat 412, the answer while a bundle moves."""
    pauses = recorded_pauses(monkeypatch, "ackwell.rescue.policy_readers", "ackwell.cluster.endpoint")
    left = [b'{"reason":"Can\'t find owner for topic persistent://shop/eu/__change_events"}'] * requests

    def stats(handler: FakeBroker) -> None:
        if left:
            handler.reply(code, left.pop())
        else:
            handler.answer(events(reader(), reader()))

    served = answers() | {f"{EVENTS}/stats": 404} | {f"{EVENTS}/{path}": stats}
    with cluster(served) as (admin, _):
        assert list(wait_until_read(admin, [TOPIC])) == []
    assert (len(left), len(pauses)) == (0, requests)


def test_only_the_namespaces_that_lag_are_requested_again(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded_pauses(monkeypatch, "ackwell.rescue.policy_readers")
    left = [events(), events()]
    other = EVENTS.replace("shop/eu", "shop/west")

    def stats(handler: FakeBroker) -> None:
        handler.answer(left.pop() if left else events(reader(), reader()))

    served = answers() | {f"{EVENTS}/stats": stats, f"{other}/stats": events(reader(), reader())}
    with cluster(served) as (admin, asked):
        (found,) = wait_until_read(admin, [TOPIC, TOPIC.replace("shop/eu", "shop/west")])
    assert found.namespace == "shop/eu"
    assert sum(path == f"{EVENTS}/stats" for _, path, _ in asked) == 3
    assert sum(path == f"{other}/stats" for _, path, _ in asked) == 1


def test_a_broker_that_hangs_is_not_requested_for_each_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded_pauses(monkeypatch, "ackwell.rescue.policy_readers", "ackwell.cluster.endpoint")
    namespaces = [f"shop/n{number}" for number in range(40)]
    paths = [f"/admin/v2/persistent/{each}/__change_events/stats" for each in namespaces]
    served = answers() | dict.fromkeys(paths, 503)
    with cluster(served) as (admin, asked):
        found = list(wait_until_read(admin, [f"persistent://{each}/a" for each in namespaces], 0))
    assert [(each.namespace, each.state) for each in found] == [
        (each, "unread") for each in sorted(namespaces)
    ]
    assert len({path for _, path, _ in asked if path in paths}) <= 2 * REQUESTS_AT_ONCE


def test_the_brokers_of_another_cluster_are_not_compared() -> None:
    remote = "/admin/v2/brokers/west"
    owned = f"{remote}/127.0.0.1%3A9/ownedNamespaces"
    with broker({remote: ["127.0.0.1:9"], owned: {"shop/eu/0x00000000_0xffffffff": {}}}) as (url, _):
        served = answers(reader(), reader()) | {remote: url + remote, owned: url + owned}
        served["/admin/v2/clusters"] = ["east", "west"]
        with cluster(served) as (admin, _):
            assert admin.brokers() == {FIRST, SECOND}
            assert list(wait_until_read(admin, [TOPIC], 0)) == []
        # An address that redirects every request.
        with broker(served) as (inner, _), cluster({path: inner + path for path in served}) as (admin, _):
            assert admin.brokers() >= {FIRST, SECOND}


def test_one_broker_and_no_topics_are_not_checked() -> None:
    with cluster(answers(brokers=(FIRST,))) as (admin, asked):
        assert list(wait_until_read(admin, [TOPIC])) == []
        assert list(wait_until_read(admin, [])) == []
    assert [path for _, path, _ in asked if "ownedNamespaces" in path or "events" in path] == []
