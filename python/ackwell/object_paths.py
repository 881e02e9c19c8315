"""Paths in object stores.

A path is a URL: `s3://bucket/key`, `gs://bucket/key` or `abfs://container@account.dfs.core.windows.net/key`.

PyArrow's file systems read and write the objects. They take credentials, regions and endpoints from their
environment variables and configuration files. An object is written completely or not at all.
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
"""The number of bytes in one request, if an object is read from its start to its end."""

_REASONS: Final = (
    ("NO_SUCH_BUCKET", "the bucket does not exist"),
    ("INVALID_ACCESS_KEY_ID", "the access key does not exist; check AWS_ACCESS_KEY_ID or the profile"),
    ("SIGNATURE_DOES_NOT_MATCH", "the secret key is wrong; check AWS_SECRET_ACCESS_KEY or the profile"),
    ("AuthorizationHeaderMalformed", "the bucket is in another region; set AWS_REGION"),
    ("HTTP status 301", "the bucket is in another region; set AWS_REGION"),
    ("ACCESS_DENIED", "access denied; check the credentials and their rights"),
    ("NETWORK_CONNECTION", "no connection to the object store; check the network or AWS_ENDPOINT_URL"),
)
"""Part of a message of Arrow → the sentence that explains the error to the user."""


@dataclass(frozen=True, slots=True, order=True)
class ObjectPath:
    """The path of an object, or of a folder: all objects whose keys begin with `key/`.

    It has the methods of `pathlib.Path` that ackwell's readers and writers use. An `OSError` of a method
    contains the bucket and the key.

    >>> path = ObjectPath.of("s3://bucket/events/topic=t/part.jsonl.gz")
    >>> path.name, path.suffix, str(path.parent)
    ('part.jsonl.gz', '.gz', 's3://bucket/events/topic=t')
    """

    root: str
    """The scheme and the bucket, for example `s3://bucket`."""
    key: str
    """The key of the object or folder. It is empty for the whole bucket."""

    @classmethod
    def of(cls, url: str) -> ObjectPath:
        """Parse the URL of an object or folder; raise `ValueError` for any other text.

        A URL with credentials raises `AckwellError`.
        """
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
        """The last part of the key, after the last slash."""
        return self.key.rpartition("/")[2]

    @property
    def suffix(self) -> str:
        """The part of the name from its last dot, as in `pathlib.Path`."""
        return PurePosixPath(self.name).suffix

    @property
    def parts(self) -> tuple[str, ...]:
        """The root, and the parts of the key between slashes."""
        return (self.root, *filter(None, self.key.split("/")))

    @property
    def parent(self) -> ObjectPath:
        """The path of the folder that contains the object."""
        return ObjectPath(self.root, self.key.rpartition("/")[0])

    def with_name(self, name: str) -> ObjectPath:
        """Return the path of the object with this name in the same folder."""
        return self.parent / name

    def with_suffix(self, suffix: str) -> ObjectPath:
        """Return the same path with another suffix."""
        return self.with_name(self.name.removesuffix(self.suffix) + suffix)

    def is_dir(self) -> bool:
        """Return whether the path is a folder: there is an object whose key begins with `key/`."""
        return not self.key or self._info().type.name == "Directory"

    def exists(self) -> bool:
        """Return whether the path is an object or a folder; raise `OSError` if the bucket does not exist."""
        if self._info().type.name != "NotFound":
            return True
        # A bucket that does not exist looks like an empty bucket here. A listing raises an error for it.
        self._list()
        return False

    def rglob(self, pattern: str) -> Iterator[ObjectPath]:
        """Yield each object in the folder or its subfolders if its name matches a pattern, ordered by key."""
        start = len(_filesystem(self.root)[1]) + 1
        for info in sorted(self._list(), key=lambda info: str(info.path)):
            if info.is_file and fnmatchcase(info.base_name, pattern):
                yield ObjectPath(self.root, info.path[start:])

    def open(self) -> IO[bytes]:
        """Open the object to read it from its start to its end."""
        with self._naming():
            stream: IO[bytes] = self._filesystem.open_input_stream(
                self._place, compression=None, buffer_size=_BUFFER_BYTES
            )
            return stream

    def open_anywhere(self) -> Any:
        """Open the object to read parts of it at any offset; return a PyArrow file."""
        with self._naming():
            return self._filesystem.open_input_file(self._place)

    def read(self, max_bytes: int) -> bytes:
        """Return the first bytes of the object, at most `max_bytes`."""
        with self.open_anywhere() as source, self._naming():
            data: bytes = source.read(min(max_bytes, source.size()))
            return data

    def write(self, data: bytes) -> None:
        """Write the object. An interrupted upload does not create an object, or change an existing one."""
        with self._naming():
            stream = self._filesystem.open_output_stream(self._place, compression=None)
            # There is no `with` block here, because at an exception it would close the stream, and the
            # written part would become the object.
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
        """Return an error like `error` whose message contains the bucket, the key and the reason."""
        if error.filename == str(self):
            return error
        text = " ".join(str(error).split())
        if "No response body" in text or isinstance(error, FileNotFoundError):
            # The answer to a HEAD request has no reason. The answer to a listing has one.
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
    """Return an `ObjectPath` for the URL of an object, otherwise a `Path`."""
    if isinstance(source, str) and _URL.match(source):
        return ObjectPath.of(source)
    return source if isinstance(source, ObjectPath) else local_path(source)


def local_path(path: str | os.PathLike[str]) -> Path:
    """Return a `Path`. Raises `FileNotFoundError` for an empty text, which `Path` reads as `.`."""
    if path == "":
        raise FileNotFoundError("the path is empty; '.' is the current folder")
    return Path(path)


def path_text(path: str | AnyPath) -> str:
    """Return a path as text that can be encoded. A byte that is not UTF-8 becomes an escape sequence.

    >>> len(path_text("a" + chr(0xDCFF)))  # 0xDCFF is Python's form of the byte 0xFF
    7
    """
    return str(path).encode(errors="backslashreplace").decode()


def require_paths(sources: object) -> None:
    """Raise `TypeError` if a value is not a list of paths, for example if it is a single path."""
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
        # With this option a small object is sent in one request. Without it, an upload takes three requests.
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
