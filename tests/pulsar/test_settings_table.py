"""The table of the settings of each release equals the broker's own class."""

from __future__ import annotations

import pytest

from ackwell.broker.broker_settings import defaults, dynamic_settings
from ackwell.releases import RELEASES
from tests.pulsar import kit
from tests.pulsar.settings_table import Setting, reflected


@pytest.mark.parametrize("version", RELEASES)
def test_the_table_has_the_settings_of_the_release(version: str) -> None:
    dynamic = dynamic_settings(version)
    assert reflected(version) == {
        name: Setting(default, name in dynamic) for name, default in defaults(version).items()
    }


def test_the_kit_runs_each_release_of_the_table() -> None:
    assert set(kit.VERSIONS) == set(RELEASES)
