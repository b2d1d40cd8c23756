"""Everything about a job at once: ranks that answer, ranks that cannot, ranks that are gone, and a launcher that has none."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hangs import HANGS
from support import PROGRAMS, Program, Start, until

from jupyter_traindbg.attach import parsed, resolve
from jupyter_traindbg.errors import NoTarget
from jupyter_traindbg.gather.whole_job import gather
from jupyter_traindbg.model import JobEvidence, NotAvailable, Pace, RankEvidence
from jupyter_traindbg.outside import procfs, sockets

STATES = ("asleep", "gil", "exit:3", "asleep", "uninterruptible", "busy", "family", "signal:9")
STOPPED = 3


@contextlib.contextmanager
def job(command: list[str], log: Path) -> Iterator[Program]:
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-u", *command],
            stdout=out,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            start_new_session=True,
        )
    program = Program(process, log)
    try:
        yield program
    finally:
        program.stop()


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port: int = s.getsockname()[1]
        return port


def look_at(target: str, timeout: float = 10.0) -> JobEvidence:
    """From cold: the target's text to its evidence, and all agents out again."""
    links = resolve(parsed(target), timeout)
    try:
        return gather(target, links, timeout=timeout)
    finally:
        for link in links:
            link.leave()


def state_of(pid: int) -> str:
    seen = procfs.stat(pid)
    return seen.state if seen is not None else ""


# --- every odd state at once, without torch ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def odd_job(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """One rank in each of `STATES` under a launcher that does not bury the dead, and one of them SIGSTOPped."""
    folder = tmp_path_factory.mktemp("odd")
    words = [str(HANGS / "torchrun"), "--nproc-per-node", str(len(STATES)), "--master-port", str(free_port())]
    with job([*words, str(PROGRAMS / "odd_ranks.py"), str(folder), *STATES], folder / "job.log") as program:
        for rank in range(len(STATES)):
            program.wait_for(f"rank {rank} is ")
        ranks = procfs.children([program.pid], procfs.processes())
        os.kill(ranks[STOPPED].pid, signal.SIGSTOP)
        states = {STOPPED: "T", STATES.index("uninterruptible"): "D", 2: "Z", 7: "Z"}
        until(lambda: all(state_of(ranks[rank].pid) == state for rank, state in states.items()))
        yield program


@pytest.fixture(scope="module")
def odd(odd_job: Program) -> JobEvidence:
    return look_at(f"torchrun:{odd_job.pid}")


def rank_in(evidence: JobEvidence, state: str) -> RankEvidence:
    return evidence.ranks[STATES.index(state)]


def test_every_rank_is_there_under_its_own_number(odd_job: Program, odd: JobEvidence) -> None:
    started = [p.pid for p in procfs.children([odd_job.pid], procfs.processes())]
    assert [r.rank for r in odd.ranks] == list(range(len(STATES)))
    assert [r.pid for r in odd.ranks] == started, (
        "the dead ones among them, and the one that cannot be asked for its rank"
    )
    assert (odd.world_size, odd.nproc, odd.launcher_pid) == (len(STATES), len(STATES), odd_job.pid)
    assert "--nproc-per-node" in odd.launcher_command
    assert odd.launcher is not None
    assert {r.host for r in odd.ranks} == {socket.gethostname()}
    assert [r.local_rank for r in odd.ranks] == list(range(len(STATES)))


def test_a_rank_that_answers(odd: JobEvidence) -> None:
    rank = rank_in(odd, "asleep")
    assert (rank.problem, rank.ending) == ("", None)
    assert len(rank.looks) == 3
    assert rank.looks[-1].processes[0].source == "agent"
    assert rank.looks[0].at_s < rank.looks[1].at_s < rank.looks[2].at_s
    assert isinstance(rank.pace, Pace)
    assert rank.pace.steps == 0
    assert not isinstance(rank.environ, NotAvailable)
    assert rank.environ["RANK"] == "0"


def test_the_dead_tell_how_they_ended(odd: JobEvidence) -> None:
    failed, killed = rank_in(odd, "exit:3"), rank_in(odd, "signal:9")
    assert failed.ending is not None
    assert (failed.ending.exit_code, failed.ending.pid) == (3, failed.pid)
    assert failed.ending.last_lines == ("[rank2]: OSError: no such shard",)
    assert killed.ending is not None
    assert killed.ending.signal == "SIGKILL"
    assert failed.looks == ()
    assert isinstance(failed.activity, NotAvailable)


def test_a_stopped_rank_is_evidence(odd: JobEvidence) -> None:
    rank = odd.ranks[STOPPED]
    assert not isinstance(rank.activity, NotAvailable)
    assert rank.activity.state == "T"
    assert "stopped" in rank.problem
    assert rank.looks[0].processes[0].source == "py-spy"
    assert any(
        "sleep(LIFE_S)" in odd.sources[f"{f.file}:{f.line}"].text
        for f in rank.looks[0].processes[0].threads[0].frames[:1]
    )
    assert any(s.rank == STOPPED and "stopped" in s.reason and "kill -CONT" in s.next_step for s in odd.silent)


def test_who_holds_the_gil_is_seen_from_outside(odd: JobEvidence) -> None:
    rank = rank_in(odd, "gil")
    assert "GIL" in rank.problem
    assert isinstance(rank.pace, NotAvailable)
    for look in rank.looks:
        holder = next(t for t in look.processes[0].threads if t.holds_gil is True)
        assert holder.frames[0].function == "hold_gil"


def test_a_rank_that_the_kernel_holds_is_left_alone(odd: JobEvidence) -> None:
    rank = rank_in(odd, "uninterruptible")
    assert not isinstance(rank.activity, NotAvailable)
    assert (rank.activity.state, rank.activity.threads[0].switches) == ("D", 0)
    assert "uninterruptible" in rank.problem
    assert isinstance(rank.environ, NotAvailable)
    assert rank.looks[-1].processes[0].threads, "its stack can be read all the same"


def test_work_and_children_are_seen(odd: JobEvidence) -> None:
    busy, family = rank_in(odd, "busy"), rank_in(odd, "family")
    assert not isinstance(busy.activity, NotAvailable)
    assert busy.activity.cpu_share > 0.05
    assert [c.role for c in family.children] == ["DataLoader worker"]
    assert family.looks[-1].processes[1].role == "DataLoader worker"
    assert family.looks[-1].processes[1].pid == family.children[0].pid


def test_the_host_and_the_source(odd: JobEvidence) -> None:
    (host,) = odd.hosts
    assert host.name == socket.gethostname()
    assert host.memory_bytes > 0
    assert any(line.text == "time.sleep(LIFE_S)" or "sleep(LIFE_S)" in line.text for line in odd.sources.values())
    assert isinstance(odd.ras, NotAvailable)


def test_one_rank_by_its_pid_brings_its_siblings(odd_job: Program, odd: JobEvidence) -> None:
    """Even one that cannot say which it is, being stopped."""
    evidence = look_at(str(odd.ranks[STOPPED].pid))
    assert evidence.launcher_pid == odd_job.pid
    assert [r.pid for r in evidence.ranks] == [r.pid for r in odd.ranks]
    assert "stopped" in evidence.ranks[STOPPED].problem
    left = [link.pid for link in resolve(parsed(f"torchrun:{odd_job.pid}"), 1) if link.answering() is not None]
    assert left == [], "the siblings' agents have left as well"


def test_the_launchers_pid_stands_for_its_ranks(torchruns: tuple[Program, Program]) -> None:
    evidence = look_at(str(torchruns[0].pid))
    assert evidence.launcher_pid == torchruns[0].pid
    assert [r.rank for r in evidence.ranks] == [0, 1]
    assert evidence.ranks[0].looks[-1].processes[0].source == "agent"
    links = resolve(parsed(str(torchruns[0].pid)), 1)
    assert links[0].answering() is None, "nothing was brought into the launcher"


def test_variables_left_over_from_another_job_make_no_ranks(start: Start) -> None:
    program = start("sleeping.py", env={"LOCAL_WORLD_SIZE": "8", "LOCAL_RANK": "0"}, ready=None)
    until(lambda: procfs.is_python(program.pid))
    evidence = look_at(str(program.pid))
    assert [(r.rank, r.pid) for r in evidence.ranks] == [(0, program.pid)]
    assert (evidence.world_size, evidence.nproc) == (1, 1)


def test_with_little_time_everybody_is_there_all_the_same(odd_job: Program) -> None:
    evidence = look_at(f"torchrun:{odd_job.pid}", timeout=2.0)
    assert len(evidence.ranks) == len(STATES)
    assert not isinstance(evidence.ranks[STOPPED].activity, NotAvailable)


def test_an_agent_that_falls_silent_is_helped_out_from_outside(start: Start) -> None:
    """It was there before C code took the GIL, for ever."""
    program = start("gil_held_later.py", ready="free")
    links = resolve(parsed(str(program.pid)), 5)
    links[0].enter(5)
    os.kill(program.pid, signal.SIGUSR1)
    program.wait_for("held")
    evidence = gather(str(program.pid), links, timeout=10)
    (rank,) = evidence.ranks
    assert "GIL" in rank.problem
    assert isinstance(rank.pace, NotAvailable)
    assert len(rank.looks) == 3
    last = rank.looks[-1].processes[0]
    assert last.source == "py-spy"
    assert any(t.holds_gil is True for t in last.threads)


# --- a real torchrun -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def torchruns(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Program, Program]]:
    """One whose second rank leaves with exit status 0, and one that waits for another node; started side by side."""
    folder = tmp_path_factory.mktemp("torchrun")
    torchrun = ["-m", "torch.distributed.run", "--nproc-per-node", "2"]
    program = [str(PROGRAMS / "odd_ranks.py"), str(folder)]
    early = [*torchrun, "--master-port", str(free_port()), *program, "asleep", "exit:0"]
    port = free_port()
    rendezvous = ["--nnodes", "2", "--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{port}"]
    alone = [*torchrun, *rendezvous, *program, "asleep", "asleep"]
    with job(early, folder / "early.log") as leaving, job(alone, folder / "alone.log") as waiting:
        leaving.wait_for("rank 1 is exit")
        until(lambda: len(procfs.children([leaving.pid], procfs.processes())) == 1, leaving.output())
        until(lambda: any(s.state == "LISTEN" and s.local_port == port for s in sockets.of(waiting.pid)))
        yield leaving, waiting


def test_torchrun_lets_the_others_run_when_a_rank_leaves_early(torchruns: tuple[Program, Program]) -> None:
    evidence = look_at(f"torchrun:{torchruns[0].pid}")
    staying, gone = evidence.ranks
    assert (gone.rank, gone.pid, gone.problem) == (1, 0, "the process is gone")
    assert gone.ending is not None
    assert gone.ending.exit_code == 0
    assert any("torchrun" in words for words in gone.ending.evidence)
    assert gone.ending.last_lines == ("[rank1]: OSError: no such shard",), "its own, out of the log of all"
    assert (staying.ending, evidence.nproc) == (None, 2)
    assert not isinstance(staying.environ, NotAvailable)
    assert staying.environ["TORCHELASTIC_RESTART_COUNT"] == "0"


def test_a_launcher_that_waits_for_another_node_is_looked_at_itself(torchruns: tuple[Program, Program]) -> None:
    target = f"torchrun:{torchruns[1].pid}"
    with pytest.raises(NoTarget):
        resolve(parsed(target), 1)
    evidence = gather(target, [], timeout=10)
    assert evidence.launcher is not None
    functions = [f.function for t in evidence.launcher.processes[0].threads for f in t.frames]
    assert any("rendezvous" in name for name in functions), functions
    assert (evidence.nproc, evidence.launcher_pid) == (2, torchruns[1].pid)
    assert [(r.rank, r.pid, r.ending) for r in evidence.ranks] == [(rank, 0, None) for rank in range(4)]
    assert evidence.world_size == 4
    by_pid = gather(str(torchruns[1].pid), resolve(parsed(str(torchruns[1].pid)), 1), timeout=10)
    assert [(r.rank, r.pid) for r in by_pid.ranks] == [(r.rank, r.pid) for r in evidence.ranks], (
        "its pid means its ranks"
    )
    assert by_pid.launcher_pid == evidence.launcher_pid
