"""`ackwell rescue …` restores acknowledgments that a restart lost. No other command changes a cluster."""

from __future__ import annotations

import hashlib
import json
import re
import signal
import sys
import time
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ackwell.broker.dates import clock_ms
from ackwell.cli import options
from ackwell.cli.command import Command
from ackwell.cli.console import EXIT_UNREAD, fail, out, progress, report_unread, utc, warn

if TYPE_CHECKING:
    from ackwell.broker.stats import UnreadableSource
    from ackwell.broker.writes import Restart
    from ackwell.cluster.admin import Admin
    from ackwell.rescue import Connection, Plan, RefusedError, Report
    from ackwell.rescue.watch import WatchCounts, WatchEvent
    from ackwell.rescue.windows import EndangeredSubscriptions, Result, Window
    from ackwell.sources import SourceKind

EXIT_REFUSED: Final = 3
EXIT_MISSING: Final = 4
"""`EXIT_REFUSED` is the exit code if a check refused the command, and `EXIT_MISSING` if entries are still
missing. The other codes are 1 for an error, 2 for a wrong command line and 5 for an unreadable source."""

app = typer.Typer(
    name="rescue",
    no_args_is_help=True,
    help="Restore the acknowledgments that a restart lost. Without --yes nothing is changed.",
)

Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic, or one partition.")]
Name = Annotated[str, typer.Argument(metavar="SUBSCRIPTION", help="The subscription.")]
WindowFolder = Annotated[
    Path, typer.Option("-o", "--output", metavar="WINDOW", help="The folder for journals and snapshots.")
]
Yes = Annotated[bool, typer.Option("--yes", help="Make the change. Without this only GET requests are sent.")]


class RescueCommand(Command):
    """A command of `ackwell rescue`. A refusal is printed as one line. SIGTERM and SIGHUP act like Ctrl-C."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command. During the run, SIGTERM and SIGHUP raise `KeyboardInterrupt`."""
        from ackwell.rescue import RefusedError

        def stop(*_: object) -> None:
            raise KeyboardInterrupt

        before = {
            each: signal.signal(each, stop)
            for each in (getattr(signal, name, None) for name in ("SIGTERM", "SIGHUP"))
            if each is not None
        }
        try:
            return super().invoke(ctx)
        except RefusedError as refused:
            _print_refusal(refused)
            raise typer.Exit(EXIT_REFUSED) from None
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)


@options.with_required_admin
def connect(
    admin: Admin,
    broker: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="The address of the topic's broker, such as pulsar+ssl://host:6651; by default "
            "from the admin API.",
        ),
    ] = None,
    audit: Annotated[
        Path, typer.Option(metavar="FILE", help="The file to which a line is appended before each change.")
    ] = Path("ackwell-rescue.audit.jsonl"),
) -> Connection:
    """Return the connection that these options describe. Nothing is sent before the connection is used."""
    from ackwell.protocol.address import address_of
    from ackwell.rescue import AuditFile, Connection

    try:
        if broker is not None:
            address_of(broker)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--broker") from None
    shown = partial(progress, doing="commands of up to 1,000 acknowledgments")
    return Connection(admin, broker=broker, audit=AuditFile(audit), progress=shown)


with_connection = options.options_from(connect, "connection")
"""A decorator that adds the options of `connect` to a command. The command gets the connection as its
argument `connection`."""


@app.command(cls=RescueCommand)
@options.with_required_admin
def snapshot(
    admin: Admin,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="A topic, or all partitions of one.")],
    subscription: Name,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="The file to write.")] = Path(
        "before.json"
    ),
) -> None:
    r"""Save the acknowledgments of a subscription. A dump of `ackwell collect` is also a snapshot.

    Examples
    --------
        ackwell rescue snapshot --admin http://broker:8080 TOPIC billing \
          -o before.json

    Take the snapshot while a consumer is connected, because an idle topic does
    not show the type of its subscriptions. Only GET requests are sent.
    """
    from ackwell.rescue.snapshot import snapshot_texts

    if output.exists():
        # An existing snapshot is not replaced, because its state cannot be requested again after a restart.
        raise typer.BadParameter(
            f"{output} exists, and may be the only snapshot from before a restart; name another file",
            param_hint="--output",
        )
    texts = snapshot_texts(admin, _full_topic_name(topic), subscription)
    _write(output, "\n".join(texts))
    _print_line(f"{len(texts)} topic{'s' * (len(texts) > 1)} in {output}")


@app.command(cls=RescueCommand)
@options.with_required_admin
def plan(
    admin: Admin,
    snapshots: Annotated[
        list[str],
        typer.Argument(metavar="SNAPSHOT…", help="Snapshots, or folders of `ackwell collect`."),
    ],
    acks: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A file with the acknowledged parts of batches: bytes of the cursor, a memory dump, "
            "or a trace.",
        ),
    ] = None,
    restart: Annotated[
        options.RestartKind,
        typer.Option(
            help="The kind of restart after the snapshot. With `crash` you confirm that no seek "
            "happened after the snapshot, because this cannot be checked after a crash."
        ),
    ] = options.RestartKind.GRACEFUL,
    broker_setting: options.BrokerSetting = None,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="The file to write.")] = Path(
        "plan.json"
    ),
) -> None:
    r"""Find the acknowledgments in a snapshot that the broker lost, check them, and write a plan.

    Examples
    --------
        ackwell rescue plan before.json --admin http://broker:8080 -o plan.json
        ackwell rescue plan stats/ --admin http://broker:8080
        ackwell rescue plan before.json --admin http://broker:8080 \
          --restart crash --acks cursor.bin
        ackwell rescue plan before.json --admin http://broker:8080 \
          --broker-setting managedLedgerMaxUnackedRangesToPersist=200

    Only GET requests are sent. A subscription that fails a check is refused
    with the reason. The others are still planned.

    Exit code: 0 planned, 3 refused, 5 a source could not be read, 1 an
    error, 2 a wrong command line.
    """
    from ackwell.broker.stats import UnreadableSource
    from ackwell.errors import StatsError
    from ackwell.rescue import Connection, RefusedError, Snapshot, read_acks, read_snapshots
    from ackwell.rescue import plan as make_plan
    from ackwell.rescue.plans import plan_text, refusal_json
    from ackwell.rescue.snapshot import stated_settings
    from ackwell.sources import SourceKind

    kind = _one_restart(restart)
    connection = Connection(admin)
    settings = options.stated_settings(broker_setting)
    plans: list[Plan] = []
    refused: list[dict[str, str]] = []
    unread = 0
    for before in progress(read_snapshots(snapshots), "planning"):
        try:
            if not isinstance(before, Snapshot):
                raise StatsError(before.reason, before.topic or before.source)
            shown = None if acks is None else read_acks(acks, *before.name)
            live = connection.read_live(*before.name)
            stated = stated_settings(
                before, live, settings.assignments, others_are_defaults=settings.others_are_defaults
            )
            made = make_plan(before, live, restart=kind, ack_sets=shown, brokers=[stated])
        except RefusedError as error:
            assert isinstance(before, Snapshot)
            _print_refusal(error, *before.name)
            refused.append(refusal_json(error, *before.name))
        except StatsError as error:
            unread += 1
            report_unread(UnreadableSource(error.source, None, error.reason))
        else:
            plans.append(made)
            _print_plan(made)
    if plans or refused:
        text = plan_text(plans, refused, clock_ms())
        _write(output, text, frozenset({SourceKind.PLAN}))
    entries = sum(each.missing.cardinality for each in plans)
    counts = f"{len(plans):,} planned ({entries:,} entries), {len(refused):,} refused, {unread:,} not read"
    _print_line(f"{counts}: {output if plans or refused else 'nothing is written'}")
    if unread or refused:
        raise typer.Exit(EXIT_UNREAD if unread else EXIT_REFUSED)


@app.command(cls=RescueCommand)
@with_connection
def apply(
    connection: Connection,
    plan_file: Annotated[Path, typer.Argument(metavar="PLAN", help="A file of `ackwell rescue plan`.")],
    yes: Yes = False,
) -> None:
    """Acknowledge the entries of a plan that are not acknowledged, and read the result from the broker.

    Examples
    --------
        ackwell rescue apply plan.json --admin http://broker:8080
        ackwell rescue apply plan.json --admin http://broker:8080 --yes

    A second run changes nothing more. A plan that does not match the live
    state is refused. An error of one subscription does not stop the others.

    Exit code: 0 all is restored, 3 refused, 4 acknowledgments are still
    missing, 1 an error, 2 a wrong command line.
    """
    from ackwell.errors import AckwellError
    from ackwell.rescue import RefusedError, read_plans
    from ackwell.rescue import apply as apply_plan
    from ackwell.rescue.planning import remaining

    code, errors = 0, []
    with connection:
        for each in read_plans(plan_file):
            try:
                if yes:
                    code = max(code, _print_report(apply_plan(each, connection), connection))
                    continue
                left, parts = remaining(each, connection.read_live(*each.name))
                change = f"restore {left.cardinality:,} entries and {len(parts):,} ack sets"
                _print_dry_run(change, *each.name)
            except RefusedError as error:
                _print_refusal(error, *each.name)
                code = max(code, EXIT_REFUSED)
            except AckwellError as error:
                # Close the connection, so that the next subscription opens a new one.
                connection.close()
                errors.append(f"{each.subscription!r} of {each.topic}: {error}")
    for text in errors[:-1]:
        warn(f"error: {text}")
    if errors:
        fail(errors[-1])
    raise typer.Exit(code)


@app.command(cls=RescueCommand)
@with_connection
def unload(
    connection: Connection,
    topic: Topic,
    subscription: Annotated[
        str | None,
        typer.Argument(
            metavar="[SUBSCRIPTION]", help="The subscription; by default all that would lose acknowledgments."
        ),
    ] = None,
    hold_delivery: Annotated[
        bool,
        typer.Option(
            "--hold/--no-hold",
            help="Stop the delivery until all is restored. Without a hold, consumers may receive messages "
            "that they had acknowledged.",
        ),
    ] = True,
    journal: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The journal of the hold; by default in the working directory."),
    ] = None,
    yes: Yes = False,
) -> None:
    """Unload a topic without losing acknowledgments: hold, snapshot, unload, restore, release.

    Examples
    --------
        ackwell rescue unload --admin http://broker:8080 TOPIC billing
        ackwell rescue unload --admin http://broker:8080 TOPIC billing --yes
        ackwell rescue unload --admin http://broker:8080 TOPIC --yes

    After an interrupted run, the next run completes it and unloads nothing.
    If entries are missing before the release, the subscription stays held,
    and the command ends with an error. Run the same command again.
    With a SUBSCRIPTION, the others of the topic are not protected.

    Exit code: as `ackwell rescue apply`.
    """
    from ackwell.rescue import unload as unload_topic
    from ackwell.rescue.planning import attachable_type

    with connection:
        topic = _unpartitioned_topic(connection.admin, topic)
        if subscription is None:
            if journal is not None or not hold_delivery:
                raise typer.BadParameter("--journal and --no-hold need a SUBSCRIPTION")
            raise typer.Exit(_unload_all(connection, topic, yes=yes))
        name = hashlib.sha256(json.dumps([topic, subscription]).encode()).hexdigest()[:8]
        journal = journal or Path(f"ackwell-rescue-{name}.journal")
        if not yes:
            live = connection.read_live(topic, subscription)
            kind = attachable_type(live)
            held = "hold the delivery, " if hold_delivery else ""
            others = len(live.topic_shown["subscriptions"]) - 1
            _print_dry_run(
                f"{held}unload the topic, with {others} other subscriptions, and restore the acknowledgments "
                f"that the unload loses, of {live.acked.cardinality:,} entries ({kind})",
                *live.name,
            )
            return
        try:
            report = unload_topic(
                connection, topic, subscription, journal=journal, hold=hold_delivery, on_note=_print_note
            )
        finally:
            if journal.exists():
                _print_line(
                    f"still held, journal {journal}: run the command again, or `ackwell rescue release`"
                )
        raise typer.Exit(_print_report(report, connection))


@app.command(cls=RescueCommand)
@with_connection
def begin(
    connection: Connection,
    topics: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TOPIC]…", help="Tenants, namespaces or topics; all by default."),
    ] = None,
    window: WindowFolder = Path("window"),
    owner: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Only the topics of the broker with this admin address."),
    ] = None,
    restart: Annotated[
        options.RestartKind,
        typer.Option(help="The kind of the planned restart; `both` protects against either kind."),
    ] = options.RestartKind.GRACEFUL,
    yes: Yes = False,
) -> None:
    r"""Before planned restarts: hold and snapshot every subscription that would lose acknowledgments.

    Examples
    --------
        ackwell rescue begin --admin http://broker:8080 --owner broker-0:8080
        ackwell rescue begin --admin http://broker:8080 --yes tenant/namespace

    Without --yes, the command reports the messages that the restart would
    redeliver. An unknown loss counts as a loss. If a subscription may lose
    only acknowledgments that a rescue cannot restore, such as those inside
    batches, the command names the subscription and does not hold it. When
    all holds are set, the command waits until every broker has read them.
    After an interruption, run the same command again. After the restarts, run
    `ackwell rescue end`.

    Exit code: 0 all acknowledgments that can be restored are protected, 3
    some are refused or a broker has not read the holds, 5 a source could not
    be read, 1 an error, 2 a wrong command line.
    """
    from ackwell.broker.writes import RESTARTS
    from ackwell.rescue.windows import Window, endangered, protected
    from ackwell.rescue.windows import begin as begin_window

    folder = Window(window)
    if folder.file.exists() and folder.is_done():
        raise typer.BadParameter(f"the folder {window} is a finished window; name another one with --output")
    with connection:
        admin = connection.admin
        if folder.file.exists():
            refused: list[Result] = []
            unread: list[UnreadableSource] = []
        else:
            kinds = tuple(each for each in RESTARTS if restart in ("both", each))
            found = endangered(admin, topics or (), kinds, owner)
            unread = found.unread
            names, refused = protected(found.restorable, admin)
            least = sum(each.messages_lost.at_least for each in found.restorable)
            count = len(found.restorable)
            loss = f"; at least {least:,} messages would be redelivered" if count else ""
            _print_line(f"subscriptions that may lose acknowledgments: {count:,}{loss}")
            _print_not_held(found)
            # Create the window even if there is nothing to protect, so that a script can always run `end`.
            if yes and (names or not (refused or unread)):
                folder.create(names, admin.cluster)
        for each in unread:
            report_unread(each)
        failed = _print_results(refused)
        if not yes:
            count = len(folder.names()) if folder.file.exists() else len(names)
            _print_line(f"would hold {count:,} subscriptions; nothing was changed: add --yes")
        elif folder.file.exists():
            begun, namespaces = _print_begun(progress(begin_window(connection, folder), "holding"), folder)
            failed += begun
            held = sum(folder.journal(name).exists() for name in folder.names())
            address = admin.endpoint.shown_url
            end = f"ackwell rescue end {window} --admin {address} --yes"
            known = (
                f"have a hold, which may not be in force on every broker ({', '.join(namespaces)})"
                if namespaces
                else "are held"
            )
            _print_line(f"{held:,} subscriptions {known}. After the restarts: {end}")
    if failed or unread:
        raise typer.Exit(EXIT_REFUSED if failed else EXIT_UNREAD)


@app.command(cls=RescueCommand)
@with_connection
def end(
    connection: Connection,
    window: Annotated[Path, typer.Argument(metavar="WINDOW", help="The folder of `ackwell rescue begin`.")],
    restart: Annotated[
        options.RestartKind,
        typer.Option(
            help="The kind of restart in the window. With `crash` you confirm that no seek "
            "happened after `begin`."
        ),
    ] = options.RestartKind.GRACEFUL,
    load_seconds: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="How long to wait until the topics are loaded.")
    ] = 120.0,
    release_only: Annotated[
        bool, typer.Option("--release-only", help="Release every hold, and restore nothing.")
    ] = False,
    yes: Yes = False,
) -> None:
    """After planned restarts: restore the lost acknowledgments of a window, and release its holds.

    Examples
    --------
        ackwell rescue end window --admin http://broker:8080
        ackwell rescue end window --admin http://broker:8080 --yes

    A subscription whose restore is refused stays held. Run the command again
    with --restart crash, or with --release-only. After an interruption, run
    the same command again.

    Exit code: as `ackwell rescue apply`.
    """
    from ackwell.rescue.windows import Window, release_all
    from ackwell.rescue.windows import end as end_window

    kind = _one_restart(restart)
    folder = Window(window)
    with connection:
        names = folder.names()
        if not yes:
            left = sum(not folder.report(name).exists() for name in names)
            _print_line(f"would restore and release {left:,} subscriptions; nothing was changed: add --yes")
            return
        results = (
            release_all(connection, folder)
            if release_only
            else end_window(connection, folder, restart=kind, wait_seconds=load_seconds)
        )
        failed = _print_results(progress(results, "restoring"))
    held = [name for name in names if folder.journal(name).exists()]
    for topic, subscription in held:
        _print_line(
            f"still held: {subscription!r} of {topic}, journal {folder.journal((topic, subscription))}"
        )
    if failed:
        raise typer.Exit(EXIT_REFUSED)


@app.command(cls=RescueCommand)
def status(
    window: Annotated[Path, typer.Argument(metavar="WINDOW", help="The folder of `ackwell rescue begin`.")],
) -> None:
    """Show the state of each subscription of a window, from its files.

    Examples
    --------
        ackwell rescue status window
    """
    from ackwell.rescue.windows import Window

    folder = Window(window)
    for topic, subscription in folder.names():
        _print_line(f"{subscription!r} of {topic}: {folder.state((topic, subscription))}")


@app.command(cls=RescueCommand)
@with_connection
def watch(
    connection: Connection,
    namespaces: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAMESPACE]…", help="Tenants, namespaces or topics; by default the whole cluster."
        ),
    ] = None,
    every: Annotated[
        str, typer.Option(metavar="SECONDS", help="The time from one round to the next: 10, 10s or 1m.")
    ] = "10s",
    state: Annotated[
        Path,
        typer.Option("-o", "--output", metavar="STATE", help="The folder for observations and plans."),
    ] = Path("state"),
    listen: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Serve /metrics and /healthz; port 0 takes any free one."),
    ] = None,
    rounds: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="End after N rounds; by default never.")
    ] = None,
    yes: Yes = False,
) -> None:
    r"""Watch for unplanned loads of topics, and restore lost acknowledgments within seconds.

    Examples
    --------
        ackwell rescue watch --admin http://broker:8080 shop/eu -o state
        ackwell rescue watch --admin http://broker:8080 shop/eu -o state \
          --every 10s --listen 127.0.0.1:9464 --yes

    Each round observes the subscriptions that use 80 % or more of a limit.
    When a topic was loaded again, the lost acknowledgments are restored if
    the checks of `rescue plan` exclude a seek. Otherwise the loss is only
    recorded in the folder. Without --yes the command only reports and writes
    plans. It runs until it is stopped.

    The command prints a line when it starts, a line for each event, and the
    counts of the first round. A later round prints the counts only if they
    changed. /metrics and /healthz show that the watch runs.

    A crash looks like a seek, so most losses of a crash are not restored.
    Messages that are delivered before the restore are delivered twice.
    """
    from contextlib import nullcontext

    from ackwell.cluster.collect import hold_lock
    from ackwell.rescue.watch import Watch
    from ackwell.rescue.watch_folder import WatchFolder
    from ackwell.rescue.watch_server import watch_server

    seconds = _seconds(every)
    address = None if listen is None else options.listen_address(listen)
    folder = WatchFolder(state)
    with hold_lock(state / ".watch.lock", "ackwell rescue watch"):
        watching = Watch(connection, namespaces or (), folder, restores=yes)
        server = (
            nullcontext()
            if address is None
            else watch_server(address, watching.counts, every_seconds=seconds, restores=yes)
        )
        try:
            with server as served:
                if served is not None:
                    _print_line(f"metrics: http://{served[0]}:{served[1]}/metrics")
                mode = "lost acknowledgments are restored" if yes else "dry run; add --yes to restore"
                watched = " ".join(namespaces or ["the whole cluster"])
                _print_line(f"{_now()} watching {watched}, a round every {seconds:g} s: {mode}")
                shown = ""
                while rounds is None or watching.counts.rounds < rounds:
                    if watching.counts.rounds:
                        time.sleep(max(seconds - watching.counts.round_seconds, 0))
                    for event in watching.round():
                        _print_event(event)
                    if (status := _watch_status(watching.counts)) != shown:
                        _print_line(f"{_now()} {status}")
                        shown = status
        except KeyboardInterrupt:
            _print_line(f"stopped after {watching.counts.rounds:,} rounds")


def _one_restart(restart: options.RestartKind) -> Restart:
    """Return the kind of the restart; refuse `both`."""
    if restart is options.RestartKind.BOTH:
        raise typer.BadParameter("name the restart: --restart graceful or --restart crash")
    return "crash" if restart is options.RestartKind.CRASH else "graceful"


def _seconds(text: str) -> float:
    """Return the seconds of a duration such as `10`, `10s` or `1m`. 0 is refused."""
    found = re.fullmatch(r"(\d{1,6})([sm]?)", text)
    seconds = 0 if found is None else int(found[1]) * (60 if found[2] == "m" else 1)
    if not seconds:
        raise typer.BadParameter(f"{text!r}: expected a time such as 10, 10s or 1m", param_hint="--every")
    return seconds


def _watch_status(counts: WatchCounts) -> str:
    return (
        f"{counts.at_risk:,} subscriptions at risk, {counts.pending:,} with a loss that is not restored; "
        f"{counts.unread:,} topics or brokers not read"
    )


def _now() -> str:
    return utc(clock_ms())


def _print_event(event: WatchEvent) -> None:
    """Print an event of a watch with the current time. An error is printed to standard error."""
    topic, subscription = event.name
    name = f"{subscription!r} of {topic}" if subscription else topic
    line = f"{_now()} {name}: {event.text}"
    if event.is_error:
        warn(line)
    else:
        _print_line(line)


@app.command(cls=RescueCommand)
@with_connection
def hold(
    connection: Connection,
    topic: Topic,
    subscription: Name,
    journal: Annotated[
        Path, typer.Option(metavar="FILE", help="The file in which the current dispatch rate is stored.")
    ],
    yes: Yes = False,
) -> None:
    r"""Stop the delivery of a subscription before a planned restart, until `release`.

    Examples
    --------
        ackwell rescue hold --admin http://broker:8080 TOPIC billing \
          --journal billing.journal --yes

    The hold is a dispatch rate of one message an hour, set as a topic policy.
    Consumers stay connected and can acknowledge the messages that they have.
    """
    from ackwell.rescue import hold as hold_delivery
    from ackwell.rescue.holding import check_holdable
    from ackwell.rescue.planning import attachable_type
    from ackwell.rescue.policy_readers import check_read

    with connection:
        topic = _unpartitioned_topic(connection.admin, topic)
        live = connection.read_live(topic, subscription)
        attachable_type(live)
        if not yes:
            check_holdable(connection, topic, subscription, journal)
            _print_dry_run("stop the delivery", *live.name)
            return
        hold_delivery(connection, topic, subscription, journal)
        address = connection.admin.endpoint.shown_url
        end = f"ackwell rescue release --admin {address} --journal {journal} --yes"
        _print_line(f"{subscription!r} is held on the broker that owns the topic. To end it: {end}")
        check_read(connection.admin, topic, on_note=_print_note)


@app.command(cls=RescueCommand)
@with_connection
def release(
    connection: Connection,
    journal: Annotated[Path, typer.Option(metavar="FILE", help="The journal of the hold.")],
    topic: Annotated[
        str | None,
        typer.Argument(metavar="[TOPIC]", help="The topic of the hold: refuse a journal of another one."),
    ] = None,
    subscription: Annotated[
        str | None,
        typer.Argument(
            metavar="[SUBSCRIPTION]",
            help="The subscription of the hold: refuse a journal of another one.",
        ),
    ] = None,
    yes: Yes = False,
) -> None:
    r"""End a hold: restore the dispatch rate that the journal contains.

    Examples
    --------
        ackwell rescue release --admin http://broker:8080 \
          --journal billing.journal --yes

    A dispatch rate that was set since the hold is not changed.
    """
    from ackwell.rescue import release as release_delivery
    from ackwell.rescue.holding import read_journal

    found = read_journal(journal, None if topic is None else _full_topic_name(topic), subscription)
    with connection:
        if not yes:
            change = "remove the rate" if found["before"] is None else f"set {found['before']} again"
            _print_line(f"would {change}; nothing was changed: add --yes")
            return
        done = release_delivery(connection, journal)
        connection.wake(found["topic"], found["subscription"])
        _print_line(f"{found['subscription']!r} of {found['topic']}: {done}")


@app.command(cls=RescueCommand)
@with_connection
def copy(
    connection: Connection,
    topic: Topic,
    subscription: Name,
    new: Annotated[str, typer.Argument(metavar="NEW", help="The name of the copy.")],
    yes: Yes = False,
) -> None:
    """Create a copy of a subscription; acknowledgments of parts of batches are not copied.

    Examples
    --------
        ackwell rescue copy --admin http://broker:8080 TOPIC billing test --yes

    Exit code: as `ackwell rescue apply`.
    """
    from ackwell.rescue import copy as copy_subscription
    from ackwell.rescue.operations import check_copyable

    with connection:
        topic = _unpartitioned_topic(connection.admin, topic)
        if not yes:
            live = check_copyable(connection, topic, subscription, new)
            _print_dry_run(f"create {new!r} with {live.acked.cardinality:,} acknowledged entries", *live.name)
            return
        raise typer.Exit(_print_report(copy_subscription(connection, topic, subscription, new), connection))


@app.command(cls=RescueCommand)
@with_connection
def ack(
    connection: Connection,
    topic: Topic,
    subscription: Name,
    positions: Annotated[
        list[str], typer.Argument(metavar="LEDGER:ENTRY…", help="The entries, such as 3:17.")
    ],
    yes: Yes = False,
) -> None:
    """Acknowledge single entries for a subscription, such as one poison message.

    Examples
    --------
        ackwell rescue ack --admin http://broker:8080 TOPIC billing 3:17 --yes

    Exit code: as `ackwell rescue apply`.
    """
    from ackwell.position import Position
    from ackwell.rescue import ack as ack_entries
    from ackwell.rescue.operations import unacknowledged

    try:
        wanted = [Position.parse(text) for text in positions]
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    with connection:
        topic = _unpartitioned_topic(connection.admin, topic)
        if not yes:
            live = connection.read_live(topic, subscription)
            _print_dry_run(f"acknowledge {unacknowledged(live, wanted).cardinality:,} entries", *live.name)
            return
        raise typer.Exit(_print_report(ack_entries(connection, topic, subscription, wanted), connection))


def _unload_all(connection: Connection, topic: str, *, yes: bool) -> int:
    """Unload a topic, and protect all its subscriptions that would lose acknowledgments.

    Return the exit code.
    """
    from ackwell.rescue.windows import Window, endangered, protected, unload_window

    folder = Window(Path(f"ackwell-rescue-{hashlib.sha256(topic.encode()).hexdigest()[:8]}.window"))
    if not folder.file.exists():
        found = endangered(connection.admin, [topic], ("graceful",))
        unread = found.unread
        names, refused = protected(found.restorable, connection.admin)
        _print_not_held(found)
        for each in unread:
            report_unread(each)
        if failed := _print_results(refused):
            # The topic must not be unloaded, because these subscriptions would lose acknowledgments.
            warn(f"{failed} subscriptions cannot be protected, so the topic is not unloaded")
        if failed or unread:
            return EXIT_REFUSED if failed else EXIT_UNREAD
        if not yes:
            _print_line(f"{topic}: would protect {len(names)} subscriptions and unload; add --yes")
            return 0
    elif not yes:
        _print_line(f"{topic}: would complete the interrupted run of {folder.folder}; add --yes")
        return 0
    else:
        names = None
    failed = _print_results(unload_window(connection, folder, topic, names))
    if not failed:
        _print_line(f"{topic}{_unloaded(names)}")
    for name in folder.names() if folder.file.exists() else ():
        if folder.journal(name).exists():
            _print_line(f"still held: {name[1]!r} of {name[0]}, journal {folder.journal(name)}")
    return EXIT_REFUSED if failed else 0


def _unloaded(names: Sequence[tuple[str, str]] | None) -> str:
    """Return the text after the topic in the line that reports an unload; see `unload_window` for `names`."""
    if names is None:
        return ": the interrupted run is completed. If it did not unload the topic, run the command again"
    return " is unloaded" if names else " is unloaded; no subscription needed protection"


def _print_results(results: Iterable[Result]) -> int:
    """Print a line for each result of a window. Return the number of results with an error."""
    from ackwell.rescue import RefusedError

    failed = 0
    for each in results:
        topic, subscription = each.name
        if isinstance(each.error, RefusedError):
            _print_refusal(each.error, topic, subscription)
        elif each.error is not None:
            of = f"{subscription!r} of {topic}: " if subscription else ""
            warn(f"error: {of}{each.error}")
        elif each.note:
            _print_note(each.note)
        elif each.report is not None:
            _print_line(str(each.report))
        failed += each.error is not None
    return failed


def _print_note(note: str) -> None:
    warn(f"note: {note}")


def _print_not_held(found: EndangeredSubscriptions) -> None:
    if count := len(found.without_ranges):
        _print_line(
            f"not held: {count:,} without acknowledged ranges. They may lose acknowledgments inside batches, "
            "and in a crash the latest ones. A rescue cannot restore these:"
        )
    for each in found.without_ranges:
        _print_line(f"  not held: {each.stats.subscription!r} of {each.stats.topic}")


def _print_begun(results: Iterable[Result], folder: Window) -> tuple[int, list[str]]:
    """Print each result of `begin` as soon as it is known.

    Return the number of results with an error, and the namespaces whose holds a broker may not have read.
    """
    failed = once = 0
    namespaces = []
    for each in results:
        if not each.is_read:
            namespaces.append(each.name[0])
        if each.error is not None or each.note:
            failed += _print_results([each])
            continue
        topic, subscription = each.name
        lost = (
            "; the next close of the topic loses acknowledged parts of batches, if there are any, and "
            "`end` cannot restore them"
        )
        lost = lost if each.parts == "lost" else ""
        _print_line(f"{subscription!r} of {topic}: {folder.state(each.name)}{lost}")
        once += each.parts == "kept once"
    if once:
        _print_line(
            f"{once:,} subscriptions keep acknowledged parts of batches in one close of their topic; a "
            "second close before `end` loses them"
        )
    return failed, namespaces


def _print_line(text: str) -> None:
    out.print(text, highlight=False, markup=False)


def _full_topic_name(topic: str) -> str:
    from ackwell.protocol.topic_name import TopicName

    try:
        return str(TopicName.parse(topic))
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def _unpartitioned_topic(admin: Admin, topic: str) -> str:
    """Return the full name of a topic. Raises `RefusedError` if the topic is partitioned."""
    from ackwell.broker.stats import UnreadableSource
    from ackwell.errors import StatsError
    from ackwell.rescue import RefusedError

    name = _full_topic_name(topic)
    names = []
    for each in admin.topics([name]):
        if isinstance(each, UnreadableSource):
            raise StatsError(each.reason, each.topic or each.source)
        names.append(each)
    if names != [name]:
        raise RefusedError("partitioned", topic=topic, partitions=len(names), first=names[0])
    return name


def _write(file: Path, text: str, replaces: frozenset[SourceKind] | None = None) -> None:
    """Write a text to a new file. The file `-` means standard output.

    If `replaces` is given, an existing file is replaced if it is of one of these kinds.
    """
    from ackwell.regular_files import write_file

    if str(file) == "-":
        sys.stdout.write(text)
        return
    write_file(file, text.encode(), new=replaces is None, replaces=replaces)


def _print_plan(made: Plan) -> None:
    shown_type = "type unknown" if made.type is None else made.type
    lines = [f"{made.subscription!r} of {made.topic} ({shown_type}):"]
    if not made:
        lines.append("  nothing is missing")
    else:
        ledgers = len(made.missing.ledger_ids())
        lines.append(
            f"  to restore   {made.missing.cardinality:,} entries in {len(made.missing):,} ranges over "
            f"{ledgers:,} ledger{'' if ledgers == 1 else 's'}, {len(made.ack_sets):,} ack sets"
        )
    lines += [f"  checked      {each}" for each in made.passed]
    lines += [f"  unknown      {each}" for each in made.unknown]
    _print_line("\n".join(lines))


def _print_dry_run(change: str, topic: str, subscription: str) -> None:
    _print_line(f"{subscription!r} of {topic}: would {change}; nothing was changed: add --yes")


def _print_report(report: Report, connection: Connection) -> int:
    _print_line(str(report))
    if connection.received:
        warn(f"the helper received {connection.received} messages, which are redelivered")
    for each in connection.errors[:5]:
        warn(f"the broker answered: {each}")
    return EXIT_MISSING if report.missing else 0


def _print_refusal(refused: RefusedError, topic: str = "", subscription: str = "") -> None:
    name = f"{subscription!r} of {topic}: " if topic else ""
    warn(f"refused ({refused.code}): {name}{refused}")
