"""Paths in object stores: `s3://bucket/key`, `gs://bucket/key`, `abfs://container@account.dfs.core.windows.net/key`.

PyArrow's file systems read and write the objects. Credentials, regions and endpoints come from the
environment variables and configuration files of these file systems. An object is written completely or not at
all.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path, PurePosixPath
from typing import IO, Any, Final

from ackwell.errors import AckwellError

_URL: Final = re.compile(r"((s3|gs|abfss?)://([^/]+))/*(.*)", re.DOTALL)

_BUFFER_BYTES: Final = 8 << 20
"""The bytes of one request when an object is read from its start to its end."""

_REASONS: Final = (
    ("NO_SUCH_BUCKET", "the bucket does not exist"),
    ("INVALID_ACCESS_KEY_ID", "the access key does not exist; check AWS_ACCESS_KEY_ID or the profile"),
    ("SIGNATURE_DOES_NOT_MATCH", "the secret key is wrong; check AWS_SECRET_ACCESS_KEY or the profile"),
    ("AuthorizationHeaderMalformed", "the bucket is in another region; set AWS_REGION"),
    ("HTTP status 301", "the bucket is in another region; set AWS_REGION"),
    ("ACCESS_DENIED", "access denied; check the credentials and their rights"),
    ("NETWORK_CONNECTION", "no connection to the object store; check the network or AWS_ENDPOINT_URL"),
)
"""Pairs of a part of an Arrow message and the sentence that explains it."""


@dataclass(frozen=True, slots=True, order=True)
class ObjectPath:
    """An object, or the folder of the objects whose keys begin with `key/`.

    It has the methods of `pathlib.Path` that ackwell's readers and writers use. Each method raises `OSError`
    with the bucket and the key.

    >>> path = ObjectPath.of("s3://bucket/events/topic=t/part.jsonl.gz")
    >>> path.name, path.suffix, str(path.parent)
    ('part.jsonl.gz', '.gz', 's3://bucket/events/topic=t')
    """

    root: str
    """The scheme and the bucket: `s3://bucket`."""
    key: str
    """Empty for the whole bucket."""

    @classmethod
    def of(cls, url: str) -> ObjectPath:
        """Parse a URL. Raise `ValueError` for any other URL, `AckwellError` for a URL with credentials."""
        found = _URL.fullmatch(url)
        if found is None:
            raise ValueError(f"{url!r} is not a URL of an object store: expected s3://, gs:// or abfs://")
        if "@" in found[3] and not found[2].startswith("abfs"):
            raise AckwellError(
                "credentials in a URL are visible in the list of processes; set them in the environment, "
                "such as AWS_ACCESS_KEY_ID, or in a profile"
            )
        return cls(found[1], found[4].rstrip("/"))

    def __str__(self) -> str:
        return f"{self.root}/{self.key}"

    def __truediv__(self, name: str) -> ObjectPath:
        return ObjectPath(self.root, f"{self.key}/{name}" if self.key else name)

    @property
    def name(self) -> str:
        """The last part of the key."""
        return self.key.rpartition("/")[2]

    @property
    def suffix(self) -> str:
        """The end of the name, from the last dot, as in `pathlib.Path`."""
        return PurePosixPath(self.name).suffix

    @property
    def parts(self) -> tuple[str, ...]:
        """The bucket and the parts of the key."""
        return (self.root, *filter(None, self.key.split("/")))

    @property
    def parent(self) -> ObjectPath:
        """The folder that contains the object."""
        return ObjectPath(self.root, self.key.rpartition("/")[0])

    def with_name(self, name: str) -> ObjectPath:
        """Return the path of an object with another name in the same folder."""
        return self.parent / name

    def with_suffix(self, suffix: str) -> ObjectPath:
        """Return the path of an object with another suffix in the same folder."""
        return self.with_name(self.name.removesuffix(self.suffix) + suffix)

    def is_dir(self) -> bool:
        """Return whether any object has a key that begins with `key/`."""
        return not self.key or self._info().type.name == "Directory"

    def exists(self) -> bool:
        """Return whether there is an object or a folder; `OSError` if the bucket does not exist."""
        if self._info().type.name != "NotFound":
            return True
        # A missing bucket has no objects either, and only a listing tells them apart.
        self._list()
        return False

    def rglob(self, pattern: str) -> Iterator[ObjectPath]:
        """Yield the objects of the folder whose names match a pattern, in order of their keys."""
        start = len(_filesystem(self.root)[1]) + 1
        for info in sorted(self._list(), key=lambda info: str(info.path)):
            if info.is_file and fnmatchcase(info.base_name, pattern):
                yield ObjectPath(self.root, info.path[start:])

    def open(self) -> IO[bytes]:
        """Open the object for reading from its start to its end."""
        with self._naming():
            stream: IO[bytes] = self._filesystem.open_input_stream(
                self._place, compression=None, buffer_size=_BUFFER_BYTES
            )
            return stream

    def open_anywhere(self) -> Any:
        """Open the object for reading in parts, as a PyArrow file."""
        with self._naming():
            return self._filesystem.open_input_file(self._place)

    def read(self, max_bytes: int) -> bytes:
        """Return the first bytes of the object, at most `max_bytes`."""
        with self.open_anywhere() as source, self._naming():
            data: bytes = source.read(min(max_bytes, source.size()))
            return data

    def write(self, data: bytes) -> None:
        """Write the object. An interrupted upload creates no object, and leaves an older one unchanged."""
        with self._naming():
            stream = self._filesystem.open_output_stream(self._place, compression=None)
            # If an exception ended a `with` block, the part that was written would become the object.
            stream.write(data)
            stream.close()

    @property
    def _filesystem(self) -> Any:
        return _filesystem(self.root)[0]

    @property
    def _place(self) -> str:
        base: str = _filesystem(self.root)[1]
        return f"{base}/{self.key}" if self.key else base

    def _info(self) -> Any:
        with self._naming():
            return self._filesystem.get_file_info(self._place)

    def _list(self) -> Any:
        from pyarrow import fs

        with self._naming():
            try:
                return self._filesystem.get_file_info(fs.FileSelector(self._place, recursive=True))
            except FileNotFoundError:
                return []

    @contextmanager
    def _naming(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise self._explained(error) from None
        except ValueError as error:
            # Arrow refuses a key such as `a//b`.
            raise OSError(errno.EINVAL, " ".join(str(error).split()), str(self)) from None

    def _explained(self, error: OSError) -> OSError:
        """Return an error like `error` whose message has the bucket, the key and the reason."""
        if error.filename == str(self):
            return error
        text = " ".join(str(error).split())
        if "No response body" in text or isinstance(error, FileNotFoundError):
            # The answer to HEAD has no reason; that to a listing has one.
            from pyarrow import fs

            try:
                self._filesystem.get_file_info(fs.FileSelector(self._place))
            except OSError as other:
                text, error = " ".join(str(other).split()), other
        if isinstance(error, FileNotFoundError):
            return FileNotFoundError(errno.ENOENT, "no such object or folder", str(self))
        reason = next((sentence for part, sentence in _REASONS if part in text), text)
        return OSError(error.errno or errno.EIO, reason, str(self))


AnyPath = Path | ObjectPath


def any_path(source: str | Path | ObjectPath) -> AnyPath:
    """Return an `ObjectPath` for a URL of an object store, otherwise a `Path`."""
    if isinstance(source, str) and _URL.match(source):
        return ObjectPath.of(source)
    return source if isinstance(source, ObjectPath) else Path(source)


def path_text(path: str | AnyPath) -> str:
    """Return a path as text that can be encoded: a byte that is not UTF-8 becomes an escape.

    >>> len(path_text("a" + chr(0xDCFF)))  # 0xDCFF is Python's form of the byte 0xFF
    7
    """
    return str(path).encode(errors="backslashreplace").decode()


def require_paths(sources: object) -> None:
    """Raise `TypeError` for one path, a mapping or another value that is not a list of paths."""
    if isinstance(sources, str | Path | ObjectPath):
        shown = str(sources)
        raise TypeError(f"the sources are one path, {shown!r}; expected a list of paths: [{shown!r}]")
    if isinstance(sources, bytes | Mapping) or not isinstance(sources, Iterable):
        raise TypeError(f"the sources are a value of type {type(sources).__name__}; expected a list of paths")


@cache
def _filesystem(root: str) -> tuple[Any, str]:
    """Return PyArrow's file system for a bucket, and the path of the bucket in that file system."""
    from ackwell.extras import require

    require("pyarrow", f"{root}: reading object stores")
    import pyarrow
    from pyarrow import fs

    options = []
    if root.startswith("s3:"):
        # A small object is sent in one request; otherwise an upload has three.
        options.append("allow_delayed_open=true")
        region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
        if region:
            options.append(f"region={region}")
    try:
        filesystem, base = fs.FileSystem.from_uri(f"{root}/?{'&'.join(options)}" if options else f"{root}/")
    except (pyarrow.ArrowInvalid, pyarrow.ArrowNotImplementedError) as error:
        raise OSError(errno.EINVAL, " ".join(str(error).split()), root) from None
    except OSError as error:
        text = " ".join(str(error).split())
        reason = next((sentence for part, sentence in _REASONS if part in text), text)
        raise OSError(errno.EIO, reason, root) from None
    return filesystem, base.rstrip("/")
