"""The names of topics and subscriptions as a broker's storage encodes them.

A broker stores a cursor under the encoded name of the subscription, and `stats-internal` shows this name.
`stats` and every tool of Pulsar show the name that the application uses.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final
from urllib.parse import quote_plus, unquote_plus

INTERNAL_SUBSCRIPTIONS: Final = ("__compaction",)
"""The broker's own subscriptions that `stats` lists in the same way as subscriptions of applications."""


def decoded_name(name: str) -> str:
    """Convert a name in a broker's storage to the name that applications use.

    >>> decoded_name("team%3Aeu"), decoded_name("tenant%2Fnamespace%2Ffunction"), decoded_name("a+b")
    ('team:eu', 'tenant/namespace/function', 'a b')
    """
    return unquote_plus(name)


def encoded_name(name: str) -> str:
    """Convert a name that applications use to the name in a broker's storage.

    >>> encoded_name("team:eu"), encoded_name("a b~*")
    ('team%3Aeu', 'a+b%7E*')
    """
    return quote_plus(name, safe="*").replace("~", "%7E")


def subscription_name(cursor: str, shown: Collection[str] = ()) -> str:
    """Return the name of a cursor's subscription; `shown` contains the names in the answer of `stats`.

    Return `cursor` unchanged if `shown` contains it but not its decoded form. A tool other than a broker may
    have written such an answer.

    >>> subscription_name("a+b"), subscription_name("a+b", ["a+b"])
    ('a b', 'a+b')
    """
    name = decoded_name(cursor)
    return cursor if cursor in shown and name not in shown else name


def same_subscription(name: str, given: str) -> bool:
    """Return whether `given` is the name of a subscription, or the encoded name of its cursor.

    >>> same_subscription("team:eu", "team:eu"), same_subscription("team:eu", "team%3Aeu")
    (True, True)
    """
    return given in (name, encoded_name(name))
