"""The admin REST API: Pulsar's routes, and the dev broker's own routes below `/dev/`."""

from ackwell.devbroker.admin.server import AdminServer

__all__ = ["AdminServer"]
