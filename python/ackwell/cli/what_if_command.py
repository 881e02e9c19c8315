"""`ackwell what-if` predicts the effect of a seek, reset, skip, expiry or clear, and can verify it later."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ackwell.cli import options
from ackwell.cli.console import fail, out, print_json
from ackwell.diagnosis.what_if import MoveKind

if TYPE_CHECKING:
    from ackwell.broker.stats import SubscriptionStats
    from ackwell.cluster.admin import Admin
    from ackwell.position import Position

UNITS: Final = {
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
    "w": timedelta(weeks=1),
    "y": timedelta(days=365),
}


@options.with_admin_options
def what_if(
    *,
    move: Annotated[MoveKind, typer.Argument(metavar="MOVE", help=", ".join(MoveKind) + ".")],
    source: Annotated[
        str, typer.Argument(metavar="TOPIC", help="With --admin a topic; else an answer of `stats-internal`.")
    ],
    subscription: Annotated[str, typer.Argument(metavar="SUBSCRIPTION", help="The subscription.")],
    to: Annotated[
        str | None,
        typer.Option(
            metavar="WHERE",
            help="For seek, reset-cursor and expire: LEDGER:ENTRY, earliest or latest. With --admin also a "
            "time such as 2026-11-23T12:00:00Z, or a duration before now: 90s, 30m, 1h, 7d, 2w.",
        ),
    ] = None,
    entries: Annotated[int, typer.Option(min=0, metavar="N", help="For skip: how many entries.")] = 0,
    verify: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Check that the move happened. FILE is the output of this command with --format json from "
            "before the move.",
        ),
    ] = None,
    broker_version: options.BrokerVersion = None,
    output: options.Format = options.OutputFormat.TABLE,
    client: Admin | None = None,
) -> None:
    """Show the number of messages that a move redelivers, and the number that it skips; change nothing.

    `expire` follows the broker's search (`expires_by_search`), which can end before the requested entry.

    Examples
    --------
        ackwell what-if skip --entries 100 stats-internal.json sub
        ackwell what-if seek --to 12:0 --admin http://broker:8080 a/b/orders sub
        ackwell what-if skip --entries 9 --format json dumps/a.json sub > before
        ackwell what-if skip --verify before --admin http://broker:8080 t sub

    Exit code: 0; with --verify 3 if the move did not happen, or only in part;
    1 an error, 2 a wrong command line.
    """
    from ackwell.broker.broker_settings import BrokerSettings
    from ackwell.diagnosis.what_if import Move, MoveResult, check_prediction
    from ackwell.diagnosis.what_if import what_if as predict
    from ackwell.json_values import json_value
    from ackwell.regular_files import read_regular
    from ackwell.sources import SourceKind, source_kind, wrong_kind

    stats = _stats(client, source, subscription)
    if verify is not None:
        data = read_regular(verify)
        try:
            predicted = json_value(data)
        except ValueError as error:
            fail(f"{verify}: {wrong_kind(source_kind(data), SourceKind.PREDICTION)} ({error})")
        found, details = check_prediction(predicted, stats)
        if output is options.OutputFormat.JSON:
            print_json({"happened": str(found), "details": details})
        else:
            out.print("\n".join([str(found), *(f"  {line}" for line in details)]), highlight=False)
        raise typer.Exit(3 if found in (MoveResult.NO, MoveResult.PARTLY) else 0)
    needs_position = move not in (MoveKind.SKIP, MoveKind.CLEAR_BACKLOG)
    if needs_position and to is None:
        raise typer.BadParameter(f"{move} needs --to")
    position = _position(client, stats, to, move) if needs_position and to is not None else None
    version = broker_version or (client.facts(stats.owner).version if client is not None else None)
    try:
        outcome = predict(stats, Move(move, position, entries), version or BrokerSettings.DEFAULT_VERSION)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    if output is options.OutputFormat.JSON:
        print_json(outcome.to_json())
        return
    returned, vanished = outcome.returned_entries.cardinality, outcome.vanished_entries.cardinality
    if outcome.note:
        out.print(outcome.note, highlight=False)
    for line in (
        f"acknowledged messages that are redelivered: {outcome.returned}, in {returned:,} entries",
        f"unacknowledged messages that are skipped: {outcome.vanished}, in {vanished:,} entries",
        f"mark-delete position: {stats.mark_delete_position} becomes {outcome.mark_delete_position}",
    ):
        out.print(line, highlight=False)


def _stats(client: Admin | None, source: str, subscription: str) -> SubscriptionStats:
    """Return the statistics of the subscription with this name.

    If no subscription or more than one has the name, exit with an error.
    """
    from ackwell.broker.names import same_subscription
    from ackwell.broker.stats import SubscriptionStats, UnreadableSource, read_each

    found = list(read_each([source]) if client is None else client.read([_topic(source)]))
    mine = [
        each
        for each in found
        if isinstance(each, SubscriptionStats) and same_subscription(each.subscription, subscription)
    ]
    if len(mine) != 1:
        unread = [each.reason for each in found if isinstance(each, UnreadableSource)]
        names = ", ".join(each.subscription for each in found if isinstance(each, SubscriptionStats))
        here = "; ".join(unread) or f"there are: {names or 'none'}"
        fail(f"{source}: {len(mine)} subscriptions are called {subscription!r}; {here}")
    return mine[0]


def _topic(name: str) -> str:
    return name if "://" in name else f"persistent://{name}"


def _position(client: Admin | None, stats: SubscriptionStats, text: str, move: MoveKind) -> Position:
    """Parse a position, `earliest`, `latest` or a time.

    For a time, the broker is asked for the position of the first message at or after this time. The result
    is this position, or the previous position for an expiry, which acknowledges only the messages before it.
    """
    from ackwell.diagnosis.what_if import EARLIEST, LATEST
    from ackwell.position import Position

    ends = {"earliest": EARLIEST, "latest": LATEST}
    if text in ends:
        return ends[text]
    if re.fullmatch(r"-?\d+:-?\d+", text):
        return Position.parse(text)
    time = _time(text)
    if client is None:
        raise typer.BadParameter("a time needs --admin: the broker is asked which message it is")
    first = client.position_at(stats.topic, int(time.timestamp() * 1000))
    # `first` is the first message at or after the time. An expiry acknowledges the messages before it.
    return stats.ledgers.previous_valid(*first) if move is MoveKind.EXPIRE else first


def _time(text: str) -> datetime:
    """Parse a time, or a duration before now: `1h` means one hour ago, as in `pulsar-admin`.

    A number without a unit is refused. Source: org.apache.pulsar.common.util.RelativeTimeUtil.
    """
    if duration := re.fullmatch(r"(\d{1,9})([smhdwy])", text, re.IGNORECASE):
        try:
            return datetime.now(UTC) - int(duration[1]) * UNITS[duration[2].lower()]
        except OverflowError:
            raise typer.BadParameter(f"{text!r} is before the year 1") from None
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is not a position, an end, a time, or a duration such as 1h"
        ) from None
    if time.tzinfo is None:
        raise typer.BadParameter(f"a time without a zone: {text!r}; add Z, or an offset such as +02:00")
    return time
