"""The admin API: requests, credentials, and bad answers."""

from __future__ import annotations

import json
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from ackwell.broker.stats import SubscriptionStats, UnreadableSource
from ackwell.cluster.admin import Admin, TopicAnswer
from ackwell.cluster.credentials import Token
from ackwell.cluster.endpoint import Endpoint
from ackwell.errors import StatsError
from tests.cluster.fake_admin import FakeBroker, broker, served
from tests.commands import ackwell

TOPIC = "persistent://shop/eu/orders"
LIMIT = "managedLedgerMaxUnackedRangesToPersist"


def admin(url: str, **options: Any) -> Admin:
    return Admin(Endpoint(url=url, **options))


def read(url: str, *wanted: str, **options: Any) -> tuple[list[SubscriptionStats], list[UnreadableSource]]:
    found: list[SubscriptionStats] = []
    unread: list[UnreadableSource] = []
    for each in admin(url, **options).read(wanted):
        if isinstance(each, UnreadableSource):
            unread.append(each)
        else:
            found.append(each)
    return found, unread


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ackwell.cluster.endpoint._FIRST_PAUSE_SECONDS", 0.001)


@pytest.mark.parametrize(
    "wanted", [(), ("shop",), ("shop/eu",), ("persistent://shop/eu",), (TOPIC,), ("shop/eu/orders",)]
)
def test_a_live_broker_is_asked_by_get_alone_and_with_the_token(wanted: tuple[str, ...]) -> None:
    with broker(served()) as (url, asked):
        (found,), unread = read(url, *wanted, credentials=Token("secret"))
    assert not unread
    assert (found.topic, found.subscription) == (TOPIC, "sub")
    assert len(found.individually_deleted) == 12_000
    assert found.batch_sizes.each == 1
    assert found.time_ms is not None
    assert {(method, token) for method, _, token in asked} == {("GET", "Bearer secret")}


def test_a_partitioned_topic_is_read_by_its_base_name() -> None:
    told = served("orders-partition-0", "orders-partition-1")
    told["/admin/v2/persistent/shop/eu/orders/partitions"] = {"partitions": 2}
    with broker(told) as (url, _):
        found, unread = read(url, TOPIC)
    assert not unread
    assert [each.topic for each in found] == [f"{TOPIC}-partition-0", f"{TOPIC}-partition-1"]


@pytest.mark.parametrize(
    "told_of_it", [{"partitions": odd} for odd in ("1", True, 1.0, None, -1)] + [{}, [1], 1.5]
)
def test_what_is_no_number_of_partitions_leaves_the_topic_as_it_is(told_of_it: Any) -> None:
    told = served()
    told["/admin/v2/persistent/shop/eu/orders/partitions"] = json.dumps(told_of_it).encode()
    with broker(told) as (url, _):
        assert list(admin(url).topics([TOPIC])) == [TOPIC]


@pytest.mark.parametrize("told_names", [[7], ["shop", None], {"shop": 1}, "shop"])
def test_a_list_that_is_not_one_of_names_is_refused_as_a_whole(told_names: Any) -> None:
    told = served() | {"/admin/v2/tenants": json.dumps(told_names).encode()}
    with broker(told) as (url, _):
        (unread,) = admin(url).topics()
    assert isinstance(unread, UnreadableSource)
    assert unread.reason.startswith("expected a list of names")


@pytest.mark.parametrize("odd", ["", "orders", "persistent://shop", "shop/eu/orders", "persistent://shop/eu"])
def test_a_listed_name_that_is_no_topics_does_not_end_the_run(odd: str) -> None:
    told = served() | {"/admin/v2/persistent/shop/eu": [odd, TOPIC]}
    with broker(told) as (url, _):
        (found,), (unread,) = read(url)
    assert found.topic == TOPIC
    assert (unread.topic, unread.reason) == (odd, "the broker lists it, and it is not a name of a topic")


def test_a_name_with_a_slash_or_a_blank_is_quoted() -> None:
    with broker(served("a%2Fb%20c")) as (url, _):
        (found,), _ = read(url, "persistent://shop/eu/a/b c")
    assert found.topic == "persistent://shop/eu/a/b c"


def test_a_name_cannot_lead_to_another_path() -> None:
    with broker(served()) as (url, asked):
        read(url, "../../brokers", "persistent://shop/eu?x=/../orders#f")
    assert all(path.startswith("/admin/v2/") for _, path, _ in asked)
    assert not any("?" in path or "#" in path for _, path, _ in asked)


@pytest.mark.parametrize("token", ["SECRET\nline", "SECRET\r", "SEC\0RET", "SECRÉT", "SECRET\udc80"])
def test_what_is_not_a_token_is_refused_and_not_quoted(token: str) -> None:
    with pytest.raises(ValueError, match="not a token") as caught:
        Endpoint(url="http://broker:8080", credentials=Token(token))
    assert "SEC" not in str(caught.value)


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("inf"), float("nan"), 1e300])
def test_a_timeout_that_no_socket_takes_is_refused(seconds: float) -> None:
    with pytest.raises(ValueError, match=r"a timeout of .* s; expected at most 86,400"):
        Endpoint(url="http://broker:8080", timeout_seconds=seconds)


@pytest.mark.parametrize("url", ["http://" + 64 * "a", "http://a..b", "http://a\0b", "http://a:b", "ftp://a"])
def test_what_is_not_an_admin_address_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="not an admin address"):
        Endpoint(url=url)


def test_a_redirect_to_the_owner_is_followed_with_the_token() -> None:
    with broker(served()) as (owner, asked):
        there = {path: f"{owner}{path}" for path in served() if path.endswith(("internalStats", "stats"))}
        with broker(there) as (url, _):
            (found,), _ = read(url, TOPIC, credentials=Token("secret"))
    assert found.topic == TOPIC
    assert {token for _, _, token in asked} == {"Bearer secret"}


def two_brokers(owner: str, asked: dict[str, Any]) -> dict[str, Any]:
    """Return the answers of a broker of 5.0.1 in a cluster with `owner`, a broker of 4.2.4."""
    return asked | {
        "/admin/v2/brokers/version": b"5.0.1",
        "/admin/v2/brokers/configuration/runtime": {LIMIT: "7"},
        "/admin/v2/brokers/standalone": [owner.removeprefix("http://"), "127.0.0.1:8080"],
    }


def test_version_and_settings_are_those_of_the_owner() -> None:
    with broker(served()) as (owner, _):
        redirected = {
            path: f"{owner}{path}" for path in served() if path.endswith(("internalStats", "stats"))
        }
        with broker(two_brokers(owner, served() | redirected)) as (url, asked):
            client = admin(url)
            (found,) = (each for each in client.answers([TOPIC]) if isinstance(each, TopicAnswer))
            assert found.owner == owner.removeprefix("http://")
            assert found.to_json()["owner"] == found.owner
            facts = client.facts(found.owner)
            assert (facts.version, (facts.settings or {})[LIMIT]) == ("4.2.4", "10000")
            asked_facts = client.facts()
            assert (asked_facts.version, (asked_facts.settings or {})[LIMIT]) == ("5.0.1", "7")
            (stats,) = found.subscriptions()
            assert isinstance(stats, SubscriptionStats)
            assert stats.owner == found.owner
            # A broker that is asked by its listed address, and does not redirect, is the owner.
            assert not [path for _, path, _ in asked if path.startswith("/lookup")]


def test_the_owner_of_a_topic_is_looked_up_through_a_proxy() -> None:
    with broker(served()) as (owner, _):
        host = owner.removeprefix("http://")
        lookup = {"/lookup/v2/topic/persistent/shop/eu/orders": {"httpUrl": owner}}
        with broker(two_brokers(owner, served() | lookup)) as (url, _):
            (found,) = (each for each in admin(url).answers([TOPIC]) if isinstance(each, TopicAnswer))
            assert found.owner == host
            assert admin(url).facts(host).version == "4.2.4"


def test_an_owner_that_cannot_be_asked_has_the_facts_of_the_asked_broker_with_a_note() -> None:
    with broker({}) as (owner, _):
        host = owner.removeprefix("http://")
    with broker(served()) as (url, _):
        found = admin(url).facts(host)
    assert found.version == "4.2.4"
    assert found.assumed[0].startswith(f"{host}: the broker's version: no connection: ")


def test_the_token_goes_to_no_host_that_the_cluster_does_not_list() -> None:
    with broker(served(), host="127.0.0.2") as (elsewhere, asked):
        there = served() | {
            path: f"{elsewhere}{path}" for path in served() if path.endswith(("internalStats", "stats"))
        }
        with broker(there) as (url, _):
            found, (unread,) = read(url, TOPIC, credentials=Token("secret"))
            assert not found
            assert "the credentials are not sent there. Allow it with --trust-host 127.0.0.2" in unread.reason
            assert not asked
            (found_then,), _ = read(url, TOPIC, credentials=Token("secret"), trusted_hosts=("127.0.0.2",))
            assert found_then.topic == TOPIC
        there["/admin/v2/brokers/standalone"] = ["127.0.0.2:8080"]
        with broker(there) as (url, _):
            (listed,), _ = read(url, TOPIC, credentials=Token("secret"))
            assert listed.topic == TOPIC
    assert {token for _, _, token in asked} == {"Bearer secret"}


def test_a_broker_that_is_listed_without_a_host_lets_no_address_without_one_be_trusted() -> None:
    told = served() | {"/admin/v2/brokers/standalone": [":8080", "", None, "http://"]}
    told["/admin/v2/persistent/shop/eu/orders/internalStats"] = "http://:1/"
    with broker(told) as (url, _):
        _, (unread,) = read(url, TOPIC, credentials=Token("secret"))
    assert "the credentials are not sent there" in unread.reason


def test_a_cluster_that_cannot_be_asked_hides_no_broker_of_another() -> None:
    with broker(served(), host="127.0.0.2") as (elsewhere, _):
        there = served() | {
            path: f"{elsewhere}{path}" for path in served() if path.endswith(("internalStats", "stats"))
        }
        there |= {
            "/admin/v2/clusters": ["gone", "odd", "standalone"],
            "/admin/v2/brokers/odd": {},
            "/admin/v2/brokers/standalone": ["127.0.0.2:8080"],
        }
        with broker(there) as (url, _):
            (found,), unread = read(url, TOPIC, credentials=Token("secret"))
    assert (found.topic, unread) == (TOPIC, [])


def test_a_password_in_the_address_is_sent_as_one_and_never_shown() -> None:
    with broker(served()) as (url, asked):
        with_password = url.replace("://", "://ops:p%40ss@")
        (found,), _ = read(with_password, TOPIC)
        _, (unread,) = read(with_password, "persistent://shop/eu/none")
        shown = repr(admin(with_password).endpoint)
    assert asked[0][2] == "Basic b3BzOnBAc3M="
    for text in (found.source, *unread, shown):
        assert text is None or "p%40ss" not in text
    with pytest.raises(ValueError, match="not an admin address") as refusal:
        admin("ftp://ops:hidden@broker")
    assert "hidden" not in str(refusal.value)


def test_a_certificate_is_trusted_only_when_it_is_named_or_all_are(certificate: Path) -> None:
    with broker(served(), certificate) as (url, asked):
        _, (unread,) = read(url, TOPIC, credentials=Token("secret"))
        assert "certificate" in unread.reason
        assert not asked
        for options in ({"tls_trust_certificates": certificate}, {"tls_allow_insecure": True}):
            (found,), _ = read(url, TOPIC, **options)
            assert found.topic == TOPIC


def test_the_token_never_leaves_an_encrypted_connection_for_an_open_one(certificate: Path) -> None:
    with broker(served()) as (owner, asked):
        there = {path: f"{owner}{path}" for path in served()}
        with broker(there, certificate) as (url, _):
            _, (unread,) = read(url, TOPIC, credentials=Token("secret"), tls_trust_certificates=certificate)
    assert "the credentials are not sent there" in unread.reason
    assert not asked


def test_what_goes_wrong_is_named_and_does_not_end_the_run() -> None:
    told = served("orders", "html", "broken", "list", "gone")
    base = "/admin/v2/persistent/shop/eu"
    told[f"{base}/html/stats"] = b"<html><title>Sign in</title></html>"
    told[f"{base}/broken/internalStats"] = 500
    told[f"{base}/list/internalStats"] = []
    del told[f"{base}/gone/stats"]
    with broker(told) as (url, _):
        (found,), unread = read(url)
        _, (page,) = read(url, "shop/none")
    assert found.topic == TOPIC
    reasons = {(each.topic or "").rpartition("/")[2]: each.reason for each in unread}
    assert reasons["html"].startswith("an HTML page titled 'Sign in'")
    assert reasons["broken"].startswith("HTTP 500")
    assert reasons["list"] == "expected a JSON object, got list"
    assert reasons["gone"].startswith("HTTP 404: Topic not found")
    assert "HTTP 404" in page.reason
    _, (refused,) = read(url, timeout_seconds=2)
    assert "no connection" in refused.reason


@pytest.mark.parametrize("codes", [(503, 429, 500), (502, 504)])
def test_what_may_pass_is_asked_again(codes: tuple[int, ...]) -> None:
    told = served()
    path = "/admin/v2/persistent/shop/eu/orders/stats"
    whole, failures = told[path], iter(codes)

    def flaky(request: FakeBroker) -> None:
        code = next(failures, None)
        request.reply(200, json.dumps(whole).encode()) if code is None else request.reply(code, b"{}")

    told[path] = flaky
    with broker(told) as (url, asked):
        (found,), unread = read(url, TOPIC)
    assert found.topic == TOPIC
    assert not unread
    assert sum(asked_path == path for _, asked_path, _ in asked) == len(codes) + 1


@pytest.mark.slow
def test_a_slow_topic_is_given_up_and_the_others_are_read() -> None:
    told = served("orders", "slow")
    release = threading.Event()

    def slow(request: FakeBroker) -> None:
        release.wait(60)
        request.close_connection = True

    told["/admin/v2/persistent/shop/eu/slow/internalStats"] = slow
    with broker(told) as (url, _):
        try:
            (found,), (unread,) = read(url, timeout_seconds=0.3)
        finally:
            release.set()
    assert found.topic == TOPIC
    assert "timed out" in unread.reason


def test_an_answer_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ackwell.cluster.endpoint.BODY_BYTES_MAX", 1 << 20)
    told = served() | {"/admin/v2/persistent/shop/eu/orders/internalStats": b" " * (1 << 20) + b"{}"}
    with broker(told) as (url, _):
        _, (unread,) = read(url, TOPIC)
    assert unread.reason == "an answer of more than 1 MiB"


def test_an_address_that_is_none_is_refused_before_anything_is_asked() -> None:
    for url in ("broker:8080", "http://", "http://host:port", "file:///etc/passwd"):
        with pytest.raises(ValueError, match="not an admin address"):
            admin(url)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        _, (unread,) = read(f"http://127.0.0.1:{unused.getsockname()[1]}", TOPIC)
    assert "no connection" in unread.reason


@pytest.mark.parametrize(
    ("answers", "version", "limit", "assumed"),
    [
        ({}, "4.2.4", "10000", []),
        ({"version": 403}, None, "10000", ["the broker's version: "]),
        ({"version": ["standalone"]}, None, "10000", ["the broker's version: expected a version, got '["]),
        ({"configuration/runtime": 403}, "4.2.4", None, ["the broker's settings: "]),
        (
            {"configuration/values": ["a"]},
            "4.2.4",
            "10000",
            ["the broker's settings: expected a JSON object"],
        ),
        ({"configuration/values": {LIMIT: "7", "other": None}}, "4.2.4", "7", []),
        ({"version": 403, "configuration/runtime": 403}, None, None, ["the broker's v", "the broker's s"]),
    ],
)
def test_what_a_broker_does_not_say_of_itself_is_assumed(
    answers: dict[str, Any], version: str | None, limit: str | None, assumed: list[str]
) -> None:
    served_here = served() | {f"/admin/v2/brokers/{path}": answer for path, answer in answers.items()}
    with broker(served_here) as (url, _):
        facts = admin(url).facts()
    assert facts.version == version
    assert (facts.settings or {}).get(LIMIT) == limit
    assert (facts.settings is None) == (limit is None)
    assert "other" not in (facts.settings or {})
    assert len(facts.assumed) == len(assumed)
    assert all(said.startswith(begin) for said, begin in zip(facts.assumed, assumed, strict=True))


@pytest.mark.parametrize("address", ["http://[::1/", "http://a:b:c/", "http://127.0.0.1:99999999/"])
def test_a_redirect_to_what_is_not_an_address_is_one_topic_unread(address: str) -> None:
    odd = served("odd", "orders")
    odd |= {path: address for path in odd if "/odd/" in path}
    with broker(odd) as (url, _):
        found, (unread,) = read(url, "shop/eu")
    assert ([each.topic for each in found], unread.topic) == ([TOPIC], "persistent://shop/eu/odd")


def test_more_partitions_than_any_topic_has_are_not_enumerated() -> None:
    told = served()
    told["/admin/v2/persistent/shop/eu/orders/partitions"] = {"partitions": 10**9}
    with broker(told) as (url, asked):
        found, (unread,) = read(url, TOPIC)
    assert not found
    assert "1,000,000,000 partitions" in unread.reason
    assert len(asked) < 10


@pytest.mark.parametrize(
    ("shown", "asks"),
    [
        ({"dispatchThrottledMsgEventsBySubscriptionLimit": 1}, True),
        ({"dispatchThrottledMsgEventsBySubscriptionLimit": 0, "msgBacklog": 5, "consumers": [{}]}, False),
        ({"msgBacklog": 5, "consumers": [{}]}, True),
        ({"msgBacklog": 0, "consumers": [{}]}, False),
        ({"msgBacklog": 5, "consumers": []}, False),
        ([], False),
        (None, False),
    ],
)
def test_a_dispatch_rate_is_asked_for_if_one_may_hold_messages_back(shown: Any, asks: bool) -> None:
    told, base = served(), "/admin/v2/persistent/shop/eu/orders"
    rate = {"dispatchThrottlingRateInMsg": 1}
    told[f"{base}/stats"] = {"subscriptions": {"a/b": shown}}
    told[f"{base}/a%2Fb/dispatchRate?applied=true"] = rate
    with broker(told) as (url, asked):
        (answer,) = admin(url).answers([TOPIC])
    assert not isinstance(answer, UnreadableSource)
    assert answer.policies == ({"a/b": {"dispatchRate": rate}} if asks else {})
    assert any("dispatchRate" in path for _, path, _ in asked) == asks


def test_policies_that_may_hold_messages_back_are_asked_for() -> None:
    told, base = served(), "/admin/v2/persistent/shop/eu/orders"
    names = (
        "maxUnackedMessagesOnConsumer",
        "maxUnackedMessagesOnSubscription",
        "dispatcherPauseOnAckStatePersistent",
    )
    values = dict(zip(names, (100, 200, True), strict=True))
    told |= {f"{base}/{name}?applied=true": json.dumps(value).encode() for name, value in values.items()}
    consumer = {"blockedConsumerOnUnackedMsgs": True}
    shown = {
        "msgBacklog": 5,
        "dispatchThrottledMsgEventsBySubscriptionLimit": 0,
        "blockedSubscriptionOnUnackedMsgs": True,
        "consumers": [consumer],
    }
    told[f"{base}/stats"] = {"subscriptions": {"a:b": shown, "other": {"msgBacklog": 0, "consumers": []}}}
    told[f"{base}/internalStats"] = {
        "cursors": {"a%3Ab": {"waitingReadOp": False, "pendingReadOps": 0}},
        "ledgers": [],
    }
    with broker(told) as (url, _):
        (answer,) = admin(url).answers([TOPIC])
    assert not isinstance(answer, UnreadableSource)
    assert answer.policies == {"a:b": values}
    # On 4.2.4 the topic's effective policy leaves out that of the namespace.
    of_topic, of_namespace = f"{base}/{names[2]}?applied=true", f"/admin/v2/namespaces/shop/eu/{names[2]}"
    told[of_topic] = b"false"
    for value, pauses in ((b"true", True), (b"false", False), (403, None)):
        told[of_namespace] = value
        with broker(told) as (url, _):
            (answer,) = admin(url).answers([TOPIC])
        assert not isinstance(answer, UnreadableSource)
        assert answer.policies["a:b"].get(names[2]) is pauses
    told[f"{base}/internalStats"]["cursors"]["a%3Ab"]["waitingReadOp"] = True
    consumer["blockedConsumerOnUnackedMsgs"] = False
    told[f"{base}/maxUnackedMessagesOnSubscription?applied=true"] = 403
    with broker(told) as (url, _):
        (answer,) = admin(url).answers([TOPIC])
    assert not isinstance(answer, UnreadableSource)
    assert answer.policies == {}


@pytest.mark.parametrize("at_once", [1, 3])
def test_topics_are_answered_in_their_order_however_many_are_asked_at_once(at_once: int) -> None:
    names = [f"t{number}" for number in range(12)]
    with broker(served(*names)) as (url, _):
        found = list(Admin(Endpoint(url=url), requests_at_once=at_once).answers())
        wanted = list(
            Admin(Endpoint(url=url), requests_at_once=at_once).answers(
                wants=lambda topic: topic.endswith("1")
            )
        )
    assert [each.topic for each in found] == [f"persistent://shop/eu/{name}" for name in names]
    assert [each.topic for each in wanted] == [f"persistent://shop/eu/{name}" for name in ("t1", "t11")]
    with pytest.raises(ValueError, match="0 requests at once; expected at least 1"):
        Admin(Endpoint(url="http://x:1"), requests_at_once=0)


@pytest.mark.parametrize("moves", [0, 1, 100])
def test_a_topic_that_changes_between_its_two_answers_is_requested_again(moves: int) -> None:
    base = "/admin/v2/persistent/shop/eu/orders"
    told = served()
    counted = told[f"{base}/internalStats"]["cursors"]["sub"] | {"totalNonContiguousDeletedMessagesRange": 5}
    told[f"{base}/internalStats"] = told[f"{base}/internalStats"] | {"cursors": {"sub": counted}}
    left = [moves]

    def stats(handler: FakeBroker) -> None:
        changed = left[0] > 0
        left[0] -= 1
        shown = {"nonContiguousDeletedMessagesRanges": 5 + changed}
        handler.answer(served()[f"{base}/stats"] | {"subscriptions": {"sub": shown}})

    with broker(told | {f"{base}/stats": stats}) as (url, asked):
        (found,) = admin(url).answers([TOPIC])
    assert isinstance(found, TopicAnswer)
    assert sum(path.endswith("/internalStats") for _, path, _ in asked) == min(moves + 1, 3)


def test_the_position_at_a_time_and_the_name_of_the_cluster_are_the_brokers() -> None:
    base = "/admin/v2/persistent/shop/eu/orders/messageid"
    told = served() | {f"{base}/5": {"ledgerId": 3, "entryId": "7"}, f"{base}/6": {"ledgerId": 3}}
    with broker(told) as (url, _):
        client = admin(url)
        assert client.position_at(TOPIC, 5) == (3, 7)
        with pytest.raises(StatsError, match="expected a message id"):
            client.position_at(TOPIC, 6)
        assert client.cluster == "standalone"
        assert client.ask("brokers/standalone") == ["127.0.0.1:8080"]
    for clusters, name in ((["global", "a", "b"], "a, b"), (["global"], None), ([7], None)):
        with broker(served() | {"/admin/v2/clusters": json.dumps(clusters).encode()}) as (url, _):
            assert admin(url).cluster == name
    with broker({"/admin/v2/x": b" \n"}) as (url, _):
        assert admin(url).ask("x") is None


def test_a_topic_that_keeps_nothing_is_not_read() -> None:
    with broker(served()) as (url, asked):
        _, (unread,) = read(url, "non-persistent://shop/eu/orders")
    assert unread.reason == "a non-persistent topic keeps no acknowledgments"
    assert not asked


def dead_address() -> str:
    with broker({}) as (url, _):
        return url


def moved_to(owner: str, *topics: str) -> dict[str, Any]:
    """Return the answers of a broker that redirects requests for topics to their owner."""
    answers = served(*topics)
    return answers | {path: f"{owner}{path}" for path in answers if path.endswith(("internalStats", "stats"))}


def test_a_dead_broker_is_one_line_with_its_topics_and_the_other_topics_are_read() -> None:
    owner = dead_address()
    answers = served("a", "b", "c", "d") | {
        path: value for path, value in moved_to(owner, "a", "b", "c").items() if isinstance(value, str)
    }
    with broker(answers) as (url, asked):
        found, (unread,) = read(url)
    assert [each.topic for each in found] == ["persistent://shop/eu/d"]
    assert (unread.source, unread.topic) == (f"broker {owner.removeprefix('http://')}", None)
    assert unread.reason.startswith("the broker owns 3 of the topics, and does not answer.")
    assert "--wait 60" in unread.reason
    # The owner is not tried again, because each of its topics is requested once.
    assert len([path for _, path, _ in asked if path.endswith("/internalStats")]) == 4


def test_topics_of_a_dead_broker_are_read_after_they_move(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ackwell.cluster.admin._MOVE_POLL_SECONDS", 0.01)
    answers = moved_to(dead_address(), "a", "b")
    with broker(answers) as (url, asked):
        client = admin(url)
        client.wait_seconds = 30.0
        found: list[Any] = []
        reader = threading.Thread(target=lambda: found.extend(client.read()))
        reader.start()
        while len([path for _, path, _ in asked if path.endswith("/internalStats")]) < 4:
            time.sleep(0.001)
        answers |= served("a", "b")
        reader.join()
    assert sorted(each.topic for each in found) == ["persistent://shop/eu/a", "persistent://shop/eu/b"]
    assert all(isinstance(each, SubscriptionStats) for each in found)


def test_an_owner_whose_name_does_not_resolve_is_reached_by_a_map_of_names() -> None:
    with broker(served()) as (owner, _):
        port = owner.rpartition(":")[2]
        with broker(moved_to("http://broker-0.invalid:8080", "orders")) as (url, asked):
            _, (unread,) = read(url)
            assert "its name does not resolve on this machine" in unread.reason
            assert "--reach broker-0.invalid:8080=HOST:PORT" in unread.reason
            for reach in (
                {"broker-0.invalid:8080": f"127.0.0.1:{port}"},
                {"broker-0.invalid": f"127.0.0.1:{port}"},
            ):
                (found,), unreads = read(url, TOPIC, reach=reach, credentials=Token("secret"))
                assert not unreads
                assert found.owner == "broker-0.invalid:8080"
            assert {token for _, _, token in asked} == {None, "Bearer secret"}


def scalable_cluster() -> dict[str, Any]:
    """Return the answers of 5.0.1 with one persistent and one scalable topic in shop/eu, as it gives them."""
    answers = served()
    answers["/admin/v2/brokers/version"] = b"5.0.1"
    answers["/admin/v2/scalable/shop/eu"] = ["topic://shop/eu/events"]
    subscriptions = {"billing": {"type": "STREAM", "msgBacklog": 98, "segments": {}, "consumers": []}}
    layout = {"epoch": 1, "segments": {"0": {"state": "ACTIVE"}, "1": {"state": "ACTIVE"}}}
    stats = {"layout": layout, "subscriptions": subscriptions}
    answers["/admin/v2/scalable/shop/eu/events/stats"] = stats
    return answers


def test_a_scalable_topic_is_not_judged_by_any_command() -> None:
    text = "not judged: the admin API does not show the cursors of a scalable topic; 2 segments; "
    with broker(scalable_cluster()) as (url, asked):
        for command in (["doctor"], ["holes"], ["upgrade-check", "--to", "5.0.1"]):
            for wanted in ("topic://shop/eu/events", "shop/eu", "shop/eu/events"):
                done = ackwell(*command, "--admin", url, wanted)
                shown = " ".join((done.out + done.err).split())
                assert f"{text}subscription billing: backlog 98" in shown, (command, wanted)
                assert done.code in (4, 5), "a topic that is not judged is an error"
                assert "all is acknowledged" not in shown
    assert {method for method, _, _ in asked} == {"GET"}


def test_a_segment_and_a_scalable_topic_without_statistics_are_not_judged() -> None:
    answers = scalable_cluster()
    answers["/admin/v2/scalable/shop/eu/events/stats"] = 500
    with broker(answers) as (url, _):
        for name in ("topic://shop/eu/events", "segment://shop/eu/events/0000-ffff-0"):
            done = ackwell("doctor", "--admin", url, name)
            assert done.code == 5
            assert "its statistics cannot be read, either" in " ".join((done.out + done.err).split())


@pytest.mark.parametrize(("version", "code"), [(b"4.2.4", 0), (b"5.0.1", 5)])
def test_scalable_topics_are_listed_from_5_0_on(version: bytes, code: int) -> None:
    answers = served()
    answers["/admin/v2/brokers/version"] = version
    answers["/admin/v2/persistent/shop/eu"] = []
    with broker(answers) as (url, asked):
        # A broker of 5.0 that cannot list them may have some.
        assert ackwell("doctor", "--admin", url, "shop/eu").code == code
    assert any("scalable" in path for _, path, _ in asked) == (version == b"5.0.1")
