"""Replay the events of many subscriptions on Spark; needs the extra `ackwell[spark]`.

The functions take and return DataFrames, and work through Spark Connect. Each name is loaded on first use.
Executors import this package, too, and load only the functions that they run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackwell.extras import require
from ackwell.lazy_names import lazy_names

if TYPE_CHECKING:
    from ackwell.spark.data_sources import read_events as read_events
    from ackwell.spark.data_sources import read_files as read_files
    from ackwell.spark.data_sources import register as register
    from ackwell.spark.local_replay import replay_files as replay_files
    from ackwell.spark.loss_audit import restart_audit as restart_audit
    from ackwell.spark.ordered import ordered_replay as ordered_replay
    from ackwell.spark.pipeline import Strategy as Strategy
    from ackwell.spark.pipeline import collect_states as collect_states
    from ackwell.spark.pipeline import cursors as cursors
    from ackwell.spark.pipeline import explode_ranges as explode_ranges
    from ackwell.spark.pipeline import merge as merge
    from ackwell.spark.pipeline import overview as overview
    from ackwell.spark.pipeline import partials as partials
    from ackwell.spark.pipeline import replay as replay
    from ackwell.spark.session import local_session as local_session
    from ackwell.spark.shipping import ship as ship
    from ackwell.spark.sizing import delayed_sizing as delayed_sizing
    from ackwell.spark.stream import cursor_stream as cursor_stream

_HOMES = {
    "Strategy": ".pipeline",
    "collect_states": ".pipeline",
    "cursor_stream": ".stream",
    "cursors": ".pipeline",
    "delayed_sizing": ".sizing",
    "explode_ranges": ".pipeline",
    "local_session": ".session",
    "merge": ".pipeline",
    "ordered_replay": ".ordered",
    "overview": ".pipeline",
    "partials": ".pipeline",
    "read_events": ".data_sources",
    "read_files": ".data_sources",
    "register": ".data_sources",
    "replay": ".pipeline",
    "replay_files": ".local_replay",
    "restart_audit": ".loss_audit",
    "ship": ".shipping",
}
"""Public name → the module that defines it."""

__all__ = sorted(_HOMES)
__getattr__, __dir__ = lazy_names(__name__, _HOMES, lambda _: require("pyspark", "ackwell.spark"))
