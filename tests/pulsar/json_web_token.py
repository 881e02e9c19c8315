"""JSON web tokens as Pulsar's `tokenSecretKey` verifies them."""

from __future__ import annotations

import time

import jwt


def json_web_token(key: bytes, role: str, seconds: float | None = None) -> str:
    """Return a token for a role, which expires after a number of seconds."""
    claims = {"sub": role} | ({} if seconds is None else {"exp": int(time.time() + seconds)})
    return jwt.encode(claims, key)
