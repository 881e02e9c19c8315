"""The part of the admin REST API that tests of clients and `ackwell doctor --admin` use."""

from ackwell.devbroker.admin.http import AdminServer

__all__ = ["AdminServer"]
