"""A small Ray cluster for a notebook, and a driver on it: processes of their own, gone however the notebook ends."""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psutil

BESIDE = Path(__file__).resolve().parent
LIMIT_S = 120.0
OBJECT_STORE_BYTES = 80_000_000
AGENTS = ("dashboard-agent-grpc-port", "dashboard-agent-listen-port", "metrics-export-port", "runtime-env-agent-port")
"""Where they are not given, the node waits 15 s for its agents to say theirs, and gives up: too short on a busy machine."""
ON_LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
"""Else Ray takes 127.0.0.1 for this machine's outer address, and listens there."""
PATIENCE = {"RAY_raylet_start_wait_time_s": "90", "RAY_DASHBOARD_STARTUP_TIMEOUT_S": "90", "RAY_worker_niceness": "0"}


class Cluster:
    """One node of `cpus` CPUs on 127.0.0.1, with a dashboard. ``address`` is its GCS, for RAY_ADDRESS."""

    def __init__(self, cpus: int) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="ray-", dir="/tmp"))  # short: Unix sockets lie in it
        gcs, dashboard, *agents = _free_ports(6)
        self.address, self.dashboard = f"127.0.0.1:{gcs}", f"http://127.0.0.1:{dashboard}"
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")} | ON_LOOPBACK | PATIENCE
        self.environment |= {"RAY_TMPDIR": str(self.folder), "RAY_ADDRESS": self.address}
        options = {
            "port": gcs,
            "dashboard-host": "127.0.0.1",
            "dashboard-port": dashboard,
            "node-ip-address": "127.0.0.1",
            "num-cpus": cpus,
            "object-store-memory": OBJECT_STORE_BYTES,
            "temp-dir": self.folder,
            **dict(zip(AGENTS, agents, strict=True)),
        }
        words = [f"--{name}={value}" for name, value in options.items()]
        self._drivers: list[Driver] = []
        self.log = self.folder / "start.log"
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block", "--disable-usage-stats", *words],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        atexit.register(self.stop)
        _wait(lambda: "will now block" in self.log.read_text(), self._process, self.log)

    def run(self, program: str, *words: object) -> Driver:
        """Start a program of this folder as a driver on the cluster."""
        driver = Driver(self, program, *words)
        self._drivers.append(driver)
        return driver

    def stop(self) -> None:
        """End everything that runs for it, and remove its files."""
        atexit.unregister(self.stop)
        for driver in self._drivers:
            driver.stop()
        _end(self._process)
        shutil.rmtree(self.folder, ignore_errors=True)


class Driver:
    """A program that has joined the cluster; its log goes to a file there."""

    def __init__(self, cluster: Cluster, program: str, *words: object) -> None:
        self.log = cluster.folder / f"{Path(program).stem}.log"
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, str(BESIDE / program), *map(str, words)],
                cwd=cluster.folder,
                env=cluster.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.pid = self._process.pid

    def wait_for(self, words: str) -> str:
        """Wait until its log has these words; the log."""
        _wait(lambda: words in self.log.read_text(), self._process, self.log)
        return self.log.read_text()

    def stop(self) -> None:
        _end(self._process)


def _free_ports(count: int) -> list[int]:
    taken = [socket.socket() for _ in range(count)]
    with contextlib.ExitStack() as stack:
        for one in taken:
            stack.enter_context(one)
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in taken]


def _end(process: subprocess.Popen[bytes]) -> None:
    """It and its family. Ray's processes have sessions of their own, and are still its children."""
    if process.poll() is not None:
        return
    family: list[psutil.Process] = []
    with contextlib.suppress(psutil.NoSuchProcess):
        first = psutil.Process(process.pid)
        family = [first, *first.children(recursive=True)]
    for one in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            one.send_signal(signal.SIGKILL)
    psutil.wait_procs(family, timeout=10)
    process.wait(10)


def _wait(done: Callable[[], bool], process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not done():
        if process.poll() is not None and not done():
            raise RuntimeError(f"it ended with status {process.returncode}:\n{log.read_text()}")
        if time.monotonic() > deadline:
            raise RuntimeError(f"not in {LIMIT_S:.0f} s:\n{log.read_text()}")
        time.sleep(0.05)
