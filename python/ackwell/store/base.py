"""The protocol of a store: a ledger of entries with one owner at a time.

A *ledger* corresponds to a BookKeeper ledger: entries with consecutive ids, and a small map of metadata.
Opening a ledger only reads it. The owner is the last process that called `own`; each owner has a greater
*generation* than all earlier owners. Earlier owners are fenced: their writes fail. If two processes use the
same cursor, their states therefore cannot mix.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Protocol, Self, SupportsIndex, runtime_checkable

from ackwell.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType


@runtime_checkable
class Store(Protocol):
    """A ledger that was opened.

    Opening and reading change nothing and fence no owner. `own` makes this store the owner; the first write
    calls it. A read-only store shows the ledger at the time of opening; `own` and writes raise `StoreError`.

    The writes are `set_metadata`, `append` and `delete_up_to`. A write is atomic and is durable when it
    returns. It raises `FencedError` and changes nothing if there is a newer owner. `StoreError` means that
    the storage failed or that the store is closed. A failed write may or may not be in the ledger; open the
    ledger again to find out. Arguments of a wrong type raise `TypeError` before anything changes. Only one
    thread may use a store at a time.

    Test your own store with `ackwell.testing.stores.StoreConformance`.
    """

    atomic_appends: bool = True
    """Whether appends are atomic in a crash. If false, the last entry may be torn."""
    entry_bytes_max: int = 1 << 20
    """The maximum size of the part of a state in one entry, in bytes: 1 MiB by default, as in PIP-381.

    Each entry also has a header of at most 50 bytes. A larger state is written in several entries.
    """
    read_only: bool = False
    """Whether the store was opened read-only."""

    @property
    def generation(self) -> int:
        """The generation of this owner: 1 for the first owner, 0 before `own`."""
        ...

    def own(self) -> None:
        """Become the owner and fence every earlier owner. Does nothing for the current owner.

        Raises `FencedError` for a fenced owner; it must open the ledger again.
        """
        ...

    @property
    def metadata(self) -> Mapping[str, bytes]:
        """The metadata that the last `set_metadata` wrote; empty in a new ledger."""
        ...

    def set_metadata(self, metadata: Mapping[str, bytes]) -> None:
        """Replace all metadata of the ledger."""
        ...

    @property
    def first_id(self) -> int:
        """The id of the oldest entry that was not deleted; `last_id + 1` if there is none."""
        ...

    @property
    def last_id(self) -> int:
        """The id of the last appended entry, even if it was deleted; -1 in a new ledger."""
        ...

    def append(self, data: bytes) -> int:
        """Append an entry and return its id, `last_id + 1`. An entry may be empty."""
        ...

    def read(self, entry_id: int) -> bytes:
        """Return an entry; `KeyError` if it was deleted or never appended.

        Raises `CorruptStateError` if a checksum shows that the bytes differ from the appended ones.
        """
        ...

    def delete_up_to(self, entry_id: int) -> None:
        """Delete all entries up to and including `entry_id`. Their ids are never reused.

        Deleting entries again changes nothing. An id greater than `last_id` raises `ValueError`.
        """
        ...

    def close(self) -> None:
        """Release the file or connection of the store.

        No later owner gets the same generation. Closing again changes nothing; all other calls raise
        `StoreError`.
        """
        ...

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def checked_entry(data: bytes) -> bytes:
    """Return the data of an entry as `bytes`; `TypeError` if it is not bytes-like."""
    if isinstance(data, bytes):
        return data
    if not isinstance(data, (bytearray, memoryview)):
        raise TypeError(f"an entry is bytes, not {type(data).__name__}")
    return bytes(data)


def checked_metadata(metadata: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return a copy of the metadata; `TypeError` or `ValueError` for invalid names and values."""
    return {checked_name(name): checked_entry(value) for name, value in metadata.items()}


def checked_name(name: str) -> str:
    """Return `name` unchanged; `ValueError` if UTF-8 cannot encode it."""
    if not isinstance(name, str):
        raise TypeError(f"a name is a string, not {type(name).__name__}")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise ValueError(f"name {name!r}: not valid Unicode") from None
    return name


def checked_id(entry_id: SupportsIndex) -> int:
    """Return an entry id as an `int`; `TypeError` if it is not an integer."""
    return operator.index(entry_id)


def require_writable(store: Store) -> None:
    """Check that a store was not opened read-only; `StoreError` otherwise."""
    if store.read_only:
        raise StoreError("the store was opened read-only; open it without read_only to write")
