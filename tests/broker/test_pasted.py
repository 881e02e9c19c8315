"""Pasted answers: visible values are read, and omitted values are not invented."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackwell.broker.contradictions import DumpPart
from ackwell.broker.pasted import clean_pasted
from ackwell.broker.stats import SubscriptionStats, UnreadableSource, parse_each
from ackwell.diagnosis.doctor import diagnose
from ackwell.errors import StatsError

CURSOR = {"markDeletePosition": "5:3", "readPosition": "5:4", "individuallyDeletedMessages": "[]"}
INTERNAL = json.dumps(
    {
        "lastConfirmedEntry": "5:9",
        "ledgers": [{"ledgerId": 5, "entries": 0, "size": 0}],
        "currentLedgerEntries": 10,
        "cursors": {"sub": {**CURSOR, "state": "Open"}},
    },
    indent=1,
)
SUBSCRIPTION = {"msgBacklog": 6, "type": "Shared", "consumers": [{"consumerName": "a"}]}
STATS = json.dumps({"publishers": [], "subscriptions": {"sub": SUBSCRIPTION}}, indent=1)


CURL = """* Host broker:8080 was resolved.
*   Trying 127.0.0.1:8080...
* Connected to broker (127.0.0.1) port 8080
> GET /admin/v2/persistent/public/default/t/internalStats HTTP/1.1
> Host: broker:8080
> Accept: */*
>
< HTTP/1.1 200 OK
< Date: Fri, 27 Nov 2026 02:00:00 GMT
< Content-Type: application/json
<
{ [1052 bytes data]
BODY
* Connection #0 to host broker left intact
"""


@pytest.mark.parametrize(
    "text",
    [
        f"[root@box bin]# ./pulsar-admin topics stats-internal t\n{INTERNAL}",
        f"{INTERNAL}\n[root@box bin]# ",
        f"```json\n{INTERNAL}\n```\n",
        f"`{INTERNAL}`",
        INTERNAL.replace('"Open"', '"Open",'),
        INTERNAL.replace('"ledgers"', '// the ledgers, "all"\n "ledgers"'),
        INTERNAL.replace('"ledgers"', '/* the\nledgers */ "ledgers"'),
        INTERNAL.replace('"cursors": {', '"cursors": { ...,'),
        INTERNAL.replace('"currentLedgerEntries"', '...\n "currentLedgerEntries"'),
        "\n".join(f"> {line}" for line in INTERNAL.splitlines()),
        "\n".join(f"> > {line}" for line in INTERNAL.splitlines()),
        "\n".join(f">> {line}" for line in INTERNAL.splitlines()),
        INTERNAL.replace(" ", "\u00a0"),
        INTERNAL.replace("\n", "\u200b\n"),
        INTERNAL.replace('"', "\u201c", 1).replace('"', "\u201d", 1),
        f"{INTERNAL}%",
        f"{INTERNAL}%\nme@box ~ % ",
        re.sub(r'("[^"]*"|[{}:,])', "\x1b[1;39m\\1\x1b[0m", INTERNAL),
        f"\x1b[1;39m{json.dumps(json.loads(INTERNAL), indent=2)}\x1b[0m",
        repr(json.loads(INTERNAL) | {"offloaded": False, "owner": None}),
        f">>> answer\n{json.loads(INTERNAL)}\n>>> ",
        CURL.replace("BODY", INTERNAL),
        CURL.replace("BODY", json.dumps(json.loads(INTERNAL))),
    ],
)
def test_what_is_around_or_between_an_answer_does_not_matter(text: str) -> None:
    (found,) = parse_each(text.encode(), "pasted.json")
    assert not isinstance(found, UnreadableSource)
    assert (found.subscription, found.backlog_entries, found.shows_cursor) == ("sub", 6, True)


@pytest.mark.parametrize(
    ("text", "said"),
    [(STATS.replace("}\n   ]", "}, ...\n   ]"), "; expected an array of objects")],
)
def test_a_list_that_was_cut_short_is_not_taken_for_the_whole(text: str, said: str) -> None:
    (found,) = parse_each(text.encode(), "pasted.json")
    assert isinstance(found, UnreadableSource)
    assert said in found.reason


@pytest.mark.parametrize(
    ("text", "unknown"),
    [
        (INTERNAL.replace('"[]"', "..."), {DumpPart.ACKNOWLEDGMENTS}),
        (INTERNAL.replace('"[]"', '"[(5:4..5:5],(5:6..."'), {DumpPart.ACKNOWLEDGMENTS}),
        (INTERNAL.replace('"[]"', '"[(5:4..5:5],...,(5:7..5:8]]"'), {DumpPart.ACKNOWLEDGMENTS}),
        (INTERNAL.replace("[\n  {", "[ ...,\n  {"), {DumpPart.LEDGERS, DumpPart.BATCH_SIZES}),
    ],
)
def test_a_cut_costs_the_numbers_and_not_the_delivery_verdict(text: str, unknown: set[DumpPart]) -> None:
    blocked = {"consumerName": "a", "availablePermits": 0, "unackedMessages": 3}
    stats = json.dumps({"publishers": [], "subscriptions": {"sub": SUBSCRIPTION | {"consumers": [blocked]}}})
    (found,) = parse_each(f"{text}\n{stats}".encode(), "pasted.json")
    assert isinstance(found, SubscriptionStats)
    assert found.unknown == frozenset(unknown)
    assert found.backlog_entries is None
    assert "cut off" in str(found.contradictions[0])
    diagnosis = diagnose(found)
    assert diagnosis.delivery.code.code == "no-permits"
    assert diagnosis.messages_lost.exact is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('"sub" : {"markDeletePosition": "5:3"}', "a part of an answer, from its middle"),
        ('subscriptions" : {"sub": {"msgBacklog": 6}}', "a part of an answer, from its middle"),
        (INTERNAL[:-40], "the JSON ends too early"),
    ],
)
def test_a_part_of_an_answer_is_said_to_be_one(text: str, said: str) -> None:
    with pytest.raises(StatsError, match=said):
        list(parse_each(text.encode(), "pasted.json"))


@pytest.mark.parametrize(
    "text", [f"{STATS}\n{INTERNAL}", f"{INTERNAL}\n$ pulsar-admin topics stats t\n{STATS}"]
)
def test_both_answers_about_a_topic_in_one_file_are_one_dump(text: str) -> None:
    (found,) = parse_each(text.encode(), "pasted.json")
    assert not isinstance(found, UnreadableSource)
    assert found.shows_cursor
    assert found.dispatch is not None
    assert found.dispatch.backlog_messages == 6


def test_answers_about_several_topics_are_not_joined() -> None:
    other = STATS.replace('"sub"', '"other"')
    for text in (f"{other}\n{INTERNAL}", f"persistent://a/b/c\n{STATS}\npersistent://a/b/d\n{INTERNAL}"):
        found = list(parse_each(text.encode(), "pasted.json"))
        assert all(
            isinstance(each, UnreadableSource) or each.dispatch is None or not each.shows_cursor
            for each in found
        )
    found = list(parse_each(f"{STATS}{STATS}{INTERNAL}".encode(), "pasted.json"))
    assert all(
        isinstance(each, UnreadableSource) or each.dispatch is None or not each.shows_cursor for each in found
    )


@pytest.mark.parametrize(
    "text",
    [
        f"[{STATS}]",
        f'{{"public/default": {{"persistent": {{"persistent://public/default/t": {STATS}}}}}}}',
        STATS[:-1] + f', "partitions": {{"persistent://public/default/t": {STATS}}}}}',
    ],
)
def test_an_answer_of_stats_is_found_within_others(text: str) -> None:
    (found,) = parse_each(text.encode(), "pasted.json")
    assert not isinstance(found, UnreadableSource)
    assert found.dispatch is not None
    assert found.topic == ("pasted.json" if text.startswith("[") else "persistent://public/default/t")


@pytest.mark.parametrize("text", ["[1,,2]", "[,1,2]", "[1,2,,,]", "[1, ,2,]", ",[1,2]"])
def test_a_comma_too_many_is_none(text: str) -> None:
    assert json.loads(clean_pasted(text)) == [1, 2]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(json_values, st.sampled_from([None, 1]))
def test_what_is_json_already_stays_what_it_is(value: object, indent: int | None) -> None:
    # A `>` begins a line of JSON only inside of no text: texts have no line breaks.
    assert json.loads(clean_pasted(json.dumps(value, indent=indent))) == value


def test_the_escapes_of_python_keep_their_meaning() -> None:
    value = {"a": "tab\t, line\n, \x00 and backslash \\", "b": None}
    assert json.loads(clean_pasted(repr(value))) == value
    assert clean_pasted(r"{'a': '\x'}") == r"""{"a": '\x'}"""


@given(st.text(alphabet='{}[]",:.`>/*a1 \n…', max_size=60))
def test_anything_can_be_asked(text: str) -> None:
    clean_pasted(text)
