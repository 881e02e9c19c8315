"""The names of `import ackwell`, and the modules that it must not load."""

import importlib
import pkgutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from types import ModuleType

import pytest

import ackwell
from ackwell import PositionInfo, PositionRangeSet, cursor, errors, replay, subscription

HEAVY = ("numpy", "pandas", "pyarrow", "pyspark", "pulsar", "typer", "click", "rich", "sqlite3")
PACKAGE = Path(ackwell.__file__).parent
MAIN = "from ackwell.cli import main\ntry:\n    main()\nexcept SystemExit:\n    pass"


def modules_after(script: str, *arguments: str) -> set[str]:
    """Run a script in a new process; return the names of its loaded modules at the end."""
    ending = "\nimport sys\nprint('\\n'.join(sys.modules), file=sys.stderr)"
    command = [sys.executable, "-c", script + ending, *arguments]
    return set(subprocess.run(command, check=True, capture_output=True, text=True).stderr.split())


def test_importing_ackwell_loads_nothing_heavy() -> None:
    loaded = modules_after("import ackwell")
    assert "ackwell" in loaded
    assert not {*HEAVY, "ackwell.cursor", "ackwell.subscription", "importlib.metadata"} & loaded


def test_the_version_of_the_command_loads_no_command() -> None:
    loaded = modules_after(MAIN, "--version")
    assert "typer" in loaded
    assert not {"numpy", "ackwell.cursor", "importlib.metadata", "rich.console"} & loaded
    assert not {name for name in loaded if name.endswith("_command")}


def test_the_doctor_loads_no_rules_and_no_client_before_it_reads_a_file() -> None:
    loaded = modules_after(MAIN, "doctor", "/none")
    assert "ackwell.diagnosis.checkup" in loaded
    rules = {"ackwell.subscription.stall", "ackwell.cursor.cursor", "ackwell.cluster.admin"}
    assert not {"numpy", "http.client", *rules} & loaded


@pytest.mark.parametrize("name", ackwell.__all__)
def test_a_public_name_is_imported_from_the_package(name: str) -> None:
    assert name in dir(ackwell)
    scope: dict[str, object] = {}
    exec(f"from ackwell import {name}", scope)
    assert scope[name] is getattr(ackwell, name)


@pytest.mark.parametrize(
    ("package", "name"), [(each, name) for each in (cursor, replay, subscription) for name in each.__all__]
)
def test_a_name_of_a_package_is_imported_from_it(package: ModuleType, name: str) -> None:
    if name == "replay_events":
        pytest.importorskip("pyarrow")
    scope: dict[str, object] = {}
    exec(f"from {package.__name__} import {name}", scope)
    assert scope[name] is getattr(package, name)


def test_a_package_lists_its_public_names_only() -> None:
    """A package without `__all__` has no names. The command line and the drawings are not public."""
    names = [each.name for each in pkgutil.iter_modules(ackwell.__path__) if each.ispkg]
    packages = [ackwell, *(importlib.import_module(f"ackwell.{name}") for name in names)]
    exporting = {each.__name__.partition(".")[2] for each in packages if hasattr(each, "__all__")}
    assert exporting == {"", "cursor", "devbroker", "replay", "rescue", "spark", "store", "subscription"}
    for each in packages:
        if each.__name__ in ("ackwell.cli", "ackwell.drawing"):
            continue
        public = [name for name in dir(each) if not name.startswith("_") or name == "__version__"]
        modules = {name for name in public if isinstance(vars(each).get(name), ModuleType)}
        shown = public if hasattr(each, "__all__") else sorted({*public} - modules)
        assert shown == sorted(getattr(each, "__all__", [])), each.__name__


@pytest.mark.parametrize("package", [cursor, replay, subscription])
def test_a_package_has_no_other_names(package: ModuleType) -> None:
    with pytest.raises(AttributeError, match=f"'{package.__name__}' has no attribute 'other'"):
        _ = package.other


def test_importing_the_replay_loads_none_of_its_modules() -> None:
    loaded = modules_after("import ackwell.replay")
    assert "ackwell.replay" in loaded
    assert not {*HEAVY, "ackwell.replay.events", "ackwell.replay.files"} & loaded


def test_a_name_that_needs_an_extra_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(
        ModuleNotFoundError, match=r"replay_events needs pyarrow; pip install 'ackwell\[parquet\]'"
    ):
        getattr(replay, "replay_events")  # noqa: B009


def test_every_error_is_a_public_name() -> None:
    kinds = [name for name, kind in vars(errors).items() if isinstance(kind, type) and name.endswith("Error")]
    assert kinds
    assert set(kinds) <= set(ackwell.__all__)


def test_the_version_is_that_of_the_installed_distribution() -> None:
    assert ackwell.__version__ == version("ackwell")


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'ackwell' has no attribute 'nothing'"):
        getattr(ackwell, "nothing")  # noqa: B009


def test_no_module_has_the_name_of_one_of_the_standard_library() -> None:
    """If a file of the package runs as a script, its folder is first on `sys.path`."""
    modules = {path.stem for path in PACKAGE.iterdir()} - {"__init__", "__main__", "__pycache__"}
    assert "cursor" in modules
    assert not modules & sys.stdlib_module_names


def test_the_package_started_as_a_file_runs(tmp_path: Path) -> None:
    """`spark-submit` starts a file this way."""
    command = [sys.executable, str(PACKAGE / "__main__.py"), "--version"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout == f"ackwell {ackwell.__version__}\n"
    assert "sys.path" not in (PACKAGE / "__main__.py").read_text()


def test_a_command_loads_nothing_of_the_others_nor_what_draws_tables() -> None:
    loaded = modules_after("from ackwell.cli import program\nprogram(['inspect'])")
    assert "ackwell.cli.inspect_command" in loaded
    assert not {"rich.console", "ackwell.cli.doctor_command", "ackwell.cli.spark_command", "numpy"} & loaded


def test_inspecting_and_predicting_a_restart_loads_neither_numpy_nor_what_draws_tables(
    tmp_path: Path,
) -> None:
    file = tmp_path / "cursor.bin"
    every_second = PositionRangeSet((3, 2 * n, 2 * n + 1) for n in range(20_000))
    file.write_bytes(PositionInfo(3, -1, every_second).encode())
    loaded = modules_after(
        "from ackwell.cli import program\nprogram(['inspect'])(standalone_mode=False)", "inspect", str(file)
    )
    assert "ackwell.broker.restart" in loaded
    assert not {"rich.console", "numpy"} & loaded


def test_the_public_names_of_the_pipeline_are_listed() -> None:
    spark = importlib.import_module("ackwell.spark")
    assert {"replay", "read_events", "restart_audit"} <= set(dir(spark))
