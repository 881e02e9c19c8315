"""The helper's connection with a scripted broker: commands, retries, and errors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ackwell.cluster.credentials import Token
from ackwell.errors import ErrorCode, StatsError
from ackwell.position import Position
from ackwell.protocol import messages
from ackwell.protocol.constants import CommandType, LookupType, SubscriptionType
from ackwell.rescue import BrokerError, Connection, RefusedError
from tests.pauses import recorded_pauses
from tests.rescue.scripted import Answer, FakeAdmin, Script, scripted
from tests.rescue.test_plan import answer

if TYPE_CHECKING:
    from ackwell.rescue.snapshot import Snapshot

TOPIC, NAME = "persistent://public/default/orders", "billing"
LOOKUP = "/lookup/v2/topic/persistent/public/default/orders"


@pytest.fixture(autouse=True)
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the pauses that would have been made."""
    return recorded_pauses(monkeypatch, "ackwell.rescue.connection")


@pytest.fixture
def script() -> Iterator[Script]:
    with scripted(Script()) as made:
        yield made


def connection(script: Script, admin: FakeAdmin | None = None, **options: Any) -> Connection:
    admin = admin or FakeAdmin({LOOKUP: {"brokerUrl": script.url}})
    return Connection(admin, **options)  # type: ignore[arg-type]


def error(code: ErrorCode, message: str = "not now") -> list[Answer]:
    return [(CommandType.ERROR, {"error": code, "message": message})]


def lookup(response: LookupType, url: str = "", **fields: Any) -> list[Answer]:
    return [(CommandType.LOOKUP_RESPONSE, {"response": response, "brokerServiceUrl": url, **fields})]


def attach(made: Connection, kind: SubscriptionType = SubscriptionType.SHARED) -> None:
    with made.attached(TOPIC, NAME, kind):
        pass


@pytest.mark.parametrize("kind", SubscriptionType)
def test_the_helper_says_what_it_is_and_asks_for_no_message(script: Script, kind: SubscriptionType) -> None:
    with connection(script) as made:
        attach(made, kind)
        assert [name for name, _ in script.seen] == ["CONNECT", "LOOKUP", "SUBSCRIBE", "CLOSE_CONSUMER"]
        (connect,), (asked,), (subscribe,), (close,) = (script.of(name) for name, _ in script.seen)
    assert (connect.client_version, connect.protocol_version) == ("ackwell-rescue", 21)
    assert (connect.auth_method_name, connect.auth_data) == ("none", b"")
    assert (asked.topic, asked.authoritative) == (TOPIC, False)
    assert (subscribe.topic, subscribe.subscription, subscribe.subType) == (TOPIC, NAME, kind.number)
    assert (subscribe.consumer_name, subscribe.priority_level) == ("ackwell-rescue", 2**31 - 1)
    # The helper must not create a subscription.
    assert (subscribe.force_topic_creation, subscribe.durable) == (False, True)
    assert subscribe.HasField("keySharedMeta") == (kind is SubscriptionType.KEY_SHARED)
    assert subscribe.keySharedMeta.keySharedMode == 0
    assert close.consumer_id == subscribe.consumer_id
    assert len({each.request_id for each in (asked, subscribe, close)}) == 3


def test_a_token_or_a_certificate_is_what_it_shows(script: Script) -> None:
    admin = FakeAdmin({LOOKUP: {"brokerUrl": script.url}})
    admin.endpoint = replace(admin.endpoint, credentials=Token("secret"))
    with connection(script, admin) as made:
        made.open(TOPIC)
    admin.endpoint = replace(admin.endpoint, credentials=None, tls_certificate=Path(__file__))
    with connection(script, admin) as made:
        made.open(TOPIC)
    shown = [(each.auth_method_name, each.auth_data) for each in script.of("CONNECT")]
    assert shown == [("token", b"secret"), ("tls", b"")]


def test_one_connection_is_used_again_and_none_after_it_is_closed(script: Script) -> None:
    with connection(script) as made:
        attach(made)
        attach(made)
        assert script.connections == 1
        made.close()
        attach(made)
        assert script.connections == 2
    made.close()
    for use in (lambda: made._send(CommandType.LOOKUP, topic=TOPIC), lambda: made._read()):
        with pytest.raises(BrokerError, match=r"^the connection is closed$"):
            use()


def test_a_lookup_is_followed_to_the_owner_with_the_word_that_it_is_the_owner() -> None:
    with scripted(Script()) as owner, scripted(Script()) as first:
        first.answers["LOOKUP"] = [lookup(LookupType.REDIRECT, owner.url, authoritative=True)]
        with connection(first) as made:
            attach(made)
        assert [each.authoritative for each in first.of("LOOKUP")] == [False]
        assert [each.authoritative for each in owner.of("LOOKUP")] == [True]
        assert (len(first.of("SUBSCRIBE")), len(owner.of("SUBSCRIBE"))) == (0, 1)
    with scripted(Script()) as owner, scripted(Script()) as first:
        first.answers["LOOKUP"] = [lookup(LookupType.CONNECT, owner.url)]
        with connection(first) as made:
            attach(made)
            # The next lookup goes directly to the owner.
            attach(made)
        assert (first.connections, owner.connections) == (1, 1)
        assert (len(owner.of("LOOKUP")), len(owner.of("SUBSCRIBE"))) == (1, 2)


def test_a_pulsar_proxy_forwards_the_connection_to_the_owner(script: Script) -> None:
    """The helper connects to the proxy again and names the owner; it never connects to the owner itself."""
    owner = "pulsar://broker-1.internal:6650"
    script.answers["LOOKUP"] = [lookup(LookupType.CONNECT, owner, proxy_through_service_url=True)]
    with connection(script, FakeAdmin(trusted=()), broker=script.url) as made:
        attach(made)
        targets = [each.proxy_to_broker_url for each in script.of("CONNECT")]
        assert targets == ["", "broker-1.internal:6650"]
        # The next lookup goes to the proxy, not to the broker.
        made.open(TOPIC)
    targets = [each.proxy_to_broker_url for each in script.of("CONNECT")]
    assert targets == ["", "broker-1.internal:6650"] * 2


@pytest.mark.parametrize("response", [LookupType.REDIRECT, LookupType.CONNECT])
def test_the_broker_that_the_user_names_leads_to_no_host_that_the_cluster_does_not_list(
    response: LookupType,
) -> None:
    with scripted(Script()) as other, scripted(Script()) as named:
        elsewhere = other.url.replace("127.0.0.1", "localhost")
        named.answers["LOOKUP"] = [lookup(response, elsewhere)]
        with connection(named, broker=named.url) as made, pytest.raises(RefusedError) as caught:
            made.open(TOPIC)
        assert (caught.value.code, other.connections) == ("unlisted-host", 0)
        # Any broker may be named.
        with connection(other, FakeAdmin(trusted=()), broker=other.url) as made:
            made.open(TOPIC)


def test_an_owner_that_is_asked_already_is_not_connected_to_again(script: Script) -> None:
    script.answers["LOOKUP"] = [lookup(LookupType.CONNECT, script.url)]
    with connection(script) as made:
        attach(made)
    assert script.connections == 1


def test_the_live_state_is_the_one_that_was_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    live = answer("3:0", "[]", {3: 20})
    monkeypatch.setattr("ackwell.rescue.connection.take", lambda *_: ("the answer", live))
    made = Connection(FakeAdmin())  # type: ignore[arg-type]
    assert made.read_live(*live.name) is live


def test_redirects_without_end_are_an_error(script: Script) -> None:
    script.answers["LOOKUP"] = [lookup(LookupType.REDIRECT, script.url)]
    with connection(script) as made, pytest.raises(BrokerError, match=f"^{TOPIC}: more than 8 redirects$"):
        made.open(TOPIC)
    assert len(script.of("LOOKUP")) == 8


def test_a_topic_that_is_not_served_is_asked_for_again_if_it_may_come(
    script: Script, slept: list[float]
) -> None:
    failed = lookup(LookupType.FAILED, error=ErrorCode.SERVICE_NOT_READY, message="loading")
    script.answers["LOOKUP"] = [failed, failed, lookup(LookupType.CONNECT)]
    with connection(script) as made:
        attach(made)
    assert slept == [0.05, 0.1]
    script.answers["LOOKUP"] = [failed]
    with connection(script) as made, pytest.raises(BrokerError, match="is not served: loading") as caught:
        attach(made)
    assert caught.value.code is ErrorCode.SERVICE_NOT_READY
    # Ten attempts, and no pause after the last.
    assert len(slept) == 2 + 9
    assert len(script.of("LOOKUP")) == 3 + 10


@pytest.mark.parametrize("code", ErrorCode)
def test_only_what_may_pass_is_tried_again(script: Script, slept: list[float], code: ErrorCode) -> None:
    passes = {ErrorCode.SERVICE_NOT_READY, ErrorCode.TOO_MANY_REQUESTS, ErrorCode.METADATA_ERROR}
    script.answers["SUBSCRIBE"] = [error(code), [(CommandType.SUCCESS, {})]]
    with connection(script) as made:
        if code in passes:
            attach(made)
            assert slept == [0.05]
            return
        with pytest.raises(BrokerError, match=f"^{code.name}: not now$") as caught:
            attach(made)
    assert (caught.value.code, slept) == (code, [])


def test_a_taken_seat_is_a_refusal_of_an_exclusive_subscription_alone(script: Script) -> None:
    script.answers["SUBSCRIBE"] = [error(ErrorCode.CONSUMER_BUSY)]
    with connection(script) as made:
        with pytest.raises(RefusedError) as caught:
            attach(made, SubscriptionType.EXCLUSIVE)
        assert caught.value.code == "exclusive-consumer"
        with pytest.raises(BrokerError, match="CONSUMER_BUSY"):
            attach(made, SubscriptionType.FAILOVER)


def test_a_connection_that_breaks_is_made_again(script: Script, slept: list[float]) -> None:
    script.answers["SUBSCRIBE"] = [None, [(CommandType.SUCCESS, {})]]
    with connection(script) as made:
        attach(made)
    assert (script.connections, slept) == (2, [0.05])
    script.answers["SUBSCRIBE"] = [None]
    with connection(script) as made, pytest.raises(BrokerError, match="the broker closed the connection"):
        attach(made)
    assert script.connections == 2 + 10


def test_a_helper_that_cannot_leave_is_let_go_with_its_connection(script: Script) -> None:
    script.answers["CLOSE_CONSUMER"] = [error(ErrorCode.UNKNOWN_ERROR)]
    with connection(script) as made:
        attach(made)
        attach(made)
    assert script.connections == 2


def test_no_connection_is_an_error_that_names_the_address(script: Script, slept: list[float]) -> None:
    with scripted(Script()) as gone:
        pass
    with (
        connection(gone) as made,
        pytest.raises(BrokerError, match=f"^{gone.url}: no connection: ") as caught,
    ):
        made.open(TOPIC)
    assert caught.value.code is None
    for url in ("http://127.0.0.1:1", "pulsar://", "127.0.0.1:6650"):
        with (
            connection(script, broker=url) as made,
            pytest.raises(BrokerError, match=r"is not a broker address; expected pulsar://host:6650"),
        ):
            attach(made)
    assert slept == []


def test_an_error_in_the_place_of_a_greeting_is_said_and_not_tried_again(slept: list[float]) -> None:
    refusal = {"error": ErrorCode.AUTHENTICATION_ERROR, "message": "no such token", "request_id": 2**64 - 1}
    with (
        scripted(Script(CONNECT=[[(CommandType.ERROR, refusal)]])) as refusing,
        connection(refusing) as made,
        pytest.raises(BrokerError, match=r"^AUTHENTICATION_ERROR: no such token$"),
    ):
        attach(made)
    assert slept == []


def test_an_error_with_a_code_that_is_not_known_is_an_error_of_the_brokers() -> None:
    unknown = [(CommandType.ERROR, {"error": 99, "message": "new"})]
    with scripted(Script(SUBSCRIBE=[unknown])) as refusing, connection(refusing) as made:
        with pytest.raises(BrokerError, match=r"^UNKNOWN_ERROR: new$"):
            attach(made)
        failed = lookup(LookupType.FAILED, error=99, message="new")
    with (
        scripted(Script(LOOKUP=[failed])) as refusing,
        connection(refusing) as made,
        pytest.raises(BrokerError, match="is not served: new"),
    ):
        attach(made)


@pytest.mark.parametrize(("scheme", "port"), [("pulsar", 6650), ("pulsar+ssl", 6651)])
def test_an_address_without_a_port_means_the_usual_one(
    monkeypatch: pytest.MonkeyPatch, script: Script, scheme: str, port: int
) -> None:
    asked: list[Any] = []

    def connect(address: Any, timeout: float) -> None:
        asked.append((address, timeout))
        raise OSError("not tried")

    monkeypatch.setattr("socket.create_connection", connect)
    with connection(script, broker=f"{scheme}://elsewhere") as made, pytest.raises(BrokerError):
        made.open(TOPIC)
    assert asked == [(("elsewhere", port), 60)]


def test_the_owner_is_what_the_admin_api_says_unless_the_caller_does(script: Script) -> None:
    admin = FakeAdmin({LOOKUP: {"brokerUrl": script.url}})
    with connection(script, admin) as made:
        made.open(TOPIC)
    assert admin.asked == [LOOKUP]
    # The caller may name a host that the cluster does not list.
    admin = FakeAdmin(trusted=())
    with connection(script, admin, broker=script.url) as made:
        made.open(TOPIC)
    assert admin.asked == []
    with (
        connection(script, FakeAdmin({LOOKUP: ["text"]})) as made,
        pytest.raises(StatsError, match="expected a JSON object with the owner of the topic"),
    ):
        made.open(TOPIC)


@pytest.mark.parametrize("name", ["brokerUrlTls", "brokerUrlSsl"])
def test_an_encrypted_admin_address_asks_for_the_encrypted_owner(script: Script, name: str) -> None:
    admin = FakeAdmin({LOOKUP: {"brokerUrl": "pulsar://open:1", name: "pulsar+ssl://elsewhere:1"}}, ())
    admin.endpoint = replace(admin.endpoint, url="https://127.0.0.1:1")
    with connection(script, admin) as made, pytest.raises(RefusedError, match="elsewhere:1") as caught:
        made.open(TOPIC)
    assert caught.value.code == "unlisted-host"


def test_an_encrypted_broker_does_not_lead_to_an_open_one(script: Script) -> None:
    with connection(script) as made:
        made._url = "pulsar+ssl://127.0.0.1:6651"
        with pytest.raises(RefusedError) as caught:
            made._connect(script.url)
    assert caught.value.code == "not-encrypted"
    assert script.connections == 0


def test_acknowledgments_carry_their_words_and_refused_ones_are_kept(script: Script) -> None:
    audited: list[Any] = []
    ids = [(Position(3, 5), ()), (Position(4, 0), (5, -1))]
    answers: list[list[Answer] | None] = [
        [(CommandType.ACK_RESPONSE, {"consumer_id": 1, "error": 2, "message": "disk"})],
        [(CommandType.ACK_RESPONSE, {"consumer_id": 1, "error": 0})],
        [(CommandType.ACK_RESPONSE, {"consumer_id": 1})],
    ]
    script.answers["ACK"] = answers
    made = connection(script, audit=lambda *words, **numbers: audited.append((words, numbers)))
    with made, made.attached(TOPIC, NAME, SubscriptionType.SHARED):
        made.acknowledge(TOPIC, NAME, [ids, ids[:1], ids], 5, "digest")
    assert audited == [(("acknowledge", TOPIC, NAME), {"positions": 5, "digest": "digest"})]
    sent = script.of("ACK")
    assert [each.ack_type for each in sent] == [0, 0, 0]
    assert {each.consumer_id for each in sent} == {script.of("SUBSCRIBE")[0].consumer_id}
    assert [
        [((one.ledgerId, one.entryId), tuple(one.ack_set)) for one in each.message_id] for each in sent
    ] == [[((3, 5), ()), ((4, 0), (5, -1))], [((3, 5), ())], [((3, 5), ()), ((4, 0), (5, -1))]]
    assert made.errors == ["disk", "error 0"]


def test_no_more_than_64_acknowledgments_wait_for_their_answer(script: Script) -> None:
    held: list[Any] = []
    real = script.answer

    def late(command: Any) -> Any:
        """Answer only after 64 acknowledgments, because a helper that waits earlier never ends."""
        if command.type != CommandType.ACK:
            return real(command)
        held.append(command.message.request_id)
        if len(held) < 64:
            return []
        ready = list(held) if len(held) == 64 else held[-1:]
        # The answers are in another order than the requests.
        return [
            (CommandType.ACK_RESPONSE, {"consumer_id": 1, "request_id": each}) for each in reversed(ready)
        ]

    script.answer = late  # type: ignore[method-assign]
    with connection(script) as made, made.attached(TOPIC, NAME, SubscriptionType.SHARED):
        made.acknowledge(TOPIC, NAME, [[(Position(3, n), ())] for n in range(100)], 100, "digest")
    assert len(held) == len(set(held)) == 100
    assert made.errors == []


def test_a_65th_acknowledgment_waits_for_the_first_answer(script: Script) -> None:
    made = connection(script)
    in_flight, most = set[int](), 0
    real = made._ack_answer

    with made, made.attached(TOPIC, NAME, SubscriptionType.SHARED):
        write = made._write

        def count(data: bytes) -> None:
            nonlocal most
            in_flight.add(made._request_id)
            most = max(most, len(in_flight))
            write(data)

        def answered(request_id: int) -> None:
            in_flight.discard(request_id)
            real(request_id)

        made._write, made._ack_answer = count, answered  # type: ignore[method-assign]
        made.acknowledge(TOPIC, NAME, [[(Position(3, n), ())] for n in range(200)], 200, "digest")
        made._write = write  # type: ignore[method-assign]
    assert (most, in_flight) == (64, set())


def test_what_the_broker_says_by_itself_is_answered_or_passed_over(script: Script) -> None:
    script.answers["SUBSCRIBE"] = [
        [
            (CommandType.PING, {}),
            (CommandType.ACTIVE_CONSUMER_CHANGE, {"consumer_id": 1, "is_active": True}),
            (CommandType.SUCCESS, {}),
        ]
    ]
    with connection(script) as made:
        attach(made)
        assert made.received == 0
        assert made._frames == []
    assert len(script.of("PONG")) == 1


def test_a_message_is_counted_and_other_credentials_are_not_to_be_had(script: Script) -> None:
    pushed = (CommandType.MESSAGE, {"consumer_id": 1, "message_id": {"ledgerId": 1, "entryId": 1}})
    script.answers["SUBSCRIBE"] = [[pushed, pushed, (CommandType.SUCCESS, {})]]
    with connection(script) as made:
        attach(made)
        assert made.received == 2
    script.answers["CONNECT"] = [[(CommandType.AUTH_CHALLENGE, {})]]
    with connection(script) as made, pytest.raises(BrokerError, match="other credentials than a token"):
        made.open(TOPIC)


def test_a_broker_gets_a_new_token_when_the_last_one_expires(script: Script, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first")
    refresh = {"challenge": messages.AuthData(auth_method_name="token", auth_data=b"PulsarAuthRefresh")}
    script.answers["SUBSCRIBE"] = [[(CommandType.AUTH_CHALLENGE, refresh), (CommandType.SUCCESS, {})]]
    admin = FakeAdmin({LOOKUP: {"brokerUrl": script.url}})
    admin.endpoint = replace(admin.endpoint, credentials=Token.in_file(file))
    with connection(script, admin) as made:
        made.open(TOPIC)
        file.write_text("second")
        attach(made)
    (answer,) = script.of("AUTH_RESPONSE")
    assert (answer.response.auth_method_name, answer.response.auth_data) == ("token", b"second")
    assert (answer.client_version, answer.protocol_version) == ("ackwell-rescue", 21)


def test_the_brokers_address_of_a_client_conf_comes_before_a_question(script: Script) -> None:
    admin = FakeAdmin(trusted=())
    admin.endpoint = replace(admin.endpoint, broker_url=script.url)
    with connection(script, admin) as made:
        made.open(TOPIC)
    assert (admin.asked, script.connections) == ([], 1)


def test_what_is_changed_is_audited_before_and_goes_below_the_topic(script: Script) -> None:
    audited: list[Any] = []
    admin = FakeAdmin()
    made = connection(script, admin, audit=lambda *words: audited.append((words, list(admin.changed))))
    made.change("hold", "POST", TOPIC, NAME, "billing/dispatchRate", {"a": 1})
    made.change("unload", "PUT", TOPIC, NAME, "unload")
    topic = "persistent/public/default/orders"
    changes = [("POST", f"{topic}/billing/dispatchRate", {"a": 1}), ("PUT", f"{topic}/unload", None)]
    assert audited == [(("hold", TOPIC, NAME), []), (("unload", TOPIC, NAME), changes[:1])]
    assert admin.changed == changes
    # Without an audit, too.
    Connection(admin).change("unload", "PUT", TOPIC, NAME, "unload")  # type: ignore[arg-type]


# Blocked messages, and the helper that wakes them

FREE = {"consumerName": "c", "availablePermits": 1}


class Waking(Connection):
    """A connection that reads the given states in order; the last one is repeated."""

    def __init__(self, script: Script, states: list[Snapshot]) -> None:
        super().__init__(FakeAdmin({LOOKUP: {"brokerUrl": script.url}}))  # type: ignore[arg-type]
        self.states = states

    def read_live(self, topic: str, subscription: str) -> Snapshot:
        return self.states.pop(0) if len(self.states) > 1 else self.states[0]


def state(waiting: int | None, *consumers: Any, type: str = "Key_Shared") -> Snapshot:  # noqa: A002
    shown: dict[str, Any] = {} if waiting is None else {"msgInReplay": waiting}
    return answer("3:0", "[]", {3: 20}, type=type, consumers=list(consumers or (FREE,)), **shown)


def test_a_wake_asks_for_one_message_and_leaves_until_nothing_waits(
    script: Script, slept: list[float]
) -> None:
    with Waking(script, [state(9), state(4), state(4), state(1), state(0)]) as made:
        assert made.wake(TOPIC, NAME) == 0
    assert [name for name, _ in script.seen if name not in ("CONNECT", "LOOKUP")] == 4 * [
        "SUBSCRIBE",
        "FLOW",
        "CLOSE_CONSUMER",
    ]
    assert {each.messagePermits for each in script.of("FLOW")} == {1}
    assert len({each.consumer_id for name in ("FLOW", "CLOSE_CONSUMER") for each in script.of(name)}) == 1
    # The pause doubles while the number of waiting messages stays the same.
    assert slept == [0.1, 0.05, 0.1, 0.05]


def test_a_wake_gives_up_after_eight_times_in_vain(script: Script, slept: list[float]) -> None:
    with Waking(script, [state(5)]) as made:
        assert made.wake(TOPIC, NAME) == 5
    assert len(script.of("SUBSCRIBE")) == 8
    # From the fifth attempt on, the helper waits for a message before it closes.
    assert slept == [0.1, 0.2, 0.4, 0.8, *4 * [1.0, 1.0]]


@pytest.mark.parametrize(
    ("found", "waiting"),
    [
        (state(0), 0),
        (state(None), 0),
        (state(5, type="Shared"), 5),
        (state(5, FREE | {"availablePermits": 0}), 5),
        (state(5, {"consumerName": "c"}), 5),
        (state(5, FREE | {"blockedConsumerOnUnackedMsgs": True}), 5),
        (state(5, FREE | {"consumerName": "ackwell-rescue"}), 5),
    ],
)
def test_what_waits_for_something_else_is_not_woken(script: Script, found: Snapshot, waiting: int) -> None:
    with Waking(script, [found]) as made:
        assert made.wake(TOPIC, NAME) == waiting
    assert script.connections == 0


def test_one_consumer_that_can_take_is_enough(script: Script) -> None:
    states = [state(5, FREE | {"availablePermits": 0}, FREE), state(0)]
    with Waking(script, states) as made:
        assert made.wake(TOPIC, NAME) == 0
    assert len(script.of("FLOW")) == 1
