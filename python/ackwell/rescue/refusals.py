"""The error by which a rescue refuses an operation. `refusals.toml` has the messages."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files

from ackwell.errors import AckwellError


class RefusedError(AckwellError):
    """The error of a failed check. Nothing was changed. `code` names the check, and `remedy` is the advice.

    >>> str(RefusedError("transactions", topic="persistent://shop/eu/orders"))
    'persistent://shop/eu/orders has open transactions, and their pending acknowledgments are not shown. \
Wait until they have ended'
    """

    def __init__(self, code: str, **values: object) -> None:
        words = texts()[code]
        self.code = code
        self.remedy = words["remedy"].format(**values)
        super().__init__(f"{words['message'].format(**values)}. {self.remedy}")


def refuse_other_cluster(what: str, then: str | None, now: str | None) -> None:
    """Raise `RefusedError` if the cluster names `then` and `now` are both known and differ."""
    if None not in (then, now) and then != now:
        raise RefusedError("other-cluster", what=what, then=then, now=now)


@cache
def texts() -> dict[str, dict[str, str]]:
    """Return a map from the code of each refusal to its message and remedy."""
    return tomllib.loads(files("ackwell.rescue").joinpath("refusals.toml").read_text("utf-8"))
