"""The command line, run in this process: the answer of a command, and the form of a refusal."""

from __future__ import annotations

import io
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NamedTuple
from unittest import mock

from ackwell.cli import main

CPU_SECONDS_MAX = 60
"""Far more than any of these inputs takes; CPU time, so that a busy machine fails nothing."""

ERROR, USAGE = 1, 2
CODES = {0, ERROR, USAGE, 3, 4, 5}


class Answer(NamedTuple):
    """The result of a command."""

    code: int
    out: str
    err: str


def ackwell(*arguments: str, stdin: bytes = b"") -> Answer:
    """Run a command. An exception that the command does not handle fails the test."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    given = io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8")
    code: object = 0
    with (
        mock.patch.multiple(sys, argv=["ackwell", *arguments], stdin=given, stdout=out, stderr=err),
        limited(),
    ):
        try:
            main()
        except SystemExit as left:
            code = left.code or 0
    texts = []
    for stream in (out, err):
        stream.flush()
        texts.append(stream.buffer.getvalue().decode(errors="replace"))
    assert isinstance(code, int)
    return Answer(code, *texts)


def command(*arguments: object, stdin: bytes = b"") -> tuple[int, str]:
    """Run a command; return its exit code and its standard output."""
    answer = ackwell(*map(str, arguments), stdin=stdin)
    return answer.code, answer.out


def held(answer: Answer) -> Answer:
    """Return an answer that is a result, or a refusal as it should be."""
    assert answer.code in CODES, answer
    assert "Traceback" not in answer.err
    if answer.code == ERROR:
        # What could not be read before it has lines of its own.
        *before, line = [line for line in answer.err.split("\n") if line]
        assert line.startswith("error: "), answer.err
        assert len(line) > len("error: "), "an error says what is wrong"
        assert all(each.startswith(("not read: ", "not replayed: ")) for each in before), answer.err
    return answer


@contextmanager
def limited() -> Iterator[None]:
    """Raise an error if the block uses too much CPU time, because it then probably does not end."""

    def end(_signal: int, _frame: FrameType | None) -> None:
        raise AssertionError(f"took more than {CPU_SECONDS_MAX} s of CPU")

    if not hasattr(signal, "setitimer"):
        yield
        return
    before = signal.signal(signal.SIGVTALRM, end)
    signal.setitimer(signal.ITIMER_VIRTUAL, CPU_SECONDS_MAX)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
