"""What real processes do, from two readings of /proc, all watched within one window.

The arithmetic of it is in tests/unit/outside/test_activity.py.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from jupyter_traindbg.model import Activity, NotAvailable
from jupyter_traindbg.outside import activity, procfs

WINDOW_S = 0.5
PROGRAMS = {
    "busy": "while True: pass",
    "asleep": "import time; time.sleep(60)",
    "stopped": "import time; time.sleep(60)",
    "ended": "",
    "reading": """
import os, time
os.environ.pop("X", None)
f = open(FILE, "rb")
while True:
    f.seek(0); f.read(1 << 20); time.sleep(0.01)
""",
    "writing": """
import sys, time
kept = open(FILE + '.out', 'wb', buffering=0); log = open(FILE + '.log', 'a'); sys.stdout = open(FILE + '.said', 'w')
import os; os.dup2(sys.stdout.fileno(), 2)
old = open(FILE + '.old', 'wb'); old.write(bytes(100)); old.flush()
while True:
    kept.write(bytes(5000)); log.write('on' * 5000); log.flush(); os.write(2, bytes(5000)); time.sleep(0.05)
""",
    "receiving": "import socket; s = socket.create_connection(('127.0.0.1', PORT)); print('in', flush=True); s.recv(1)",
    "polling": """
import select, socket
s = socket.create_connection(('127.0.0.1', PORT)); p = select.poll(); p.register(s, select.POLLIN); print('in', flush=True)
p.poll()
""",
    "connecting": """
import socket
while True:
    s = socket.socket(); s.settimeout(0.2)
    try: s.connect(('127.0.0.1', FULL))
    except TimeoutError: break
    keep = globals().setdefault('kept', []); keep.append(s)
s = socket.socket(); s.settimeout(None); print('in', flush=True); s.connect(('127.0.0.1', FULL))
""",
    "uninterruptible": """
import os
os.mkfifo(FIFO); print('in', flush=True)
os.posix_spawn('/bin/cat', ['cat'], os.environ, file_actions=[(os.POSIX_SPAWN_OPEN, 0, FIFO, os.O_RDONLY, 0)])
""",
    "opening": "import os; os.mkfifo(FIFO + 'o'); print('in', flush=True); open(FIFO + 'o')",
    "waiting": """
import subprocess
child = subprocess.Popen(["sleep", "60"]); print("in", flush=True); child.wait()
""",
    "building": """
import subprocess, sys
while True:
    subprocess.run([sys.executable, "-S", "-c", "sum(range(3_000_000))"])
""",
    "worker": "import time; open('/proc/self/comm', 'w').write('pt_data_worker'); print('in', flush=True); time.sleep(60)",
}
SAYS_IN = ("receiving", "polling", "connecting", "uninterruptible", "opening", "waiting", "worker")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("activity")
    (path / "shard").write_bytes(bytes(1 << 20))
    return path


@pytest.fixture(scope="module")
def running(folder: Path) -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    """All of `PROGRAMS`, each where it is to be watched."""
    with socket.socket() as server, socket.socket() as full:
        server.bind(("127.0.0.1", 0))
        server.listen(8)
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        names = {
            "PORT": server.getsockname()[1],
            "FULL": full.getsockname()[1],
            "FILE": str(folder / "shard"),
            "FIFO": str(folder / "fifo"),
        }
        head = ";".join(f"{name}={value!r}" for name, value in names.items()) + "\n"
        started = {
            name: subprocess.Popen([sys.executable, "-c", head + code], stdout=subprocess.PIPE)
            for name, code in PROGRAMS.items()
        }
        try:
            for name in SAYS_IN:
                out = started[name].stdout
                assert out is not None
                assert out.readline() == b"in\n", name
            os.kill(started["stopped"].pid, signal.SIGSTOP)
            wait_for_state(started["stopped"].pid, "T")
            wait_for_state(started["uninterruptible"].pid, "D")
            wait_for_state(started["ended"].pid, "Z")
            yield started
        finally:
            for process in started.values():
                for below in procfs.descendants(process.pid):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(below.pid, signal.SIGKILL)
                process.kill()
                process.wait(10)
                assert process.stdout is not None
                process.stdout.close()


def wait_for_state(pid: int, state: str) -> None:
    ends = time.monotonic() + 20
    while (seen := procfs.stat(pid)) is None or seen.state != state:
        assert time.monotonic() < ends, f"{pid} never came to state {state}: {seen}"
        time.sleep(0.01)


@pytest.fixture(scope="module")
def seen(running: Mapping[str, subprocess.Popen[bytes]]) -> dict[str, Activity]:
    """All of them, as soon as a window was long enough for the one that computes and the one that reads to have had a CPU in it."""
    pids = {name: process.pid for name, process in running.items()}
    ends = time.monotonic() + 30
    while True:
        found = activity.watch([*pids.values(), 2**22 + 1], WINDOW_S, roles={pids["worker"]: "DataLoader worker"})
        assert found.keys() == set(pids.values()), "what is not there is not in the answer"
        busy, reading, building = (found[pids[name]] for name in ("busy", "reading", "building"))
        moved = [f.moved for f in found[pids["writing"]].files[:2]]
        both = busy.cpu_share > 0 and building.ended_cpu_share > 0
        if both and reading.read_bytes_per_s != 0 and all(moved) and len(moved) == 2:
            return {name: found[pid] for name, pid in pids.items()}
        assert time.monotonic() < ends, (busy, reading, building, moved)


def test_work_and_sleep_are_told_apart(seen: Mapping[str, Activity]) -> None:
    assert seen["busy"].cpu_share > seen["asleep"].cpu_share == 0.0
    assert seen["busy"].threads[0].call == "running"
    assert seen["asleep"].threads[0].switches == 0
    assert seen["asleep"].threads[0].call in ("clock_nanosleep", "nanosleep", "select", "pselect6")
    assert seen["asleep"].state == "S"


def test_what_children_that_came_and_went_have_used_is_their_parents(seen: Mapping[str, Activity]) -> None:
    assert seen["building"].ended_cpu_share > 0.0
    assert seen["busy"].ended_cpu_share == seen["waiting"].ended_cpu_share == 0.0


def test_who_is_whose_child(seen: Mapping[str, Activity]) -> None:
    assert {one.parent_pid for one in seen.values()} == {os.getpid()}
    child_pid = seen["waiting"].threads[0].child_pid
    assert child_pid is not None
    assert [p.pid for p in procfs.descendants(seen["waiting"].pid)] == [child_pid]
    assert seen["asleep"].threads[0].child_pid is None


def test_who_sleeps_is_not_starved_of_a_cpu(seen: Mapping[str, Activity]) -> None:
    asleep = seen["asleep"].threads[0]
    if isinstance(asleep.starved_share, NotAvailable):
        pytest.skip(str(asleep.starved_share))
    assert asleep.starved_share == 0.0


def test_the_states_of_the_kernel(seen: Mapping[str, Activity]) -> None:
    assert (seen["stopped"].state, seen["stopped"].cpu_share) == ("T", 0.0)
    assert seen["ended"].state == "Z"
    assert seen["uninterruptible"].state == "D"
    main = seen["uninterruptible"].threads[0]
    assert (main.state, main.switches) == ("D", 0)
    assert main.wchan, "the kernel says where it sleeps"
    assert seen["uninterruptible"].command.startswith("python"), "the name alone: its memory is left alone"


def test_files_and_what_is_read_of_them(seen: Mapping[str, Activity], folder: Path) -> None:
    reading = seen["reading"]
    assert [f.path for f in reading.files] == [str(folder / "shard")]
    assert reading.read_bytes_per_s > 0
    assert seen["asleep"].read_bytes_per_s == 0.0
    assert seen["asleep"].files == ()
    assert reading.rss_bytes > 1 << 20
    assert reading.swap_bytes == 0
    assert isinstance(reading.running_s, float)
    assert 0.0 <= reading.running_s < 600.0
    assert reading.traced_by is None


def test_how_far_files_were_written(seen: Mapping[str, Activity], folder: Path) -> None:
    """Without what standard error goes to."""
    files = {f.path: f for f in seen["writing"].files}
    shard = str(folder / "shard")
    assert {path: f.mode for path, f in files.items()} == {
        f"{shard}.out": "write",
        f"{shard}.log": "append",
        f"{shard}.old": "write",
    }
    assert files[f"{shard}.out"].moved >= 5000
    assert files[f"{shard}.out"].moved % 5000 == 0
    assert (files[f"{shard}.old"].began, files[f"{shard}.old"].moved) == (100, 0)
    assert seen["writing"].files[-1] == files[f"{shard}.old"], "what moved most comes first"
    assert [(f.mode, f.moved) for f in seen["reading"].files] == [("read", 0)], "it begins again each time"


def test_the_connection_that_a_thread_waits_on_is_spelt_out(seen: Mapping[str, Activity]) -> None:
    for name in ("receiving", "polling"):
        main = seen[name].threads[0]
        assert main.on is not None
        assert main.on.startswith("tcp 127.0.0.1:"), name
        assert main.on.endswith(" ESTABLISHED")
        assert [str(one) for one in seen[name].sockets] == [main.on]
    assert seen["receiving"].threads[0].call == "recvfrom"
    assert seen["polling"].threads[0].call == "poll"


def test_the_file_to_be_opened_and_the_child_waited_for(
    seen: Mapping[str, Activity], folder: Path, running: Mapping[str, subprocess.Popen[bytes]]
) -> None:
    opening, waiting = seen["opening"].threads[0], seen["waiting"].threads[0]
    assert (opening.call, opening.on) == ("openat", str(folder / "fifoo"))
    (child,) = procfs.descendants(running["waiting"].pid)
    assert (waiting.call, waiting.on) == ("wait4", f"process {child.pid}: sleep 60")


def test_a_connection_that_is_not_answered_comes_first(seen: Mapping[str, Activity]) -> None:
    connecting = seen["connecting"]
    assert connecting.threads[0].call == "connect"
    assert connecting.threads[0].on is not None
    assert connecting.threads[0].on.endswith(" SYN_SENT")
    assert connecting.sockets[0].connecting


def test_roles_are_the_callers(seen: Mapping[str, Activity]) -> None:
    assert (seen["worker"].role, seen["asleep"].role) == ("DataLoader worker", "rank")


def test_a_debugger_is_named(running: Mapping[str, subprocess.Popen[bytes]]) -> None:
    """Traced by a child of ours, through the same call as gdb makes."""
    target = running["asleep"].pid
    code = (
        "import ctypes, time; libc = ctypes.CDLL(None, use_errno=True)\n"
        f"assert libc.ptrace(0x4206, {target}, None, None) == 0, ctypes.get_errno()\n"  # PTRACE_SEIZE
        "print('in', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as debugger:
        try:
            assert debugger.stdout is not None
            if debugger.stdout.readline() != b"in\n":
                pytest.skip("this system lets no sibling trace")
            assert activity.watch([target], 0.05)[target].traced_by == debugger.pid
        finally:
            debugger.kill()
