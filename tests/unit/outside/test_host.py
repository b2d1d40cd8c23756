"""The facts of this machine. A disk that does not answer: tests/integration/test_outside.py."""

from __future__ import annotations

import os
import resource
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support import PROGRAMS

from jupyter_traindbg.model import NotAvailable
from jupyter_traindbg.outside import host


def test_this_machine(tmp_path: Path) -> None:
    limits = (resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 1, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    code = (
        f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, {limits});"
        "resource.setrlimit(resource.RLIMIT_CORE, (0, 0)); print('in', flush=True); input()"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, cwd="/"
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"in\n"
            facts = host.facts([process.pid])
        finally:
            process.kill()
    assert facts.name == socket.gethostname()
    assert facts.cpus == os.cpu_count()
    assert 0 < facts.memory_free_bytes <= facts.memory_bytes
    assert facts.memory_bytes == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert facts.disk_free_bytes.keys() == {"/", str(tmp_path)}
    disk = os.statvfs(tmp_path)
    assert facts.disk_free_bytes[str(tmp_path)] == pytest.approx(disk.f_bavail * disk.f_frsize, rel=0.2)
    assert not isinstance(facts.shm_bytes, NotAvailable)
    assert facts.shm_bytes > 0
    assert (facts.limits["nofile"], facts.limits["core"]) == (limits[0], 0)
    assert facts.versions["Python"] == f"3.{sys.version_info.minor}"
    assert facts.disks_silent == ()


def test_the_versions_of_an_installed_torch(tmp_path: Path) -> None:
    package = tmp_path / "torch"
    package.mkdir()
    (package / "version.py").write_text(
        "__version__ = '2.6.0+cu124'\ncuda: Optional[str] = '12.4'\nhip: Optional[str] = None\n"
    )
    (tmp_path / "nvidia_nccl_cu12-2.21.5.dist-info").mkdir()
    _, versions, _ = host._ask([], [str(package)], time.monotonic() + 5)
    assert versions == {"torch": "2.6.0+cu124", "CUDA": "12.4", "NCCL": "2.21.5"}


def test_a_rank_with_mounts_of_its_own(tmp_path: Path) -> None:
    """As in a container: its disks and its shared memory count, not ours."""
    full, read_only = tmp_path / "full", tmp_path / "read_only"
    full.mkdir()
    read_only.mkdir()
    code = "print('in', flush=True); input()"
    with subprocess.Popen(
        ["sh", str(PROGRAMS / "in_own_mounts.sh"), sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "FULL": str(full), "READ_ONLY": str(read_only), "TMPDIR": str(full)},
    ) as process:
        try:
            assert process.stdout is not None
            if process.stdout.readline() != b"in\n":
                pytest.skip("this user may not make a mount namespace")
            facts = host.facts([process.pid])
        finally:
            process.kill()
    assert 0 < facts.disk_free_bytes[str(full)] <= 20 << 20


def test_without_processes() -> None:
    facts = host.facts([])
    assert facts.disk_free_bytes == {}
    assert facts.limits == {}
    assert facts.memory_bytes > 0
