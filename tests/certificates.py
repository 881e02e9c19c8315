"""Self-signed certificates for tests."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest


def self_signed(folder: Path, names: str = "IP:127.0.0.1") -> tuple[Path, Path]:
    """Make a key and a certificate for some hosts, with openssl."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("no openssl here to make a certificate with")
    key, cert = folder / "key.pem", folder / "cert.pem"
    options = "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=127.0.0.1"
    made = [
        openssl,
        *options.split(),
        "-addext",
        f"subjectAltName={names}",
        "-keyout",
        str(key),
        "-out",
        str(cert),
    ]
    subprocess.run(made, check=True, capture_output=True)
    return key, cert
