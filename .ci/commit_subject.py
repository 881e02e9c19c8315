"""Check the subject of a commit message: `area: imperative`, with one to three areas.

python .ci/commit_subject.py FILE      # a hook of pre-commit
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

LENGTH_MAX = 100
SUBJECT = re.compile(r"(?P<areas>[a-z.][a-z0-9_.\-/]*(, [a-z.][a-z0-9_.\-/]*){0,2}): (?P<verb>[a-z]+)( |$)")
BY_GIT = re.compile(r"(Merge|Revert|fixup!|squash!|amend!) ")
"""Beginnings of subjects that git writes."""
NOT_IMPERATIVE = re.compile(r"\w+(ed|ing)$|(?!(\w*(ss|us|is)|bias|canvas)$)\w+s$")
IMPERATIVE = {
    "embed",
    "exceed",
    "feed",
    "need",
    "proceed",
    "seed",
    "shed",
    "speed",
    "bring",
    "ring",
    "string",
}
"""Verbs that only look like another form."""


def fault_of(subject: str) -> str | None:
    """Return what is wrong with a subject, or None.

    >>> fault_of("doctor: judge subscriptions without a cursor ledger")
    >>> fault_of("doctor: judged subscriptions without a cursor ledger")
    "begin with the imperative: 'judged' is another form"
    >>> fault_of("_native.pyi: type the ack sets")
    "write 'area: imperative', for example 'doctor: judge subscriptions without a cursor ledger'"
    >>> fault_of("store, replay, cursor, drawing: rewrite docstrings")
    "write 'area: imperative', for example 'doctor: judge subscriptions without a cursor ledger'"
    >>> fault_of("Judge subscriptions")
    "write 'area: imperative', for example 'doctor: judge subscriptions without a cursor ledger'"
    """
    if BY_GIT.match(subject):
        return None
    found = SUBJECT.match(subject)
    if found is None:
        return "write 'area: imperative', for example 'doctor: judge subscriptions without a cursor ledger'"
    if NOT_IMPERATIVE.match(found["verb"]) and found["verb"] not in IMPERATIVE:
        return f"begin with the imperative: {found['verb']!r} is another form"
    if len(subject) > LENGTH_MAX:
        return f"{len(subject)} characters; at most {LENGTH_MAX}"
    return "end without a full stop" if subject.endswith(".") else None


if __name__ == "__main__":
    subject = next(iter(Path(sys.argv[1]).read_text().splitlines()), "")
    if fault := fault_of(subject):
        sys.exit(f"{subject!r}: {fault}")
