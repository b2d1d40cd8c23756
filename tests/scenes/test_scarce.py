"""What is said of a process that had too little memory, and of disks that are full or read-only: real ones, which only root can make."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from scarce import control_group
from support import need

from jupyter_traindbg.agent.checkpoint import files
from jupyter_traindbg.agent.refused import Refused
from jupyter_traindbg.outside import ending, kernel_log, procfs

LIMIT_BYTES = 48 << 20


@pytest.fixture
def small_group() -> Iterator[Path]:
    """The file into which a process writes its pid, to have 48 MiB."""
    with contextlib.ExitStack() as stack:
        try:
            yield stack.enter_context(control_group(f"traindbg-test-{os.getpid()}", LIMIT_BYTES, swaps=True))
        except OSError:
            need("a control group with little memory", False)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MB."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(place)]
    mounted = subprocess.run(mount, capture_output=True, check=False, timeout=10)
    need("the right to mount a small file system", mounted.returncode == 0)
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True, timeout=10)


def test_a_real_kill_for_want_of_memory(small_group: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    join = f"open({str(small_group)!r}, 'w').write('0')\n"
    launches = f"import time\n{join}print('in', flush=True)\ntime.sleep(60)"
    grows = f"{join}x = [bytearray(1 << 20) for _ in range(200)]"
    with (
        subprocess.Popen([sys.executable, "-c", launches], stdout=subprocess.PIPE) as launcher,
        subprocess.Popen([sys.executable, "-I", "-S", "-c", grows], stderr=subprocess.DEVNULL) as victim,
    ):
        try:
            assert launcher.stdout is not None
            assert launcher.stdout.readline() == b"in\n"
            os.waitid(os.P_PID, victim.pid, os.WEXITED | os.WNOWAIT)  # unburied
            assert ending.exit_status(victim.pid) == signal.SIGKILL
            assert ending.oom_kills(launcher.pid) == 1
            monkeypatch.setattr(kernel_log, "read", lambda: None)
            ended = ending.Endings(launcher.pid, []).of(victim.pid, 0, 0)
            assert (ended.signal, ended.out_of_memory) == ("SIGKILL", True)
            assert any("control group counts 1" in words for words in ended.evidence)
            monkeypatch.undo()
            if kernel_log.read() is not None and procfs.numbers_are_the_hosts():
                ended = ending.Endings(None, []).of(victim.pid, 0, 0)
                assert (ended.signal, ended.out_of_memory) == ("SIGKILL", True)
                assert any("the kernel's log" in words and str(victim.pid) in words for words in ended.evidence)
        finally:
            launcher.kill()
            victim.kill()


def test_words_for_a_full_disk(small_disk: Path) -> None:
    with pytest.raises(OSError, match="No space left") as raised:
        files.written(str(small_disk / "f"), lambda file: [file.write(bytes(1 << 20)) for _ in range(4)])
    assert raised.value.errno == errno.ENOSPC
    words = files.space_words(str(small_disk / "f"), raised.value, 5_000_000)
    assert words == f"no space left on {small_disk}: needed 5.00 MB, free 0 bytes"


def test_a_read_only_file_system(small_disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True, timeout=10)
    with pytest.raises(Refused, match="read-only file system"):
        files.prepare(str(small_disk / "ck"), "1", 10, overwrite=False)
