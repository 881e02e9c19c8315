"""JSON web tokens as Pulsar's `tokenSecretKey` verifies them."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time


def json_web_token(key: bytes, role: str, seconds: float | None = None) -> str:
    """Return a token for a role, which expires after a number of seconds."""

    def part(data: bytes) -> bytes:
        return base64.urlsafe_b64encode(data).rstrip(b"=")

    claims = {"sub": role} | ({} if seconds is None else {"exp": int(time.time() + seconds)})
    signed = part(b'{"alg":"HS256"}') + b"." + part(json.dumps(claims).encode())
    return (signed + b"." + part(hmac.new(key, signed, hashlib.sha256).digest())).decode()
