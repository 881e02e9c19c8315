"""Check distributions before they are published: contents, platform tag, one version for all."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tarfile
from io import BytesIO
from pathlib import Path
from zipfile import ZipFile

from elftools.elf.elffile import ELFFile

SIZE_MAX_BYTES = 8_000_000
"""A wheel has 3 MB; more means that something was packed by mistake."""


def check_wheel(path: Path) -> str:
    """Check one wheel and return its version."""
    found = re.fullmatch(r"ackwell-([^-]+)-(cp311-abi3|cp3\d+-cp3\d+t)-(.+)\.whl", path.name)
    assert found, f"{path.name}: not an abi3 wheel for CPython 3.11, nor a free-threaded one"
    version, _, platform = found.groups()
    assert not re.fullmatch(r"linux_\w+", platform), f"{path.name}: PyPI takes no plain linux tag"
    with ZipFile(path) as archive:
        names = archive.namelist()
    info = f"ackwell-{version}.dist-info"
    for wanted in (
        f"{info}/licenses/LICENSE",
        f"{info}/licenses/THIRD-PARTY.md",
        "ackwell/py.typed",
        "ackwell/_native.pyi",
    ):
        assert wanted in names, f"{path.name}: {wanted} is missing"
    assert any(re.match(rf"{info}/sboms/.*\.cyclonedx\.json", name) for name in names), (
        f"{path.name}: no SBOM"
    )
    assert sum(bool(re.match(r"ackwell/_native\..*(so|pyd)$", name)) for name in names) == 1
    outside = {name.split("/")[0] for name in names} - {"ackwell", "pytest_ackwell", info}
    assert not outside, f"{path.name}: packs {outside}"
    if "musllinux" in platform:
        check_musl(path)
    elif "linux" in platform:
        check_glibc(path, platform)
    return version


def check_glibc(path: Path, platform: str) -> None:
    """Check that a wheel needs no newer glibc than its tag says."""
    command = [sys.executable, "-m", "auditwheel", "show", "--json", path]
    shown = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    tag = shown["overall_tag"]
    assert tag in platform.split("."), f"{path.name}: what it links to is {tag}: {shown['versioned_symbols']}"


def check_musl(path: Path) -> None:
    """Check that a wheel needs musl alone.

    auditwheel follows what a library needs on the machine it runs on, which has a glibc.
    """
    with ZipFile(path) as archive:
        (module,) = [
            name for name in archive.namelist() if name.startswith("ackwell/_native.") and ".so" in name
        ]
        dynamic = ELFFile(BytesIO(archive.read(module))).get_section_by_name(".dynamic")
    needed = {tag.needed for tag in dynamic.iter_tags("DT_NEEDED")}
    assert needed == {"libc.so"}, f"{path.name}: needs {needed}"


def check_sdist(path: Path) -> str:
    """Check the source distribution and return its version."""
    version = path.name.removeprefix("ackwell-").removesuffix(".tar.gz")
    with tarfile.open(path) as archive:
        names = archive.getnames()
    for wanted in (
        "Cargo.lock",
        "LICENSE",
        "THIRD-PARTY.md",
        "README.md",
        "pyproject.toml",
        "python/ackwell/py.typed",
    ):
        assert f"ackwell-{version}/{wanted}" in names, f"{path.name}: {wanted} is missing"
    assert not any(name.endswith((".so", ".pyd")) for name in names), f"{path.name}: packs a built module"
    return version


def main(paths: list[Path]) -> None:
    """Check every path."""
    assert paths, "nothing to check"
    versions = set()
    for path in paths:
        assert path.stat().st_size < SIZE_MAX_BYTES, f"{path.name}: {path.stat().st_size:,} bytes"
        versions.add(check_wheel(path) if path.suffix == ".whl" else check_sdist(path))
        print(f"{path.name}: {path.stat().st_size:,} bytes")
    assert len(versions) == 1, versions


if __name__ == "__main__":
    main([Path(argument) for argument in sys.argv[1:]])
