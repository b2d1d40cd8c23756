"""`pip install .` into an environment that has nothing: no torch, no compiler cache, no checkout on the path."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

REPO = Path(__file__).parents[2]
SOURCES = [
    "jupyter_traindbg",
    "traindbg",
    "hatch_build.py",
    "install.json",
    "jupyter-config",
    "traindbg_autostart.pth",
    "pyproject.toml",
    "README.md",
    "LICENSE",
]

pytestmark = pytest.mark.timeout(600)
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin directory of a new virtual environment with jupyter-traindbg in it."""
    room = tmp_path_factory.mktemp("install")
    source = room / "source"
    source.mkdir()
    for name in SOURCES:  # a copy: building leaves files beside the sources
        if (REPO / name).is_dir():
            shutil.copytree(REPO / name, source / name, ignore=shutil.ignore_patterns("*.so", "*.mo", "__pycache__"))
        else:
            shutil.copy(REPO / name, source / name)
    subprocess.run([sys.executable, "-m", "venv", room / "venv"], check=True, timeout=120)
    python = room / "venv" / "bin" / "python"
    installed = subprocess.run(
        [python, "-m", "pip", "install", "-qq", "--disable-pip-version-check", source],
        cwd=room,
        capture_output=True,
        text=True,
        timeout=480,
        check=False,
    )
    assert installed.returncode == 0, installed.stdout + installed.stderr
    return python.parent


@pytest.fixture
def run(environment: Path, tmp_path: Path) -> Run:
    """Run a command of that environment, away from the checkout; it must end with status 0."""

    def go(command: str, *args: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [environment / command, *args],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env=clean_environment(),
        )
        assert done.returncode == 0, done.stderr
        return done

    return go


def clean_environment(**more: str) -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "TRAINDBG"))} | more


def test_there_is_no_torch(run: Run) -> None:
    assert run("python", "-c", "import importlib.util as u; print(u.find_spec('torch'))").stdout.strip() == "None"


def test_import_loads_nothing_but_the_standard_library_and_us(run: Run) -> None:
    ask = (
        "import sys; before = set(sys.modules); import traindbg\n"
        "loaded = {name.split('.')[0] for name in set(sys.modules) - before}\n"
        "print(*sorted(loaded - sys.stdlib_module_names), 'asyncio' in loaded)"
    )
    assert run("python", "-c", ask).stdout == "jupyter_traindbg traindbg False\n"


def test_targets_answers(run: Run) -> None:
    listed = json.loads(run("traindbg", "targets", "--json").stdout)
    assert isinstance(listed["targets"], list)
    assert listed["findings"] == []


def test_knowledge_and_templates_are_installed(run: Run, tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text("RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB\n")
    ask = f"import traindbg; print([f.code for f in traindbg.diagnose_log({str(log)!r})])"
    assert run("python", "-c", ask).stdout == "['cuda_oom']\n"
    healthy = tmp_path / "healthy.log"
    healthy.write_text("step 1 loss 2.0\n")
    run("traindbg", "report", str(healthy), "-o", str(tmp_path / "report.zip"))
    assert "index.html" in zipfile.ZipFile(tmp_path / "report.zip").namelist()


def test_translations_are_compiled_and_installed(run: Run) -> None:
    ask = "from jupyter_traindbg.language import speaking, text\nwith speaking('zh'): print(text('no rank'))"
    assert run("python", "-X", "utf8", "-c", ask).stdout == "没有 rank\n"


def test_widgets_and_side_panel_are_installed(environment: Path, run: Run) -> None:
    """Where JupyterLab and Jupyter Server look for them; neither they nor Node are in this environment."""
    assert (REPO / "jupyter_traindbg" / "labextension" / "package.json").exists(), "run scripts/frontend"
    prefix = environment.parent
    card = json.loads((prefix / "share/jupyter/labextensions/jupyter-traindbg/package.json").read_text())
    panel = prefix / "share/jupyter/labextensions/jupyter-traindbg"
    assert (panel / card["jupyterlab"]["_build"]["load"]).stat().st_size > 1000
    assert (panel / "schemas" / "jupyter-traindbg" / "plugin.json").exists()
    assert (panel / "install.json").exists()
    assert card["version"] == run("python", "-c", "import traindbg; print(traindbg.__version__)").stdout.strip()
    enabled = json.loads((prefix / "etc/jupyter/jupyter_server_config.d/jupyter_traindbg.json").read_text())
    assert enabled["ServerApp"]["jpserver_extensions"] == {"jupyter_traindbg.server": True}
    where = "import jupyter_traindbg as j, pathlib; print(pathlib.Path(j.__file__).parent)"
    package = Path(run("python", "-c", where).stdout.strip())
    assert (package / "widgets" / "static" / "watch.js").stat().st_size > 1000
    assert not (package / "labextension").exists(), "the panel is there twice"


@pytest.mark.skipif(sys.platform != "linux", reason="attaching by pid is for Linux")
def test_the_shared_object_is_built(run: Run) -> None:
    where = "import jupyter_traindbg as j, pathlib; print(pathlib.Path(j.__file__).parent / 'native' / 'boot.so')"
    built = Path(run("python", "-c", where).stdout.strip())
    assert REPO not in built.parents
    assert built.read_bytes().startswith(b"\x7fELF")


@pytest.fixture
def prepared(environment: Path, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process without torch that was started with TRAINDBG=1."""
    process = subprocess.Popen(
        [environment / "python", "-c", "import time; print('up', flush=True); time.sleep(60)"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
        env=clean_environment(TRAINDBG="1"),
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    yield process
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=10)


def test_a_prepared_process_without_torch_is_seen(run: Run, prepared: subprocess.Popen[str]) -> None:
    (seen,) = json.loads(run("traindbg", "stacks", str(prepared.pid), "--json").stdout)["processes"]
    assert seen["source"] == "agent"
    assert [f["function"] for f in seen["threads"][0]["frames"]] == ["<module>"]
    targets = json.loads(run("traindbg", "targets", "--json").stdout)["targets"]
    assert [t["agent"] for t in targets if t["pid"] == prepared.pid] == [True]
