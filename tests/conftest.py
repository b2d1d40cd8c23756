"""Fixtures shared by all tests: small programs in tests/programs/ that set a scene, started as real processes."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

HELPERS = [path.stem for path in Path(__file__).parent.glob("*.py")]
pytest.register_assert_rewrite(*HELPERS)  # their asserts say what they saw, too

from demos import start_demo  # noqa: F401 - a fixture
from planted_job import full_of_secrets  # noqa: F401 - a fixture
from ray_clusters import RAY_TEST_S
from ray_shared import (  # noqa: F401 - fixtures
    in_turn,
    ray_cluster,
    ray_collector,
    ray_start,
    ray_token_cluster,
    ray_training,
    stop_unneeded,
    uses_ray,
)
from support import PROGRAMS, Program, Start, launch, need

if (
    signal.getsignal(signal.SIGINT) is signal.SIG_IGN
):  # as in the background of a shell; the programs that tests start would inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def need_tool() -> Callable[[str], str]:
    """The path of a command-line tool, or skip (fail in CI)."""

    def find(name: str) -> str:
        path = shutil.which(name)
        need(name, path is not None)
        assert path is not None
        return path

    return find


@pytest.fixture(scope="session")
def fake_nvml(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory with the compiled stand-in for the NVIDIA library; fake_nvml.c says how it is told what to be."""
    compiler = shutil.which("cc")
    need("cc", compiler is not None)
    assert compiler is not None
    library = tmp_path_factory.mktemp("nvml") / "libnvidia-ml.so.1"
    source = PROGRAMS / "fake_nvml.c"
    subprocess.run([compiler, "-Wall", "-Werror", "-shared", "-fPIC", "-o", library, source], check=True)
    return library.parent


@pytest.fixture
def free_port() -> str:
    """A TCP port on loopback that nobody used a moment ago."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return str(s.getsockname()[1])


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """``start("train.py", "--steps", "100")`` runs tests/programs/train.py and waits until it prints ``ready``.

    Keywords: ``env`` (added to the environment), ``python`` (another interpreter), ``ready`` (another text, or None), ``command`` (the
    words before the program's path, instead of the interpreter: a launcher).
    """
    running: list[Program] = []

    def run(
        program: str,
        *args: str,
        env: dict[str, str] | None = None,
        python: str = sys.executable,
        ready: str | None = "ready",
        command: list[str] | None = None,
        timeout_s: float = 60,
    ) -> Program:
        running.append(started := launch(tmp_path, program, *args, env=env, python=python, command=command))
        if ready is not None:
            started.wait_for(ready, timeout_s)
        return started

    yield run
    for program in running:
        program.stop()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """A Ray cluster is shared by tests that follow each other."""
    if uses_ray(item):
        stop_unneeded(nextitem)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The first test that asks for a shared cluster or scene waits until it is up."""
    in_turn(items)
    for item in items:
        if uses_ray(item) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(RAY_TEST_S))
