"""Answers of brokers in every layout of a file, and the errors for other files."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackwell import Position
from ackwell.broker.batch_sizes import BatchSizes, Bounds
from ackwell.broker.stats import SubscriptionStats, UnreadableSource, parse_each, parse_stats, read_stats
from ackwell.errors import StatsError

NAME = base64.b64encode(b"public/default/persistent/orders%2Feu").decode()
METADATA = f"LedgerMetadata{{state=CLOSED, customMetadata={{pulsar/managed-ledger=base64:{NAME}}}}}"


def internal(**changes: Any) -> dict[str, Any]:
    """An answer of `stats-internal`: one closed ledger, one being written, one subscription."""
    return {
        "entriesAddedCounter": 15,
        "numberOfEntries": 15,
        "currentLedgerEntries": 5,
        "currentLedgerSize": 500,
        "lastConfirmedEntry": "4:4",
        "ledgers": [
            {"ledgerId": 3, "entries": 10, "size": 1000},
            {"ledgerId": 4, "entries": 0, "size": 0},
        ],
        "cursors": {
            "sub": {
                "markDeletePosition": "3:1",
                "readPosition": "4:5",
                "individuallyDeletedMessages": "[(3:2..3:5],(4:-1..4:0]]",
                "cursorLedger": 7,
                "state": "Open",
            }
        },
    } | changes


def stats(messages: int = 15, *, average: int = 1) -> dict[str, Any]:
    return {
        "msgInCounter": messages,
        "subscriptions": {"sub": {"msgDelayed": 2, "consumers": [{"avgMessagesPerEntry": average}]}},
    }


def parse(document: object) -> list[Any]:
    return list(parse_stats(json.dumps(document).encode(), "answer.json"))


def test_an_answer_tells_the_cursor_and_the_ledgers() -> None:
    (found,) = parse(internal())
    assert (found.topic, found.subscription) == ("answer.json", "sub")
    assert found.mark_delete_position == Position(3, 1)
    assert str(found.individually_deleted) == "[(3:2..3:5],(4:-1..4:0]]"
    assert list(found.ledgers) == [(3, 10), (4, 5)]
    assert found.ledger_sizes[1].size_bytes == 500
    assert found.backlog_entries == 13 - 4
    assert found.batch_deleted is None
    assert found.batch_sizes == BatchSizes(each=None)


@pytest.mark.parametrize("ack_set", ["with long[] size of 1", "is null"])
def test_a_read_position_with_an_ack_set_is_the_position(ack_set: str) -> None:
    """A broker prints it so from a seek until the next read (4.0.7, 4.2.4 and 5.0.0-M1)."""
    answer = internal()
    answer["cursors"]["sub"]["readPosition"] = f"5589:1 (ackSet {ack_set})"
    (found,) = parse(answer)
    assert found.read_position == Position(5589, 1)


def test_a_subscription_that_cannot_be_read_does_not_cost_the_others_their_verdict() -> None:
    answer = internal()
    good = answer["cursors"]["sub"]
    answer["cursors"] = {"first": good, "odd": good | {"readPosition": "soon"}, "last": good}
    first, odd, last = parse_each(json.dumps(answer).encode(), "answer.json", name="orders")
    assert isinstance(first, SubscriptionStats)
    assert isinstance(last, SubscriptionStats)
    assert (first.subscription, last.subscription) == ("first", "last")
    assert isinstance(odd, UnreadableSource)
    assert (odd.source, odd.topic) == ("answer.json", "orders")
    assert odd.reason.startswith("orders: subscription 'odd': ")
    with pytest.raises(StatsError, match="subscription 'odd'"):
        parse(answer)


def test_a_fault_of_the_reader_is_not_reported_as_a_damaged_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def faulty(*_: object) -> None:
        raise AttributeError("a fault")

    monkeypatch.setattr("ackwell.broker.stats._subscription", faulty)
    with pytest.raises(AttributeError, match="a fault"):
        parse(internal())


def test_a_value_that_is_not_an_object_is_named() -> None:
    answer = {"internalStats": internal(), "stats": {"subscriptions": {"sub": "text"}}}
    (found,) = parse_each(json.dumps(answer).encode(), "answer.json", name="orders")
    assert isinstance(found, UnreadableSource)
    assert found.reason == "orders: subscription 'sub': sub is 'text'; expected an object"


@pytest.mark.parametrize(
    ("of_cursor", "of_stats", "named"),
    [
        ({"waitingReadOp": "x"}, {}, "waitingReadOp is 'x'; expected true or false"),
        ({}, {"msgRateOut": ["x"]}, "msgRateOut is ['x']; expected a number"),
        ({}, {"msgBacklog": -3}, "msgBacklog is -3; expected 0 or more"),
    ],
)
def test_a_wrong_field_of_the_delivery_is_named_and_the_cursor_is_read(
    of_cursor: dict[str, Any], of_stats: dict[str, Any], named: str
) -> None:
    answer = internal()
    answer["cursors"]["sub"] |= of_cursor
    shown = stats()
    shown["subscriptions"]["sub"] |= of_stats
    joined = {"internalStats": answer, "stats": shown}
    found, unread = parse_each(json.dumps(joined).encode(), "answer.json", name="orders")
    assert isinstance(found, SubscriptionStats)
    assert (found.backlog_entries, found.dispatch, found.unreadable) == (9, None, (named,))
    assert isinstance(unread, UnreadableSource)
    assert unread.reason == f"orders: subscription 'sub': {named}"
    if of_stats:
        # An answer of `stats` alone shows nothing else.
        assert list(parse_each(json.dumps(shown).encode(), "answer.json", name="orders")) == [unread]


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"numberOfEntries": -1}, "numberOfEntries is -1; expected 0 or more"),
        ({"entriesAddedCounter": -1}, "entriesAddedCounter is -1; expected 0 or more"),
        ({"currentLedgerEntries": -1}, "currentLedgerEntries is -1; expected 0 or more"),
        ({"currentLedgerSize": -1}, "currentLedgerSize is -1; expected 0 or more"),
        ({"ledgers": [{"ledgerId": 4, "entries": -1}]}, "entries is -1; expected 0 or more"),
        ({"ledgers": [{"ledgerId": 4, "entries": 1, "size": -1}]}, "size is -1; expected 0 or more"),
        ({"cursors": {"sub": internal()["cursors"]["sub"] | {"state": 7}}}, "state is 7; expected text"),
    ],
)
def test_a_wrong_field_of_the_cursor_or_the_topic_makes_it_unreadable(
    changes: dict[str, Any], named: str
) -> None:
    answer = {"internalStats": internal(**changes), "stats": stats()}
    (unread,) = parse_each(json.dumps(answer).encode(), "answer.json")
    assert isinstance(unread, UnreadableSource)
    assert unread.reason.endswith(f": {named}")


@pytest.mark.parametrize("changes", [{"aborted": 0}, {"markerMessages": -1}, {"lastMessageId": 5}])
def test_a_wrong_field_of_a_counted_backlog_is_named(changes: dict[str, Any]) -> None:
    counted = {"aborted": False, "entries": 1, "messages": 1, "markerMessages": 0} | changes
    answer = {"internalStats": internal(), "stats": stats(), "backlogs": {"sub": counted}}
    (unread,) = parse_each(json.dumps(answer).encode(), "answer.json")
    assert isinstance(unread, UnreadableSource)
    assert f"subscription 'sub': {next(iter(changes))} is " in unread.reason


def test_a_cursor_that_delivered_nothing_since_the_load_may_have_ack_sets() -> None:
    """Seen live: receive ten of a batch, unload, subscribe without permits, acknowledge five, unload."""
    answer = internal()
    answer["cursors"]["sub"] |= {"state": "NoLedger", "cursorLedger": -1}
    shown = {"subscriptions": {"sub": {"msgOutCounter": 0}}}
    (found,) = parse({"internalStats": answer, "stats": shown})
    assert found.batch_deleted is None


def test_the_topic_is_read_from_the_metadata_of_a_ledger() -> None:
    ledgers = [{"ledgerId": 3, "entries": 10, "size": 1, "metadata": METADATA}]
    (found,) = parse(internal(ledgers=ledgers))
    assert found.topic == "persistent://public/default/orders/eu"


def test_every_wrapping_is_told_apart_by_content() -> None:
    named = {"persistent://t/n/a": internal(), "persistent://t/n/b": internal()}
    topics = ["persistent://t/n/a", "persistent://t/n/b"]
    assert [found.topic for found in parse(named)] == topics
    assert [found.topic for found in parse({"metadata": {}, "partitions": named})] == topics
    assert len(parse([internal(), {"internalStats": internal(), "stats": stats()}])) == 2
    one_after_the_other = (json.dumps(internal()) + "\n" + json.dumps(internal())).encode()
    assert len(list(parse_stats(one_after_the_other, "dump"))) == 2
    assert len(list(parse_stats(gzip.compress(json.dumps(internal()).encode()), "dump"))) == 1


def test_a_dump_with_a_line_above_each_answer_takes_the_topic_from_it() -> None:
    dump = "WARNING: something of the JVM\n"
    for topic in ("persistent://t/n/a", "persistent://t/n/b"):
        dump += f"{topic}\n{json.dumps(internal(), indent=2)}\n"
    found = list(parse_stats(dump.encode(), "dump"))
    assert [each.topic for each in found] == ["persistent://t/n/a", "persistent://t/n/b"]


@pytest.mark.parametrize(
    ("messages", "average", "sizes"),
    [
        (15, 1, BatchSizes(each=1)),
        (150, 10, BatchSizes(each=None, total_messages=150, total_entries=15)),
        (150, 9, BatchSizes(each=None, total_messages=150, total_entries=15)),
        (151, 10, BatchSizes(each=None, total_messages=151, total_entries=15)),
        (0, 10, BatchSizes(each=None)),
        (14, 1, BatchSizes(each=None)),
        (0, 0, BatchSizes(each=None)),
    ],
)
def test_batch_sizes_are_exact_only_where_the_counters_prove_them(
    messages: int, average: int, sizes: BatchSizes
) -> None:
    (found,) = parse({"internalStats": internal(), "stats": stats(messages, average=average)})
    assert found.batch_sizes == sizes


def test_markers_of_transactions_make_equal_counters_prove_nothing() -> None:
    told = stats(15) | {"committedTxnCount": 1}
    (found,) = parse({"internalStats": internal(), "stats": told})
    assert found.batch_sizes == BatchSizes(each=None)


def test_the_state_of_the_cursor_ledger_is_told_from_its_name_and_number() -> None:
    for state, ledger, expected in (
        ("Open", 7, "open"),
        ("NoLedger", 7, "read-only"),
        ("NoLedger", -1, "none"),
    ):
        cursor = internal()["cursors"]["sub"] | {"state": state, "cursorLedger": ledger}
        (found,) = parse(internal(cursors={"sub": cursor}))
        assert found.cursor_ledger == expected


def test_a_memory_dump_adds_batch_indexes_and_the_position_on_disk() -> None:
    memory = {
        "name": "sub",
        "batchDeletedIndexes": {"3:7": [33]},
        "persistentMarkDelete": {"ledger": 3, "entry": 0},
    }
    (found,) = parse({"internalStats": internal(), "cursor": memory, "t": 5})
    assert found.batch_deleted == {Position(3, 7): (33,)}
    assert (found.persisted_mark_delete, found.time_ms) == (Position(3, 0), 5)


@pytest.mark.parametrize(
    "words",
    [[2**70], "x", "", {}, [True], [1.5], 5, None, [None], [1] * 20_000],
    ids=lambda each: str(each)[:9],
)
def test_an_ack_set_that_is_none_is_refused(words: object) -> None:
    memory = {"name": "sub", "batchDeletedIndexes": {"3:7": words}}
    with pytest.raises(StatsError):
        parse({"internalStats": internal(), "cursor": memory, "t": 5})


@pytest.mark.parametrize("value", [[], {}, 5, False])
def test_a_read_position_that_is_not_text_is_refused(value: object) -> None:
    cursor = internal()["cursors"]["sub"] | {"readPosition": value}
    with pytest.raises(StatsError, match=r"readPosition is .*; expected text"):
        parse(internal(cursors={"sub": cursor}))


def test_a_folder_gives_all_its_files(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(internal()))
    (tmp_path / "deeper").mkdir()
    (tmp_path / "deeper" / "b.json.gz").write_bytes(gzip.compress(json.dumps(internal()).encode()))
    assert [found.topic for found in read_stats(tmp_path)] == ["a.json", "b.json.gz"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(StatsError, match=r"no \.json or \.json\.gz file"):
        list(read_stats(tmp_path / "empty"))


def test_a_hundred_thousand_ranges_are_read() -> None:
    text = "[" + ",".join(f"(3:{2 * n}..3:{2 * n + 1}]" for n in range(100_000)) + "]"
    cursor = internal()["cursors"]["sub"] | {"individuallyDeletedMessages": text}
    (found,) = parse(internal(cursors={"sub": cursor}))
    assert len(found.individually_deleted) == 100_000


WHOLE = json.dumps(internal())


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "an empty file, not the answer of"),
        (b"<!DOCTYPE html><html><title>Sign  in</title>", "an HTML page titled 'Sign in', not the answer of"),
        (b"<html>", "an HTML page, not the answer of"),
        (WHOLE[:-30].encode(), "the JSON ends too early"),
        (WHOLE[:200].encode(), "the JSON ends too early"),
        (gzip.compress(WHOLE.encode(), mtime=0)[:-9], "the gzip file is cut off"),
        (b'{"a": 1 2}', "not JSON at line 1"),
        (b"\x08\x05\x10\xff", "persisted cursor bytes, not the answer of .*`ackwell inspect` reads it"),
        (b"[" * 100_000, "nested too deeply"),
        (b"17", "a JSON int without `cursors`"),
        (WHOLE.replace('"sub": {', '"sub": {}, "sub": {').encode(), "the key 'sub' is twice in one object"),
        (b'{"subscriptions": {}, "subscriptions": {}}', "the key 'subscriptions' is twice in one object"),
        (b'{"a": {"b": 1}}', r"no `cursors` in this JSON object \(its keys: a\)"),
        (b'{"reason": "Topic not found"}', "the admin API refused: Topic not found"),
    ],
)
def test_what_is_no_answer_is_named_with_what_to_do(data: bytes, said: str) -> None:
    with pytest.raises(StatsError, match=said) as refusal:
        list(parse_stats(data, "some.json"))
    assert str(refusal.value).startswith("some.json: ")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"cursors": {"sub": {}}}, "no 'markDeletePosition'"),
        ({"cursors": {"sub": {"markDeletePosition": "3"}}}, "not a position: '3'"),
        ({"ledgers": [{"entries": 1}]}, "no 'ledgerId'"),
        ({"ledgers": 5}, "answer.json"),
        ({"cursors": {"sub": 5}}, "answer.json"),
        ({"lastConfirmedEntry": None}, "answer.json"),
        (
            {"cursors": {"sub": {"markDeletePosition": "3:1", "individuallyDeletedMessages": "[(3:2..3"}}},
            "answer.json",
        ),
    ],
)
def test_an_answer_that_lacks_something_is_refused_with_its_name(change: dict[str, Any], said: str) -> None:
    with pytest.raises(StatsError, match=said):
        parse(internal(**change))


@given(st.data())
def test_a_damaged_answer_is_read_or_refused_and_nothing_else(data: st.DataObject) -> None:
    text = bytearray(json.dumps({"internalStats": internal(), "stats": stats(), "t": 1}).encode())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text) - 1))
        kind = data.draw(st.sampled_from(("cut", "flip", "drop", "digit")))
        if kind == "cut":
            del text[max(at, 1) :]
        elif kind == "flip":
            text[at] ^= 1 << data.draw(st.integers(0, 7))
        elif kind == "drop":
            del text[at : at + data.draw(st.integers(1, 20))]
        else:
            text[at : at + 1] = b"9" * data.draw(st.integers(1, 25))
        if not text:
            break
    try:
        read = list(parse_stats(bytes(text), "some.json"))
    except StatsError:
        return
    for found in read:
        found.individually_deleted.validate()
        if found.shows_cursor:
            assert found.backlog_entries is not None or found.contradictions
        else:
            # Without `cursors`, or with a damaged name of it, only the answer of `stats` is read.
            assert b'"cursors"' not in text
            assert found.backlog_entries is None


def test_unknown_fields_are_no_matter() -> None:
    assert len(parse(internal(somethingNew={"a": 1}))) == 1


@pytest.mark.slow
def test_a_long_text_of_ranges_is_read_as_a_short_one_and_in_less_memory() -> None:
    import tracemalloc

    from ackwell.broker.documents import PIECE_BYTES

    ranges = [(3, 2 * n, 2 * n + 1) for n in range(400_000)]
    text = "[" + ",".join(f"({ledger}:{lower}..{ledger}:{upper}]" for ledger, lower, upper in ranges) + "]"
    assert len(text) > 4 * PIECE_BYTES
    told = internal(ledgers=[{"ledgerId": 3, "entries": 10**6}])
    told["cursors"] = {
        name: {**told["cursors"]["sub"], "individuallyDeletedMessages": shown, "markDeletePosition": "3:-1"}
        for name, shown in (("long", text), ("short", text[: text.index(",(", 100)] + "]"))
    }
    data = json.dumps({"persistent://a/b/c": told, "ackwell:ranges": 0}).encode()
    tracemalloc.start()
    long, short = parse_stats(data, "answer")
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak_bytes < len(data)
    assert list(long.individually_deleted) == ranges
    assert list(short.individually_deleted) == ranges[: len(short.individually_deleted)]
    damaged = data.replace(b"(3:600000..", b"(3:60000x..")
    with pytest.raises(StatsError, match=r"persistent://a/b/c: subscription 'long': at byte \d{7}: expected"):
        list(parse_stats(damaged, "answer"))


def test_the_topics_of_one_object_are_decoded_one_after_the_other() -> None:
    told = {f"persistent://a/b/t-{n}": internal() for n in range(3)}
    text = json.dumps({**told, "note": 5, "persistent://a/b/\u00e9": internal()}, indent=1)
    topics = [stats.topic for stats in parse_stats(text.encode(), "answer")]
    assert topics == [*told, "persistent://a/b/\u00e9"]
    cut_off = parse_stats(text[:-40].encode(), "answer")
    assert [next(cut_off).topic for _ in told] == [*told]
    with pytest.raises(StatsError, match="cut off"):
        list(cut_off)
    for wrong in ("]", " 5}", ", 5}", ', "x" 5}'):
        with pytest.raises(StatsError, match="not JSON at line"):
            list(parse_stats((json.dumps(told)[:-1] + wrong).encode(), "answer"))


def test_the_position_of_a_cursor_that_was_never_used_is_before_the_first_entry() -> None:
    unused = {
        "sub": {"markDeletePosition": "-1:-1", "readPosition": "-1:0", "individuallyDeletedMessages": "[]"}
    }
    (found,) = parse(internal(cursors=unused))
    assert found.mark_delete_position == Position(3, -1)
    nothing = {"ledgers": [], "lastConfirmedEntry": "-1:-1", "currentLedgerEntries": 0, "numberOfEntries": 0}
    (found,) = parse(internal(cursors=unused, **nothing))
    assert found.mark_delete_position == Position(0, -1)
    assert found.backlog_entries == 0


def test_messages_of_whole_and_partly_acknowledged_entries_are_added_up() -> None:
    partial = {Position(3, 1): (0b100,), Position(3, 5): (0b1,)}
    # Of the first at least two; of the second at least one, which the words do not show.
    assert BatchSizes(each=1).acked(4, partial) == Bounds(4 + 2 + 1, None)
    assert BatchSizes(each=3).acked(4, partial) == Bounds(12 + 2 + 2, 12 + 2 + 2)
    assert BatchSizes(each=None).acked(4, partial) == Bounds(4 + 2 + 1, None)
    known = BatchSizes(each=None, total_messages=30, total_entries=10)
    # Four others hold one each, and two messages are seen not to be acknowledged.
    assert known.acked(4, partial) == Bounds(4 + 2 + 1, 30 - 4 - 2)
