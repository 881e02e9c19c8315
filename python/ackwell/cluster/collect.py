"""Save dumps of a whole cluster: a folder for each run, with a compressed file for each topic.

    OUT/2026-11-22T07-45-00Z/persistent%3A%2F%2Fpublic%2Fdefault%2Forders.1f2e3d4c.json.gz
    OUT/2026-11-22T07-45-00Z/collected.manifest

Files are written atomically, so a reader never sees a part of a file. The manifest is written last, so a
folder without a manifest is an interrupted run, and the next run resumes it. A lock prevents two runs in one
folder. `ackwell.broker.stats` and the pipeline read the files directly.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import secrets
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote

from ackwell.broker.dates import date_of
from ackwell.broker.stats import UnreadableSource
from ackwell.errors import StoreError
from ackwell.json_values import json_value, object_in
from ackwell.object_paths import AnyPath, ObjectPath, any_path
from ackwell.regular_files import NO_FOLLOW, files_under, read_regular, unzipped, write_file

if TYPE_CHECKING:
    from ackwell.cluster.admin import Admin, BrokerFacts, TopicAnswer

MANIFEST: Final = "collected.manifest"
SCHEMA_VERSION: Final = 1

_LOCK: Final = ".collect.lock"
_NAME_BYTES_MAX: Final = 200
"""The maximum length of the encoded topic in a file name, in bytes. Most file systems allow file names of up
to 255 bytes."""


class CollectedTopic(NamedTuple):
    """One topic of a run: the file with its dump, or the reason why the topic could not be read."""

    topic: str | None
    written: AnyPath | None
    """The file with the dump of the topic; None if the topic could not be read."""
    unread: UnreadableSource | None


def collect(
    admin: Admin, folder: AnyPath, wanted: Sequence[str], *, time_ms: int
) -> Iterator[CollectedTopic]:
    """Write a dump of each wanted topic, and yield each topic. Resume the folder's interrupted run, if any.

    Raises `StoreError` if another run uses the folder. A topic that cannot be read is yielded with the reason
    instead of a dump.
    """
    with _run(folder, time_ms) as run:
        facts = admin.facts()
        owners: set[str] = set()
        unread: list[UnreadableSource] = []

        def wants(topic: str) -> bool:
            dump = _dump(run, topic)
            if dump is not None and dump["owner"] is not None:
                owners.add(dump["owner"])
            return dump is None

        # The overviews name the owners, so that no request has to be redirected.
        for answer in admin.answers(wanted, wants=wants, owners=admin.overviews()):
            if isinstance(answer, UnreadableSource):
                unread.append(answer)
                yield CollectedTopic(answer.topic, None, answer)
                continue
            if answer.owner is not None:
                owners.add(answer.owner)
            yield CollectedTopic(answer.topic, _write(run, answer), None)
        manifest = {
            "schemaVersion": SCHEMA_VERSION,
            "source": admin.endpoint.shown_url,
            "date": date_of(time_ms).isoformat(timespec="seconds"),
            **facts.to_json(),
            "brokers": {owner: admin.facts(owner).to_json() for owner in sorted(owners)},
            "topics": sum(file.name.endswith(".json.gz") for file in files_under(run)),
            "unread": [each._asdict() for each in unread],
        }
        write_file(run / MANIFEST, json.dumps(manifest, indent=1).encode())


@contextmanager
def _run(folder: AnyPath, time_ms: int) -> Iterator[AnyPath]:
    """Yield the folder of an interrupted run, or else a new folder.

    A lock prevents other runs in the same local `folder` until the `with` block ends.
    """
    if isinstance(folder, ObjectPath):
        # An object store has no lock. The folder therefore has a unique name, and an interrupted run is not
        # resumed.
        yield folder / f"{_name(time_ms)}-{secrets.token_hex(4)}"
        return
    folder.mkdir(parents=True, exist_ok=True)
    with hold_lock(folder / _LOCK, "ackwell collect"):
        run = _unfinished(folder) or folder / _name(time_ms)
        while (run / MANIFEST).exists():
            # The folder belongs to a finished run that began in the same second.
            time_ms += 1000
            run = folder / _name(time_ms)
        if run.is_symlink():
            raise StoreError(f"{run}: a symbolic link, which may lead anywhere; remove it")
        run.mkdir(exist_ok=True)
        for left in run.glob(".*.tmp"):
            # An interrupted run did not finish this file.
            left.unlink()
        yield run


def _dump(run: AnyPath, topic: str) -> dict[str, Any] | None:
    """Return the dump of a topic that an interrupted run wrote; None if it is missing or damaged."""
    if isinstance(run, ObjectPath):
        return None
    try:
        dump: dict[str, Any] = json_value(unzipped(read_regular(_file(run, topic))))
        _ = dump["owner"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return dump


def _write(run: AnyPath, answer: TopicAnswer) -> AnyPath:
    file = _file(run, answer.topic)
    data = json.dumps(answer.to_json(), separators=(",", ":")).encode()
    write_file(file, gzip.compress(data, 6, mtime=0))
    return file


def _file(run: AnyPath, topic: str) -> AnyPath:
    """Return the path of a topic's dump in the folder of a run. Different topics have different paths."""
    digest = hashlib.sha256(topic.encode(errors="surrogatepass")).hexdigest()[:8]
    name = quote(topic, safe="", errors="replace").lstrip(".")
    return run / f"{name[:_NAME_BYTES_MAX]}.{digest}.json.gz"


def _name(time_ms: int) -> str:
    # Windows does not allow a colon in a file name.
    return date_of(time_ms).strftime("%Y-%m-%dT%H-%M-%SZ")


def _unfinished(folder: Path) -> Path | None:
    """Return the folder of the newest run if this run was interrupted, else None."""
    runs = sorted(
        path for path in folder.glob("????-??-??T??-??-??Z") if path.is_dir() and not path.is_symlink()
    )
    return runs[-1] if runs and not (runs[-1] / MANIFEST).exists() else None


@contextmanager
def hold_lock(path: Path, command: str) -> Iterator[None]:
    """Hold a lock during the `with` block. The operating system releases the lock if the process ends.

    Raises `StoreError` if another run of `command` holds the lock.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | NO_FOLLOW, 0o666)
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}") from error
    with os.fdopen(descriptor, "r+b") as file:
        try:
            _lock(file.fileno())
        except OSError:
            raise StoreError(f"{path.parent}: another run of `{command}` is under way there") from None
        yield


def _lock(descriptor: int) -> None:
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def manifests_of(sources: Sequence[str]) -> list[AnyPath]:
    """Return the manifests in `sources`, which are files and folders. The newest manifest comes first."""
    found = [file for source in sources if source != "-" for file in any_path(source).rglob(MANIFEST)]
    return sorted(found, key=lambda path: path.parent.name, reverse=True)


def collected_facts(manifests: Sequence[AnyPath], owner: str | None = None) -> BrokerFacts | None:
    """Return the facts of a broker from the first undamaged manifest; None if there is no such file.

    `owner` is the admin address of the broker. Without `owner`, or if the manifest does not contain this
    broker, return the facts of the broker that the run queried.
    """
    found = (manifest_facts(file, owner) for file in manifests)
    return next((facts for facts in found if facts is not None), None)


def manifest_facts(file: AnyPath, owner: str | None) -> BrokerFacts | None:
    """Return the facts of a broker from one manifest; None if the manifest is damaged.

    Without `owner`, or if the manifest does not contain this broker, return the facts of the queried broker.
    """
    from ackwell.cluster.admin import BrokerFacts

    try:
        manifest = object_in(json_value(read_regular(file)))
        return BrokerFacts.of_json(object_in(manifest.get("brokers", {})).get(owner or "", manifest))
    except (OSError, ValueError, KeyError, TypeError):
        return None
