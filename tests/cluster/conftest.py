"""Fixtures of the tests of a cluster's clients."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A self-signed certificate for 127.0.0.1, with its key."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("no openssl here to make a certificate with")
    path = tmp_path / "broker.pem"
    options = (
        "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1"
    )
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    command = [openssl, *options.split(), "-keyout", str(key), "-out", str(cert)]
    subprocess.run(command, check=True, capture_output=True)
    path.write_text(key.read_text() + cert.read_text())
    return path
