"""`ackwell rescue …` puts back what a restart forgot: the only command that changes anything in a cluster."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ackwell.cli import options
from ackwell.cli.command import Command
from ackwell.cli.console import EXIT_UNREAD, fail, out, progress, report_unread, warn

if TYPE_CHECKING:
    from ackwell.broker.writes import Restart
    from ackwell.cluster.admin import Admin
    from ackwell.cursor.state import CursorState
    from ackwell.rescue import Connection, Plan, RefusedError, Report, Snapshot

EXIT_REFUSED: Final = 3
EXIT_MISSING: Final = 4
"""1 is an error, 2 a wrong command line, 5 something that could not be read."""

PLAN_VERSION: Final = 1

RANGES: Final = 4
"""How many ranges a screen shows."""

app = typer.Typer(
    name="rescue",
    no_args_is_help=True,
    help="Put back the acknowledgments that a restart forgot. Without --yes nothing is changed.",
)

Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic, or one partition.")]
Name = Annotated[str, typer.Argument(metavar="SUBSCRIPTION", help="The subscription.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do it. Without this only GET requests are sent.")]
Broker = Annotated[
    str | None,
    typer.Option(
        metavar="URL", help="The topic's broker, pulsar+ssl://host:6651; by default as --admin says."
    ),
]
Audit = Annotated[Path, typer.Option(metavar="FILE", help="A line is added to it before each change.")]
AUDIT: Final = Path("ackwell-rescue.audit.jsonl")


class RescueCommand(Command):
    """Say a refusal in one line; end in order on the signals with which processes are ended."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
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


@app.command(cls=RescueCommand)
@options.with_admin_options
def snapshot(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="A topic, or all partitions of one.")],
    subscription: Name,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE", help="Where the snapshot is written.")
    ] = Path("before.json"),
    client: Admin | None = None,
) -> None:
    r"""Write down what a subscription has acknowledged. A dump of `ackwell collect` serves as well.

    Examples
    --------
        ackwell rescue snapshot --admin http://broker:8080 TOPIC billing \
          -o before.json

    Take it while a consumer is connected: an idle topic does not show the
    type of its subscriptions. Only GET requests are sent.
    """
    from ackwell.broker.stats import UnreadableSource
    from ackwell.errors import StatsError
    from ackwell.rescue.checksums import with_sha256
    from ackwell.rescue.snapshot import dump

    if output.exists():
        # What it shows of before a restart cannot be asked for again.
        raise typer.BadParameter(
            f"{output} is there, and may be the only snapshot of before a restart; name another file",
            param_hint="--output",
        )
    admin = _admin(client)
    facts, dumps = admin.facts(), []
    for answer in admin.answers([_full_topic_name(topic)]):
        if isinstance(answer, UnreadableSource):
            raise StatsError(answer.reason, answer.topic or answer.source)
        if subscription not in (answer.internal.get("cursors") or {}):
            raise StatsError(f"there is no subscription {subscription!r}", answer.topic)
        dumps.append(json.dumps(with_sha256(dump(answer, subscription, facts, admin.cluster))))
    _write(output, "\n".join(dumps))
    _print_line(f"{len(dumps)} topic{'s' * (len(dumps) > 1)} in {output}")


@app.command(cls=RescueCommand)
@options.with_admin_options
def plan(
    snapshots: Annotated[
        list[str],
        typer.Argument(metavar="SNAPSHOT…", help="Snapshots, or folders of `ackwell collect`."),
    ],
    acks: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="What shows parts of batches: bytes of the cursor, a memory dump, or a trace.",
        ),
    ] = None,
    restart: Annotated[
        options.RestartKind,
        typer.Option(help="What happened since: `crash` says that nobody sought, whatever it looks like."),
    ] = options.RestartKind.GRACEFUL,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE", help="Where the plan is written.")
    ] = Path("plan.json"),
    client: Admin | None = None,
) -> None:
    r"""Show what is acknowledged in a snapshot and is not any more, check it, and write it down as a plan.

    Examples
    --------
        ackwell rescue plan before.json --admin http://broker:8080 -o plan.json
        ackwell rescue plan stats/ --admin http://broker:8080
        ackwell rescue plan before.json --admin http://broker:8080 \
          --restart crash --acks cursor.bin

    Only GET requests are sent. A subscription that fails a check is refused
    with the reason, and the others go on.

    Exit code: 0 planned, 3 refused, 5 something could not be read, 1 an
    error, 2 a wrong command line.
    """
    from ackwell.broker.stats import UnreadableSource
    from ackwell.errors import StatsError
    from ackwell.rescue import Connection, RefusedError, Snapshot, read_snapshots
    from ackwell.rescue import plan as make_plan
    from ackwell.rescue.checksums import with_sha256

    if restart is options.RestartKind.BOTH:
        raise typer.BadParameter("say what happened: --restart graceful or --restart crash")
    kind: Restart = "crash" if restart is options.RestartKind.CRASH else "graceful"
    connection = Connection(_admin(client))
    plans: list[Plan] = []
    refused: list[dict[str, str]] = []
    unread = 0
    for before in progress(read_snapshots(snapshots), "planning"):
        try:
            if not isinstance(before, Snapshot):
                raise StatsError(before.reason, before.topic or before.source)
            shown = None if acks is None else _acks(acks, before)
            made = make_plan(before, connection.read_live(*before.name), restart=kind, ack_sets=shown)
        except RefusedError as error:
            assert isinstance(before, Snapshot)
            _print_refusal(error, *before.name)
            refused.append(dict(zip(("topic", "subscription"), before.name, strict=True)))
            refused[-1] |= {"code": error.code, "reason": str(error)}
        except StatsError as error:
            unread += 1
            report_unread(UnreadableSource(error.source, None, error.reason))
        else:
            plans.append(made)
            _show(made)
    made_at = int(time.time() * 1000)
    value = {"version": PLAN_VERSION, "timeMs": made_at, "plans": [each.to_json() for each in plans]}
    if plans or refused:
        _write(output, json.dumps(with_sha256(value | {"refused": refused})))
    entries = sum(each.missing.cardinality for each in plans)
    counts = f"{len(plans):,} planned ({entries:,} entries), {len(refused):,} refused, {unread:,} not read"
    _print_line(f"{counts}: {output if plans or refused else 'nothing is written'}")
    if unread or refused:
        raise typer.Exit(EXIT_UNREAD if unread else EXIT_REFUSED)


@app.command(cls=RescueCommand)
@options.with_admin_options
def apply(
    plan_file: Annotated[Path, typer.Argument(metavar="PLAN", help="A file of `ackwell rescue plan`.")],
    broker: Broker = None,
    yes: Yes = False,
    audit: Audit = AUDIT,
    client: Admin | None = None,
) -> None:
    """Acknowledge what a plan says and is still missing, and read back what came of it.

    Examples
    --------
        ackwell rescue apply plan.json --admin http://broker:8080
        ackwell rescue apply plan.json --admin http://broker:8080 --yes

    A second time does nothing more. A plan that does not follow from the live
    state any more is refused. What ends one subscription with an error ends no
    other.

    Exit code: 0 all is put back, 3 refused, 4 entries are still missing, 1 an
    error, 2 a wrong command line.
    """
    from ackwell.errors import AckwellError
    from ackwell.rescue import RefusedError, put_back
    from ackwell.rescue.planning import remaining

    code, errors = 0, []
    with _connection(client, broker, audit) as connection:
        for each in _plans(plan_file):
            try:
                if yes:
                    code = max(code, _print_report(put_back(each, connection), connection))
                    continue
                left, parts = remaining(each, connection.read_live(*each.name))
                _print_dry_run(
                    f"put {left.cardinality:,} entries and {len(parts):,} ack sets back", *each.name
                )
            except RefusedError as error:
                _print_refusal(error, *each.name)
                code = max(code, EXIT_REFUSED)
            except AckwellError as error:
                # The others go on, over a connection of their own.
                connection.close()
                errors.append(f"{each.subscription!r} of {each.topic}: {error}")
    for text in errors[:-1]:
        warn(f"error: {text}")
    if errors:
        fail(errors[-1])
    raise typer.Exit(code)


@app.command(cls=RescueCommand)
@options.with_admin_options
def unload(
    topic: Topic,
    subscription: Name,
    hold_delivery: Annotated[
        bool,
        typer.Option("--hold/--no-hold", help="Stop the delivery meanwhile, or race consumers."),
    ] = True,
    journal: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The journal of the hold; by default in this folder.")
    ] = None,
    broker: Broker = None,
    yes: Yes = False,
    audit: Audit = AUDIT,
    client: Admin | None = None,
) -> None:
    """Unload a topic so that one subscription forgets nothing: hold, unload, put back, release.

    Examples
    --------
        ackwell rescue unload --admin http://broker:8080 TOPIC billing
        ackwell rescue unload --admin http://broker:8080 TOPIC billing --yes

    If a run died, the next one brings it to its end, and unloads nothing.
    Other subscriptions of the topic forget what an unload makes them forget.

    Exit code: as `ackwell rescue apply`.
    """
    from ackwell.rescue import unload as unload_topic
    from ackwell.rescue.planning import attachable_type

    with _connection(client, broker, audit) as connection:
        topic = _unpartitioned_topic(connection.admin, topic)
        name = hashlib.sha256(json.dumps([topic, subscription]).encode()).hexdigest()[:8]
        journal = journal or Path(f"ackwell-rescue-{name}.journal")
        if not yes:
            live = connection.read_live(topic, subscription)
            kind = attachable_type(live)
            held = "hold the delivery, " if hold_delivery else ""
            acked = live.acked.cardinality
            others = len(live.topic_shown["subscriptions"]) - 1
            _print_dry_run(
                f"{held}unload the topic, with {others} other subscriptions, and put back what it forgets of "
                f"{acked:,} entries ({kind})",
                *live.name,
            )
            return
        _print_line(f"the journal is {journal}")
        report = unload_topic(connection, topic, subscription, journal=journal, hold=hold_delivery)
        raise typer.Exit(_print_report(report, connection))


@app.command(cls=RescueCommand)
@options.with_admin_options
def hold(
    topic: Topic,
    subscription: Name,
    journal: Annotated[Path, typer.Option(metavar="FILE", help="Where the rate that is set now is kept.")],
    yes: Yes = False,
    audit: Audit = AUDIT,
    client: Admin | None = None,
) -> None:
    r"""Stop the delivery of a subscription, until `release`, for a restart that is planned.

    Examples
    --------
        ackwell rescue hold --admin http://broker:8080 TOPIC billing \
          --journal billing.journal --yes

    The hold is a dispatch rate of one message an hour, set as a topic policy.
    Consumers stay connected and may acknowledge what they have.
    """
    from ackwell.rescue import hold as hold_delivery
    from ackwell.rescue.holding import check_holdable
    from ackwell.rescue.planning import attachable_type

    with _connection(client, None, audit) as connection:
        topic = _unpartitioned_topic(connection.admin, topic)
        live = connection.read_live(topic, subscription)
        attachable_type(live)
        if not yes:
            check_holdable(connection, topic, subscription, journal)
            _print_dry_run("stop the delivery", *live.name)
            return
        hold_delivery(connection, topic, subscription, journal)
        _print_line(f"{subscription!r} is held. To end it: ackwell rescue release --journal {journal} --yes")


@app.command(cls=RescueCommand)
@options.with_admin_options
def release(
    journal: Annotated[Path, typer.Option(metavar="FILE", help="The journal of the hold.")],
    topic: Annotated[str | None, typer.Argument(metavar="[TOPIC]", help="Not needed.")] = None,
    subscription: Annotated[str | None, typer.Argument(metavar="[SUBSCRIPTION]", help="Not needed.")] = None,
    broker: Broker = None,
    yes: Yes = False,
    audit: Audit = AUDIT,
    client: Admin | None = None,
) -> None:
    r"""Set the dispatch rate of before the hold again. The journal says all that is needed.

    Examples
    --------
        ackwell rescue release --admin http://broker:8080 \
          --journal billing.journal --yes

    If another rate was set since the hold, that one is left as it is.
    """
    from ackwell.rescue import release as release_delivery
    from ackwell.rescue.holding import read_journal

    found = read_journal(journal, topic, subscription)
    with _connection(client, broker, audit) as connection:
        if not yes:
            before = "remove the rate" if found["before"] is None else f"set {found['before']} again"
            _print_line(f"would {before}; nothing was changed: add --yes")
            return
        done = release_delivery(connection, journal)
        connection.wake(found["topic"], found["subscription"])
        _print_line(f"{found['subscription']!r} of {found['topic']}: {done}")


@app.command(cls=RescueCommand)
@options.with_admin_options
def copy(
    topic: Topic,
    subscription: Name,
    new: Annotated[str, typer.Argument(metavar="NEW", help="The name of the copy.")],
    broker: Broker = None,
    yes: Yes = False,
    audit: Audit = AUDIT,
    client: Admin | None = None,
) -> None:
    """Make a subscription that has acknowledged what another one has, but for parts of batches.

    Examples
    --------
        ackwell rescue copy --admin http://broker:8080 TOPIC billing test --yes

    Exit code: as `ackwell rescue apply`.
    """
    from ackwell.rescue import copy as copy_subscription
    from ackwell.rescue.operations import check_copyable

    with _connection(client, broker, audit) as connection:
        topic = _unpartitioned_topic(connection.admin, topic)
        if not yes:
            live = check_copyable(connection, topic, subscription, new)
            _print_dry_run(f"make {new!r} with {live.acked.cardinality:,} acknowledged entries", *live.name)
            return
        raise typer.Exit(_print_report(copy_subscription(connection, topic, subscription, new), connection))


@app.command(cls=RescueCommand)
@options.with_admin_options
def ack(
    topic: Topic,
    subscription: Name,
    positions: Annotated[
        list[str], typer.Argument(metavar="LEDGER:ENTRY…", help="The entries, such as 3:17.")
    ],
    broker: Broker = None,
    yes: Yes = False,
    audit: Audit = AUDIT,
    client: Admin | None = None,
) -> None:
    """Acknowledge single entries on a subscription's behalf, such as one poison message.

    Examples
    --------
        ackwell rescue ack --admin http://broker:8080 TOPIC billing 3:17 --yes

    Exit code: as `ackwell rescue apply`.
    """
    from ackwell.position import Position
    from ackwell.rescue import acknowledge
    from ackwell.rescue.operations import unacknowledged

    try:
        wanted = [Position.parse(text) for text in positions]
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    with _connection(client, broker, audit) as connection:
        topic = _unpartitioned_topic(connection.admin, topic)
        if not yes:
            live = connection.read_live(topic, subscription)
            _print_dry_run(f"acknowledge {unacknowledged(live, wanted).cardinality:,} entries", *live.name)
            return
        raise typer.Exit(_print_report(acknowledge(connection, topic, subscription, wanted), connection))


def _print_line(text: str) -> None:
    out.print(text, highlight=False, markup=False)


def _admin(client: Admin | None) -> Admin:
    if client is None:
        raise typer.BadParameter("give --admin URL, the address of a broker")
    return client


def _connection(client: Admin | None, broker: str | None, audit: Path) -> Connection:
    from ackwell.protocol.address import address_of
    from ackwell.rescue import Connection

    try:
        if broker is not None:
            address_of(broker)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--broker") from None

    def note(what: str, topic: str, subscription: str, *, positions: int = 0, digest: str = "") -> None:
        line = {"timeMs": int(time.time() * 1000), "what": what, "topic": topic, "subscription": subscription}
        if positions:
            line |= {"positions": positions, "sha256": digest}
        with audit.open("a", encoding="utf-8") as sink:
            sink.write(json.dumps(line) + "\n")
            sink.flush()
            os.fsync(sink.fileno())

    shown = partial(progress, doing="commands of up to 1,000 acknowledgments")
    return Connection(_admin(client), broker=broker, audit=note, progress=shown)


def _full_topic_name(topic: str) -> str:
    """Return the full name of a topic."""
    from ackwell.protocol.topic_name import TopicName

    try:
        return str(TopicName.parse(topic))
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def _unpartitioned_topic(admin: Admin, topic: str) -> str:
    """Return the full name of a topic; `RefusedError` for a partitioned one."""
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


def _acks(file: Path, before: Snapshot) -> CursorState:
    """Read what shows parts of batches; the name says whether it is a trace."""
    from ackwell.diagnosis.difference import read_state
    from ackwell.errors import StatsError
    from ackwell.replay.states import replay_files

    if ".jsonl" not in file.name and not file.is_dir() and file.suffix != ".parquet":
        return read_state(file, subscription=before.stats.subscription)
    for found in replay_files([file]):
        if (found.topic, found.subscription) == before.name:
            return found.cursor.to_state()
    raise StatsError(f"no event of {before.stats.subscription!r} of {before.stats.topic}", str(file))


def _plans(file: Path) -> Iterator[Plan]:
    from ackwell.errors import StatsError
    from ackwell.rescue import Plan
    from ackwell.rescue.checksums import read_with_sha256

    kind, of = "a plan", "`ackwell rescue plan`"
    plans = read_with_sha256(file, kind, of, PLAN_VERSION, key="plans")["plans"]
    if not isinstance(plans, list):
        raise StatsError(f"not {kind} of {of}", str(file))
    for each in plans:
        yield Plan.of_json(each, str(file))


def _write(file: Path, text: str) -> None:
    """Write a file as a whole, or print it."""
    from ackwell.cluster.atomic_files import write_atomically

    if str(file) == "-":
        sys.stdout.write(text)
        return
    write_atomically(file, text.encode())


def _show(made: Plan) -> None:
    lines = [
        f"{made.subscription!r} of {made.topic} ({made.type}):",
        f"  to put back  {made.missing.cardinality:,} entries in {len(made.missing):,} ranges over "
        f"{len(made.missing.ledger_ids()):,} ledgers, {len(made.ack_sets):,} ack sets",
    ]
    lines += [f"  checked      {each}" for each in made.passed]
    lines += [f"  not known    {each}" for each in made.unknown]
    _print_line("\n".join(lines))


def _print_dry_run(what: str, topic: str, subscription: str) -> None:
    _print_line(f"{subscription!r} of {topic}: would {what}; nothing was changed: add --yes")


def _print_report(report: Report, connection: Connection) -> int:
    _print_line(str(report))
    if connection.received:
        warn(f"the helper received {connection.received} messages, which come again")
    for each in connection.errors[:5]:
        warn(f"the broker answered: {each}")
    return EXIT_MISSING if report.missing else 0


def _print_refusal(refused: RefusedError, topic: str = "", subscription: str = "") -> None:
    name = f"{subscription!r} of {topic}: " if topic else ""
    warn(f"refused ({refused.code}): {name}{refused}")
