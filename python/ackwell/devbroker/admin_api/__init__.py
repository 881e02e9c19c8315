"""The admin REST API: Pulsar's routes, and the dev broker's own routes below `/dev/`."""

from ackwell.devbroker.admin_api.server import AdminServer

__all__ = ["AdminServer"]
