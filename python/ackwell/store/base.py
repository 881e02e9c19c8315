"""What a store is: a ledger of entries with one owner at a time.

A *ledger* here is what BookKeeper calls one: entries with dense ids that grow by one, and a small
map of metadata beside them. Opening it makes the caller its owner under a new *generation*, greater
than every one before; whoever owned it until then is fenced and can write no more. So two processes
that both believe to own a cursor cannot mix their states, whichever of them is late.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, Self, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType


@runtime_checkable
class Store(Protocol):
    """One ownership of a ledger; creating the object opens the ledger and fences older owners.

    Every write is durable when it returns, and atomic: after a crash inside it, it happened wholly
    or not at all. (`ackwell.saving.journal` recovers from less: an entry torn anywhere.) Writes are
    `set_metadata`, `append` and `delete_up_to`; each raises `FencedError` once a newer owner has
    opened the ledger, and then has changed nothing. `StoreError` means that the place failed or
    that the store is closed; after a failed write the ledger holds the write or does not, and
    opening it again tells. A store is used from one thread at a time.

    Whoever writes a store proves it with `ackwell.testing.stores.StoreConformance`.
    """

    @property
    def generation(self) -> int:
        """The generation of this owner, 1 for the first ever."""
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
        """The id of the oldest entry not deleted; `last_id + 1` when there is none."""
        ...

    @property
    def last_id(self) -> int:
        """The id of the newest entry ever appended, deleted or not; -1 in a new ledger."""
        ...

    def append(self, data: bytes) -> int:
        """Add an entry and return its id, `last_id + 1`. Entries may be empty."""
        ...

    def read(self, entry_id: int) -> bytes:
        """Read an entry; `KeyError` when it was deleted or never appended."""
        ...

    def delete_up_to(self, entry_id: int) -> None:
        """Delete every entry up to `entry_id`, inclusive; ids are never used again.

        Deleting what is deleted already changes nothing; `ValueError` beyond `last_id`.
        """
        ...

    def close(self) -> None:
        """Let go of the place. The generation stays used; closing again changes nothing."""
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
