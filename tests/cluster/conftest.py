"""Fixtures of the tests of a cluster's clients."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.certificates import self_signed


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """Return a self-signed certificate for 127.0.0.1, with its key."""
    key, cert = self_signed(tmp_path)
    path = tmp_path / "broker.pem"
    path.write_text(key.read_text() + cert.read_text())
    return path
