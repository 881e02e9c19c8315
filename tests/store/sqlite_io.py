"""Fault injection for SQLite's input and output: an error in the n-th call, or a power loss after any call.

A VFS is the table of functions for all input and output of SQLite. `FaultyIo` registers a copy of the default
VFS whose functions count their calls. They fail on request and record the writes that are not synced, so that
`after_power_loss` can write the files of a machine after a power loss. Nothing is preloaded: the library is
the one that Python's `sqlite3` loaded.
"""

from __future__ import annotations

import _sqlite3
import ctypes
from collections import Counter
from collections.abc import Callable
from ctypes import CFUNCTYPE, POINTER, byref, c_char_p, c_int, c_int64, c_void_p
from pathlib import Path
from random import Random
from typing import Any, ClassVar, Self

OK, BUSY, FULL, CANTOPEN = 0, 5, 13, 14
SECTOR_BYTES = 512

#: The functions of an open file that can fail: index in the table, types and error.
FILE_CALLS: dict[str, tuple[int, list[Any], int]] = {
    "read": (2, [c_void_p, c_void_p, c_int, c_int64], 266),
    "write": (3, [c_void_p, c_void_p, c_int, c_int64], 778),
    "truncate": (4, [c_void_p, c_int64], 1546),
    "sync": (5, [c_void_p, c_int], 1034),
    "size": (6, [c_void_p, c_void_p], 1802),
    "lock": (7, [c_void_p, c_int], 3850),
    "map shared memory": (13, [c_void_p, c_int, c_int, c_int, c_void_p], 5386),
}
#: The number of pointers in a table of version 3, after its version.
TABLE_POINTERS = 19


class Vfs(ctypes.Structure):
    """SQLite's `sqlite3_vfs` with the functions of version 1."""

    _fields_: ClassVar = [
        ("version", c_int),
        ("file_bytes", c_int),
        ("path_bytes_max", c_int),
        ("next", c_void_p),
        ("name", c_char_p),
        ("data", c_void_p),
        ("open", c_void_p),
        ("delete", c_void_p),
        ("others", c_void_p * 16),
    ]


# Names stay pointers, because the parameters of a URI follow them in memory.
Open = CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_int, c_void_p)
Delete = CFUNCTYPE(c_int, c_void_p, c_void_p, c_int)


def library() -> ctypes.CDLL | None:
    """Return the SQLite library of Python; None if it is linked statically."""
    try:
        found = ctypes.CDLL(_sqlite3.__file__)
        found.sqlite3_vfs_find.restype = POINTER(Vfs)
    except (AttributeError, OSError):
        return None
    return found


class File:
    """The durable content of a file, and the writes since the last sync."""

    def __init__(self, content: bytes) -> None:
        self.synced = bytearray(content)
        self.unsynced: list[tuple[int, bytes | None]] = []

    def sync(self) -> None:
        self.synced = self.after(self.unsynced)
        self.unsynced = []

    def after(self, writes: list[tuple[int, bytes | None]]) -> bytearray:
        """Return the content after these writes; a write without bytes truncates the file."""
        content = bytearray(self.synced)
        for offset, data in writes:
            if data is None:
                del content[offset:]
            else:
                content.extend(bytes(max(0, offset + len(data) - len(content))))
                content[offset : offset + len(data)] = data
        return content


class FaultyIo:
    """The VFS, which is the default of this process inside a `with` block; one block at a time."""

    def __init__(self) -> None:
        self.calls = 0
        self.by_name: Counter[str] = Counter()
        self.fail_at: int | None = None
        """The number of the call that fails, from 0; with `sticky`, later calls fail too."""
        self.sticky = False
        self.does_it = False
        """Whether a failing write or sync takes effect."""
        self.failed: list[str] = []
        self.files: dict[str, File] = {}
        self.before_call: Callable[[], object] | None = None
        self._paths: dict[int, str] = {}
        self._tables: dict[int, Any] = {}
        self._kept: list[Any] = []
        """Callbacks, which must outlive the block because SQLite may still call them."""

    def __enter__(self) -> Self:
        found = library()
        assert found is not None
        self._library = found
        default = found.sqlite3_vfs_find(None)
        self._open = Open(default.contents.open)
        self._delete = Delete(default.contents.delete)
        self._default = ctypes.cast(default, c_void_p)
        ours = Vfs()
        ctypes.memmove(byref(ours), default, ctypes.sizeof(Vfs))
        ours.next, ours.name = None, b"ackwell-tests"
        mine = Open(self._opened), Delete(self._deleted)
        ours.open, ours.delete = (ctypes.cast(each, c_void_p) for each in mine)
        self._kept += [ours, *mine]
        self._ours = ours
        assert found.sqlite3_vfs_register(byref(ours), 1) == OK
        return self

    def __exit__(self, *_: object) -> None:
        assert self._library.sqlite3_vfs_unregister(byref(self._ours)) == OK
        assert self._library.sqlite3_vfs_register(self._default, 1) == OK

    def fails(self, name: str) -> bool:
        """Count a call; return whether it fails."""
        if self.before_call is not None:
            self.before_call()
        number = self.calls
        self.calls += 1
        self.by_name[name] += 1
        if self.fail_at is None or not (number == self.fail_at or (self.sticky and number > self.fail_at)):
            return False
        self.failed.append(name)
        return True

    def after_power_loss(self, folder: Path, chance: Random | None) -> None:
        """Write the files after a power loss: without unsynced writes, or with a random part of them."""
        for path, file in self.files.items():
            kept: list[tuple[int, bytes | None]] = []
            for offset, data in file.unsynced if chance is not None else []:
                assert chance is not None
                if chance.random() < 0.5:
                    continue
                if data is None or chance.random() < 0.5:
                    kept.append((offset, data))
                    continue
                # Only some sectors of the write.
                starts = [start for start in range(0, len(data), SECTOR_BYTES) if chance.random() < 0.5]
                kept += [(offset + start, data[start : start + SECTOR_BYTES]) for start in starts]
            (folder / Path(path).name).write_bytes(file.after(kept))

    # The callbacks of SQLite

    def _opened(self, _: int, name: Any, file: int, flags: int, out: Any) -> int:
        if self.fails("open"):
            # SQLite closes every file with a table, so a file that failed to open gets none.
            ctypes.cast(file, POINTER(c_void_p))[0] = None
            return CANTOPEN
        path = None if name is None else ctypes.string_at(name).decode()
        before = Path(path).read_bytes() if path is not None and Path(path).exists() else b""
        result = self._open(self._default, name, file, flags, out)
        table = ctypes.cast(file, POINTER(c_void_p))
        if result == OK and path is not None and table[0]:
            self.files.setdefault(path, File(before))
            self._paths[file] = path
            table[0] = self._table(table[0])
        return int(result)

    def _deleted(self, _: int, name: int, sync: int) -> int:
        if self.fails("delete"):
            return 2570
        self.files.pop(ctypes.string_at(name).decode(), None)
        return int(self._delete(self._default, name, sync))

    def _table(self, theirs: int) -> Any:
        """Return the replacement of a file's function table."""
        if theirs not in self._tables:
            pointers = ctypes.cast(theirs + 8, POINTER(c_void_p))
            version = ctypes.cast(theirs, POINTER(c_int))[0]
            count = {1: 12, 2: 16}.get(version, 18)
            ours = (c_void_p * (TABLE_POINTERS + 1))()
            ours[0] = version
            for at in range(count):
                ours[at + 1] = pointers[at]
            for name, (at, types, error) in FILE_CALLS.items():
                if at <= count and ours[at]:
                    kind = CFUNCTYPE(c_int, *types)
                    wrapped = kind(self._wrapped(name, kind(ours[at] or 0), error))
                    self._kept.append(wrapped)
                    ours[at] = ctypes.cast(wrapped, c_void_p).value
            self._kept.append(ours)
            self._tables[theirs] = ours
        return ctypes.cast(self._tables[theirs], c_void_p).value

    def _wrapped(self, name: str, call: Any, error: int) -> Callable[..., int]:
        def called(file: int, *arguments: Any) -> int:
            if self.fails(name):
                if self.does_it and name in ("write", "sync"):
                    self._did(name, file, arguments)
                    call(file, *arguments)
                return FULL if name == "write" and self.sticky else error
            self._did(name, file, arguments)
            # Syncs are recorded, not executed, because no test cuts the power.
            return OK if name == "sync" else int(call(file, *arguments))

        return called

    def _did(self, name: str, file: int, arguments: tuple[Any, ...]) -> None:
        known = self.files.get(self._paths.get(file, ""))
        if known is None:
            return
        if name == "write":
            known.unsynced.append((arguments[2], ctypes.string_at(arguments[0], arguments[1])))
        elif name == "truncate":
            known.unsynced.append((arguments[0], None))
        elif name == "sync":
            known.sync()
