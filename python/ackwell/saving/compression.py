"""The compression type of a ledger's entries, which its metadata tells, as PIP-381 has it.

A broker's ledger has one type for life. Ours may change it from one save to the next, so the value lists
the changes, each with the first entry it is for: `ZSTD`, or `NONE,17:ZSTD`. It is written before that
entry, so whatever a crash leaves, each entry is read by its own type.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ackwell.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Pulsar's types; the first is PIP-381's default.
COMPRESSIONS: Final = ("NONE", "LZ4", "ZLIB", "ZSTD", "SNAPPY")
#: The name of PIP-381's setting, and of the type in the metadata.
COMPRESSION_TYPE: Final = "cursorInfoCompressionType"


def check(compression: str) -> None:
    """Raise `ValueError` for what is no compression type."""
    if compression not in COMPRESSIONS:
        raise ValueError(f"compression {compression!r}: expected one of {', '.join(COMPRESSIONS)}")


def compression_at(metadata: Mapping[str, bytes], entry_id: int) -> str:
    """Return the type of an entry; `StoreError` for metadata that this release does not read.

    >>> [compression_at({COMPRESSION_TYPE: b"NONE,17:ZSTD"}, entry_id) for entry_id in (16, 17)]
    ['NONE', 'ZSTD']
    """
    return next(name for since, name in reversed(_changes(metadata)) if since <= entry_id)


def changed(
    metadata: Mapping[str, bytes], compression: str, next_id: int, first_id: int
) -> dict[str, bytes] | None:
    """Return the metadata that says an entry's type, or None where it says so already.

    What held for entries before `first_id`, which are deleted, is left out.

    >>> changed({}, "ZSTD", 0, 0)
    {'cursorInfoCompressionType': b'ZSTD'}
    >>> changed({}, "NONE", 0, 0) is None
    True
    """
    if compression_at(metadata, next_id) == compression:
        return None
    changes = [*_changes(metadata), (next_id, compression)]
    oldest = max(index for index, (since, _) in enumerate(changes) if since <= first_id)
    (_, first), *others = changes[oldest:]
    value = ",".join([first, *(f"{since}:{name}" for since, name in others)])
    return {**metadata, COMPRESSION_TYPE: value.encode()}


def _changes(metadata: Mapping[str, bytes]) -> list[tuple[int, str]]:
    """Return the types with the first entry of each, in order."""
    value = metadata.get(COMPRESSION_TYPE, COMPRESSIONS[0].encode())
    changes = []
    for index, part in enumerate(value.decode(errors="replace").split(",")):
        since, colon, name = part.rpartition(":")
        if name not in COMPRESSIONS or bool(colon) != bool(index) or (colon and not since.isdecimal()):
            raise StoreError(
                f"the ledger's {COMPRESSION_TYPE} is {value!r}, which this ackwell does not read"
            )
        changes.append((int(since or 0), name))
    return changes
