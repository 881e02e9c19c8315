"""`ackwell doctor` tells whether a restart would bring acknowledged messages back."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from ackwell.cli.console import out, print_json

if TYPE_CHECKING:
    from ackwell.broker.restart import Restart
    from ackwell.broker.stats import SubscriptionStats
    from ackwell.diagnosis.doctor import Diagnosis

ROWS = 30
EXPLAINED = 5
"""What fits a screen; the worst come first, and --json and --html have all."""

COLOURS = {"losing": "red", "at risk": "yellow", "fine": "green"}

EXIT_CODES = {"fine": 0, "at risk": 3, "losing": 4}
"""1 is an error, 2 a wrong command line."""

EXAMPLES = """
Examples:

    pulsar-admin topics stats-internal my-topic | ackwell doctor -
    ackwell doctor --broker-version 4.0 dumps/
    ackwell doctor --admin http://broker:8080 public/default --html report.html

Exit code: 0 all fine, 3 at risk, 4 losing (see --fail-on); 1 an error, 2 a wrong command line.
"""


class RestartKind(StrEnum):
    """Which restarts to look at."""

    GRACEFUL = "graceful"
    CRASH = "crash"
    WORST = "worst"


class FailOn(StrEnum):
    """From which verdict on the exit code is not 0."""

    AT_RISK = "at-risk"
    LOSING = "losing"
    NEVER = "never"


def doctor(
    sources: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SOURCE]…",
            help="Answers of `stats-internal`: files, folders (.json, .json.gz) or `-`. With --admin: "
            "topics, tenant/namespace or tenants; none for all.",
        ),
    ] = None,
    broker_version: Annotated[
        str,
        typer.Option(
            metavar="VERSION", help="The broker version, for its defaults and rules: 4.0, 4.2 or 5.0."
        ),
    ] = "4.2",
    broker_setting: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="What the broker is set to otherwise; repeatable."),
    ] = None,
    restart: Annotated[
        RestartKind, typer.Option(help="A restart that closes cursors, a crash, or the worse of both.")
    ] = RestartKind.WORST,
    messages_per_entry: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="The batch size, where the source does not tell it."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, an array.")] = False,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a report, one self-contained page.")
    ] = None,
    fail_on: Annotated[
        FailOn, typer.Option(help="From which verdict on the exit code is not 0.")
    ] = FailOn.AT_RISK,
    admin: Annotated[
        str | None, typer.Option(metavar="URL", help="Ask a live broker (reading only), http://host:8080.")
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The token for --admin; else $PULSAR_TOKEN, where it is set."),
    ] = None,
    tls_trust_certs: Annotated[
        Path | None, typer.Option(metavar="PEM", help="Whom to trust, instead of the machine's list.")
    ] = None,
    tls_cert: Annotated[Path | None, typer.Option(metavar="PEM", help="Our certificate.")] = None,
    tls_key: Annotated[Path | None, typer.Option(metavar="PEM", help="Its private key.")] = None,
    tls_allow_insecure: Annotated[
        bool, typer.Option("--tls-allow-insecure", help="Accept any certificate.")
    ] = False,
) -> None:
    """Return for each subscription what a restart of its broker brings back, why, and what mends it."""
    from ackwell.broker.admin import Admin
    from ackwell.broker.restart import RESTARTS, BrokerSettings
    from ackwell.diagnosis.doctor import diagnose

    try:
        settings = BrokerSettings.of(broker_version).with_values(broker_setting or ())
        client = admin and Admin(
            url=admin,
            token=_token(token_file),
            tls_trust_certificates=tls_trust_certs,
            tls_certificate=tls_cert,
            tls_key=tls_key,
            tls_allow_insecure=tls_allow_insecure,
        )
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    if not sources and not client:
        raise typer.BadParameter("give files or folders, `-` for standard input, or --admin URL")
    restarts: tuple[Restart, ...] = RESTARTS if restart is RestartKind.WORST else (restart.value,)  # type: ignore[assignment]
    subscriptions = client.read(sources or ()) if client else _read(sources or ())
    found = [
        diagnose(stats, settings, restarts=restarts)
        for stats in _with_batch_size(subscriptions, messages_per_entry)
    ]
    found.sort(key=_severity)
    if html is not None:
        from ackwell.diagnosis.report import write_report

        write_report(html, found)
    if as_json:
        print_json([diagnosis.to_json() for diagnosis in found])
    else:
        _show(found)
        if html is not None:
            out.print(f"report: {html}", highlight=False)
    worst = max((diagnosis.verdict for diagnosis in found), key=lambda v: v.severity, default=None)
    if worst is not None and fail_on is not FailOn.NEVER:
        code = EXIT_CODES[worst]
        raise typer.Exit(code if fail_on is FailOn.AT_RISK or worst == "losing" else 0)


doctor.__doc__ = f"{doctor.__doc__}\n{EXAMPLES}"


def _token(file: Path | None) -> str | None:
    return file.read_text(encoding="utf-8").strip() if file else os.environ.get("PULSAR_TOKEN")


def _read(sources: list[str] | tuple[()]) -> Iterator[SubscriptionStats]:
    import sys

    from ackwell.broker.stats import parse_stats, read_stats

    for source in sources:
        if source == "-":
            yield from parse_stats(sys.stdin.buffer.read(), "standard input")
        else:
            yield from read_stats(source)


def _with_batch_size(
    subscriptions: Iterator[SubscriptionStats], messages_per_entry: int | None
) -> Iterator[SubscriptionStats]:
    from dataclasses import replace

    from ackwell.broker.batch_sizes import BatchSizes

    for stats in subscriptions:
        if messages_per_entry is not None and stats.batch_sizes.each is None:
            yield replace(stats, batch_sizes=BatchSizes(each=messages_per_entry))
        else:
            yield stats


def _severity(diagnosis: Diagnosis) -> tuple[int, int, str, str]:
    stats, lost = diagnosis.stats, diagnosis.messages_lost
    return -diagnosis.verdict.severity, -lost.at_least, stats.topic, stats.subscription


def _show(found: list[Diagnosis]) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("verdict", "topic", "subscription"):
        table.add_column(name, overflow="fold")
    for name in ("acked messages that come back", "backlog entries", "ranges"):
        table.add_column(name, justify="right")
    for diagnosis in found[:ROWS]:
        stats = diagnosis.stats
        table.add_row(
            Text(diagnosis.verdict, COLOURS[diagnosis.verdict]),
            Text(stats.topic.removeprefix("persistent://")),
            Text(stats.subscription),
            str(diagnosis.messages_lost),
            f"{stats.backlog_entries:,}",
            f"{len(stats.individually_deleted):,}",
        )
    out.print(table)
    if len(found) > ROWS:
        out.print(f"… and {len(found) - ROWS:,} more; --json and --html show all", highlight=False)
    for diagnosis in [d for d in found if d.verdict != "fine"][:EXPLAINED]:
        out.print(Text("\n".join(_explanation(diagnosis))))
    counts = Counter(str(diagnosis.verdict) for diagnosis in found)
    summary = ", ".join(f"{counts[verdict]:,} {verdict}" for verdict in COLOURS)
    out.print(f"\n{len(found):,} subscriptions: {summary}", highlight=False)


def _explanation(diagnosis: Diagnosis) -> Iterator[str]:
    stats = diagnosis.stats
    yield f"\n{stats.topic} · {stats.subscription}: {diagnosis.verdict}"
    for loss in diagnosis.restarts:
        yield f"  {loss.restart} restart: {loss.messages} acknowledged messages come back"
        if loss.messages_before_flush != loss.messages:
            yield f"    {loss.messages_before_flush}, if it comes before the last acks are written"
    for reason in diagnosis.reasons:
        yield f"  because: {reason}"
    for usage in diagnosis.usage:
        if usage.share >= 0.5:
            yield f"  {usage.setting}: {usage.used:,} of {usage.limit:,} {usage.what}"
    for remedy in diagnosis.remedies:
        yield f"  → {remedy.text}"
        yield from (f"      {setting}" for setting in remedy.settings)
    for note in diagnosis.notes:
        yield f"  note: {note}"
