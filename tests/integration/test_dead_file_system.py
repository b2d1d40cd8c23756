"""A rank whose file system has stopped answering, as of a file server that is gone: it holds up nobody, and is named.

Whoever reads a path of such a rank (``/proc/PID/root/tmp/...``, where its agent would be met) waits in the kernel until the rank ends.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support import PROGRAMS, Program, launch, need, until

import traindbg
from jupyter_traindbg import cli
from jupyter_traindbg.agent import rendezvous
from jupyter_traindbg.errors import CannotAttach
from jupyter_traindbg.outside import procfs
from jupyter_traindbg.tasks import Task

DEAD = 1
PATIENT_S = 60.0
"""For a command that is to come back in a few seconds. One that hangs never does."""


@pytest.fixture
def flag(tmp_path: Path) -> Path:
    """While there is no such file the rank's /tmp is that of this machine."""
    return tmp_path / "die"


@pytest.fixture
def job(tmp_path: Path, flag: Path, free_port: str) -> Iterator[Program]:
    need("a FUSE mount in a namespace (root, /dev/fuse)", os.geteuid() == 0 and os.access("/dev/fuse", os.W_OK))
    words = [sys.executable, "-u", str(PROGRAMS / "torchrun"), free_port]
    env = {"TMPDIR": str(tmp_path)}
    program = launch(
        tmp_path, "dead_tmp.py", str(DEAD), str(flag), "train.py", "--sleep", "0.02", env=env, command=words
    )
    try:
        until(lambda: program.log.read_text().count("ready") == 2, "both train")
        yield program
    finally:
        program.stop()


@pytest.fixture
def dead(job: Program, flag: Path) -> Program:
    return died(job, flag)


def died(job: Program, flag: Path) -> Program:
    flag.touch()
    job.wait_for("its /tmp is dead")
    return job


def pid_of(job: Program, rank: int) -> int:
    return next(p for p in children(job) if procfs.environ(p)["RANK"] == str(rank))


def children(job: Program) -> list[int]:
    return [p.pid for p in procfs.children([job.pid], procfs.processes())]


def asked(*words: str) -> dict[str, Any]:
    """What a command says, in an interpreter that has to end, too."""
    command = [sys.executable, "-m", "jupyter_traindbg.cli", *words, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENT_S, check=False)
    assert done.returncode in (cli.DONE, cli.FINDINGS), (words, done.stderr)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def in_time(work: Callable[[], Any]) -> Any:
    return Task(work, "a question").result(time.monotonic() + PATIENT_S)


def test_every_command_comes_back_and_says_what_the_rank_does_not_tell(dead: Program) -> None:
    target, pid = f"torchrun:{dead.pid}", pid_of(dead, DEAD)
    listed = {t["pid"]: t for t in asked("targets")["targets"]}
    assert (listed[pid]["agent"], listed[pid]["part_of"]) == (False, target)
    assert {p["rank"] for p in asked("stacks", target)["processes"]} == {0, DEAD}, "it is seen from outside"
    threads = {p["rank"]: p for p in asked("threads", target)["processes"]}
    assert threads[0]["locks"] is True
    assert "the file system of process" in threads[DEAD]["locks"]["not_available"]
    assert {thread["state"] for thread in threads[DEAD]["threads"]} <= {"running", "waiting"}
    environ = asked("environ", target)
    assert (environ["ranks"], environ["silent"]) == ([0, DEAD], [])
    for verb in ("attach", "steps", "lr", "memory", "nccl-check"):
        (silent,) = asked(verb, target)["silent"]
        assert (silent["rank"], silent["pid"]) == (DEAD, pid)
        assert "the file system of process" in silent["reason"], verb
    judged = asked("diagnose", target)
    (state,) = (r["state"] for r in judged["ranks"] if r["rank"] == DEAD)
    assert state in ("computing", "waiting"), (
        "which of them is up to the moments at which it is seen from outside: it sleeps between steps"
    )
    assert asked("detach", target)["processes"] == 1


def test_asked_alone_it_is_seen_from_outside(dead: Program) -> None:
    pid = pid_of(dead, DEAD)
    (seen,) = asked("stacks", str(pid))["processes"]
    assert any(f["file"].endswith("train.py") for thread in seen["threads"] for f in thread["frames"])
    with pytest.raises(CannotAttach, match=rf"the file system of process {pid} does not answer.*stacks"):
        in_time(lambda: traindbg.attach(pid).steps())


def test_one_that_dies_while_we_are_attached_holds_up_no_question_and_no_goodbye(job: Program, flag: Path) -> None:
    ranks = {rank: pid_of(job, rank) for rank in (0, DEAD)}
    with traindbg.attach(f"torchrun:{job.pid}") as attached:
        assert all(rank.agent for rank in attached.ranks)
        died(job, flag)
        assert {p.rank for p in in_time(attached.stacks).processes} == {0, DEAD}
        for question in (lambda: attached.steps(last=1, timeout=2), lambda: attached.environ(timeout=2)):
            answer = in_time(question)
            answered = {rank if isinstance(rank, int) else rank.rank for rank in answer.ranks}
            assert 0 in answered
            assert answered | {silent.rank for silent in answer.silent} == {0, DEAD}
        in_time(attached.close)
    place = rendezvous.directory(ranks[0], os.getuid())
    until(lambda: not os.path.exists(place), "the other rank's agent has left")
    before = job.log.read_text().count("\n")
    until(lambda: job.log.read_text().count("\n") > before + 20, "they train on")
    assert all((p := procfs.stat(pid)) is not None and p.state not in "ZX" for pid in ranks.values())
