"""The checked-in defaults of each release equal those of the broker's own class."""

from __future__ import annotations

import pytest

from ackwell.broker.broker_settings import defaults
from ackwell.releases import RELEASES
from tests.pulsar import kit
from tests.pulsar.settings_table import reflected


@pytest.mark.parametrize("version", RELEASES)
def test_the_table_has_the_defaults_of_the_release(version: str) -> None:
    assert reflected(version) == dict(defaults(version))


def test_the_kit_runs_each_release_of_the_table() -> None:
    assert set(kit.VERSIONS) == set(RELEASES)
