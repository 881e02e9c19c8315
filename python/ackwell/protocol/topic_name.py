"""Topic names: `persistent://tenant/namespace/topic`, and the short forms that clients accept."""

from __future__ import annotations

import re
from typing import NamedTuple, Self

_PARTITION = re.compile(r"^(.*)-partition-(\d{1,9})$", re.DOTALL)


class TopicName(NamedTuple):
    """The parts of a topic's name.

    >>> str(TopicName.parse("orders"))
    'persistent://public/default/orders'
    >>> TopicName.parse("persistent://a/b/orders-partition-3").partition
    3
    """

    domain: str
    tenant: str
    namespace: str
    local: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a name; `ValueError` if the text is invalid, `TypeError` if it is not a text."""
        if not isinstance(text, str):
            raise TypeError(f"a topic's name of type {type(text).__name__}; expected a text")
        domain, scheme, rest = text.partition("://")
        if not scheme:
            domain, rest = "persistent", text
        parts = rest.split("/", 2)
        if len(parts) == 1 and not scheme:
            parts = ["public", "default", *parts]
        if len(parts) != 3 or domain not in ("persistent", "non-persistent") or not all(parts):
            raise ValueError(f"invalid topic name: {text!r}; expected domain://tenant/namespace/topic")
        return cls(domain, *parts)

    def __str__(self) -> str:
        return f"{self.domain}://{self.tenant}/{self.namespace}/{self.local}"

    @property
    def persistent(self) -> bool:
        """Whether the topic stores its messages."""
        return self.domain == "persistent"

    @property
    def in_namespace(self) -> str:
        """The namespace with its tenant: `tenant/namespace`."""
        return f"{self.tenant}/{self.namespace}"

    @property
    def partition(self) -> int:
        """The partition index; -1 if the topic is not a partition."""
        found = _PARTITION.match(self.local)
        return int(found[2]) if found else -1

    @property
    def partitioned(self) -> Self:
        """The partitioned topic of a partition; for any other topic, itself."""
        found = _PARTITION.match(self.local)
        return self._replace(local=found[1]) if found else self

    def of_partition(self, index: int) -> Self:
        """Return the name of a partition."""
        return self._replace(local=f"{self.local}-partition-{index}")


def full_name(text: str) -> str:
    """Return the full name of a topic, or the text itself if it is not a valid name.

    >>> full_name("orders")
    'persistent://public/default/orders'
    """
    try:
        return str(TopicName.parse(text))
    except ValueError:
        return text
