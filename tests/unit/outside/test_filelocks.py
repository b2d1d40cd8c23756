"""Who holds a file lock, by the kernel's list: one made by hand, and the real one."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from jupyter_traindbg.model import LockHolder
from jupyter_traindbg.outside import filelocks

TABLE = """\
1: POSIX  ADVISORY  READ  899 00:1c:1270 128 128
2: FLOCK  ADVISORY  WRITE 4711 00:2a:99 0 EOF
2: -> FLOCK  ADVISORY  WRITE 5001 00:2a:99 0 EOF
2: -> FLOCK  ADVISORY  WRITE 5002 00:2a:99 0 EOF
3: FLOCK  ADVISORY  WRITE -1 00:2a:98 0 EOF
3: -> FLOCK  ADVISORY  WRITE 5003 00:2a:98 0 EOF
nonsense
"""


@pytest.mark.parametrize(("waiting", "owner"), [(5001, 4711), (5002, 4711), (5003, None), (4711, None), (1, None)])
def test_the_holder_stands_above_who_waits(waiting: int, owner: int | None) -> None:
    assert filelocks.holder(waiting, TABLE) == owner


def test_an_owner_that_has_ended_is_said_to_have() -> None:
    assert filelocks.holders([5001], TABLE.replace("4711", "999999999")) == {5001: LockHolder(999_999_999, "")}


def test_one_that_shares_a_lock_is_passed_over(tmp_path: Path) -> None:
    about = (tmp_path / "rows.db").write_text("") or (tmp_path / "rows.db").stat()
    file = f"{os.major(about.st_dev):02x}:{os.minor(about.st_dev):02x}:{about.st_ino}"
    table = f"1: POSIX  ADVISORY  READ  5001 {file} 128 128\n2: POSIX  ADVISORY  WRITE 4711 {file} 120 120\n"
    assert filelocks.owner(about, table) == 5001
    assert filelocks.owner(about, table, besides=5001) == 4711
    assert filelocks.owner(about, table.splitlines()[0], besides=5001) is None


def test_open_files_that_somebody_else_has_locked(tmp_path: Path) -> None:
    locked, free = tmp_path / "rows.db", tmp_path / "raws.db"
    take = "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.lockf(f, fcntl.LOCK_EX); print('taken', flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", take, str(locked)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as owner:
        try:
            assert owner.stdout is not None
            assert owner.stdout.readline() == b"taken\n"
            if not os.access("/proc/locks", os.R_OK) or f" {owner.pid} " not in Path("/proc/locks").read_text():
                pytest.skip("this kernel does not show the locks of this container")
            with locked.open("w"), free.open("w"):
                assert filelocks.locked_by_others(os.getpid()) == [str(locked)]
            assert filelocks.locked_by_others(owner.pid) == [], "what it has locked itself"
        finally:
            owner.kill()


def test_a_real_lock(tmp_path: Path) -> None:
    take = "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.flock(f, fcntl.LOCK_EX); print('taken', flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", take, str(tmp_path / "x.lock")]
    owner = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    waiter = None
    try:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"taken\n"
        if not os.access("/proc/locks", os.R_OK) or f" {owner.pid} " not in Path("/proc/locks").read_text():
            pytest.skip("this kernel does not show the locks of this container")
        waiter = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        ends = time.monotonic() + 10
        while not (found := filelocks.holders([waiter.pid])) and time.monotonic() < ends:
            time.sleep(0.02)
        assert (found[waiter.pid].pid, bool(found[waiter.pid].command)) == (owner.pid, True)
    finally:
        for process in (owner, waiter):
            if process is not None:
                process.kill()
                process.communicate()
