"""Why a process cannot be entered: every reason names itself and the next step, and asking for it leaves the process as it was."""

import ctypes
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support import Start
from traces import footprint

from jupyter_traindbg.attach import access, inject
from jupyter_traindbg.errors import CannotAttach, MissingPiece, NotPermitted, TargetGone

SYS_PTRACE = 1 << 19
NOBODY = 65534


def person(uid, capabilities=0):
    return access.Identity(1, uid, uid, uid, "S", 0, 1, capabilities)


@pytest.fixture
def scene(monkeypatch):
    """``scene(target, own, yama=1)``: what the kernel refused and what it knows of both sides."""

    def set_up(target, own, yama=0, undumpable=False):
        monkeypatch.setattr(access, "identity", lambda pid: own if pid == os.getpid() else target)
        monkeypatch.setattr(access, "_yama_scope", lambda: yama)
        monkeypatch.setattr(access, "_is_undumpable", lambda identity: undumpable)
        error = access.not_permitted(1)
        assert isinstance(error, NotPermitted)
        assert "TRAINDBG=1 python train.py" in error.next_step
        return error

    return set_up


def test_yama_1_names_the_setting_that_opens_it(scene):
    error = scene(person(1000), person(1000), yama=1)
    assert "parents only" in error.cause
    assert "sudo sysctl kernel.yama.ptrace_scope=0" in error.next_step


def test_yama_2_needs_an_administrator(scene):
    assert "administrators only" in scene(person(1000), person(1000), yama=2).cause


def test_yama_3_is_final_even_for_root(scene):
    assert "next boot" in scene(person(0), person(0, SYS_PTRACE), yama=3).cause


def test_another_user_is_named(scene):
    error = scene(person(0), person(NOBODY), yama=1)
    assert "belongs to root, you are nobody" in error.cause
    assert "sudo" in error.next_step


def test_an_undumpable_process(scene):
    assert "undumpable" in scene(person(1000), person(1000), undumpable=True).cause


def test_missing_capabilities_and_containers(scene):
    assert "capabilities" in scene(person(0, 3), person(0, 1)).cause
    assert "--cap-add SYS_PTRACE" in scene(person(0), person(0)).next_step


def test_no_such_process():
    with pytest.raises(TargetGone, match="no process"):
        access.check(2**22 - 1)


def test_this_very_process():
    with pytest.raises(CannotAttach, match="this very process"):
        access.check(os.getpid())


def test_a_thread_is_not_a_process(start):
    target = start("hung_lock.py")
    tid = max(int(name) for name in os.listdir(f"/proc/{target.pid}/task"))
    with pytest.raises(CannotAttach, match=f"thread of process {target.pid}"):
        access.check(tid)


def test_a_zombie():
    with subprocess.Popen(["true"]) as child:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        with pytest.raises(TargetGone, match="zombie"):
            access.check(child.pid)


def test_a_stopped_process_is_left_stopped(start):
    target = start("sleeping.py")
    os.kill(target.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, target.pid, os.WSTOPPED | os.WNOWAIT)
    with pytest.raises(CannotAttach, match="is stopped") as caught:
        inject.inject(target.pid, {}, "")
    assert f"kill -CONT {target.pid}" in caught.value.next_step
    assert access.identity(target.pid).state == "T"


def test_a_kernel_thread_or_other_program():
    with subprocess.Popen(["sleep", "60"]) as sleeper:
        try:
            with pytest.raises(CannotAttach, match="is not Python"):
                access.check(sleeper.pid)
        finally:
            sleeper.kill()


def test_a_traced_process_names_its_debugger(start):
    target = start("sleeping.py")
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.ptrace(0x4206, target.pid, None, None) == 0
    try:
        with pytest.raises(CannotAttach, match=f"traced by process {os.getpid()}"):
            access.check(target.pid)
    finally:
        libc.ptrace(0x4207, target.pid, None, None)
        os.waitpid(target.pid, 0x40000000)
        libc.ptrace(17, target.pid, None, None)


def test_a_missing_object_says_what_to_install(start, monkeypatch, tmp_path):
    target = start("sleeping.py")
    monkeypatch.setattr(inject, "OBJECT", tmp_path / "boot.so")
    assert "native/boot.so" in inject.why_not(target.pid)
    with pytest.raises(MissingPiece) as caught:
        inject.inject(target.pid, {}, "")
    assert "C compiler" in caught.value.next_step


def test_asking_touches_nothing(start: Start) -> None:
    target = start("sleeping.py")
    before, maps = footprint(target.pid), Path(f"/proc/{target.pid}/maps").read_text()
    for _ in range(100):
        assert inject.why_not(target.pid) is None
        assert "TracerPid:\t0\n" in Path(f"/proc/{target.pid}/status").read_text()
    assert footprint(target.pid) == before
    assert Path(f"/proc/{target.pid}/maps").read_text() == maps


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user")
def test_another_user_is_refused_by_the_real_kernel(start, tmp_path):
    target = start("sleeping.py")
    program = f"import os; os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})\n"
    program += f"from jupyter_traindbg.attach.inject import why_not; print(why_not({target.pid}))"
    repo = os.path.dirname(os.path.dirname(os.path.dirname(access.__file__)))
    program = f"import sys; sys.path.insert(0, {repo!r})\nfrom jupyter_traindbg.attach import inject\n" + program
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=30, cwd="/", check=True
    )
    assert done.stdout.strip() == f"process {target.pid} belongs to root, you are nobody"
