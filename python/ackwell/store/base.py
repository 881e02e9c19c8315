"""What a store is: a ledger of entries with one owner at a time.

A *ledger* here is what BookKeeper calls one: entries with dense ids that grow by one, and a small map of
metadata. Opening a ledger only reads it. Its owner is the one who took it last, under a *generation* greater
than every one before; earlier owners are fenced and can write no more. So two processes that both believe
they own a cursor cannot mix their states, whichever of them is late.
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

    Opening and reading change nothing and fence nobody. `own` takes the ledger; the first write calls it. A
    store that was opened read-only refuses both (`StoreError`), and shows the ledger as it was then.

    Every write is durable when it returns, and atomic: after a crash it happened wholly or not at
    all. Writes are `set_metadata`, `append` and `delete_up_to`. Each raises `FencedError` once a newer
    owner has taken the ledger, and then has changed nothing. `StoreError` means that the place failed or
    that the store is closed. After a write failed, the ledger holds it or does not; opening it again
    shows which. Arguments of a wrong type are a `TypeError` before anything changes. A store is used from
    one thread at a time.

    Prove a store of your own with `ackwell.testing.stores.StoreConformance`.
    """

    atomic_appends: bool = True
    """Whether a crash leaves an append done or not done. If false, the last entry may be torn."""
    entry_bytes_max: int = 1 << 20
    """How many bytes of a state go into one entry: 1 MiB by default, as in PIP-381. A header of at most 50
    bytes comes on top. A larger save is written in parts."""
    read_only: bool = False
    """Whether the store was opened for reading alone."""

    @property
    def generation(self) -> int:
        """The generation of this owner, 1 for the first one ever; 0 before `own`."""
        ...

    def own(self) -> None:
        """Take the ledger, and fence every owner before. Does nothing for its owner.

        `FencedError` for an owner that was fenced: it must open the ledger again.
        """
        ...

    @property
    def metadata(self) -> Mapping[str, bytes]:
        """The ledger's metadata, as of the last `set_metadata`; empty in a new ledger."""
        ...

    def set_metadata(self, metadata: Mapping[str, bytes]) -> None:
        """Replace the metadata as a whole."""
        ...

    @property
    def first_id(self) -> int:
        """The id of the oldest entry that was not deleted; `last_id + 1` if there is none."""
        ...

    @property
    def last_id(self) -> int:
        """The id of the newest entry ever appended, deleted or not; -1 in a new ledger."""
        ...

    def append(self, data: bytes) -> int:
        """Add an entry and return its id, `last_id + 1`. Entries may be empty."""
        ...

    def read(self, entry_id: int) -> bytes:
        """Return an entry; `KeyError` if it was deleted or never appended.

        `CorruptStateError` if the place shows that these are not the bytes that were appended.
        """
        ...

    def delete_up_to(self, entry_id: int) -> None:
        """Delete every entry up to `entry_id`, inclusive. Ids are never used again.

        Deleting what is deleted already changes nothing; `ValueError` beyond `last_id`.
        """
        ...

    def close(self) -> None:
        """Release the place. The generation stays used; closing again changes nothing."""
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
    """Return the bytes of an entry; `TypeError` for anything that does not hold bytes."""
    if isinstance(data, bytes):
        return data
    if not isinstance(data, (bytearray, memoryview)):
        raise TypeError(f"an entry is bytes, not {type(data).__name__}")
    return bytes(data)


def checked_metadata(metadata: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return a copy of the metadata; `TypeError` or `ValueError` for names and values that it cannot have."""
    return {checked_name(name): checked_entry(value) for name, value in metadata.items()}


def checked_name(name: str) -> str:
    """Return a name; `ValueError` if UTF-8 cannot write it."""
    if not isinstance(name, str):
        raise TypeError(f"a name is a string, not {type(name).__name__}")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise ValueError(f"name {name!r}: not valid Unicode") from None
    return name


def checked_id(entry_id: SupportsIndex) -> int:
    """Return an entry id as an integer; `TypeError` for anything else."""
    return operator.index(entry_id)


def require_writable(store: Store) -> None:
    """Raise `StoreError` if a store was opened read-only."""
    if store.read_only:
        raise StoreError("the store was opened read-only; open it without read_only to write")
