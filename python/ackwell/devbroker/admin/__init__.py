"""The admin REST API, as far as tests of clients and `ackwell doctor --admin` ask for it."""

from ackwell.devbroker.admin.http import serve

__all__ = ["serve"]
