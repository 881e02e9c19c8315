"""The interface of a store: a ledger of entries with one owner at a time.

A *ledger* corresponds to a BookKeeper ledger: it has entries with consecutive ids, and a small map of
metadata. The *owner* of a ledger is the last process that called `own`. The *generation* of an owner is
greater than that of all earlier owners. Earlier owners are *fenced*: their writes fail. If two processes use
the same cursor, their states therefore cannot mix. Opening a ledger does not change its owner.
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
    """An open ledger.

    Opening and reading change nothing and fence no owner. `own` makes this store the owner of the ledger. The
    first write calls `own`. A read-only store returns the content that the ledger had when it was opened;
    `own` and writes raise `StoreError`.

    The writes are `set_metadata`, `append` and `delete_up_to`. A write is atomic, and it is durable when the
    method returns. If there is a newer owner, a write raises `FencedError` and changes nothing. `StoreError`
    means that the storage failed or that the store is closed. After a `StoreError`, the ledger may or may not
    contain the write; open the ledger again to find out. Arguments of a wrong type raise `TypeError` before
    anything changes. Only one thread may use a store at a time.

    Test your own store with `ackwell.testing.stores.StoreConformance`.
    """

    atomic_appends: bool = True
    """Whether appends are atomic in a crash. If false, a crash may leave a torn last entry, which is only
    partly written."""
    entry_bytes_max: int = 1 << 20
    """The maximum size in bytes of the part of a save that one entry contains. It is 1 MiB by default, as in
    PIP-381.

    Each entry also has a header of at most 50 bytes. A larger save is written in several entries.
    """
    read_only: bool = False
    """Whether the store was opened read-only."""

    @property
    def generation(self) -> int:
        """The generation of this store as an owner. The first owner has 1.

        The generation is 0 if this store has not called `own`.
        """
        ...

    def own(self) -> None:
        """Become the owner, and fence every earlier owner. Do nothing if this store is already the owner.

        Raises `FencedError` if this store is fenced. Then open the ledger again to become the owner.
        """
        ...

    @property
    def metadata(self) -> Mapping[str, bytes]:
        """The metadata of the ledger, which the last `set_metadata` wrote. Empty in a new ledger."""
        ...

    def set_metadata(self, metadata: Mapping[str, bytes]) -> None:
        """Replace all metadata of the ledger."""
        ...

    @property
    def first_id(self) -> int:
        """The id of the first entry that is not deleted. If there is none, `last_id + 1`."""
        ...

    @property
    def last_id(self) -> int:
        """The id of the last entry that was appended, even if it was deleted. -1 in a new ledger."""
        ...

    def append(self, data: bytes) -> int:
        """Append an entry, and return its id, which is `last_id + 1`. An entry may be empty."""
        ...

    def read(self, entry_id: int) -> bytes:
        """Return the bytes of an entry; `KeyError` if the entry was deleted or never appended.

        Raises `CorruptStateError` if a checksum shows that the bytes differ from the appended ones.
        """
        ...

    def delete_up_to(self, entry_id: int) -> None:
        """Delete all entries up to and including `entry_id`. The ids of deleted entries are never reused.

        Deleting the same entries again changes nothing. Raises `ValueError` if `entry_id` is greater than
        `last_id`.
        """
        ...

    def close(self) -> None:
        """Close the store, and release its file or connection.

        The generation of this store is never given to a later owner. On a closed store, `close` does nothing,
        and all other calls raise `StoreError`.
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
    """Return an entry as `bytes`; `TypeError` if the argument is not bytes-like."""
    if isinstance(data, bytes):
        return data
    if not isinstance(data, (bytearray, memoryview)):
        raise TypeError(f"an entry is bytes, not {type(data).__name__}")
    return bytes(data)


def checked_metadata(metadata: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return a copy of the metadata; `TypeError` or `ValueError` if a name or a value is invalid."""
    return {checked_name(name): checked_entry(value) for name, value in metadata.items()}


def checked_name(name: str) -> str:
    """Return `name` unchanged; `ValueError` if the name cannot be encoded as UTF-8."""
    if not isinstance(name, str):
        raise TypeError(f"a name is a string, not {type(name).__name__}")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise ValueError(f"name {name!r}: not valid Unicode") from None
    return name


def checked_id(entry_id: SupportsIndex) -> int:
    """Return an entry id as an `int`; `TypeError` if the argument is not an integer."""
    return operator.index(entry_id)


def require_writable(store: Store) -> None:
    """Raise `StoreError` if a store was opened read-only."""
    if store.read_only:
        raise StoreError("the store was opened read-only; open it without read_only to write")
