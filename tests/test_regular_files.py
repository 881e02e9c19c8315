"""Regular files: a failed write changes nothing, and no device, pipe or link is read or replaced."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ackwell.regular_files import (
    INPUT_BYTES_MAX,
    append_to,
    file_kind,
    files_under,
    limit_input,
    read_regular,
    unzipped,
    write_file,
)
from ackwell.sources import SourceKind
from tests.broker.answers import answer, holes
from tests.commands import ackwell, held


@pytest.fixture
def limited() -> Iterator[Callable[[int], None]]:
    yield limit_input
    limit_input(INPUT_BYTES_MAX)


def test_a_file_is_replaced_and_no_temporary_file_remains(tmp_path: Path) -> None:
    for data in (b"first", b"", b"the third\n"):
        write_file(tmp_path / "a", data)
        assert (tmp_path / "a").read_bytes() == data
        assert [each.name for each in tmp_path.iterdir()] == ["a"]


def test_the_next_write_removes_a_temporary_file_and_does_not_follow_a_link(tmp_path: Path) -> None:
    (tmp_path / "precious").write_bytes(b"kept")
    (tmp_path / ".a.tmp").symlink_to(tmp_path / "precious")
    write_file(tmp_path / "a", b"new")
    (tmp_path / ".a.tmp").write_bytes(b"left by a killed process")
    write_file(tmp_path / "a", b"newer")
    assert (tmp_path / "precious").read_bytes() == b"kept"
    assert ((tmp_path / "a").read_bytes(), (tmp_path / "a").is_symlink()) == (b"newer", False)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a", "precious"]


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_file(tmp_path / "a", b"old")

    def fail(descriptor: int) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(os, "fsync", fail)
    for name in ("a", "b"):
        with pytest.raises(OSError, match="full"):
            write_file(tmp_path / name, b"new", new=name == "b")
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == {"a": b"old"}


def test_a_link_that_appears_during_the_write_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "precious").write_bytes(b"kept")
    monkeypatch.setattr(Path, "unlink", lambda *_, **__: None)
    (tmp_path / ".a.tmp").touch()
    (tmp_path / ".b.tmp").symlink_to(tmp_path / "precious")
    for name in ("a", "b"):
        with pytest.raises(FileExistsError):
            write_file(tmp_path / name, b"new")
    assert (tmp_path / "precious").read_bytes() == b"kept"


def test_a_file_has_the_permissions_that_the_process_gives_its_files(tmp_path: Path) -> None:
    (tmp_path / "usual").touch()
    write_file(tmp_path / "a", b"")
    write_file(tmp_path / "b", b"", new=True)
    assert {(tmp_path / name).stat().st_mode for name in ("a", "b", "usual")} == {
        (tmp_path / "usual").stat().st_mode
    }


@pytest.mark.parametrize("has_links", [True, False])
def test_of_many_writers_of_one_new_file_only_the_first_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_links: bool
) -> None:
    def no_links(*_: object) -> None:
        raise PermissionError

    names: list[str] = []
    if not has_links:
        monkeypatch.setattr(os, "link", no_links)

    def write(number: int) -> bool:
        try:
            write_file(tmp_path / "a", b"%d" % number, new=True)
        except FileExistsError as error:
            names.append(error.filename)
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        written = list(pool.map(write, range(8)))
    assert written.count(True) == 1
    assert names == [str(tmp_path / "a")] * 7
    assert (tmp_path / "a").read_bytes() == b"%d" % written.index(True)
    assert [each.name for each in tmp_path.iterdir()] == ["a"]


def test_writers_of_one_file_take_turns(tmp_path: Path) -> None:
    texts = [bytes([65 + number]) * 300_000 for number in range(8)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda text: write_file(tmp_path / "a", text), texts * 3))
    assert (tmp_path / "a").read_bytes() in texts
    assert [each.name for each in tmp_path.iterdir()] == ["a"]


def test_a_killed_writer_leaves_the_old_file_and_one_name_that_the_next_write_removes(tmp_path: Path) -> None:
    write_file(tmp_path / "a", b"old")
    program = (
        "import os, sys, time; from pathlib import Path; from ackwell.regular_files import write_file\n"
        "os.fsync = lambda _: (print('stopped', flush=True), time.sleep(60))\n"
        f"write_file(Path({str(tmp_path / 'a')!r}), b'new')"
    )
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"stopped\n"
    process.kill()
    process.wait()
    process.stdout.close()
    assert (tmp_path / "a").read_bytes() == b"old"
    assert sorted(each.name for each in tmp_path.iterdir()) == [".a.tmp", "a"]
    write_file(tmp_path / "a", b"newer")
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == {"a": b"newer"}


def test_only_files_of_the_expected_kinds_are_replaced(tmp_path: Path) -> None:
    page, text, empty = (tmp_path / name for name in ("page", "text", "empty"))
    page.write_text("<html>")
    text.write_text("notes")
    empty.touch()
    kinds = frozenset({SourceKind.HTML})
    for file in (page, empty, tmp_path / "missing"):
        write_file(file, b"<p>", replaces=kinds)
        assert file.read_bytes() == b"<p>"
    with pytest.raises(OSError, match="text, not an HTML page; it is not replaced: name another file"):
        write_file(text, b"<p>", replaces=kinds)
    assert text.read_text() == "notes"


def test_a_folder_without_a_lock_is_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fcntl = pytest.importorskip("fcntl")

    def fail(*_: object) -> None:
        raise OSError("no locks")

    monkeypatch.setattr(fcntl, "flock", fail)
    write_file(tmp_path / "a", b"data")
    assert (tmp_path / "a").read_bytes() == b"data"
    with pytest.raises(FileNotFoundError):
        write_file(tmp_path / "missing" / "a", b"data")


def test_lines_are_appended_to_regular_files_only(tmp_path: Path) -> None:
    for line in (b"one\n", b"two\n"):
        with append_to(tmp_path / "a") as file:
            file.write(line)
    assert (tmp_path / "a").read_bytes() == b"one\ntwo\n"
    (tmp_path / "link").symlink_to(tmp_path / "a")
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe"):
        with pytest.raises(OSError, match=r"symbolic links|not a regular file|No such device"):
            append_to(tmp_path / name)


def odd_files(folder: Path) -> list[Path]:
    """Make files that are not regular, or link to one."""
    os.mkfifo(folder / "pipe")
    names = ["pipe"]
    for name, target in (("zero", "/dev/zero"), ("null", "/dev/null"), ("to-pipe", str(folder / "pipe"))):
        (folder / name).symlink_to(target)
        names.append(name)
    return [folder / name for name in names]


def test_pipes_and_devices_are_neither_read_nor_replaced(tmp_path: Path) -> None:
    for path in [*odd_files(tmp_path), Path("/dev/zero"), Path("/dev/null")]:
        with pytest.raises(OSError, match="not a regular file"):
            read_regular(path)
        with pytest.raises(OSError, match="not a regular file"):
            file_kind(path)
        before = path.lstat()
        with pytest.raises(OSError, match=r"not a regular file|a symbolic link, which is not replaced"):
            write_file(path, b"data")
        with pytest.raises(FileExistsError):
            write_file(path, b"data", new=True)
        assert path.lstat().st_ino == before.st_ino


def test_a_file_is_read_up_to_the_limit(tmp_path: Path, limited: Callable[[int], None]) -> None:
    file = tmp_path / "a"
    limited(1 << 20)
    for size in (0, 1 << 20):
        file.write_bytes(bytes(size))
        assert read_regular(file) == bytes(size)
        assert unzipped(gzip.compress(bytes(size))) == bytes(size)
    file.write_bytes(bytes((1 << 20) + 1))
    with pytest.raises(OSError, match="more than 1 MiB; raise the limit with `ackwell --max-input-mib N"):
        read_regular(file)
    with pytest.raises(ValueError, match="decompressed more than 1 MiB"):
        unzipped(gzip.compress(bytes((1 << 20) + 1)))


def test_gzip_of_several_members_is_joined_and_damage_is_named() -> None:
    packed = gzip.compress(b"one") + gzip.compress(b"two")
    assert unzipped(packed) == b"onetwo"
    assert unzipped(b"plain") == b"plain"
    with pytest.raises(ValueError, match="cut off"):
        unzipped(packed[:-1])
    with pytest.raises(ValueError, match="damaged"):
        unzipped(packed[:15] + b"\xff" + packed[16:])


READERS = [
    ["doctor"],
    ["holes"],
    ["inspect"],
    ["replay"],
    ["history"],
    ["events", "check"],
    ["convert", "--to", "compact", "*", "-"],
    ["diff", "*", "*"],
    ["what-if", "clear-backlog", "*", "sub"],
    ["replay", "trace.jsonl", "--start-from"],
    ["dev-broker", "--port", "0", "--admin-port", "0", "--load"],
    ["dev-broker", "--port", "0", "--admin-port", "0", "--data"],
    ["doctor", "stats.json", "--broker-setting"],
    ["collect", "--admin", "http://127.0.0.1:9", "--token-file"],
    ["doctor", "--admin", "https://127.0.0.1:9", "--tls-trust-certs"],
    ["doctor", "--admin", "https://127.0.0.1:9", "--tls-cert"],
    ["dev-broker", "--port", "0", "--admin-port", "0", "--tls-cert"],
    ["dev-broker", "--port", "0", "--admin-port", "0", "--token-key", "file:*"],
    ["record", "--broker", "pulsar://127.0.0.1:9", "-o", "events", "--tls-trust"],
    ["rescue", "apply", "--admin", "http://127.0.0.1:9"],
    ["rescue", "release", "--admin", "http://127.0.0.1:9", "--journal"],
    ["what-if", "clear-backlog", "stats.json", "sub", "--verify"],
]
"""Commands with the place of a file: `*`, or the end."""


@pytest.mark.parametrize("command", READERS, ids=" ".join)
@pytest.mark.parametrize("name", ["pipe", "/dev/zero"])
def test_every_command_refuses_a_file_that_is_not_regular(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str], name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("stats.json").write_text(json.dumps(answer(holes(3))))
    Path("trace.jsonl").touch()
    os.mkfifo("pipe")
    given = [each.replace("*", name) for each in command]
    begun = time.process_time()
    refused = held(ackwell(*given, *(() if given != command else (name,))))
    assert refused.code in {1, 2, 5}, refused
    # A terminal's width may break the line.
    assert "not a regular file" in " ".join((refused.out + refused.err).replace("│", " ").split()), refused
    assert time.process_time() - begun < 5


@pytest.mark.parametrize(
    ("command", "suffix"),
    [(command, "json") for command in ("doctor", "holes")]
    + [(command, suffix) for command in ("replay", "history") for suffix in ("jsonl", "jsonl.gz", "parquet")],
)
@pytest.mark.parametrize("is_pipe", [True, False])
def test_a_pipe_or_a_link_to_a_device_in_a_folder_is_named(
    tmp_path: Path, command: str, suffix: str, is_pipe: bool
) -> None:
    (tmp_path / "a.json").write_text(json.dumps(answer(holes(3))))
    odd = tmp_path / f"odd.{suffix}"
    if is_pipe:
        os.mkfifo(odd)
    else:
        odd.symlink_to("/dev/zero")
    found = held(ackwell(command, str(tmp_path)))
    assert found.code in {1, 5}
    assert "not a regular file" in " ".join((found.out + found.err).split())


def test_a_folder_that_cannot_be_listed_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user without rights to a folder of dumps must not see the others as all."""
    for name in ("closed", "open"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.json").write_text(json.dumps(answer(holes(3))))
    assert files_under(tmp_path) == [tmp_path / "closed" / "a.json", tmp_path / "open" / "a.json"]
    monkeypatch.chdir(tmp_path.parent)
    relative = Path(tmp_path.name)
    assert files_under(relative) == [relative / "closed" / "a.json", relative / "open" / "a.json"]
    scandir = os.scandir

    def refuse(path: str) -> object:
        if os.fspath(path).endswith("closed"):
            raise PermissionError(13, "Permission denied", os.fspath(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(PermissionError):
        files_under(tmp_path)
    for command in ("doctor", "holes", "replay", "history"):
        refused = held(ackwell(command, str(tmp_path)))
        assert refused.code in {1, 5}
        assert "Permission denied" in refused.out + refused.err
