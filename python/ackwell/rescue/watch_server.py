"""Serve the metrics (`/metrics`, for Prometheus) and the health (`/healthz`) of a watch over HTTP."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Final

from ackwell.diagnosis.prometheus import prometheus_lines

if TYPE_CHECKING:
    from ackwell.diagnosis.prometheus import Sample
    from ackwell.rescue.watch import WatchCounts

ROUNDS_MISSED_MAX: Final = 3
"""A watch is unhealthy if no round has ended during this number of intervals. A round ends even if a broker
is down."""


def watch_metrics(counts: WatchCounts, *, restores: bool) -> str:
    """Return the counters as text in the exposition format of Prometheus."""
    refused: list[Sample] = [({"code": code}, count) for code, count in sorted(counts.refused.items())]
    plain: tuple[tuple[str, str, float], ...] = (
        ("restores", "Whether the watch restores (--yes): 1, or 0 for a dry run.", restores),
        ("rounds_total", "Rounds since the start.", counts.rounds),
        ("round_seconds", "How long the last round took.", counts.round_seconds),
        ("round_cpu_seconds", "CPU time of the last round.", counts.round_cpu_seconds),
        (
            "last_round_timestamp_seconds",
            "When the last round ended that read every topic.",
            counts.complete_round_ms / 1000,
        ),
        ("topics", "Topics that the last round requested.", counts.topics),
        ("subscriptions_at_risk", "Subscriptions that use 80 % or more of a limit.", counts.at_risk),
        ("unread", "Topics or brokers that the last round could not read.", counts.unread),
        ("pending_subscriptions", "Subscriptions with a loss that is not restored yet.", counts.pending),
        ("pending_entries", "Acknowledged entries that are not restored yet.", counts.pending_entries),
        ("losses_total", "Losses of a subscription by a load that can be restored.", counts.losses),
        ("moves_total", "Seeks that removed acknowledgments.", counts.moves),
        ("restored_subscriptions_total", "Restored subscriptions.", counts.restored),
        ("restored_entries_total", "Restored acknowledgments.", counts.restored_entries),
    )
    families: list[tuple[str, str, list[Sample]]] = [
        (f"ackwell_watch_{name}", text, [({}, float(value))]) for name, text, value in plain
    ]
    text = "Losses that are not restored, by the code of the refusal."
    return prometheus_lines([*families, ("ackwell_watch_refused_total", text, refused)])


def is_healthy(counts: WatchCounts, every_seconds: float, now_s: float) -> bool:
    """Return whether the last round ended recently. `now_s` is the time of the monotonic clock."""
    return now_s - counts.round_ended_s <= ROUNDS_MISSED_MAX * (every_seconds + counts.round_seconds)


@contextmanager
def watch_server(
    address: tuple[str, int], counts: WatchCounts, *, every_seconds: float, restores: bool
) -> Iterator[tuple[str, int]]:
    """Serve the counters during a `with` block. Yield the address; port 0 is replaced by the chosen port."""

    def answer(path: str) -> tuple[int, str]:
        if path == "/metrics":
            return 200, watch_metrics(counts, restores=restores)
        if path == "/healthz":
            healthy = is_healthy(counts, every_seconds, time.monotonic())
            return (200, "ok\n") if healthy else (503, "no recent round\n")
        return 404, "only /metrics and /healthz\n"

    handler = type("Handler", (_Handler,), {"answer": staticmethod(answer)})
    server = ThreadingHTTPServer(address, handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True)
    thread.start()
    try:
        yield address[0], server.server_port
    finally:
        server.shutdown()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    answer: Callable[[str], tuple[int, str]]

    def do_GET(self) -> None:
        code, text = self.answer(self.path.partition("?")[0])
        body = text.encode()
        self.send_response(code)
        self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass
