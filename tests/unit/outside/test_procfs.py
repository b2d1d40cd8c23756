"""Readers of /proc on real processes: this one, children that end, threads that wait in known calls."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from jupyter_traindbg.outside import procfs

GONE = 2**22 + 1
"""Above the largest pid that Linux gives out."""


@pytest.fixture
def family() -> Iterator[subprocess.Popen[bytes]]:
    """A Python process with RANK=3, a shell below it and a sleep below that."""
    code = "import subprocess; p = subprocess.Popen(['sh', '-c', 'sleep 60; true']); print('up', flush=True); p.wait()"
    env = {
        "RANK": "3",
        "MASTER_ADDR": "h",
        "TRAINDBG_X": "a=b",
        "SECRET": "no",
        "RANKLE": "no",
        "PATH": os.environ["PATH"],
    }
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=env)
    assert process.stdout is not None
    assert process.stdout.readline() == b"up\n"
    deadline = time.monotonic() + 5
    while len(below := procfs.descendants(process.pid)) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    yield process
    for child in below:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child.pid, 9)
    process.kill()
    process.wait(5)
    process.stdout.close()


def test_facts_of_a_process(family):
    seen = procfs.stat(family.pid)
    assert seen is not None
    assert (seen.parent, seen.comm.startswith("python"), seen.kernel_thread) == (os.getpid(), True, False)
    assert procfs.command(family.pid)[:2] == (sys.executable, "-c")
    assert procfs.uid(family.pid) == os.getuid()
    assert procfs.environ(family.pid) == {"RANK": "3", "MASTER_ADDR": "h", "TRAINDBG_X": "a=b"}
    ourselves = procfs.stat(os.getpid())
    assert ourselves is not None
    assert 0 <= procfs.running_s(seen) <= procfs.running_s(ourselves), "a child is no older than its parent"
    assert procfs.is_python(family.pid)
    assert procfs.maps_library(family.pid, b"/python")
    assert not procfs.maps_library(family.pid, b"libtorch")


def test_descendants_parents_first(family):
    below = procfs.descendants(family.pid)
    assert [p.comm for p in below] == ["sh", "sleep"]
    assert [p.parent for p in below] == [family.pid, below[0].pid]
    assert not procfs.is_python(below[1].pid)
    assert [p.pid for p in procfs.children([family.pid], procfs.processes())] == [below[0].pid]


def test_a_process_that_is_gone_is_absent_everywhere():
    assert procfs.stat(GONE) is None
    assert not procfs.exists(GONE)
    assert procfs.command(GONE) == ()
    assert procfs.environ(GONE) == {}
    assert procfs.uid(GONE) is None
    assert procfs.mapped(GONE) == b""
    assert procfs.threads(GONE) == []
    assert procfs.descendants(GONE) == []
    assert procfs.tcp_sockets(GONE) == frozenset()
    assert procfs.system_call(GONE, GONE).name == ""
    assert not procfs.is_python(GONE)


def test_a_zombie_does_not_exist():
    process = subprocess.Popen(["true"])
    deadline = time.monotonic() + 5
    while (seen := procfs.stat(process.pid)) is not None and seen.state != "Z" and time.monotonic() < deadline:
        time.sleep(0.005)
    assert not procfs.exists(process.pid)
    process.wait(5)


def test_a_comm_with_brackets_and_blanks(tmp_path):
    odd = tmp_path / "a) R (b"
    odd.symlink_to("/bin/sleep")
    process = subprocess.Popen([odd, "60"])
    try:
        seen = procfs.stat(process.pid)
        assert seen is not None
        assert (seen.comm, seen.parent) == ("a) R (b", os.getpid())
    finally:
        process.kill()
        process.wait(5)


def test_what_threads_do_in_the_kernel():
    done, locks, (reading, writing) = threading.Event(), (threading.Lock(), threading.Lock()), os.pipe()
    for lock in locks:
        lock.acquire()

    def again_and_again(way: Callable[[], object]) -> Callable[[], None]:
        def run() -> None:
            while not done.is_set():
                way()

        return run

    pipe = os.readlink(f"/proc/self/fd/{reading}")
    waits = {
        "futex": (locks[0].acquire, {procfs.SystemCall("futex")}),
        "read": (lambda: os.read(reading, 1), {procfs.SystemCall("read", on=pipe)}),
        "timed": (
            again_and_again(lambda: locks[1].acquire(timeout=0.2)),
            {procfs.SystemCall("futex", timed=True)},
        ),
        "sleep": (
            again_and_again(lambda: time.sleep(0.2)),
            {
                procfs.SystemCall(name, timed=timed)
                for name in ("clock_nanosleep", "nanosleep")
                for timed in (True, False)
            },
        ),
    }
    threads = {name: threading.Thread(target=way, daemon=True) for name, (way, _) in waits.items()}
    for thread in threads.values():
        thread.start()
    try:
        for name, (_, wanted) in waits.items():
            ends = time.monotonic() + 20
            while (seen := procfs.system_call(os.getpid(), threads[name].native_id or 0)) not in wanted:
                assert time.monotonic() < ends, f"{name}: {seen}"
                time.sleep(0.01)
    finally:
        done.set()
        os.write(writing, b"x")
        locks[0].release()
        for thread in threads.values():
            thread.join(10)
        os.close(reading)
        os.close(writing)


def test_a_spinning_thread_runs():
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        deadline = time.monotonic() + 10
        while procfs.system_call(process.pid, process.pid).name != "running" and time.monotonic() < deadline:
            time.sleep(0.01)
        assert procfs.system_call(process.pid, process.pid) == procfs.SystemCall("running")
        assert procfs.threads(process.pid)[0].state == "R"
    finally:
        process.kill()
        process.wait(5)


def test_threads_main_first():
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    tids = [t.tid for t in procfs.threads(os.getpid())]
    done.set()
    thread.join(5)
    assert tids[0] == os.getpid()
    assert thread.native_id in tids


def test_nothing_of_ours_is_in_uninterruptible_sleep():
    assert os.getpid() not in procfs.uninterruptible()


def test_a_vfork_parent_is_in_uninterruptible_sleep():
    """A parent waits in state D until its vfork child has executed: the one such sleep that needs no broken driver."""
    code = "import ctypes, os; libc = ctypes.CDLL(None); print('up', flush=True)\nif libc.vfork() == 0: libc.sleep(60)"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"up\n"
    try:
        deadline = time.monotonic() + 5
        while not (found := procfs.uninterruptible([process.pid])) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert found == [process.pid]
        assert process.pid in procfs.uninterruptible()
    finally:
        for child in procfs.descendants(process.pid):
            os.kill(child.pid, 9)
        process.kill()
        process.wait(5)
        process.stdout.close()


def test_tcp_sockets_are_told_from_others():
    before = procfs.tcp_sockets(os.getpid())
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as unix:
        new = procfs.tcp_sockets(os.getpid()) - before
        assert new == {os.readlink(f"/proc/self/fd/{server.fileno()}")}
        assert os.readlink(f"/proc/self/fd/{unix.fileno()}") not in new


def test_users_by_name():
    assert procfs.user(0) == "root"
    assert procfs.user(3_999_999) == "3999999"
    assert procfs.user(None) == "?"


def test_the_environment_of_training_hides_secrets():
    told = {
        "NCCL_DEBUG": "INFO",
        "TORCHELASTIC_RUN_ID": "7",
        "HF_TOKEN": "s3cret",
        "TOKENIZERS_PARALLELISM": "false",
        "https_proxy": "http://me:s3cret@proxy:80",
        "WANDB_API_KEY": "s3cret",
        "HOME": "/root",
    }
    with subprocess.Popen(
        [sys.executable, "-c", "print('up', flush=True); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=told,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        seen = procfs.training_environ(process.pid)
        process.kill()
    assert "s3cret" not in str(seen)
    assert seen == {
        "NCCL_DEBUG": "INFO",
        "TORCHELASTIC_RUN_ID": "7",
        "HF_TOKEN": "(hidden)",
        "TOKENIZERS_PARALLELISM": "false",
        "https_proxy": "http://(hidden)@proxy:80",
    }
    assert procfs.training_environ(GONE) == {}


BY_ITS_WHOLE_PATH = "import os, sys; open(sys.argv[1])"
BY_ITS_NAME = "import os, sys; os.chdir(os.path.dirname(sys.argv[1])); open(os.path.basename(sys.argv[1]))"
IN_A_DIRECTORY = (
    "import os, sys; there = os.open(os.path.dirname(os.path.dirname(sys.argv[1])), os.O_RDONLY)\n"
    "last = os.path.join(*sys.argv[1].split('/')[-2:]); os.open(last, os.O_RDONLY, dir_fd=there)"
)


@pytest.mark.parametrize("opens", [BY_ITS_WHOLE_PATH, BY_ITS_NAME, IN_A_DIRECTORY], ids=["whole", "name", "directory"])
@pytest.mark.parametrize("name", ["shard-07.pt", "缺失.pt", "deep/" * 60 + "x"])
def test_the_path_of_a_file_that_does_not_open(tmp_path, name, opens):
    pipe = tmp_path / name
    pipe.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(pipe)
    with subprocess.Popen([sys.executable, "-c", opens, str(pipe)]) as process:
        try:
            wanted, ends = procfs.SystemCall("openat", on=str(pipe)), time.monotonic() + 20
            while (seen := procfs.system_call(process.pid, process.pid)) != wanted and time.monotonic() < ends:
                time.sleep(0.01)
        finally:
            process.kill()
    assert seen == wanted


def test_in_a_container_the_kernel_knows_processes_by_other_numbers():
    ask = "from jupyter_traindbg.outside import procfs; print(procfs.numbers_are_the_hosts())"
    contained = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc", sys.executable, "-c", ask]
    try:
        done = subprocess.run(contained, check=False, capture_output=True, text=True, timeout=30)
    except FileNotFoundError:
        pytest.skip("needs unshare")
    if done.returncode and "unshare" in done.stderr:
        pytest.skip(f"no container of one's own here: {done.stderr.strip()}")
    assert done.stdout == "False\n", done.stderr
    outermost = os.readlink("/proc/self/ns/pid") == "pid:[4026531836]"
    assert procfs.numbers_are_the_hosts() is outermost


def test_a_thread_in_a_container_has_another_number_for_itself():
    assert procfs.own_tid(os.getpid(), os.getpid()) == os.getpid()
    said = "import os; print(os.getpid(), flush=True); input()"
    contained = ["unshare", "--user", "--map-root-user", "--pid", "--fork", sys.executable, "-c", said]
    try:
        outer = subprocess.Popen(contained, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    except FileNotFoundError:
        pytest.skip("needs unshare")
    with outer:
        assert outer.stdin is not None
        assert outer.stdout is not None
        own = outer.stdout.readline().decode()
        if not own:
            assert outer.stderr is not None
            pytest.skip(f"no container of one's own here: {outer.stderr.read().decode().strip()}")
        (inner,) = procfs.descendants(outer.pid)
        assert inner.pid != int(own) == 1
        assert procfs.own_tid(inner.pid, inner.pid) == 1
        outer.stdin.close()
