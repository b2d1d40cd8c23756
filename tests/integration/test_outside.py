"""Stacks without the trainee's help, of real processes that hang in each of the ways; a disk that does not answer."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from checkpointing import unwatched

from jupyter_traindbg.errors import CannotAttach, NotPermitted, TargetGone
from jupyter_traindbg.model import NotAvailable, ProcessStacks, Thread, Wait
from jupyter_traindbg.outside import host, procfs, stacks

REPO = Path(__file__).parents[2]
PROGRAMS = REPO / "tests" / "programs"
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]


def dump(pid: int, rank: int = 0, **options: Any) -> list[ProcessStacks]:
    """`stacks.dump` with time enough for a machine that has none to spare."""
    return stacks.dump(pid, rank, deadline_s=30.0, **options)


def line_of(program: str, text: str) -> int:
    """The number of the line of a program that contains `text`."""
    lines = (PROGRAMS / program).read_text().splitlines()
    (number,) = [i for i, line in enumerate(lines, 1) if text in line]
    return number


def user_frame(thread: Thread) -> tuple[str, int, str]:
    """The innermost frame of the user's own code."""
    frame = next(f for f in thread.frames if not f.library)
    return os.path.basename(frame.file), frame.line, frame.function.rsplit(".", 1)[-1]


def thread(threads: Sequence[Thread], name: str) -> Thread:
    (found,) = [t for t in threads if t.name == name]
    return found


def test_a_lock(start):
    target = start("hung_lock.py")
    (found,) = dump(target.pid, rank=5)
    main, idler = found.threads
    assert (found.pid, found.rank, found.role, found.source, found.note) == (target.pid, 5, "rank", "py-spy", "")
    assert found.command.endswith("hung_lock.py")
    assert (main.name, main.tid, main.state, main.training) == ("MainThread", target.pid, "waiting", True)
    assert user_frame(main) == ("hung_lock.py", line_of("hung_lock.py", "with lock:"), "wait_for_ever")
    assert main.waiting_for == Wait("native")
    assert main.holds_gil is False
    assert (idler.name, idler.waiting_for, idler.training) == ("idler", Wait("sleep"), False)
    assert idler.frames[-1].library


def test_the_training_thread_comes_first(start):
    target = start("hung_lock.py")
    idler = thread(dump(target.pid)[0].threads, "idler")
    (found,) = dump(target.pid, training_tid=idler.tid)  # type: ignore[arg-type]
    assert [(t.name, t.training) for t in found.threads] == [("idler", True), ("MainThread", False)]


def test_a_gloo_collective_that_one_rank_never_issues(start):
    launcher = start("hung_gloo.py", command=TORCHRUN)
    rank0, rank1 = sorted(
        (p for p in procfs.descendants(launcher.pid) if "RANK" in procfs.environ(p.pid)),
        key=lambda p: procfs.environ(p.pid)["RANK"],
    )
    (waits,) = dump(rank0.pid, 0)
    (sleeps,) = dump(rank1.pid, 1)
    assert waits.threads[0].waiting_for == Wait("collective", "all_reduce")
    assert user_frame(waits.threads[0]) == ("hung_gloo.py", line_of("hung_gloo.py", "all_reduce(torch"), "main")
    assert sleeps.threads[0].waiting_for == Wait("sleep")
    assert user_frame(sleeps.threads[0])[2] == "forgets_the_collective"
    assert dump(launcher.pid)[0].threads[0].waiting_for == Wait("idle", "ranks")


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_dataloader_whose_worker_is_stuck(start, method):
    target = start("hung_loader.py", method)
    main, *workers = dump(target.pid)
    assert main.threads[0].waiting_for == Wait("loader")
    assert user_frame(main.threads[0])[0] == "hung_loader.py"
    # and neither a resource tracker nor the server that forks
    assert [w.role for w in workers] == ["DataLoader worker"] * 2
    stuck, idle = sorted((w.threads[0] for w in workers), key=lambda t: str(t.waiting_for), reverse=True)
    assert user_frame(stuck) == ("hung_loader.py", line_of("hung_loader.py", "time.sleep"), "__getitem__")
    assert stuck.waiting_for == Wait("sleep")
    assert idle.waiting_for == Wait("idle", "indices")


def test_children_are_left_out_on_request(start):
    target = start("hung_loader.py")
    assert [p.pid for p in dump(target.pid, children=False)] == [target.pid]


def test_c_code_that_holds_the_gil(start):
    target = start("gil_held.py")
    (found,) = dump(target.pid)
    while not found.note:  # it has said so just before it takes the GIL for good
        (found,) = dump(target.pid)
    main, ticker = found.threads
    assert (main.holds_gil, ticker.holds_gil) == (True, False)
    assert user_frame(main) == ("gil_held.py", line_of("gil_held.py", "ctypes.PyDLL"), "hold")
    assert main.state == "waiting"
    assert ticker.waiting_for == Wait("gil", on="MainThread")
    assert f"gil_held.py:{line_of('gil_held.py', 'ctypes.PyDLL')}" in found.note


def test_a_stopped_process(start):
    target = start("hung_lock.py")
    os.kill(target.pid, signal.SIGSTOP)
    (found,) = dump(target.pid)
    assert found.threads[0].state == "stopped by a signal"
    assert user_frame(found.threads[0])[2] == "wait_for_ever"
    assert f"kill -CONT {target.pid}" in found.note
    seen = procfs.stat(target.pid)
    assert seen is not None
    assert seen.state == "T"  # and it still is


def test_a_process_in_uninterruptible_sleep(start):
    target = start("in_driver.py")
    while not procfs.uninterruptible([target.pid]):
        time.sleep(0.01)
    main = dump(target.pid)[0].threads[0]
    assert main.state == "in uninterruptible sleep"
    assert user_frame(main)[2] == "call_the_driver"


def test_running_training_is_not_disturbed(start):
    """Looks at running code succeed, and the losses are those of an undisturbed run."""
    watched = start("train.py", "--sleep", "0.001")
    looks = 0
    while looks < 20:
        (found,) = dump(watched.pid)
        looks += any(f.function == "main" and f.file.endswith("train.py") for f in found.threads[0].frames)
    unwatched(start, watched)


def test_a_child_that_is_not_python_is_shown_with_what_the_kernel_says():
    code = "import subprocess; p = subprocess.Popen(['sleep', '60']); print('up', flush=True); p.wait()"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as target:
        assert target.stdout is not None
        assert target.stdout.readline() == b"up\n"
        (child,) = procfs.descendants(target.pid)
        while procfs.command(child.pid)[:1] != ("sleep",):
            time.sleep(0.01)
        parent, shown = dump(target.pid)
        os.kill(child.pid, signal.SIGKILL)
    assert parent.threads[0].waiting_for == Wait("child", "program")
    assert (shown.role, shown.command) == ("child", "sleep 60")
    assert "is not a Python process" in shown.note
    assert (shown.threads[0].state, shown.threads[0].waiting_for, shown.threads[0].frames) == (
        "waiting",
        Wait("sleep"),
        (),
    )


def test_what_cannot_be_looked_at(start):
    with pytest.raises(TargetGone, match="4194305"):
        stacks.dump(2**22 + 1)
    ended = start("hung_lock.py")
    ended.process.kill()
    while procfs.exists(ended.pid):
        time.sleep(0.01)
    with pytest.raises(TargetGone):  # a zombie: nobody has waited for it yet
        stacks.dump(ended.pid)
    with subprocess.Popen(["sleep", "60"]) as other:
        with pytest.raises(CannotAttach, match=r"sleep.* is not a Python process"):
            stacks.dump(other.pid)
        other.kill()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_another_users_process_names_the_owner(start):
    target = start("hung_lock.py")
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        answer = "no refusal"
        try:
            os.setgroups([])
            os.setresgid(65534, 65534, 65534)
            os.setresuid(65534, 65534, 65534)
            stacks.dump(target.pid)
        except NotPermitted as error:
            answer = str(error)
        finally:
            os.write(writing, answer.encode())
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answer:
        text = answer.read()
    os.waitpid(child, 0)
    assert text == f"process {target.pid} belongs to root and you are nobody; run this as root, or with sudo"


@pytest.mark.parametrize("version", ["3.9", "3.10", "3.12", "3.13"])
def test_other_interpreters(start, version):
    """Before 3.11 only the main thread's id is known; the rest is the same everywhere."""
    homes = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    if not homes:
        pytest.skip(f"needs Python {version}")
    target = start("hung_lock.py", python=str(homes[-1]))
    main, idler = dump(target.pid)[0].threads
    assert (main.tid, main.training, user_frame(main)[2]) == (target.pid, True, "wait_for_ever")
    assert user_frame(idler)[2] == "idle"
    assert isinstance(idler.tid, NotAvailable) == (version in ("3.9", "3.10"))


@pytest.mark.timeout(30)
def test_a_disk_that_does_not_answer_is_named_and_costs_the_others_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = tmp_path / "helper.py"
    slow.write_text(
        "import signal, sys; sys.path.insert(0, sys.argv[0].rpartition('/')[0])\n"
        f"import importlib.util as u; s = u.spec_from_file_location('h', {host.HELPER!r}); h = u.module_from_spec(s)\n"
        "s.loader.exec_module(h); real = h.os.statvfs\n"
        "def statvfs(d):\n    while 'dead' in d: signal.pause()\n    return real(d)\n"
        "h.os.statvfs = statvfs; h.main(sys.argv[1:])\n"
    )
    monkeypatch.setattr(host, "HELPER", str(slow))
    ends = time.monotonic() + 20
    space, versions, silent = host._ask(["/dead/nfs", "/", "/nowhere", "/dev/shm"], [], ends)
    assert silent == ["/dead/nfs"]
    assert space.keys() == {"/", "/dev/shm"}
    assert versions == {}
