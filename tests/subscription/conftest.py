"""Runs of a few entries are decided on as long ones are, so that small cases show what columns decide."""

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
