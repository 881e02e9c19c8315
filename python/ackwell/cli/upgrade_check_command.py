"""`ackwell upgrade-check` shows which messages a rolling upgrade redelivers, and which rules it changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from ackwell.broker.writes import RESTARTS
from ackwell.cli import options
from ackwell.cli.console import (
    EXIT_UNREAD,
    out,
    print_json,
    progress,
    report_unread,
    shown_count,
    shown_name,
)
from ackwell.cli.doctor_command import COLOURS, EXIT_CODES, EXPLAINED, ROWS, counts_safely
from ackwell.cli.subscription_table import Row, print_subscriptions

if TYPE_CHECKING:
    from ackwell.broker.stats import SubscriptionStats, UnreadableSource
    from ackwell.cluster.admin import Admin, BrokerFacts
    from ackwell.diagnosis.upgrade import BrokerUpgrade, SubscriptionUpgrade, UpgradeChange, UpgradeCheck


@options.with_admin_options
def upgrade_check(
    *,
    to: Annotated[
        str,
        typer.Option(metavar="VERSION", help="The release after the upgrade or downgrade, such as 5.0.1."),
    ],
    sources: options.Dumps = None,
    from_: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="VERSION",
            help="The present release; by default the one that the broker reports, or 4.2.",
        ),
    ] = None,
    broker_setting: options.BrokerSetting = None,
    to_setting: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="A setting of the new broker, or its broker.conf; repeatable. By default, "
            "settings that differ from the defaults of the old release stay, and all others get the "
            "defaults of the new one.",
        ),
    ] = None,
    moves: Annotated[
        int,
        typer.Option(
            min=1,
            max=2,
            metavar="N",
            help="How often the rolling restart moves a topic. 1 means once, 2 means twice or more.",
        ),
    ] = 2,
    count_backlogs: options.CountBacklogs = False,
    every_topic: options.EveryTopic = False,
    metadata_node_bytes: options.MetadataNodeBytes = options.METADATA_NODE_BYTES,
    output: options.Format = options.OutputFormat.TABLE,
    client: Admin | None = None,
) -> None:
    """Show the acknowledged messages that a rolling upgrade redelivers, and the rules that change.

    Examples
    --------
        ackwell upgrade-check --to 5.0.1 --admin http://broker:8080
        ackwell upgrade-check --to 5.0.1 --from 4.2.4 dumps/
        ackwell upgrade-check --to 5.0.1 --to-setting broker.conf dumps/
        ackwell upgrade-check --to 4.2.4 --from 5.0.1 --format json dumps/

    Nothing is changed. The rolling restart closes each topic gracefully on
    the old broker, once or more often. `ackwell doctor` predicts crashes.

    Exit code: 0 fine or unproven, 3 at risk, 4 losing or unwritable, 5 a source
    could not be read, 1 an error, 2 a wrong command line.
    """
    from ackwell.cluster.collect import collected_facts, manifests_of
    from ackwell.diagnosis.upgrade import UpgradeCheck

    if not sources and client is None:
        raise typer.BadParameter("give files or folders, or --admin URL")
    if client is None and (count_backlogs or every_topic):
        raise typer.BadParameter("--count-backlogs and --every-topic ask a live broker: give --admin URL")
    before, after = map(options.stated_settings, (broker_setting, to_setting))

    manifests = manifests_of(sources or ()) if client is None else []

    def upgrade(owner: str | None) -> BrokerUpgrade:
        facts = collected_facts(manifests, owner) if client is None else client.facts(owner)
        return _broker_upgrade(facts, from_, to, before, after, metadata_node_bytes)

    try:
        # Check the version and the settings now, before every topic is requested from the broker.
        source = upgrade(None).source
        if client is not None:
            client.count_backlogs = count_backlogs and counts_safely(source.version)
        found = _read(sources or (), client, every_topic=every_topic)
        check = UpgradeCheck.of(progress(found, "reading"), upgrade, moves=moves)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    if output is options.OutputFormat.JSON:
        print_json(check.to_json(), "subscriptions", (each.to_json() for each in check.subscriptions))
    else:
        _show(check, "URL" if client is None else client.endpoint.shown_url)
    for unread in check.unread:
        report_unread(unread)
    code = EXIT_CODES[check.verdict]
    raise typer.Exit(code if code == EXIT_CODES["losing"] or not check.unread else EXIT_UNREAD)


def _read(
    sources: Sequence[str], client: Admin | None, *, every_topic: bool
) -> Iterator[SubscriptionStats | UnreadableSource]:
    from ackwell.broker.stats import read_each

    if client is None:
        return read_each(sources)
    return client.read(sources) if every_topic else client.survey(sources)


def _broker_upgrade(
    facts: BrokerFacts | None,
    version: str | None,
    to: str,
    before: options.StatedSettings,
    after: options.StatedSettings,
    metadata_node_bytes: int,
) -> BrokerUpgrade:
    """Return the version and settings of one broker before its upgrade and after it.

    `facts` is the broker's report, if there is one. The other arguments are options of the command.
    """
    from ackwell.broker.broker_settings import assigned
    from ackwell.diagnosis.checkup import JudgedBroker
    from ackwell.diagnosis.upgrade import BrokerUpgrade

    source = JudgedBroker.from_facts(
        facts, version, before.assignments, others_are_defaults=before.others_are_defaults
    )
    reported = None if facts is None else facts.settings
    return BrokerUpgrade.of(
        source.with_node_bytes(metadata_node_bytes),
        to,
        configured={**(reported or {}), **assigned(before.assignments)},
        assignments=after.assignments,
        others_are_defaults=after.others_are_defaults,
    )


def _show(check: UpgradeCheck, url: str) -> None:
    for upgrade in check.upgrades:
        source, target = upgrade.source, upgrade.target
        out.print(
            Text(
                f"before: broker {source.version}, settings from {source.source}; "
                f"after: broker {target.version}, settings from {target.source}"
            )
        )
        for assumption in dict.fromkeys((*source.assumed, *target.assumed)):
            out.print(Text(f"assumed: {assumption}"))
    print_subscriptions(
        (
            "verdict",
            "rolling restart",
            "restart before",
            "restart after",
            "crash before",
            "crash after",
            "ranges",
        ),
        map(_row, check.subscriptions[:ROWS]),
    )
    if len(check.subscriptions) > ROWS:
        out.print(f"… and {len(check.subscriptions) - ROWS:,} more; --format json shows all", highlight=False)
    for each in [each for each in check.subscriptions if each.verdict != "fine"][:EXPLAINED]:
        out.print(Text("\n".join(_explanation(each))))
    if not check.subscriptions:
        out.print("nothing was judged", highlight=False)
    for title, lines in (
        ("changes", _changes(check)),
        ("before the rolling restart", _before(check)),
        ("for each broker", _during(check, url)),
        ("after the rolling restart", _after(check, url)),
    ):
        found = list(lines)
        if found:
            out.print(Text("\n".join([f"\n{title}:", *(f"  {line}" for line in found)])))


def _row(each: SubscriptionUpgrade) -> Row:
    stats = each.stats
    values = [
        Text(each.verdict, COLOURS[each.verdict]),
        Text(str(each.lost)),
        *(Text(str(lost(restart))) for restart in RESTARTS for lost in (each.lost_now, each.lost_after)),
        Text(shown_count(stats.range_count)),
    ]
    return stats.topic, stats.subscription, values


def _explanation(each: SubscriptionUpgrade) -> Iterator[str]:
    stats, target = each.stats, each.upgrade.target
    yield f"\n{shown_name(stats.topic)} · {shown_name(stats.subscription)}"
    for name, found in zip(("moved once", "moved again without an acknowledgment"), each.moves, strict=False):
        if found.verdict != "fine":
            yield f"  {name}: {found.verdict}, acknowledged messages redelivered: {found.messages_lost}"
            yield from (f"    {reason}" for reason in found.reasons)
            yield from (f"    {usage.text}" for usage in found.usage if usage.is_near)
    if each.is_worse:
        yield f"  restarts of {target.version} are worse than restarts of the present release:"
        reasons = {reason.code: str(reason) for found in each.after for reason in found.reasons}
        yield from (f"    {reason}" for reason in reasons.values())
    for change in each.changes:
        effect = "improves later restarts" if change in each.improvements else "cause"
        yield f"  {effect}: {_change(change)}"
    yield from (f"  set {setting}" for setting in each.settings)


def _changes(check: UpgradeCheck) -> Iterator[str]:
    """Yield a line for each changed rule that affects subscriptions or consumers.

    Also yield a line for each removed setting. A last line has the number of changes without an effect.
    """
    others = 0
    for change, count in check.changes.items():
        if count:
            yield f"{_change(change)} (matters for {count:,} subscription{'' if count == 1 else 's'})"
        others += not count
    yield from (
        f"{name} is removed: its value {value!r} has no effect" for name, value in check.removed.items()
    )
    yield from check.consumer_rules
    if others:
        yield f"{others} other changes have no effect on these subscriptions; --format json lists them"


def _change(change: UpgradeChange) -> str:
    return change.text or f"{change.name}: {change.before} becomes {change.after}"


def _before(check: UpgradeCheck) -> Iterator[str]:
    if check.settings:
        yield "set in the broker.conf of the new release, before its first start:"
        yield from (f"  {setting}" for setting in check.settings)
    if check.removed:
        yield f"remove from broker.conf: {', '.join(check.removed)}"
    if any(found.verdict == "unwritable" for each in check.subscriptions for found in each.moves):
        yield (
            "raise jute.maxbuffer of ZooKeeper and of the brokers: the metadata store refuses the record of "
            "an unwritable subscription, or the ledger list of its topic"
        )


def _during(check: UpgradeCheck, url: str) -> Iterator[str]:
    if all(upgrade.is_done for upgrade in check.upgrades):
        return
    if check.losing:
        yield f"ackwell rescue begin --admin {url} --owner HOST:PORT --output HOST --yes"
    yield "stop the broker HOST:PORT gracefully, and start it with the new release"
    if check.losing:
        yield f"ackwell rescue end HOST --admin {url} --yes"


def _after(check: UpgradeCheck, url: str) -> Iterator[str]:
    if check.subscriptions:
        yield f"ackwell doctor --admin {url}"
