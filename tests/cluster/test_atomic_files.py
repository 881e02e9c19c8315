"""Atomic files: a failed write changes nothing, and no symbolic link is followed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ackwell.cluster.atomic_files import write_atomically


def test_a_file_is_replaced_and_no_temporary_file_remains(tmp_path: Path) -> None:
    for data in (b"first", b"", b"the third\n"):
        write_atomically(tmp_path / "a", data)
        assert (tmp_path / "a").read_bytes() == data
        assert [each.name for each in tmp_path.iterdir()] == ["a"]


def test_what_was_left_beside_it_is_removed_and_a_link_there_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "precious").write_bytes(b"kept")
    (tmp_path / ".a.tmp").symlink_to(tmp_path / "precious")
    write_atomically(tmp_path / "a", b"new")
    (tmp_path / ".a.tmp").write_bytes(b"left by a run that was cut off")
    write_atomically(tmp_path / "a", b"newer")
    assert (tmp_path / "precious").read_bytes() == b"kept"
    assert ((tmp_path / "a").read_bytes(), (tmp_path / "a").is_symlink()) == (b"newer", False)


def test_a_write_that_fails_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_atomically(tmp_path / "a", b"old")

    def fail(descriptor: int) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="full"):
        write_atomically(tmp_path / "a", b"new")
    assert (tmp_path / "a").read_bytes() == b"old"


def test_what_comes_between_its_removal_and_the_write_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "precious").write_bytes(b"kept")
    monkeypatch.setattr(Path, "unlink", lambda *_, **__: None)
    (tmp_path / ".a.tmp").touch()
    (tmp_path / ".b.tmp").symlink_to(tmp_path / "precious")
    for name in ("a", "b"):
        with pytest.raises(FileExistsError):
            write_atomically(tmp_path / name, b"new")
    assert (tmp_path / "precious").read_bytes() == b"kept"


def test_a_file_has_the_permissions_that_the_process_gives_its_files(tmp_path: Path) -> None:
    (tmp_path / "usual").touch()
    write_atomically(tmp_path / "a", b"")
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "usual").stat().st_mode
