"""Short runs of entries are decided in columns, like long runs, so that small cases test that code."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ackwell.subscription import dispatcher


@pytest.fixture(autouse=True, scope="module")
def columns_for_few() -> Iterator[None]:
    """Decide on any number of entries as on many."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dispatcher, "SINGLE_ENTRIES_MAX", 0)
        yield
