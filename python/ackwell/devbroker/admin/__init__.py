"""The admin REST API, as far as tests of clients and `ackwell doctor --admin` ask for it."""

from ackwell.devbroker.admin.http import AdminServer

__all__ = ["AdminServer"]
