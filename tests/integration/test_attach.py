"""Attach to real, unprepared processes, ask everything, leave without a trace."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest
from support import Start, interpreters, need, torchrun, until
from traces import footprint, settled
from visits import ask_everything

import traindbg
from jupyter_traindbg.agent import rendezvous
from jupyter_traindbg.attach import access, local
from jupyter_traindbg.attach import client as clients
from jupyter_traindbg.attach.base import Link
from jupyter_traindbg.errors import AgentRefused, CannotAttach, DeadlineExceeded, ProbeFailed, TargetGone, UnknownTarget
from jupyter_traindbg.job import connect
from jupyter_traindbg.model import NotAvailable
from jupyter_traindbg.outside import procfs

LONG_S = 600.0
"""The deadline of a call that is to come back long before: longer than its test may take."""


def let_go(fifo: Path) -> None:
    """End what gil_held_later.py does."""
    fifo.write_bytes(b"-")


def test_an_unprepared_process_answers_everything_and_keeps_no_trace(start: Start) -> None:
    program = start("train.py", "--sleep", "0.005")
    before = footprint(program.pid)
    with traindbg.attach(program.pid) as job:
        (rank,) = job.ranks
        assert (rank.rank, rank.world_size, rank.pid, rank.way, rank.agent) == (0, 1, program.pid, "injected", True)
        ask_everything(job)
    assert settled(program.pid, before) == before


def test_the_recorded_losses_are_those_the_program_printed(start: Start) -> None:
    program = start("train.py", "--sleep", "0.01")
    with traindbg.attach(program.pid) as job:
        until(lambda: len(job.steps().ranks[0].steps) > 21)
        (rank,) = job.steps().ranks
    printed = [float.fromhex(line.split()[1]) for line in program.output().splitlines() if " " in line]
    first, *steps = rank.steps
    assert first.loss is None or first.loss in printed  # None where we came between its backward pass and its end
    recorded = [s.loss for s in steps]
    assert len(recorded) > 20
    begin = printed.index(recorded[0])
    assert printed[begin : begin + len(recorded)] == recorded
    assert [s.optimizer_step for s in steps] == list(range(begin + 1, begin + 1 + len(recorded)))


def test_a_client_that_said_goodbye_and_has_not_hung_up_yet_is_no_other_client(start: Start) -> None:
    program = start("train.py", "--sleep", "0.005")
    before = footprint(program.pid)
    last, slow = traindbg.attach(program.pid), traindbg.attach(program.pid)
    (link,) = slow._links
    assert link.client is not None
    assert link.client.call("leave")["stopped"] is False
    last.close()
    assert settled(program.pid, before) == before
    slow.close()


def test_a_vanished_client_leaves_the_agent_to_the_next_one(start: Start) -> None:
    program = start("train.py", "--sleep", "0.005")
    job = traindbg.attach(program.pid)
    for link in job._links:  # as if the notebook had been killed
        assert link.client is not None
        link.client.close()
    with traindbg.attach(program.pid) as again:
        assert [r.way for r in again.ranks] == ["found running"]
        ask_everything(again)


def test_detach_takes_a_kept_agent_out(start: Start) -> None:
    program = start("train.py", "--sleep", "0.005")
    before = footprint(program.pid)
    with traindbg.attach(program.pid) as job:
        job.keep()
    assert footprint(program.pid).directory
    assert traindbg.attach(program.pid).detach() == 1
    assert settled(program.pid, before) == before


def test_a_prepared_process_by_call_and_by_environment(start: Start) -> None:
    by_call = start("prepared.py", "--serve")
    with traindbg.attach(by_call.pid) as job:
        assert [r.way for r in job.ranks] == ["found running"]
    assert footprint(by_call.pid).directory, "a prepared process keeps its agent"
    by_environment = start("prepared.py", env={"TRAINDBG": "1"})
    with traindbg.attach(by_environment.pid) as job:
        assert [r.way for r in job.ranks] == ["found running"]
        assert job.steps(last=1).ranks[0].steps


def test_a_prepared_process_has_no_agent_in_the_server_that_forks_its_workers(start: Start) -> None:
    """A thread there could hold a lock while the server forks."""
    program = start("hung_loader.py", "forkserver", env={"TRAINDBG": "1"})
    assert footprint(program.pid).directory
    below = procfs.descendants(program.pid)
    assert len(below) == 4, "two workers, the server and a tracker"
    assert not any(os.path.exists(rendezvous.directory(p.pid, os.getuid())) for p in below)


def test_an_agent_catches_a_torch_that_is_imported_later(start: Start) -> None:
    program = start("prepared.py", "--late", env={"TRAINDBG": "1"}, ready="waiting")
    with traindbg.attach(program.pid) as job:
        assert job.ranks[0].torch == NotAvailable("torch is not imported")
        assert "torch has not been imported" in job.grads().ranks[0].note
        program.wait_for("ready")
        until(lambda: bool(job.steps(last=1).ranks[0].steps))


def test_spawned_ranks(start: Start, tmp_path: Path) -> None:
    program = start("spawned_ranks.py", str(tmp_path / "meeting"))
    with traindbg.attach(f"torchrun:{program.pid}") as job:
        assert [(r.rank, r.world_size, r.agent) for r in job.ranks] == [(0, 2, True), (1, 2, True)]
        assert len([p for p in job.stacks().processes if p.role == "rank"]) == 2


def test_ranks_of_accelerate_launch(start: Start, free_port: str) -> None:
    accelerate = [
        sys.executable,
        "-m",
        "accelerate.commands.launch",
        "--multi_gpu",
        "--num_processes",
        "2",
        "--num_machines",
        "1",
    ]
    accelerate += ["--mixed_precision", "no", "--dynamo_backend", "no", "--main_process_port", free_port]
    try:
        import accelerate as _  # noqa: F401
    except ImportError:
        need("accelerate", False)
    program = start("train.py", "--sleep", "0.005", command=accelerate, timeout_s=100)
    with traindbg.attach(f"torchrun:{program.pid}") as job:
        assert [r.rank for r in job.ranks] == [0, 1]
        ask_everything(job)


def test_the_process_ends_in_the_middle_of_a_request(start: Start) -> None:
    program = start("hung_after_steps.py")
    with traindbg.attach(program.pid) as job:
        os.kill(program.pid, signal.SIGSTOP)  # so that no answer comes before its end
        killer = threading.Timer(0.5, os.kill, (program.pid, signal.SIGKILL))
        killer.start()
        with pytest.raises(TargetGone, match=str(program.pid)):
            job.grads(timeout=LONG_S)
        killer.join()


def test_a_wrong_token_is_refused(start: Start) -> None:
    program = start("train.py", "--sleep", "0.005")
    with traindbg.attach(program.pid) as job:
        (link,) = job._links
        assert link.client is not None
        with pytest.raises(AgentRefused, match="wrong token"):
            clients.AgentClient(link.client.directory, program.pid, token="0" * 32)
        ask_everything(job)


def test_a_client_of_another_user_is_not_heard(start: Start) -> None:
    need("root", os.getuid() == 0)
    with tempfile.TemporaryDirectory(dir="/tmp") as directory:
        start("serve_in.py", directory)
        token = rendezvous.card(directory)["token"]  # type: ignore[index]
        assert _as_nobody(directory, token) == "PermissionError", "the directory itself keeps others out"
        os.chmod(directory, 0o755)
        os.chmod(os.path.join(directory, "agent.sock"), 0o666)
        assert _as_nobody(directory, token) == "hung up", "and so does the check of the peer's uid, whatever the modes"
        ours = clients.AgentClient(directory, 0)
        assert ours.call("info")["rank"] == 0
        ours.close()


def _as_nobody(directory: str, token: str) -> str:
    """What uid 65534 gets from the agent's socket, token in hand."""

    def drop() -> None:
        os.setgid(65534)
        os.setuid(65534)

    program = f"""
import json, socket
try:
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(5)
    s.connect({directory!r} + "/agent.sock")
    try:
        s.sendall(json.dumps(dict(jsonrpc="2.0", id=1, method="hello", params=dict(token={token!r}))).encode() + b"\\n")
        print("answered" if s.recv(100) else "hung up")
    except (BrokenPipeError, ConnectionResetError):
        print("hung up")
except Exception as e:
    print(type(e).__name__)
"""
    # The interpreter of a virtual environment may lie where that user cannot read: ours is open already.
    with open(os.path.realpath(sys.executable), "rb") as interpreter:
        done = subprocess.run(
            [f"/proc/self/fd/{interpreter.fileno()}", "-I", "-S", "-c", program],
            capture_output=True,
            check=False,
            text=True,
            timeout=30,
            preexec_fn=drop,
            pass_fds=[interpreter.fileno()],
            cwd="/",
        )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_garbage_on_the_socket_harms_nobody(start: Start) -> None:
    import socket

    program = start("train.py", "--sleep", "0.005")
    with traindbg.attach(program.pid) as job:
        (link,) = job._links
        assert link.client is not None
        for garbage in (
            b"\n",
            b"[]\n",
            b"{}\n",
            b"\xff\xfe\n",
            b'{"method": 3}\n',
            b'{"method": "stacks"}\n',
            b"x" * 3_000_000,
        ):
            with socket.socket(socket.AF_UNIX) as line:
                line.settimeout(5)
                line.connect(os.path.join(link.client.directory, "agent.sock"))
                try:
                    line.sendall(garbage)
                    line.shutdown(socket.SHUT_WR)
                    while line.recv(4096):
                        pass
                except (BrokenPipeError, ConnectionResetError):
                    pass
        with pytest.raises(ProbeFailed, match="no probe"):
            link.call("no_such_probe", {}, 5)
        with pytest.raises(ProbeFailed, match="unexpected keyword"):
            link.call("lr", {"nonsense": 1}, 5)
        ask_everything(job)


def test_a_process_without_torch(start: Start) -> None:
    program = start("no_torch.py")
    with traindbg.attach(program.pid) as job:
        assert job.ranks[0].torch == NotAvailable("torch is not imported")
        stacks = job.stacks().processes[0]
        assert stacks.source == "agent"
        assert stacks.threads[0].frames[0].function == "work"
        assert job.grads().ranks[0].note == "torch has not been imported in this process"
        assert job.lr().ranks[0].optimizers == ()
        assert job.steps(timeout=3).ranks[0].steps == ()
        assert job.memory().ranks[0].rss_bytes > 0


@pytest.mark.parametrize("version", interpreters())
def test_the_agent_on_every_python_here(start: Start, version: str) -> None:
    program = start("no_torch.py", python=interpreters()[version])
    before = footprint(program.pid)
    for _ in range(3):
        with traindbg.attach(program.pid) as job:
            assert str(job.ranks[0].python).startswith(version + ".")
            assert job.stacks().processes[0].threads[0].frames[0].function == "work"
            assert job.memory().ranks[0].rss_bytes > 0
            assert job.lr().ranks[0].note == job.grads().ranks[0].note == "torch has not been imported in this process"
    assert settled(program.pid, before) == before
    assert program.output() == "ready\n"


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    """By which gil_held_later.py is told to go on."""
    path = tmp_path / "let go"
    os.mkfifo(path)
    return path


def test_while_c_code_holds_the_gil_the_outside_answers_and_the_agent_follows(start: Start, fifo: Path) -> None:
    program = start("gil_held_later.py", str(fifo), ready="free")
    os.kill(program.pid, signal.SIGUSR1)
    program.wait_for("held")
    job = traindbg.attach(program.pid, timeout=5)
    assert "GIL" in job.ranks[0].note
    stacks = job.stacks(timeout=5).processes[0]
    assert stacks.source == "py-spy"
    assert any(t.holds_gil is True for t in stacks.threads)
    let_go(fifo)
    until(lambda: job.stacks().processes[0].source == "agent")
    job.close()


def test_an_attached_agent_blocked_by_the_gil_falls_back_to_the_outside(start: Start, fifo: Path) -> None:
    program = start("gil_held_later.py", str(fifo), ready="free")
    with traindbg.attach(program.pid) as job:
        assert job.stacks().processes[0].source == "agent"
        os.kill(program.pid, signal.SIGUSR1)
        program.wait_for("held")
        assert job.stacks(timeout=LONG_S).processes[0].source == "py-spy"
        with pytest.raises(DeadlineExceeded):
            job.lr(timeout=0.5)
        let_go(fifo)
        program.wait_for("released")
        assert job.stacks().processes[0].source == "agent"


@pytest.mark.parametrize("target", ["nonsense", "ray", "-5"])
def test_unknown_targets(target: str) -> None:
    with pytest.raises(UnknownTarget, match="is not a target"):
        traindbg.attach(target)


@pytest.mark.parametrize("target", ["4194000", "torchrun:4194000", "/tmp/none/agent.sock", "/"])
def test_targets_that_are_not_there(target: str) -> None:
    with pytest.raises(TargetGone):
        traindbg.attach(target)


def test_the_path_of_an_agent_socket_is_a_target(start: Start) -> None:
    program = start("train.py", "--sleep", "0.005")
    with traindbg.attach(program.pid) as job:
        (link,) = job._links
        assert link.client is not None
        with traindbg.attach(os.path.join(link.client.directory, "agent.sock")) as other:
            assert [r.pid for r in other.ranks] == [program.pid]
        ask_everything(job)


def test_a_directory_that_is_not_ours_is_one_clear_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def taken(*_: object) -> str:
        raise rendezvous.UnsafeDirectory("/tmp/traindbg-0 is somebody else's")

    monkeypatch.setattr(rendezvous, "create", taken)
    with pytest.raises(CannotAttach, match="somebody else's"):
        local.enter(5)


def test_a_closed_job_says_so(start: Start) -> None:
    program = start("no_torch.py")
    job = traindbg.attach(program.pid)
    job.close()
    job.close()
    with pytest.raises(TargetGone, match="closed"):
        job.stacks()
    assert "closed" in repr(job)


def test_a_rank_that_does_not_answer_is_named_and_holds_up_nobody(start: Start, free_port: str) -> None:
    program = start("train.py", "--sleep", "0.005", command=torchrun(2, free_port), timeout_s=90)
    with traindbg.attach(f"torchrun:{program.pid}") as job:
        second: Link = job._links[1]
        os.kill(second.pid, signal.SIGSTOP)
        until(lambda: access.identity(second.pid).state == "T")
        try:
            result = job.lr(timeout=1.5)
            assert [r.rank for r in result.ranks] == [0]
            assert [s.rank for s in result.silent] == [1]
            assert "did not answer" in result.silent[0].reason
        finally:
            os.kill(second.pid, signal.SIGCONT)


def test_a_rank_that_is_asked_by_its_pid_is_the_same_rank_in_every_verb(start: Start, free_port: str) -> None:
    words = ["--mode", "ddp", "--steps", "100000", "--sleep", "0.02"]
    launcher = start("sharded.py", *words, command=torchrun(2, free_port))
    with traindbg.attach(f"torchrun:{launcher.pid}") as whole:
        pid = next(rank.pid for rank in whole.ranks if rank.rank == 1)
    with connect(pid) as job:  # of its agent nothing is known yet
        assert [process.rank for process in job.stacks(children=False).processes] == [1]
        assert list(job.environ().ranks) == [1]
        assert [(rank.rank, rank.world_size) for rank in job.ranks] == [(1, 2)]
        until(lambda: job.steps().ranks[0].steps)
        for answer in (job.steps(), job.lr(), job.grads(), job.memory(), job.collectives()):
            assert [one.rank for one in answer.ranks] == [1], type(answer).__name__
        assert {state.rank: state.pid for state in job.diagnose().ranks}[1] == pid
        assert "rank 1" in str(job.stacks())
