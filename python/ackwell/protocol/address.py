"""Where a broker listens: `pulsar://host:6650`, or with TLS `pulsar+ssl://host:6651`."""

from __future__ import annotations

from typing import Final, NamedTuple
from urllib.parse import urlsplit

_PORTS: Final = {"pulsar": 6650, "pulsar+ssl": 6651}
"""The port of each scheme if an address has none."""


class Address(NamedTuple):
    """Where a broker listens."""

    host: str
    port: int
    is_tls: bool


def address_of(url: str) -> Address:
    """Read an address; `ValueError` for anything else.

    >>> address_of("pulsar+ssl://broker")
    Address(host='broker', port=6651, is_tls=True)
    """
    try:
        parts = urlsplit(url)
        if parts.scheme not in _PORTS or not parts.hostname or not url.isprintable():
            raise ValueError
        # No name server is asked for a name with an empty part, or with one that is too long.
        parts.hostname.encode("idna")
        return Address(parts.hostname, parts.port or _PORTS[parts.scheme], parts.scheme == "pulsar+ssl")
    except ValueError:
        raise ValueError(
            f"{url!r} is not an address of a broker; expected pulsar://host:6650 or pulsar+ssl://host:6651"
        ) from None
