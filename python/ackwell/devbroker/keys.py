"""The key of an entry, from which the sticky-key hash is computed."""

from __future__ import annotations

from base64 import b64decode
from typing import Any

from ackwell.subscription.sticky_key import keyless_key


def key_bytes(metadata: Any) -> bytes:
    """Return the bytes of an entry from which its sticky-key hash is computed, by Pulsar's rules.

    The result is never empty.
    """
    if metadata.ordering_key:
        ordering_key: bytes = metadata.ordering_key
        return ordering_key
    if metadata.partition_key:
        key: str = metadata.partition_key
        return b64decode(key) if metadata.partition_key_b64_encoded else key.encode()
    return keyless_key(metadata.producer_name, metadata.sequence_id)
