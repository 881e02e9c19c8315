"""Four threads on one ledger directory, one name table and one fold: no entry is lost or mixed up."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ackwell import Ledgers, Position
from ackwell._native import Names, Partials
from tests.threads.together import run

THREADS = 4
PAIRS = 50
EXISTS, ACK = (Partials.ACTIONS.index(name) for name in ("Exists", "Ack"))


def test_a_name_has_one_number_whichever_threads_ask_for_it() -> None:
    names = Names()
    texts = [f"persistent://shop/eu/{number}" for number in range(500)]
    encoded = [text.encode() for text in texts]
    columns = np.cumsum([0, *map(len, encoded)]).astype(np.int32), np.frombuffer(b"".join(encoded), np.uint8)
    found: list[list[int]] = []

    def work(thread: int) -> Callable[[], None]:
        def number_all() -> None:
            # Each thread begins at another place; two of the four pass columns.
            turned = texts[thread * 100 :] + texts[: thread * 100]
            one_by_one = {text: names.number(text) for text in turned} if thread % 2 else {}
            many = names.number_many(*columns).tolist()
            assert [one_by_one.get(text, many[at]) for at, text in enumerate(texts)] == many
            assert [names[number] for number in many] == texts
            found.append(many)

        return number_all

    run(*map(work, range(THREADS)))
    names.validate()
    assert len(found) == THREADS
    assert all(numbers == found[0] for numbers in found)
    assert sorted(found[0]) == list(range(len(texts))) == list(range(len(names)))


def test_a_directory_that_grows_and_is_trimmed_answers_every_question_all_the_while() -> None:
    ledgers = Ledgers({0: 3})
    last = 2_000

    def grow() -> None:
        for ledger_id in range(1, last + 1):
            ledgers.grow(ledger_id, 3)
            if ledger_id % 100 == 0:
                ledgers.trim_before(ledger_id - 50)

    def ask() -> None:
        while (end := ledgers.last_position) != (last, 2):
            assert end is not None
            position = ledgers.next_valid(*end)
            # Other threads may have grown it; each answer belongs to one moment.
            assert position.ledger_id >= end.ledger_id
            assert ledgers.contains(*end) or ledgers.trimmed_before > end.ledger_id
            assert ledgers.entries_between(Position(0, -1), end) % 3 == 0
            listed = list(ledgers)
            assert listed == sorted(listed)

    run(grow, *[ask] * (THREADS - 1))
    ledgers.validate()
    assert (ledgers.trimmed_before, len(ledgers)) == (last - 50, 51)


def test_what_threads_feed_into_one_fold_is_all_in_it() -> None:
    partials, rest = Partials(), Partials()
    rows = 2 * PAIRS
    subscriptions = np.repeat(np.arange(PAIRS, dtype=np.int32), 2), np.arange(1, PAIRS + 1, dtype=np.int32)
    topics = np.zeros(rows, np.int32), np.array([1], np.int32)
    kinds = np.tile(np.array([0, 1], np.int32), PAIRS), np.array([EXISTS, ACK], np.int32)

    def feed(into: Partials, entry_id: int) -> None:
        assert into.feed(topics, subscriptions, kinds, np.full(rows, 7), np.full(rows, entry_id)) is None

    feed(rest, 80)

    def work(thread: int) -> Callable[[], None]:
        def feed_all() -> None:
            for entry_id in range(thread, 80, THREADS):
                feed(partials, entry_id)
                taken = partials.encode()
                assert taken["taken"] == len(partials) == PAIRS
                if entry_id == 40:
                    names = np.arange(PAIRS + 1, dtype=np.int32)
                    partials.absorb(rest, names[:2], names, names[:1])

        return feed_all

    run(*map(work, range(THREADS)))
    assert (len(partials), len(rest), partials.first_flawed()) == (PAIRS, 0, None)
    for pair in range(PAIRS):
        info, ledgers, _ = partials.cursor(pair)
        assert (info.position, list(ledgers)) == ((7, 80), [(7, 81)])
