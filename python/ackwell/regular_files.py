"""Reading and writing of regular files. Devices and pipes are refused, and symbolic links are not replaced.

Objects in object stores can be read and written, too. A read has a size limit, which also applies to data
that is decompressed with gzip. A write is complete or has no effect: the data is written and synced to a
temporary file in the same folder, which is then renamed. A killed process may leave the temporary file. Its
name depends only on the name of the file, so the next write of the same file removes it.
"""

from __future__ import annotations

import errno
import gzip
import os
import stat
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from io import BytesIO
from pathlib import Path
from typing import IO, Final, overload

from ackwell.object_paths import AnyPath, ObjectPath
from ackwell.sources import GZIP_MAGIC, HEAD_BYTES, SourceKind, source_kind, wrong_kind

NO_FOLLOW: Final = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
"""Flags for `os.open` that prevent following a symbolic link and translating line ends."""

_NO_WAIT: Final = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
"""Flags for `os.open` that prevent waiting for the other end of a pipe, and translating line ends."""

INPUT_BYTES_MAX: Final = 256 << 20
"""The default size limit of a file that is read as a whole, in bytes. For comparison, the stats-internal of a
million ranges has 30 MB."""

_PIECE_BYTES: Final = 1 << 20

_limit: Final = ContextVar("input_bytes_max", default=INPUT_BYTES_MAX)


def limit_input(max_bytes: int) -> None:
    """Set the maximum size in bytes of a file that is read as a whole. It applies to the current context."""
    _limit.set(max_bytes)


def open_regular(path: Path | ObjectPath) -> IO[bytes]:
    """Open a regular file to read it.

    Symbolic links are followed. Raises `OSError` if the file, or the target of the link, is not a regular
    file.
    """
    if isinstance(path, ObjectPath):
        return path.open()
    return _checked(os.open(path, os.O_RDONLY | _NO_WAIT), "rb", path)


def require_regular(*paths: str | Path | ObjectPath | None) -> None:
    """Raise `OSError` if one of the paths exists and is not a regular file or a link to one.

    A path that is None is skipped.
    """
    for path in paths:
        if path is not None and not isinstance(path, ObjectPath):
            with suppress(FileNotFoundError):
                _require_regular(Path(path).stat(), Path(path))


def _checked(descriptor: int, mode: str, path: Path) -> IO[bytes]:
    """Return a file object for a file descriptor; raise `OSError` if it is not a regular file."""
    try:
        _require_regular(os.fstat(descriptor), path)
    except BaseException:
        os.close(descriptor)
        raise
    return os.fdopen(descriptor, mode)


def _require_regular(found: os.stat_result, path: Path) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "not a regular file", str(path))


@overload
def files_under(folder: Path) -> list[Path]: ...


@overload
def files_under(folder: AnyPath) -> list[AnyPath]: ...


def files_under(folder: AnyPath) -> Sequence[AnyPath]:
    """Return all files under a folder, by name; raise `OSError` if one of its folders cannot be listed."""
    if isinstance(folder, ObjectPath):
        return sorted(folder.rglob("*"), key=str)

    def fail(error: OSError) -> None:
        raise error

    found = (Path(at, name) for at, _, names in os.walk(folder, onerror=fail) for name in names)
    return sorted(found, key=str)


def is_hidden(path: AnyPath, folder: AnyPath) -> bool:
    """Return whether a file under a folder is hidden. Spark skips the same files.

    The file is hidden if its name, or the name of a folder below `folder`, starts with `.` or `_`.
    """
    return any(part.startswith((".", "_")) for part in path.parts[len(folder.parts) :])


def read_regular(path: Path | ObjectPath) -> bytes:
    """Return the content of a regular file; raise `OSError` if it is larger than the size limit."""
    if isinstance(path, ObjectPath):
        data = path.read(_limit.get() + 1)
        if len(data) > _limit.get():
            raise OSError(errno.EFBIG, _too_large(), str(path))
        return data
    with open_regular(path) as file:
        if os.fstat(file.fileno()).st_size > _limit.get():
            raise OSError(errno.EFBIG, _too_large(), str(path))
        return read_all(file, str(path))


def read_all(file: IO[bytes], name: str) -> bytes:
    """Return the unread bytes of an open file; raise `OSError` if they are more than the size limit."""
    data = file.read(_limit.get() + 1)
    if len(data) > _limit.get():
        raise OSError(errno.EFBIG, _too_large(), name)
    return data


def _too_large() -> str:
    return f"more than {_limit.get() >> 20:,} MiB; raise the limit with `ackwell --max-input-mib N COMMAND`"


def unzipped(data: bytes) -> bytes:
    """Return the decompressed content of gzip data. Other data is returned unchanged.

    The data may have several members. Raises `ValueError` if it is damaged, and if the content is larger than
    the size limit.
    """
    if not data.startswith(GZIP_MAGIC):
        return data
    left = _limit.get()
    pieces: list[bytes] = []
    try:
        with gzip.GzipFile(fileobj=BytesIO(data)) as source:
            while piece := source.read(_PIECE_BYTES):
                pieces.append(piece)
                left -= len(piece)
                if left < 0:
                    raise ValueError(f"decompressed {_too_large()}")
    except EOFError:
        raise ValueError("the gzip file is cut off; copy it again") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"the gzip file is damaged ({error}); copy it again") from None
    return b"".join(pieces)


def file_kind(path: Path | ObjectPath) -> SourceKind:
    """Return the kind of a regular file (see `source_kind`); raise `OSError` if it cannot be read."""
    if isinstance(path, ObjectPath):
        return source_kind(path.read(HEAD_BYTES))
    with open_regular(path) as source:
        return source_kind(source.read(HEAD_BYTES))


def write_file(
    file: Path | ObjectPath, data: bytes, *, new: bool = False, replaces: frozenset[SourceKind] | None = None
) -> None:
    """Write a file completely and sync it to the disk. An error leaves the file unchanged.

    With `new`, an existing file raises `FileExistsError`, even if another process creates the file during the
    call. Without `new`, an existing regular file is replaced if it is empty, or if its kind is in `replaces`;
    None allows all kinds. Any other file raises `OSError` and is not changed. An object in an object store is
    always replaced.
    """
    if isinstance(file, ObjectPath):
        file.write(data)
        return
    temporary = file.with_name(f".{file.name}.tmp")
    with _locked(file.parent) as folder:
        if not new:
            _require_replaceable(file, replaces)
        # A file or a link with this name may exist. A killed process or another user of the folder may have
        # left it.
        temporary.unlink(missing_ok=True)
        try:
            with os.fdopen(
                os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_FOLLOW, 0o666), "wb"
            ) as out:
                out.write(data)
                out.flush()
                os.fsync(out.fileno())
            if new:
                _rename_new(temporary, file)
            else:
                temporary.replace(file)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        if folder is not None:
            os.fsync(folder)


def _require_replaceable(file: Path, kinds: frozenset[SourceKind] | None) -> None:
    """Raise `OSError` if a file exists and must not be replaced.

    A regular file may be replaced if it is empty or of one of the kinds; None allows all kinds.
    """
    try:
        found = file.lstat()
    except FileNotFoundError:
        return
    if stat.S_ISLNK(found.st_mode):
        raise OSError(errno.EINVAL, "a symbolic link, which is not replaced; name another file", str(file))
    _require_regular(found, file)
    if kinds is not None and (kind := file_kind(file)) not in {*kinds, SourceKind.EMPTY}:
        reason = f"{wrong_kind(kind, *kinds)}; it is not replaced: name another file"
        raise OSError(errno.EEXIST, reason, str(file))


def _rename_new(temporary: Path, file: Path) -> None:
    """Rename a file; raise `FileExistsError` if a file with the new name exists."""
    if hasattr(os, "O_NOFOLLOW"):
        try:
            os.link(temporary, file)
        except FileExistsError:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(file)) from None
        except OSError:
            # The file system has no hard links. The empty file reserves the name.
            os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_FOLLOW, 0o666))
            temporary.replace(file)
        else:
            temporary.unlink()
    else:
        # On Windows a rename does not replace.
        temporary.rename(file)


def append_to(file: Path) -> IO[bytes]:
    """Open a regular file to read it and to append to it. If it does not exist, it is created.

    A symbolic link raises `OSError`.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | NO_FOLLOW | _NO_WAIT
    return _checked(os.open(file, flags, 0o666), "ab+", file)


@contextmanager
def _locked(folder: Path) -> Iterator[int | None]:
    """Lock a folder so that two writers of the same file take turns; yield the descriptor of the folder.

    On Windows, which has no such lock, None is yielded. The lock is not needed there, because Windows does
    not delete a file that another process has open.
    """
    if not hasattr(os, "O_DIRECTORY"):
        yield None
        return
    import fcntl

    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except PermissionError:
        # The folder can be written to, but it cannot be read.
        yield None
        return
    try:
        with suppress(OSError):
            # Some network file systems cannot lock a folder.
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)
