"""JSON lines into columns of events, line by line, for plain lines."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

NULL = -(2**63)
_LONG_NAMES = {
    "ev": "kind",
    "sub": "subscription",
    "txn": "transaction",
    "l": "ledger_id",
    "e": "entry_id",
    "bi": "batch_index",
    "rc": "redelivery_count",
    "t": "time_ms",
    "deliver_at": "deliver_at_ms",
    "c": "consumer",
}
_COUNTS = ("ledger_id", "entry_id", "sequence", "batch_index", "batch_size", "redelivery_count")
_INTEGERS = (*_COUNTS, "time_ms", "deliver_at_ms", "sticky_key_hash")
_TEXTS = ("kind", "topic", "subscription", "transaction", "consumer", "key")


class _Odd(Exception):  # noqa: N818 (no error: the line is left to the caller)
    """The line is not plain."""


class TraceReader:
    """See `ackwell._native.TraceReader`."""

    def __init__(self, kinds: list[tuple[str, bool]]) -> None:
        self._kinds = {kind: (code, of_topic) for code, (kind, of_topic) in enumerate(kinds)}
        self._topics: list[str] = []
        self._subscriptions = [""]
        self._transactions = [""]
        self._default_topic: str | None = None
        self._default_subscription: str | None = None

    def set_defaults(self, topic: str | None = None, subscription: str | None = None) -> None:
        """Set the names for lines without them."""
        for names, name in ((self._topics, topic), (self._subscriptions, subscription)):
            if name is not None:
                _number(names, name)
        self._default_topic, self._default_subscription = topic, subscription

    def names(self, starts: list[int]) -> list[list[str]]:
        """Return the names from these numbers on."""
        known = self._topics, self._subscriptions, self._transactions
        return [names[start:] for names, start in zip(known, starts, strict=True)]

    def read(
        self, data: bytes, start: int, end: int, line: int
    ) -> tuple[int, int, int | None, dict[str, Any]]:
        """Read lines up to the first line that is not plain."""
        rows: list[tuple[int, ...]] = []
        words: list[int] = []
        transactions: list[int] = []
        at, lines, odd = start, 0, None
        while at < end:
            next_at = data.find(b"\n", at, end) + 1 or end
            text = data[at:next_at]
            if text.strip():
                try:
                    row, ack_set, transaction = self._row(text, line + lines)
                except _Odd:
                    odd = next_at
                    break
                first = NULL if ack_set is None else len(words)
                words += ack_set or []
                transactions.append(_number(self._transactions, transaction or ""))
                rows.append((*row, first, len(words)))
            at, lines = next_at, lines + 1
        names = ["topics", "subscriptions", "kinds", "ledger_ids", "entry_ids", "sequences"]
        names += ["batch_indexes", "batch_sizes", "set_starts", "set_ends"]
        columns: dict[str, Any] = {
            name: np.array([row[n] for row in rows], np.int32 if n < 3 else np.int64)
            for n, name in enumerate(names)
        }
        columns |= {"words": np.array(words, np.int64), "transactions": np.array(transactions, np.int32)}
        return at - start, lines, odd, columns

    def _row(self, text: bytes, line: int) -> tuple[tuple[int, ...], list[int] | None, str | None]:
        fields = _fields(text)
        known = self._kinds.get(fields.get("kind") or "")
        topic = fields.get("topic") if fields.get("topic") is not None else self._default_topic
        if known is None or topic is None:
            raise _Odd
        code, of_topic = known
        subscription = fields.get("subscription")
        if subscription is None:
            subscription = self._default_subscription or ""
        if not subscription and not of_topic:
            raise _Odd
        if fields["kind"] in ("commit", "abort") and fields.get("transaction") is None:
            raise _Odd
        if fields["kind"] == "publish" and fields.get("ok") is False:
            code = self._kinds["publish_failed"][0]
        counts = [fields.get(name) for name in _COUNTS]
        if any(count is not None and count < 0 for count in counts) or fields.get("entry_id") == 2**63 - 1:
            raise _Odd
        ledger_id, entry_id, sequence, index, size, _ = (NULL if c is None else c for c in counts)
        row = (
            _number(self._topics, topic),
            _number(self._subscriptions, subscription),
            code,
            ledger_id,
            entry_id,
            line if sequence == NULL else sequence,
            index,
            size,
        )
        return row, fields.get("ack_set"), fields.get("transaction")


def _number(names: list[str], name: str) -> int:
    if name not in names:
        names.append(name)
    return names.index(name)


def _fields(text: bytes) -> dict[str, Any]:  # noqa: C901 (every case in one place)
    """Return the fields of a plain line: an object with each known field once, of its type."""

    def pairs(given: list[tuple[str, Any]]) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        for name, value in given:
            name = _LONG_NAMES.get(name, name)
            if name in fields and name in (*_INTEGERS, *_TEXTS, "ack_set", "ok"):
                raise _Odd
            fields[name] = value
        return fields

    try:
        fields = json.loads(text, object_pairs_hook=pairs)
    except (ValueError, RecursionError):
        raise _Odd from None
    if not isinstance(fields, dict):
        raise _Odd
    for name in _INTEGERS:
        value = fields.get(name)
        if value is not None and (type(value) is not int or not NULL < value < 2**63):
            raise _Odd
    if any(not isinstance(fields.get(name), str | None) for name in _TEXTS):
        raise _Odd
    if not isinstance(fields.get("ok", True), bool):
        raise _Odd
    words = fields.get("ack_set")
    if words is not None:
        if not isinstance(words, list):
            raise _Odd
        if any(type(word) is not int or not NULL <= word < 2**63 for word in words):
            raise _Odd
    return fields
