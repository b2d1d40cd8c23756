"""Injection by pid into real processes: hung, busy, dying, of another user, of other Pythons; and that none of them can tell."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from support import interpreters
from traces import footprint, settled

from jupyter_traindbg.agent import rendezvous
from jupyter_traindbg.attach import access
from jupyter_traindbg.attach import inject as injection
from jupyter_traindbg.attach.inject import inject
from jupyter_traindbg.errors import CannotAttach, DeadlineExceeded, TargetGone

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="injection is for Linux")

NOBODY = 65534
# Says that it ran and what it saw; a count kept on the sys module shows how often.
BOOT = """
import os, sys, threading, __main__
sys._boots = getattr(sys, "_boots", 0) + 1
with open(os.path.join(os.path.dirname(__file__), "seen"), "w") as file:
    file.write(f"{sys._boots} {os.getpid()} {' '.join(sorted(vars(__main__)))}")
"""


@pytest.fixture(scope="module", autouse=True)
def _object():
    """The object, built where a checkout has none yet."""
    if not injection.OBJECT.exists():
        subprocess.run([sys.executable, str(Path(__file__).parents[2] / "hatch_build.py")], check=True, timeout=120)


def wait_until(holds, timeout_s=60):
    ends = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < ends, "it did not come about"
        time.sleep(0.005)


def seen(injected):
    return Path(injected.directory, "seen").read_text().split()


def tidy(injected):
    rendezvous.remove(injected.directory)


@pytest.mark.parametrize("python", [pytest.param(path, id=name) for name, path in interpreters().items()])
def test_every_python_here_hung_in_a_lock(start, python):
    target = start("hung_lock.py", python=python)
    before = footprint(target.pid, directory=False)
    for time_round in (1, 2, 3):
        injected = inject(target.pid, {"extra": b"payload"}, BOOT)
        assert injected.stage == "done"
        assert injected.tid != target.pid
        assert injected.paused_s > 0, "it was measured"
        count, pid, *names = seen(injected)
        assert (count, pid) == (str(time_round), str(target.pid))
        assert {"directory", "path", "file", "source"}.isdisjoint(names)
    assert sorted(os.listdir(injected.directory)) == ["extra", "seen"]
    assert Path(injected.directory, "extra").read_bytes() == b"payload"
    assert os.stat(injected.directory).st_mode & 0o777 == 0o700
    assert settled(target.pid, before, directory=False) == before
    assert target.output() == "ready\n"
    tidy(injected)


def test_a_sleeping_main_thread_is_used_where_it_is_alone(start):
    target = start("sleeping.py")
    injected = inject(target.pid, {}, BOOT)
    assert injected.tid == target.pid
    tidy(injected)


def test_dataloader_workers_and_a_hung_loader(start):
    target = start("train.py", "--workers", "2", "--sleep", "0.05")
    injected = inject(target.pid, {}, BOOT)
    assert seen(injected)[0] == "1"
    tidy(injected)


@pytest.mark.parametrize("call", ["epoll_wait", "poll", "nanosleep", "recv"])
def test_the_borrowed_thread_sees_neither_an_interruption_nor_a_changed_errno(start, call):
    target = start("waits_in_c.py", call)
    wait_until(lambda: access.identity(target.pid).state == "S")
    injected = inject(target.pid, {}, BOOT)
    assert injected.tid == target.pid
    for _ in range(2):
        with contextlib.suppress(TargetGone):  # on a slow machine the wait is over by now
            assert inject(target.pid, {}, BOOT).tid == target.pid
    assert target.wait() == 0
    expected = "result -1 errno 11" if call == "recv" else "result 0 errno 77"  # recv: EAGAIN is its own time limit
    assert target.output().splitlines()[-1] == expected
    tidy(injected)


def test_no_signal_is_lost_or_doubled(start):
    rounds, burst = 20, 50
    target = start("counts_signals.py", str(rounds * burst))
    stop, injections = threading.Event(), []

    def send():
        for number in range(rounds):
            while number == rounds - 1 and len(injections) < 5:
                time.sleep(0.005)
            for _ in range(burst):
                os.kill(target.pid, signal.SIGRTMIN)
            time.sleep(0.05)
        stop.set()

    sender = threading.Thread(target=send, daemon=True)
    sender.start()
    while not stop.is_set():
        injections.append(injected := inject(target.pid, {}, BOOT))
    sender.join()
    target.wait_for("all ")
    assert target.output().splitlines()[-1] == f"all {rounds * burst}"
    tidy(injected)


def test_a_stop_at_any_moment_of_it_holds_and_does_no_harm(start):
    target = start("hung_lock.py")
    before = footprint(target.pid, directory=False)
    for delay_ms in range(0, 60, 4):
        stopper = threading.Timer(delay_ms / 1000, os.kill, (target.pid, signal.SIGSTOP))
        stopper.start()
        with contextlib.suppress(CannotAttach, DeadlineExceeded):
            inject(target.pid, {}, BOOT, deadline_s=0.4)
        stopper.join()
        wait_until(lambda: access.identity(target.pid).state == "T")
        os.kill(target.pid, signal.SIGCONT)
        wait_until(lambda: all(helper.poll() is not None for helper in injection._unfinished))
    injected = inject(target.pid, {}, BOOT)
    assert injected.stage == "done"
    assert settled(target.pid, before, directory=False) == before
    tidy(injected)


def test_a_held_gil_is_reported_and_the_boot_runs_once_it_is_free(start, tmp_path):
    os.mkfifo(tmp_path / "let go")
    target = start("gil_held_later.py", str(tmp_path / "let go"), ready="free")
    os.kill(target.pid, signal.SIGUSR1)
    target.wait_for("held")
    injected = inject(target.pid, {}, BOOT)
    assert injected.stage == "native"
    again = inject(target.pid, {}, BOOT)
    assert (again.stage, again.tid) == ("native", None)
    assert not Path(injected.directory, "seen").exists()
    (tmp_path / "let go").write_bytes(b"-")
    wait_until(Path(injected.directory, "done").exists)
    assert seen(injected)[0] == "1"
    tidy(injected)


def compiled(source, output):
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-O1", "-x", "c", "-", "-o", str(output)], input=source, text=True, check=True
    )
    return output


@pytest.fixture
def stuck_loader(start, tmp_path, need_tool):
    """A process of which one thread holds the loader's lock until the returned file's lock is released."""
    need_tool("cc")
    source = f"""#include <fcntl.h>
#include <sys/file.h>
__attribute__((constructor)) static void wait_at_the_gate(void) {{ flock(open("{tmp_path}/gate", O_RDONLY), LOCK_EX); }}"""
    with open(tmp_path / "gate", "w") as gate:
        fcntl.flock(gate, fcntl.LOCK_EX)
        yield start("loading.py", str(compiled(source, tmp_path / "slow.so"))), gate


def test_a_held_loader_is_waited_for_and_never_broken_off(stuck_loader):
    target, gate = stuck_loader
    with pytest.raises(DeadlineExceeded, match="dynamic loader") as caught:
        inject(target.pid, {}, BOOT, deadline_s=1)
    assert "goes on by itself" in caught.value.next_step
    (helper,) = injection._unfinished
    os.kill(helper.pid, signal.SIGTERM)
    os.kill(helper.pid, signal.SIGINT)
    with pytest.raises(DeadlineExceeded, match="earlier attach"):
        inject(target.pid, {}, BOOT, deadline_s=1)
    assert helper.poll() is None
    fcntl.flock(gate, fcntl.LOCK_UN)
    assert helper.wait(20) == 0
    directory = rendezvous.directory(target.pid, os.getuid())
    wait_until(Path(directory, "done").exists)
    assert Path(directory, "seen").read_text().split()[0] == "1"
    assert helper.communicate()[0].startswith('{"status": "done"')
    injected = inject(target.pid, {}, BOOT)
    assert seen(injected)[0] == "2"
    tidy(injected)


def test_a_target_that_dies_in_the_middle(stuck_loader):
    target, _ = stuck_loader
    directory = rendezvous.directory(target.pid, os.getuid())
    threading.Timer(0.5, os.kill, (target.pid, signal.SIGKILL)).start()
    with pytest.raises(TargetGone, match="ended while it was being entered"):
        inject(target.pid, {"agent.zip": b"x"}, BOOT)
    assert not os.path.exists(directory)


@pytest.mark.parametrize("statement", ["raise SystemExit('no')", "import no_such_module", "]"])
def test_what_the_boot_raises_comes_back_and_goes_nowhere_else(start, statement):
    target = start("hung_lock.py")
    with pytest.raises(CannotAttach, match=r"SystemExit: no|No module named 'no_such_module'|SyntaxError"):
        inject(target.pid, {"agent.zip": b"x"}, statement)
    assert not os.path.exists(rendezvous.directory(target.pid, os.getuid()))
    assert target.output() == "ready\n"
    tidy(inject(target.pid, {}, BOOT))


def test_a_program_that_only_looks_like_python(tmp_path):
    program = shutil.copy("/bin/sleep", tmp_path / "python-like")
    with subprocess.Popen([program, "60"]) as sleeper:
        try:
            with pytest.raises(CannotAttach, match="no running Python interpreter"):
                inject(sleeper.pid, {}, BOOT)
            assert sleeper.poll() is None
        finally:
            sleeper.kill()


def test_two_notebooks_at_once_bring_up_one_agent(start):
    target = start("hung_lock.py")
    slow = (
        BOOT + "import time; time.sleep(0.3); open(os.path.join(os.path.dirname(__file__), 'agent.json'), 'w').close()"
    )
    results = []
    threads = [threading.Thread(target=lambda: results.append(inject(target.pid, {}, slow))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [result.stage for result in results] == ["done"] * 3
    assert len([result for result in results if result.tid is not None]) == 1
    assert seen(results[0])[0] == "1"
    tidy(results[0])


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user")
def test_root_enters_the_process_of_another_user(tmp_path):
    # Not the test interpreter: it may lie in a directory that the other user cannot read.
    program = "import time; print('ready', flush=True); time.sleep(60)"
    with subprocess.Popen(
        ["/usr/bin/python3", "-c", program], user=NOBODY, group=NOBODY, extra_groups=[], cwd="/", stdout=subprocess.PIPE
    ) as target:
        try:
            assert target.stdout.readline() == b"ready\n"
            injected = inject(target.pid, {"agent.zip": b"x"}, BOOT)
            assert f"traindbg-{NOBODY}" in injected.directory
            owners = {os.stat(os.path.join(injected.directory, name)).st_uid for name in os.listdir(injected.directory)}
            assert owners == {os.stat(injected.directory).st_uid} == {NOBODY}
            tidy(injected)
        finally:
            target.kill()


def test_the_way_of_other_machines(start, monkeypatch):
    pytest.importorskip("pyinjector")
    monkeypatch.setattr(injection, "_other_machine", lambda: ["--pyinjector", injection._pyinjector_folder()])
    target = start("hung_lock.py")
    before = footprint(target.pid, directory=False)
    for time_round in range(1, 11):
        injected = inject(target.pid, {}, BOOT)
        assert seen(injected)[0] == str(time_round)
    assert settled(target.pid, before, directory=False) == before
    tidy(injected)


def losses(program):
    return [line for line in program.output().splitlines()[:-1] if line != "ready"]


@pytest.mark.timeout(180)
def test_200_injections_leave_a_training_bit_identical(start):
    threads = {"OMP_NUM_THREADS": "2"}
    disturbed = start("train.py", "--sleep", "0.002", env=threads)
    undisturbed = start("train.py", "--sleep", "0.002", env=threads)
    before = footprint(disturbed.pid, directory=False)
    for time_round in range(1, 201):
        injected = inject(disturbed.pid, {}, BOOT)
        assert seen(injected)[0] == str(time_round)
    assert settled(disturbed.pid, before, directory=False) == before
    lines = losses(disturbed)
    assert len(lines) > 200
    undisturbed.wait_for(f"\n{len(lines) + 1} ", timeout_s=90)
    assert lines == losses(undisturbed)[: len(lines)]
    tidy(injected)
    assert not os.path.exists(injected.directory)


def test_threads_that_come_and_go_do_not_use_up_the_patience(start, monkeypatch):
    """One look, one helper: it passes by those that have gone on meanwhile, and takes the one that stays."""
    monkeypatch.setattr(injection, "_THREAD_PATIENCE_S", 0.0)
    program = start("restless.py")
    injected = inject(program.pid, {}, BOOT, 30)
    assert injected.stage == "done"
    assert injected.tid != program.pid, "the main thread had to be interrupted"
    assert seen(injected)[0] == "1"
    tidy(injected)


@pytest.mark.parametrize("python", [pytest.param(path, id=name) for name, path in interpreters().items()])
def test_a_thread_that_waits_for_the_gil_now_and_then_is_caught_there(start, python):
    """Also where each wait is told by another number: on glibc 2.41 and newer."""
    program = start("pass_the_gil.py", python=python)
    for time_round in range(1, 4):
        injected = inject(program.pid, {}, BOOT)
        assert injected.stage == "done"
        assert seen(injected)[0] == str(time_round)
    tidy(injected)
