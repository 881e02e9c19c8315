"""`ackwell doctor` shows the messages that a restart would redeliver, and why a subscription is stuck."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from ackwell.broker.dates import clock_ms
from ackwell.broker.writes import RESTART_NAMES
from ackwell.cli import options
from ackwell.cli.console import (
    EXIT_UNREAD,
    out,
    print_json,
    progress,
    report_unread,
    shown_count,
    shown_name,
    unread_line,
    utc,
    write_utf8,
)
from ackwell.cli.subscription_table import Row, print_subscriptions

if TYPE_CHECKING:
    from ackwell.broker.codes import Code
    from ackwell.broker.stats import SubscriptionStats, UnreadableSource
    from ackwell.broker.writes import Restart
    from ackwell.cluster.admin import Admin
    from ackwell.diagnosis.checkup import Checkup, JudgedBroker
    from ackwell.diagnosis.doctor import Diagnosis

ROWS = 30
EXPLAINED = 5
"""The table has at most `ROWS` subscriptions, and at most `EXPLAINED` of them are explained, so that the
output fits a screen. The worst ones come first. --format json and --html contain all subscriptions."""

COLOURS = {
    "losing": "red",
    "unwritable": "red",
    "at risk": "yellow",
    "unproven": "cyan",
    "fine": "green",
    "stalled": "red",
    "cannot tell": "yellow",
    "waiting": "cyan",
    "idle": "green",
    "delivering": "green",
}

EXIT_CODES = {"fine": 0, "unproven": 0, "at risk": 3, "losing": 4, "unwritable": 4}
"""Maps each verdict to an exit code. A stalled subscription has the code of a losing one. Other exit codes
are 1 for an error and 2 for a wrong command line."""


class DoctorFormat(StrEnum):
    """The formats in which `ackwell doctor` prints its result."""

    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"
    PROMETHEUS = "prometheus"


class FailThreshold(StrEnum):
    """The values of --fail-on. For this verdict and all worse ones, the exit code is not 0.

    `stuck` is a verdict on the delivery. `at-risk` and `losing` are verdicts on a restart.
    """

    STUCK = "stuck"
    AT_RISK = "at-risk"
    LOSING = "losing"
    NEVER = "never"


def _explain(asked: Sequence[str]) -> None:
    """Print an explanation of each of the codes in `asked`. If no code is given, list all codes."""
    from ackwell.broker.codes import codes

    for code in asked:
        if code not in codes():
            raise typer.BadParameter(f"no code is called {code!r}; there are {', '.join(codes())}")
        _print_code(codes()[code])
    if not asked:
        for each in codes().values():
            out.print(Text(f"{each.code} ({each.verdict}): {each.what}"))


def _print_code(entry: Code) -> None:
    from ackwell.broker.codes import with_names

    out.print(Text(f"{entry.code} ({entry.verdict}): {entry.what}"))
    if entry.why:
        out.print(Text(entry.why))
    if entry.until:
        out.print(Text(f"until {with_names(entry.until, 'TOPIC', 'SUBSCRIPTION')}"))
    for what, values in (("upstream", entry.issues), ("fixed in", entry.fixed_in)):
        if values:
            out.print(Text(f"{what}: {', '.join(values)}"))
    if entry.save:
        out.print(Text(f"save first: {entry.save}"))
    steps = entry.steps("TOPIC", "SUBSCRIPTION")
    lines = ["what helps:", *(f"  {line}" for line in steps)] if steps else ["no remedy is needed"]
    out.print(Text("\n".join(lines)))


@options.with_admin_options
def doctor(
    *,
    sources: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SOURCE]…",
            help="Answers of `stats-internal`: files, folders (.json, .json.gz) or `-`. With --admin: "
            "tenants, namespaces or topics; all by default.",
        ),
    ] = None,
    broker_version: options.BrokerVersion = None,
    broker_setting: options.BrokerSetting = None,
    restart: Annotated[
        options.RestartKind,
        typer.Option(help="The kind of restart to predict; `both` shows the worse of the two."),
    ] = options.RestartKind.BOTH,
    messages_per_entry: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="The number of messages in each entry, if the source does not contain it.",
        ),
    ] = None,
    output: Annotated[
        DoctorFormat, typer.Option("--format", help="How to print the result.")
    ] = DoctorFormat.TABLE,
    html: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Write a report, one self-contained page; `-` prints it."),
    ] = None,
    watch: Annotated[
        float | None,
        typer.Option(
            min=1,
            metavar="SECONDS",
            help="With --admin: request the state twice, with this time "
            "between, to detect a stopped delivery.",
        ),
    ] = None,
    count_backlogs: options.CountBacklogs = False,
    every_topic: options.EveryTopic = False,
    metadata_node_bytes: options.MetadataNodeBytes = options.METADATA_NODE_BYTES,
    explain: Annotated[
        bool,
        typer.Option(
            "--explain",
            help="Explain codes of the doctor, such as no-permits: give codes instead of sources. Without "
            "a code, list all codes.",
        ),
    ] = False,
    fail_on: Annotated[
        FailThreshold, typer.Option(help="For this verdict and worse ones, the exit code is not 0.")
    ] = FailThreshold.AT_RISK,
    client: Admin | None = None,
) -> None:
    """Show the messages that a restart redelivers, why a subscription delivers nothing, and remedies.

    Examples
    --------
        pulsar-admin topics stats-internal my-topic | ackwell doctor -
        ackwell doctor dumps/
        ackwell doctor --broker-version 4.0 --broker-setting broker.conf dumps/
        ackwell doctor --admin http://broker:8080 public/default
        ackwell doctor --admin http://broker:8080 --watch 10 public/default
        ackwell doctor --explain no-permits
        ackwell doctor --explain
        ackwell doctor --admin http://broker --watch 62 --count-backlogs a/b
        ackwell doctor --html report.html dumps/
        ackwell doctor --format prometheus dumps/ > ackwell.prom

    A restart here also means any other close or move of a topic: an unload,
    load shedding, a new leader.

    Exit code: 0 fine or unproven, 3 at risk, 4 losing, unwritable or stalled
    (see --fail-on), 5 a source could not be read, 1 an error, 2 a wrong command
    line.
    """
    from ackwell.broker.writes import RESTARTS
    from ackwell.cluster.collect import collected_facts, manifests_of
    from ackwell.diagnosis.checkup import Checkup, JudgedBroker

    if explain:
        _explain(sources or ())
        return
    if not sources and client is None:
        raise typer.BadParameter("give files or folders, `-` for standard input, or --admin URL")
    if client is None and (watch is not None or count_backlogs or every_topic):
        raise typer.BadParameter(
            "--watch, --count-backlogs and --every-topic ask a live broker: give --admin URL"
        )
    stated = options.stated_settings(broker_setting)

    manifests = manifests_of(sources or ()) if client is None else []

    def owner(name: str | None) -> JudgedBroker:
        facts = collected_facts(manifests, name) if client is None else client.facts(name)
        broker = JudgedBroker.from_facts(
            facts, broker_version, stated.assignments, others_are_defaults=stated.others_are_defaults
        )
        return broker.with_node_bytes(metadata_node_bytes)

    try:
        broker = owner(None)
        if client is None:
            found = _read(sources or ())
            shown: tuple[str, ...] = tuple(sources or ())
        else:
            client.count_backlogs = count_backlogs and counts_safely(broker.version)
            found = _read_live(client.read if every_topic else client.survey, sources or (), watch)
            shown = (client.endpoint.shown_url, *(sources or ()))
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    restarts = tuple(each for each in RESTARTS if restart in ("both", each))
    checkup = Checkup.of(
        progress(_with_batch_size(found, messages_per_entry), "reading"),
        broker,
        owner=owner,
        restarts=restarts,
        sources=shown,
        time_ms=clock_ms(),
    )
    _print(checkup, output, html)
    _exit(checkup, fail_on)


def counts_safely(version: str) -> bool:
    """Check that a broker of this version continues to deliver while it counts a backlog; return True.

    Raises `typer.BadParameter` if such a broker may stop delivering.
    """
    from ackwell.releases import release_number

    if release_number(version) < (4, 0, 0):
        raise typer.BadParameter(
            f"--count-backlogs: a broker of {version} may stop delivering when its backlog is read "
            "(apache/pulsar#22019)"
        )
    return True


def _read(sources: Sequence[str]) -> Iterator[SubscriptionStats | UnreadableSource]:
    from ackwell.broker.stats import UnreadableSource, parse_each, read_each
    from ackwell.errors import StatsError
    from ackwell.regular_files import read_all

    for source in sources:
        if source != "-":
            yield from read_each([source])
            continue
        try:
            yield from parse_each(read_all(sys.stdin.buffer, "standard input"), "standard input")
        except StatsError as error:
            yield UnreadableSource(error.source, None, error.reason)


def _read_live(
    read: Callable[[Sequence[str]], Iterator[SubscriptionStats | UnreadableSource]],
    wanted: Sequence[str],
    seconds: float | None,
) -> Iterator[SubscriptionStats | UnreadableSource]:
    """Yield the statistics of the wanted topics.

    If `seconds` is given, wait for this time, request the statistics again, and yield them, too.
    """
    from ackwell.broker.stats import UnreadableSource

    yield from read(wanted)
    if seconds is not None:
        time.sleep(seconds)
        # The first request has already reported the topics that cannot be read.
        yield from (each for each in read(wanted) if not isinstance(each, UnreadableSource))


def _with_batch_size(
    found: Iterator[SubscriptionStats | UnreadableSource], messages_per_entry: int | None
) -> Iterator[SubscriptionStats | UnreadableSource]:
    from dataclasses import replace

    from ackwell.broker.batch_sizes import BatchSizes
    from ackwell.broker.stats import UnreadableSource

    for each in found:
        if (
            messages_per_entry is None
            or isinstance(each, UnreadableSource)
            or each.batch_sizes.each is not None
        ):
            yield each
        else:
            yield replace(each, batch_sizes=BatchSizes(each=messages_per_entry))


def _print(checkup: Checkup, output: DoctorFormat, html: str | None) -> None:
    if html is not None:
        from ackwell.diagnosis.report import report_html, write_report

        if html == "-":
            write_utf8(report_html(checkup))
            return
        write_report(html, checkup)
    if output is DoctorFormat.JSON:
        print_json(checkup.header(), "subscriptions", map(checkup.subscription, checkup.diagnoses))
    elif output is DoctorFormat.JSONL:
        for diagnosis in checkup.diagnoses:
            sys.stdout.write(json.dumps(checkup.subscription(diagnosis)) + "\n")
    elif output is DoctorFormat.PROMETHEUS:
        from ackwell.diagnosis.prometheus import prometheus_text

        write_utf8(prometheus_text(checkup))
    else:
        _show(checkup)
        if html is not None:
            out.print(f"report: {html}", highlight=False)
    if output is not DoctorFormat.TABLE:
        for unread in checkup.unread:
            report_unread(unread)


def _exit(checkup: Checkup, fail_on: FailThreshold) -> None:
    from ackwell.diagnosis.delivery import DeliveryVerdict

    if not checkup.diagnoses and checkup.unread and fail_on is not FailThreshold.NEVER:
        raise typer.Exit(EXIT_UNREAD)
    code = EXIT_CODES["losing"] if checkup.deliveries[DeliveryVerdict.STALLED] else EXIT_CODES[checkup.worst]
    if fail_on is FailThreshold.NEVER:
        code = 0
    elif code != EXIT_CODES["losing"]:
        if fail_on is FailThreshold.STUCK and any(each.delivery.is_stuck for each in checkup.diagnoses):
            code = EXIT_CODES["at risk"]
        code = EXIT_UNREAD if checkup.unread else 0 if fail_on is FailThreshold.LOSING else code
    raise typer.Exit(code)


def _show(checkup: Checkup) -> None:
    _print_brokers(checkup)
    _print_rows(checkup)
    if len(checkup.diagnoses) > ROWS:
        more = len(checkup.diagnoses) - ROWS
        out.print(f"… and {more:,} more; --format json and --html show all", highlight=False)
    explained = [each for each in checkup.diagnoses if each.verdict != "fine" or each.delivery.is_stuck]
    for diagnosis in explained[:EXPLAINED]:
        out.print(Text("\n".join(_explanation_lines(diagnosis))))
    if len(explained) > EXPLAINED:
        more = len(explained) - EXPLAINED
        out.print(f"\n{more:,} more are explained if you name the topic", highlight=False)
    for unread in checkup.unread[:ROWS]:
        out.print(Text(unread_line(unread), "magenta"))
    if checkup.unread:
        out.print(f"not read: {len(checkup.unread):,}", highlight=False)
    total = len(checkup.diagnoses)
    if not total:
        out.print("nothing was judged", highlight=False)
        return
    counts = ", ".join(f"{count:,} {verdict}" for verdict, count in checkup.verdicts.items())
    out.print(f"\n{total:,} subscription{'' if total == 1 else 's'}: {counts}", highlight=False)
    counts = ", ".join(f"{count:,} {verdict}" for verdict, count in checkup.deliveries.items() if count)
    out.print(f"delivery: {counts}", highlight=False)
    for restart in checkup.restarts:
        lost = checkup.messages_lost(restart)
        out.print(
            f"{RESTART_NAMES[restart]}: acknowledged messages that are redelivered: {lost}", highlight=False
        )


def _print_brokers(checkup: Checkup) -> None:
    """Print the version and settings of the broker that was asked.

    If an owner of topics has another version or other settings, also print the version and settings of each
    owner.
    """
    brokers = {f"broker {checkup.broker.version}": checkup.broker}
    if any(owner != checkup.broker for owner in checkup.owners.values()):
        for name, owner in sorted(checkup.owners.items()):
            brokers[f"owner {name}: broker {owner.version}"] = owner
    for shown, broker in brokers.items():
        out.print(Text(f"{shown}, settings from {broker.source}"), highlight=False)
        for assumption in broker.assumed:
            out.print(Text(f"assumed: {assumption}"), highlight=False)


def _print_rows(checkup: Checkup) -> None:
    headings = [
        *checkup.restarts,
        "delivery",
        "reason",
        "acked messages redelivered",
        "backlog entries",
        "ranges",
    ]
    print_subscriptions(headings, (_row(diagnosis, checkup) for diagnosis in checkup.diagnoses[:ROWS]))


def _row(diagnosis: Diagnosis, checkup: Checkup) -> Row:
    stats = diagnosis.stats
    values = [
        *(_verdict(diagnosis, restart) for restart in checkup.restarts),
        Text(diagnosis.delivery.verdict, COLOURS[diagnosis.delivery.verdict]),
        Text(diagnosis.delivery.reason),
        Text(str(diagnosis.messages_lost)),
        Text(shown_count(stats.backlog_entries)),
        Text(shown_count(stats.range_count)),
    ]
    return stats.topic, stats.subscription, values


def _verdict(diagnosis: Diagnosis, restart: Restart) -> Text:
    verdict = diagnosis.verdict_of(restart)
    return Text(verdict, COLOURS[verdict])


def _explanation_lines(diagnosis: Diagnosis) -> Iterator[str]:
    stats, delivery = diagnosis.stats, diagnosis.delivery
    name = f"{shown_name(stats.topic)} · {shown_name(stats.subscription)}"
    owner = f" (owner {shown_name(stats.owner)})" if stats.owner is not None else ""
    yield f"\n{name}: {diagnosis.verdict}, {delivery.verdict}{owner}"
    yield from _delivery_lines(diagnosis)
    for loss in diagnosis.restarts:
        later = loss.messages_before_flush
        written = "" if later == loss.messages else f" once the last acks are written, {later} before that"
        name = RESTART_NAMES[loss.restart]
        yield f"  {name}: acknowledged messages that are redelivered: {loss.messages}{written}"
    for reason in diagnosis.reasons:
        yield f"  because ({reason.code}): {reason}"
    for usage in diagnosis.usage:
        if usage.share >= 0.5:
            yield f"  {usage.text}"
    for remedy in diagnosis.remedies:
        yield f"  what helps: {remedy.text_for(stats)}"
        yield from (f"      {setting}" for setting in remedy.settings)
    for note in diagnosis.notes:
        yield f"  note: {note}"


def _delivery_lines(diagnosis: Diagnosis) -> Iterator[str]:
    """Yield lines about the delivery of a subscription: the problem, the evidence and the remedies."""
    delivery = diagnosis.delivery
    if delivery.verdict in ("delivering", "idle"):
        return
    shown = delivery.suspected or delivery.code
    issues = f" ({', '.join(shown.issues)})" if shown.issues else ""
    if delivery.suspected is not None:
        yield f"  delivery: {delivery.code.what}; this one looks like {shown.code}: {shown.what}{issues}"
    else:
        yield f"  delivery ({shown.code}): {shown.what}{issues}"
    if delivery.consumer is not None:
        yield f"    consumer {shown_name(delivery.consumer)}"
    yield from (f"    {detail}" for detail in delivery.details)
    if delivery.since_ms is not None:
        yield f"    nothing was delivered or acknowledged since {utc(delivery.since_ms)}"
    if until := delivery.until(diagnosis.stats):
        yield f"    until {until}"
    if shown.fixed_in:
        yield f"    fixed in {', '.join(shown.fixed_in)}"
    if shown.save:
        yield f"    save first: {shown.save}"
    steps = delivery.steps(diagnosis.stats)
    if steps:
        yield "    what helps:"
        yield from (f"      {line}" for line in steps)
