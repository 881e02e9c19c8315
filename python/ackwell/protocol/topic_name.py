"""Topic names: `persistent://tenant/namespace/topic`, and the short names that clients accept."""

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
        """Parse the name of a topic.

        `ValueError` if the text is invalid, `TypeError` if it is not a `str`.
        """
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
        """The namespace with its tenant, as `tenant/namespace`."""
        return f"{self.tenant}/{self.namespace}"

    @property
    def partition(self) -> int:
        """The index of the partition; -1 if the topic is not a partition."""
        found = _PARTITION.match(self.local)
        return int(found[2]) if found else -1

    @property
    def partitioned(self) -> Self:
        """The name of the partitioned topic that a partition belongs to. Any other topic returns itself."""
        found = _PARTITION.match(self.local)
        return self._replace(local=found[1]) if found else self

    def of_partition(self, index: int) -> Self:
        """Return the name of the partition with an index."""
        return self._replace(local=f"{self.local}-partition-{index}")


def full_name(text: str) -> str:
    """Return the full name of a topic. If the text is not a valid name, return it unchanged.

    >>> full_name("orders")
    'persistent://public/default/orders'
    """
    try:
        return str(TopicName.parse(text))
    except ValueError:
        return text
