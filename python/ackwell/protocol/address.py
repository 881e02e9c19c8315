"""The addresses of brokers: `pulsar://host:6650`, or `pulsar+ssl://host:6651` for TLS."""

from __future__ import annotations

from typing import Final, NamedTuple
from urllib.parse import urlsplit

_PORTS: Final = {"pulsar": 6650, "pulsar+ssl": 6651}
"""The port of each URL scheme, for addresses without a port."""


class Address(NamedTuple):
    """The address of a broker."""

    host: str
    port: int
    is_tls: bool


def address_of(url: str) -> Address:
    """Parse the address of a broker; `ValueError` if the address is invalid.

    >>> address_of("pulsar+ssl://broker")
    Address(host='broker', port=6651, is_tls=True)
    """
    try:
        parts = urlsplit(url)
        if parts.scheme not in _PORTS or not parts.hostname or not url.isprintable():
            raise ValueError
        # Reject a host name with an empty or too long part here, before a name server is asked.
        parts.hostname.encode("idna")
        return Address(parts.hostname, parts.port or _PORTS[parts.scheme], parts.scheme == "pulsar+ssl")
    except ValueError:
        raise ValueError(
            f"{url!r} is not a broker address; expected pulsar://host:6650 or pulsar+ssl://host:6651"
        ) from None
