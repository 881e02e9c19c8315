"""The key of an entry: what the sticky-key hash is of."""

from __future__ import annotations

from base64 import b64decode
from typing import Any


def key_bytes(metadata: Any) -> bytes:
    """Return the bytes that the hash is of, as the broker chooses them: never none."""
    if metadata.ordering_key:
        ordering_key: bytes = metadata.ordering_key
        return ordering_key
    if metadata.partition_key:
        key: str = metadata.partition_key
        return b64decode(key) if metadata.partition_key_b64_encoded else key.encode()
    return f"{metadata.producer_name}-{metadata.sequence_id}".encode()
