"""How processes ended, from what they left: zombies of this test, logs written here, and the kernel's own words."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cases import each

from jupyter_traindbg.model import Ending, Frame, Look, NotAvailable, ProcessStacks, Thread
from jupyter_traindbg.outside import ending, kernel_log, launcher_log, procfs
from jupyter_traindbg.outside.launcher_log import Said
from jupyter_traindbg.outside.rank_lines import lines_of

Leave = Callable[..., int]


@pytest.fixture
def zombie() -> Iterator[Leave]:
    """``zombie("code")`` runs Python that ends, and leaves it unburied; returns its pid."""
    left: list[subprocess.Popen[bytes]] = []

    def leave(code: str) -> int:
        process = subprocess.Popen([sys.executable, "-I", "-S", "-c", code], stderr=subprocess.DEVNULL)
        left.append(process)
        ends = time.monotonic() + 20
        while (seen := procfs.stat(process.pid)) is not None and seen.state != "Z":
            assert time.monotonic() < ends
            time.sleep(0.005)
        return process.pid

    yield leave
    for process in left:
        process.wait(10)


@pytest.fixture
def launcher(tmp_path: Path) -> Iterator[tuple[int, Path]]:
    """A process that stands for a launcher, and the log that it writes to."""
    log = tmp_path / "job.log"
    with log.open("wb") as out:
        process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], stdout=out, stderr=out)
    yield process.pid, log
    process.kill()
    process.wait(10)


def torchrun_at(*functions: str) -> Look:
    """The main thread of torchrun, innermost function first."""
    at = "/site-packages/torch/distributed/elastic/agent/server/api.py"
    frames = tuple(Frame(at, 1, name, library=True) for name in functions)
    return Look(0.0, (ProcessStacks(0, 1, "rank", "py-spy", (Thread("MainThread", 1, "waiting", frames),)),))


def test_a_zombie_tells_its_exit_status(zombie: Leave) -> None:
    assert ending.exit_status(zombie("raise SystemExit(7)")) == 7 << 8
    assert ending.exit_status(zombie("import os; os.kill(os.getpid(), 9)")) == 9
    assert ending.exit_status(os.getpid()) is None
    assert ending.exit_status(2**22 + 1) is None
    failed = ending.Endings(None, []).of(zombie("raise SystemExit(3)"), 1, 1)
    assert failed.exit_code == 3
    assert isinstance(failed.signal, NotAvailable)
    assert failed.evidence[0].startswith("exit status 3, as the kernel's table says")
    crashed = ending.Endings(None, []).of(zombie("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"), 1, 1)
    assert crashed.signal == "SIGSEGV"
    assert isinstance(crashed.exit_code, NotAvailable)
    assert crashed.out_of_memory is False, "whatever memory there is, SIGSEGV is not its killer's"


@each(
    ("line", "said"),
    [
        (
            "E1121 19:00:00.1 77 torch/distributed/elastic/multiprocessing/api.py:984] failed (exitcode: -9) local_rank: 1 (pid: 812) of "
            "binary: /usr/bin/python3",
            [Said(1, None, "SIGKILL", 812)],
        ),
        ("x] failed (exitcode: 1) local_rank: 0 (pid: 5) of binary: python", [Said(0, 1, None, 5)]),
        (
            "torch.multiprocessing.spawn.ProcessExitedException: process 1 terminated with signal SIGKILL",
            [Said(1, None, "SIGKILL")],
        ),
        (
            "torch.multiprocessing.spawn.ProcessExitedException: process 2 terminated with exit code 3",
            [Said(2, 3, None)],
        ),
        ("srun: error: node7: task 3: Killed", [Said(3, None, "SIGKILL", host="node7")]),
        ("srun: error: node7: task 0: Segmentation fault (core dumped)", [Said(0, None, "SIGSEGV", host="node7")]),
        ("srun: error: node7: tasks 1-2: Exited with exit code 4", [Said(n, 4, None, host="node7") for n in (1, 2)]),
        (
            "[2026-01-01] [ERROR] [launch.py:325:sigkill_handler] ['/usr/bin/python', '-u', 'train.py', '--local_rank=2'] exits with "
            "return code = -11",
            [Said(2, None, "SIGSEGV")],
        ),
        (
            "mpirun noticed that process rank 1 with PID 911 on node gn2 exited on signal 4 (Illegal instruction).",
            [Said(1, None, "SIGILL", 911, "gn2")],
        ),
        (
            "subprocess.CalledProcessError: Command '['/py', 'fit.py']' died with <Signals.SIGFPE: 8>.",
            [Said(None, None, "SIGFPE")],
        ),
        (
            "subprocess.CalledProcessError: Command '['/py', 'fit.py']' returned non-zero exit status 3.",
            [Said(None, 3, None)],
        ),
        (
            "/bin/sh: line 1: 4711 Segmentation fault      (core dumped) python fit.py",
            [Said(None, None, "SIGSEGV", 4711)],
        ),
        ("Floating point exception (core dumped)", [Said(None, None, "SIGFPE")]),
        ("Segmentation faults seen: 0", []),
        ("[rank1]: RuntimeError: process group exits", []),
        ("task 5: loading", []),
    ],
)
def test_the_words_of_launchers(line: str, said: list[Said]) -> None:
    assert launcher_log.endings([line]) == said


def test_the_launchers_log_and_the_ranks_own_lines(launcher: tuple[int, Path]) -> None:
    pid, log = launcher
    log.write_text(
        "epoch 1\r 10%|#  \r100%|###\x1b[32m done\x1b[0m\n\n[rank0]: waiting\n"
        '[rank1]: Traceback (most recent call last):\n[rank1]:   File "train.py", line 3\n[rank1]: ValueError: bad shard\n'
        "E api.py:984] failed (exitcode: 1) local_rank: 1 (pid: 4194305) of binary: python\n"
    )
    ended = ending.Endings(pid, []).of(0, 1, 1)
    assert (ended.exit_code, ended.pid) == (1, 4194305)
    assert ended.last_lines[-1] == "[rank1]: ValueError: bad shard"
    assert len(ended.last_lines) == 3
    assert ended.log == str(log)
    assert any(words.startswith("exit status 1, as its launcher wrote") for words in ended.evidence)
    other = ending.Endings(pid, []).of(0, 2, 2)
    assert isinstance(other.exit_code, NotAvailable)
    assert other.last_lines[0] == "100%|### done", "what a progress bar overwrote, and colours, are left out"
    assert "bad shard" not in str(other.last_lines), "and what other ranks said"


def test_a_rank_that_was_never_seen_alive_has_its_lines_in_the_log_of_the_others(tmp_path: Path) -> None:
    """Where the launcher is gone, too: only its own lines count, for whose the others are is not known."""
    log = tmp_path / "all.log"
    log.write_text("epoch 1\n[rank1]: ValueError: bad shard\n[rank0]: Connection closed by peer\n")
    seen = {4194301: ending.Noted(logs=(str(log),))}
    ended = ending.Endings(None, [], noted=seen)
    assert (ended.of(0, 1, 1).last_lines, ended.of(0, 1, 1).log) == (("[rank1]: ValueError: bad shard",), str(log))
    assert ended.of(0, 2, 2).last_lines == ()


def test_whose_line_is_it() -> None:
    log = [
        "epoch 1",
        "[rank3]: ValueError: bad",
        "[default1]:Traceback",
        "[default11]: not ours",
        "Process SpawnProcess-2:",
        "Traceback (most recent call last):",
        '  File "train.py", line 3, in main',
        "KeyError: 7",
        "epoch 2",
    ]
    assert lines_of(3, 1, log) == ([log[1], log[2], *log[4:8]], ["epoch 1", "epoch 2"])
    assert lines_of(1, 0, log) == ([], ["epoch 1", "epoch 2"])


def test_the_word_on_an_earlier_attempt_is_not_taken_for_this_one(launcher: tuple[int, Path], zombie: Leave) -> None:
    pid, log = launcher
    log.write_text("api.py] failed (exitcode: 1) local_rank: 0 (pid: 4194305) of binary: python\n")
    ended = ending.Endings(pid, []).of(zombie("import os; os._exit(5)"), 0, 0)
    assert ended.exit_code == 5


def test_torchrun_that_watches_on_has_seen_no_failure(launcher: tuple[int, Path]) -> None:
    pid, _ = launcher
    quiet = ending.Endings(pid, [os.getpid()], torchrun_at("SimpleElasticAgent._invoke_run", "run")).of(0, 1, 1)
    assert quiet.exit_code == 0
    assert "torchrun" in quiet.evidence[0]
    closing = torchrun_at("PContext.close", "SimpleElasticAgent._invoke_run", "run")
    again = torchrun_at("SimpleElasticAgent._rendezvous", "SimpleElasticAgent._invoke_run", "run")
    for other in (closing, again):
        assert isinstance(ending.Endings(pid, [os.getpid()], other).of(0, 1, 1).exit_code, NotAvailable)
    assert isinstance(ending.Endings(pid, [os.getpid()], None).of(0, 1, 1).exit_code, NotAvailable)


def test_what_torchrun_keeps_of_each_rank(tmp_path: Path) -> None:
    """A living sibling's environment shows where the files of the dead one are."""
    for local_rank in (0, 1):
        (tmp_path / str(local_rank)).mkdir()
    said = {"message": {"message": "RuntimeError: out\nof luck", "extraInfo": {}}}
    (tmp_path / "1" / "error.json").write_text(json.dumps(said))
    (tmp_path / "1" / "stderr.log").write_text("one\ntwo\n")
    environment = {**os.environ, "TORCHELASTIC_ERROR_FILE": str(tmp_path / "0" / "error.json")}
    with subprocess.Popen(
        [sys.executable, "-c", "print(1, flush=True); import time; time.sleep(60)"],
        env=environment,
        stdout=subprocess.PIPE,
    ) as sibling:
        try:
            assert sibling.stdout is not None
            sibling.stdout.readline()
            ended = ending.Endings(None, [sibling.pid]).of(0, 1, 1)
        finally:
            sibling.kill()
    assert (ended.last_lines, ended.log) == (("one", "two"), str(tmp_path / "1" / "stderr.log"))
    assert any("RuntimeError: out of luck" in words for words in ended.evidence)
    (tmp_path / "1" / "error.json").write_text('{"message": 5}')
    assert ending._recorded_error(str(tmp_path / "1" / "error.json")) == ""
    assert ending.clean_tail(str(tmp_path / "nothing")) == []
    os.mkfifo(tmp_path / "pipe")
    assert ending.clean_tail(str(tmp_path / "pipe")) == [], "and nobody waits for its writer"


def test_the_kernels_words() -> None:
    messages = [
        (10.0, "Out of memory: Killed process 77 (python3) total-vm:9kB, anon-rss:8kB"),
        (11.0, "Memory cgroup out of memory: Killed process 78 (pt_main_thread) total-vm:9kB"),
        (12.0, "python[79]: segfault at 10 ip 00007f error 4 in libtorch_cpu.so"),
        (13.0, "INFO: task python:80 blocked for more than 120 seconds"),
    ]
    assert [(k.pid, k.name, k.at_s) for k in kernel_log.killed_for_memory(messages)] == [
        (77, "python3", 10.0),
        (78, "pt_main_thread", 11.0),
    ]
    assert kernel_log.about(79, messages) == [messages[2][1]]
    assert kernel_log.about(7, messages) == []


def test_a_number_that_an_earlier_process_had(zombie: Leave, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel gives its numbers again: what it has said of another one before is not said of this process."""
    monkeypatch.setattr(procfs, "numbers_are_the_hosts", lambda: True)
    killed = zombie("import os; os.kill(os.getpid(), 9)")
    crashed = zombie("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    began = procfs.start_ticks(killed)
    assert began is not None
    began_s = began / os.sysconf("SC_CLK_TCK")
    said = "Out of memory: Killed process {} (python3)"

    def ended(pid: int, at_s: float) -> Ending:
        monkeypatch.setattr(kernel_log, "read", lambda: [(at_s, said.format(pid))])
        return ending.Endings(None, []).of(pid, 0, 0)

    assert ended(killed, began_s + 0.5).out_of_memory is True
    for pid, at_s in ((killed, began_s / 2 - 10.0), (crashed, began_s / 2 - 10.0), (crashed, began_s + 0.5)):
        before = ended(pid, at_s)
        assert before.out_of_memory is False, (pid, at_s)
    assert not ended(killed, began_s / 2 - 10.0).evidence[1:], "nor is it shown"
    noted = ending.Noted()
    noted.note(killed)
    assert noted.began == began
    monkeypatch.setattr(procfs, "start_ticks", lambda pid: None)  # gone by now
    monkeypatch.setattr(kernel_log, "read", lambda: [(began_s / 2 - 10.0, said.format(killed))])
    assert ending.Endings(None, [], noted={killed: noted}).of(killed, 0, 0).out_of_memory is False


def test_the_oom_killer_of_this_kernel(zombie: Leave, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record that we write ourselves comes back through the kernel's own log; in a container it is taken for somebody else's."""
    monkeypatch.setattr(
        procfs, "numbers_are_the_hosts", lambda: True
    )  # the number that we write is the one we look for
    pid = zombie("import os; os.kill(os.getpid(), 9)")
    try:
        with open("/dev/kmsg", "w") as f:
            f.write(f"traindbg test: Out of memory: Killed process {pid} (traindbg-test)\n")
    except OSError:
        pytest.skip("this user may not write to the kernel's log")
    ended = ending.Endings(None, []).of(pid, 0, 0)
    assert (ended.signal, ended.out_of_memory) == ("SIGKILL", True)
    assert any("the kernel's log: traindbg test" in words for words in ended.evidence)
    monkeypatch.setattr(kernel_log, "_from_device", lambda: None)
    through_dmesg = kernel_log.read()
    assert through_dmesg is None or any(f"process {pid} " in line for _, line in through_dmesg)
    monkeypatch.undo()
    monkeypatch.setattr(procfs, "numbers_are_the_hosts", lambda: False)
    inside = ending.Endings(None, []).of(pid, 0, 0)
    assert isinstance(inside.out_of_memory, NotAvailable)
    assert not any("the kernel's log" in words for words in inside.evidence)


def test_a_victim_without_a_number(launcher: tuple[int, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a rank that has left nothing, a Python killed since its launcher began; unless the launcher says that it ended otherwise."""
    pid, log = launcher
    began = procfs.start_ticks(pid)
    assert began is not None
    began_s = began / os.sysconf("SC_CLK_TCK")
    monkeypatch.setattr(procfs, "numbers_are_the_hosts", lambda: True)

    def ended(at_s: float, said: str = "") -> Ending:
        log.write_text(said)
        victim = (at_s, "Out of memory: Killed process 4194303 (pt_main_thread) total-vm:9kB")
        monkeypatch.setattr(kernel_log, "read", lambda: [victim])
        return ending.Endings(pid, []).of(0, 1, 1)

    soon = ended(began_s + 0.5)
    assert (soon.signal, soon.out_of_memory, soon.pid) == ("SIGKILL", True, 4194303)
    before = ended(began_s / 2 - 10.0)
    assert before.pid == 0
    assert before.out_of_memory is not True, "somebody else's, of long ago"
    words = "x] failed (exitcode: {}) local_rank: 1 (pid: {}) of binary: python\n"
    for code in (-9, 137, 247):
        assert ended(began_s + 0.5, words.format(code, 4194303)).out_of_memory is True, code
    for code in (1, -11):
        other = ended(began_s + 0.5, words.format(code, 4194303))
        assert other.out_of_memory is not True, code
    assert ended(began_s + 0.5, "srun: error: node7: task 1: Exited with exit code 1\n").out_of_memory is not True


def test_srun_counts_tasks_in_the_job_and_others_on_their_host(launcher: tuple[int, Path]) -> None:
    pid, log = launcher
    log.write_text("srun: error: node7: task 3: Exited with exit code 4\n")
    endings = ending.Endings(pid, [])
    assert endings.of(0, rank=3, local_rank=1).exit_code == 4
    assert endings.of(0, rank=7, local_rank=3).exit_code != 4


def test_without_witnesses_nothing_is_claimed(zombie: Leave, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_log, "read", lambda: None)
    monkeypatch.setattr(ending, "oom_kills", lambda pid: None)
    ended = ending.Endings(None, [os.getpid()]).of(zombie("import os; os.kill(os.getpid(), 9)"), 0, 0)
    assert ended.signal == "SIGKILL"
    assert isinstance(ended.out_of_memory, NotAvailable)
    unknown = ending.Endings(None, []).of(0, 4, 4)
    assert isinstance(unknown.exit_code, NotAvailable)
    assert isinstance(unknown.signal, NotAvailable)
