"""A maintenance window: protect subscriptions before restarts, and restore and release them afterwards.

    WINDOW/window.json              the subscriptions, written before the first hold
    WINDOW/NAME.journal             the journal of a hold, deleted by the release; all partitions share it
    WINDOW/NAME.snapshot.json       the snapshot, taken before the hold and again while it is set
    WINDOW/NAME.report.json         the result, written after the release

After an interruption at any point, `begin` or `end` can be called again. Each file is written atomically. A
journal is written before its hold is set, so every hold has a journal.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from queue import SimpleQueue
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ackwell.broker.dates import clock_ms
from ackwell.broker.stats import UnreadableSource
from ackwell.cursor.cursor_state import existing
from ackwell.diagnosis.checkup import Checkup, JudgedBroker
from ackwell.errors import AckwellError, StatsError
from ackwell.protocol.constants import SubscriptionType
from ackwell.regular_files import write_file
from ackwell.rescue.batch_parts import Parts, keep_parts, lost_parts, parts_after_close
from ackwell.rescue.checksums import read_with_sha256, with_sha256
from ackwell.rescue.holding import check_holdable, hold, policy_topic, release
from ackwell.rescue.planning import (
    Plan,
    attachable_type,
    is_loaded_anew,
    plan,
)
from ackwell.rescue.policy_readers import wait_until_read
from ackwell.rescue.refusals import RefusedError, refuse_other_cluster
from ackwell.rescue.restoring import Report, apply, check_restored
from ackwell.rescue.snapshot import Snapshot, dump, read_snapshots, settings_of, take
from ackwell.sources import SourceKind

if TYPE_CHECKING:
    from ackwell.broker.broker_settings import BrokerSettings
    from ackwell.broker.writes import Restart
    from ackwell.cluster.admin import Admin, TopicAnswer
    from ackwell.diagnosis.doctor import Diagnosis
    from ackwell.rescue.connection import Connection

Name = tuple[str, str]
"""The topic and the subscription."""

_VERSION: Final = 1
_HOLDS_AT_ONCE: Final = 8
_LOADS_AT_ONCE: Final = 64
_RESTORES_AT_ONCE: Final = 8
_LOAD_PAUSE_S: Final = 1.0


class Result(NamedTuple):
    """The result of `begin` or `end` for one subscription. If the operation failed, `error` is not None.

    An error or a note about the topic policies of a namespace has the name `(namespace, "")`.
    """

    name: Name
    report: Report | None = None
    error: AckwellError | None = None
    parts: Parts = "kept"
    """Whether the planned restarts keep the acknowledged parts of batches. Only `begin` sets this."""
    note: str = ""
    """A fact about a namespace that is not an error."""
    is_read: bool = True
    """False for a namespace if a broker may not have read its topic policies after the wait."""


class Window:
    """The folder of a maintenance window."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "window.json"

    def create(self, names: Sequence[Name], cluster: str | None) -> None:
        """Write the list of subscriptions. If the folder already has a list, keep that one.

        Raises `RefusedError` if the existing window is of another cluster.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        if self.file.exists():
            refuse_other_cluster(f"{self.folder} is", self._values()["cluster"], cluster)
            return
        value = {
            "version": _VERSION,
            "cluster": cluster,
            "timeMs": clock_ms(),
            "subscriptions": [list(name) for name in names],
        }
        write_file(self.file, json.dumps(with_sha256(value)).encode(), new=True)

    def names(self) -> list[Name]:
        """Return the subscriptions in the list of the window."""
        return [(topic, subscription) for topic, subscription in self._values()["subscriptions"]]

    def cluster(self) -> str | None:
        """Return the name of the window's cluster; None if it was unknown when the window was created."""
        cluster: str | None = self._values()["cluster"]
        return cluster

    def journal(self, name: Name) -> Path:
        """Return the path of the journal of a subscription's hold. Partitions of a topic share a journal."""
        topic, subscription = name
        return self._file((policy_topic(topic), subscription), "journal")

    def snapshot(self, name: Name) -> Path:
        """Return the path of a subscription's snapshot."""
        return self._file(name, "snapshot.json")

    def report(self, name: Name) -> Path:
        """Return the path of the file with the result of `end` for a subscription."""
        return self._file(name, "report.json")

    def is_done(self) -> bool:
        """Return whether `end` has finished every subscription."""
        return all(self.report(name).exists() for name in self.names())

    def state(self, name: Name) -> str:
        """Return the state of a subscription in words."""
        if self.report(name).exists():
            return "done"
        if self.snapshot(name).exists():
            return "held, with a snapshot" if self.journal(name).exists() else "with a snapshot, not held"
        return "held, without a snapshot" if self.journal(name).exists() else "not held"

    def read_snapshot(self, name: Name) -> Snapshot | None:
        """Read and return the snapshot of a subscription; None if the window has none."""
        file = self.snapshot(name)
        if not file.exists():
            return None
        found = next(read_snapshots([file]))
        if isinstance(found, UnreadableSource):
            raise StatsError(found.reason, found.source)
        return found

    def _values(self) -> dict[str, Any]:
        return read_with_sha256(self.file, SourceKind.WINDOW, _VERSION, key="subscriptions")

    def _file(self, name: Name, ending: str) -> Path:
        digest = hashlib.sha256(json.dumps(name).encode()).hexdigest()[:16]
        return self.folder / f"{digest}.{ending}"


class EndangeredSubscriptions(NamedTuple):
    """The subscriptions that may lose acknowledgments in a restart, and the topics that could not be read."""

    restorable: list[Diagnosis]
    """The subscriptions that may lose ranges. A rescue can restore ranges."""
    without_ranges: list[Diagnosis]
    """The subscriptions that may lose acknowledgments, but no ranges. A rescue cannot restore the loss.

    Such a loss consists of acknowledged parts of batches or, in a crash, of the last moves of the mark-delete
    position.
    """
    unread: list[UnreadableSource]


def endangered(
    admin: Admin, wanted: Sequence[str], restarts: Sequence[Restart], owner: str | None = None
) -> EndangeredSubscriptions:
    """Find the subscriptions that may lose acknowledgments in a restart of one of the kinds `restarts`.

    An unknown loss counts as a loss. If `owner` (`host:port`) is given, only topics of this broker count.
    """
    brokers = JudgedBroker.from_facts(admin.facts(), None)
    checkup = Checkup.of(
        (
            each
            # Read every topic, because the overview of a broker may lack acknowledgments of the last minute.
            for each in admin.read(wanted, owners=admin.overviews())
            if isinstance(each, UnreadableSource) or owner in (None, each.owner)
        ),
        brokers,
        owner=lambda name: JudgedBroker.from_facts(admin.facts(name), None),
        restarts=restarts,
    )
    found = EndangeredSubscriptions([], [], list(checkup.unread))
    for each in checkup.diagnoses:
        if each.messages_lost.at_most != 0 and not each.stats.internal_cursor:
            has_ranges = len(each.stats.individually_deleted) > 0
            (found.restorable if has_ranges else found.without_ranges).append(each)
    return found


def begin(connection: Connection, window: Window) -> Iterator[Result]:
    """Hold the subscriptions of a window and take a snapshot of each; yield each result.

    First, the call takes a preliminary snapshot of each subscription and sets all holds. Then it waits until
    every broker has read the holds. The final snapshots are taken last, so that they are as recent as
    possible.
    """
    held: list[Name] = []
    with ThreadPoolExecutor(_HOLDS_AT_ONCE) as pool:
        names = [name for name in window.names() if not window.report(name).exists()]
        by_journal: dict[Path, list[Name]] = {}
        for name in names:
            by_journal.setdefault(window.journal(name), []).append(name)
        # The partitions of a topic share a journal, so their holds are set one after the other.
        for results in pool.map(
            lambda group: [_hold(connection, window, name) for name in group], by_journal.values()
        ):
            for result in results:
                if result.error is None:
                    held.append(result.name)
                else:
                    yield result
        yield from _wait_for_brokers(connection, [topic for topic, _ in held])
        for result in pool.map(lambda name: _snapshot(connection, window, name), held):
            yield result


def _hold(connection: Connection, window: Window, name: Name) -> Result:
    try:
        before = window.read_snapshot(name)
        answer, live = take(connection.admin, *name)
        attachable_type(live, before)
        if before is None:
            check_holdable(connection, *name, window.journal(name))
            # Take a first snapshot before the hold, in case the broker is killed before the final snapshot.
            _save(connection, window, answer, live)
        hold(connection, *name, window.journal(name))
    except AckwellError as error:
        return Result(name, error=error)
    return Result(name)


def _wait_for_brokers(connection: Connection, topics: Iterable[str]) -> Iterator[Result]:
    """Wait until every broker has read the holds of `topics`.

    Yield notes. Yield an error for each namespace whose topic policies a broker has not read in time.
    """
    for each in wait_until_read(connection.admin, topics):
        name = each.namespace, ""
        if each.state == "unread":
            yield Result(name, error=AckwellError(each.error), is_read=False)
        else:
            yield Result(name, note=each.note, is_read=each.state == "waiting")


def _snapshot(connection: Connection, window: Window, name: Name) -> Result:
    try:
        before = window.read_snapshot(name)
        answer, live = take(connection.admin, *name)
        if keep_parts(connection, live, before):
            answer, live = take(connection.admin, *name)
        if before is None or not _has_lost_acks(before, live):
            _save(connection, window, answer, live)
    except AckwellError as error:
        return Result(name, error=error)
    return Result(name, parts=parts_after_close(live))


def _has_lost_acks(before: Snapshot, live: Snapshot) -> bool:
    """Return whether the topic has been loaded since the snapshot `before` and has lost acknowledgments."""
    missing = existing(before.acked, live.stats.ledgers) - live.acked
    return len(missing) > 0 and is_loaded_anew(before, live)


def _save(connection: Connection, window: Window, answer: TopicAnswer, live: Snapshot) -> None:
    value = dump(answer, live.name[1], connection.admin.facts(answer.owner), connection.admin.cluster)
    file = window.snapshot(live.name)
    write_file(file, json.dumps(with_sha256(value)).encode(), new=not file.exists())


def end(
    connection: Connection, window: Window, *, restart: Restart = "graceful", wait_seconds: float = 120.0
) -> Iterator[Result]:
    """Restore and release the subscriptions of a window; yield each result.

    If topics are not loaded yet, the function waits for them up to `wait_seconds`. Several subscriptions are
    restored at once. A subscription stays held, in all partitions of its topic, if a restore is refused or if
    a broker lost restored acknowledgments before the release.
    """
    refuse_other_cluster(f"{window.folder} is", window.cluster(), connection.admin.cluster)
    deadline = time.monotonic() + wait_seconds
    brokers = [settings_of(connection.admin.facts(each)) for each in sorted(connection.admin.brokers())]
    names = [name for name in window.names() if not window.report(name).exists()]
    free: SimpleQueue[Connection] = SimpleQueue()
    sharing = Counter(map(window.journal, names))
    holds = {journal: _Hold(journal, count) for journal, count in sharing.items()}
    with ExitStack() as stack, ThreadPoolExecutor(min(len(names), _LOADS_AT_ONCE) or 1) as pool:
        for _ in range(min(len(names), _RESTORES_AT_ONCE)):
            free.put(stack.enter_context(connection.renewed()))

        def end_one(name: Name) -> Result:
            try:
                # Wait in this thread, so that a topic that does not answer does not delay the others.
                live = _loaded(connection, name, deadline)
                with _lent(free) as own:
                    hold = holds[window.journal(name)]
                    return Result(name, _ended(own, window, name, restart, live, brokers, hold))
            except AckwellError as error:
                return Result(name, error=error)

        for done in as_completed([pool.submit(end_one, name) for name in names]):
            yield done.result()


class _Hold:
    """A hold, and the results of the subscriptions that share it.

    The subscriptions are the same subscription in several partitions of a topic.
    """

    def __init__(self, journal: Path, sharing: int) -> None:
        self.journal = journal
        self.restored: list[tuple[Name, Report, Snapshot, Plan | None]] = []
        self._sharing = sharing
        self._lock = Lock()

    def add(self, name: Name, report: Report, live: Snapshot, made: Plan | None) -> bool:
        """Add a restored subscription. Return whether all subscriptions that share the hold are restored.

        `made` is the plan of the restore; None if the window has no snapshot of the subscription.
        """
        with self._lock:
            self.restored.append((name, report, live, made))
            return len(self.restored) == self._sharing

    def check(self, connection: Connection) -> None:
        """Raise `AckwellError` if a broker has lost a restored acknowledgment of these subscriptions."""
        for _, _, _, made in self.restored:
            if made is not None:
                check_restored(made, connection)


@contextmanager
def _lent(free: SimpleQueue[Connection]) -> Iterator[Connection]:
    """Take a connection from the queue `free`, and put it back at the end of the `with` block.

    If the block raises an `AckwellError`, call `close` of the connection first.
    """
    own = free.get()
    try:
        yield own
    except AckwellError:
        own.close()
        raise
    finally:
        free.put(own)


def _ended(
    connection: Connection,
    window: Window,
    name: Name,
    restart: Restart,
    live: Snapshot,
    brokers: Sequence[BrokerSettings | None],
    hold: _Hold,
) -> Report:
    before = window.read_snapshot(name)
    topic, subscription = name
    report = Report(topic=topic, subscription=subscription, sent=0, missing=0, ack_sets=0)
    made: Plan | None = None
    if before is not None:
        made = plan(before, live, restart=restart, brokers=brokers)
        report = apply(made, connection)
        if report.missing:
            raise StatsError(f"{report.missing:,} entries are still missing; run `end` again", topic)
        report = replace(report, lost_parts=lost_parts(before, live))
    was_held, is_last = hold.journal.exists(), hold.add(name, report, live, made)
    if is_last:
        if was_held:
            release(connection, hold.journal, check=lambda: hold.check(connection))
        for each, done, then, _ in hold.restored:
            if then.type is SubscriptionType.KEY_SHARED:
                connection.wake(*each)
            write_file(window.report(each), json.dumps(asdict(done)).encode())
    if before is None:
        hold_now = "the hold is released" if is_last else "other partitions are still held"
        hold_now = hold_now if was_held else "this window set no hold"
        raise StatsError(f"`begin` took no snapshot, so nothing was restored; {hold_now}", topic)
    return report


def _loaded(connection: Connection, name: Name, deadline: float) -> Snapshot:
    """Return the live state of a subscription.

    If its topic is not loaded yet, wait until the monotonic clock shows `deadline`.
    """
    while True:
        try:
            return connection.read_live(*name)
        except StatsError:
            if time.monotonic() >= deadline:
                raise
            time.sleep(_LOAD_PAUSE_S)


def release_all(connection: Connection, window: Window) -> Iterator[Result]:
    """Release every hold of a window, and yield each result. Restore nothing, and keep the snapshots."""
    for name in window.names():
        if window.journal(name).exists():
            try:
                release(connection, window.journal(name))
            except AckwellError as error:
                yield Result(name, error=error)
            else:
                yield Result(name)


def unload_window(
    connection: Connection, window: Window, topic: str, names: Sequence[Name] | None
) -> Iterator[Result]:
    """Call `begin` for `names`, unload a topic, and call `end`. Yield errors of `begin` and results of `end`.

    If `names` is None, only call `end`, to complete an interrupted run. If a hold or a snapshot fails, or if
    a broker has not read the holds, nothing is unloaded. The folder of the window is deleted if every result
    is a success. It is also deleted if nothing was unloaded and no hold remains, so that the next run starts
    from the beginning.
    """
    failed = False
    if names is not None:
        window.create(names, connection.admin.cluster)
        for result in begin(connection, window):
            failed = failed or result.error is not None
            if result.error is not None or result.note:
                yield result
        if not failed:
            # Look up the broker now. After the unload, the helper must attach without any delay.
            connection.open(topic)
            connection.change("unload", "PUT", topic, "", "unload")
    unloaded = names is None or not failed
    for result in end(connection, window):
        failed = failed or result.error is not None
        yield result
    if not failed or not (unloaded or any(window.journal(name).exists() for name in window.names())):
        shutil.rmtree(window.folder)


def protected(diagnoses: Iterable[Diagnosis], admin: Admin) -> tuple[list[Name], list[Result]]:
    """Return the subscriptions that can be restored, and a result with an error for each of the others."""
    names: list[Name] = []
    refused: list[Result] = []
    for each in diagnoses:
        name = each.stats.topic, each.stats.subscription
        try:
            attachable_type(take(admin, *name)[1])
        except (RefusedError, StatsError) as error:
            refused.append(Result(name, error=error))
        else:
            names.append(name)
    return names, refused
