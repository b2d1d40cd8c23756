"""Which rank a process is by its environment, in torch's words and in Slurm's."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping

import pytest
from cases import each

from jupyter_traindbg.attach import discover
from jupyter_traindbg.attach.told_ranks import RankProcess, rank_told, task_told

TASK = {"SLURM_PROCID": "5", "SLURM_STEP_NUM_TASKS": "8", "SLURM_LOCALID": "1", "SLURM_JOB_ID": "42"}


def test_torchs_variables() -> None:
    assert rank_told(7, {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1"}) == RankProcess(7, 5, 8, 1)
    assert rank_told(7, {"RANK": "five"}) == RankProcess(7, None, None, None)


@each(
    "what, environ, told",
    [
        ("a task of several", TASK, RankProcess(7, 5, 8, 1)),
        ("the only one", TASK | {"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1"}, None),
        ("what a batch script runs itself", {"SLURM_PROCID": "0", "SLURM_NTASKS": "8", "SLURM_LOCALID": "0"}, None),
        ("a rank of a launcher that is a task", TASK | {"RANK": "11", "WORLD_SIZE": "16"}, None),
        ("no Slurm", {}, None),
    ],
)
def test_slurms_variables(what: str, environ: Mapping[str, str], told: RankProcess | None) -> None:
    assert task_told(7, environ) == told, what


@pytest.fixture
def task() -> Iterator[subprocess.Popen[str]]:
    """A task of an ``srun`` that has torch, and a child with the same environment that has it as well."""
    code = "import subprocess, sys, torch; child = subprocess.Popen([sys.executable, '-c', "
    code += "'import torch; print(1, flush=True); input()'], stdin=subprocess.PIPE, stdout=subprocess.PIPE); "
    code += "child.stdout.readline(); print(child.pid, flush=True); input(); child.communicate()"
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        env={name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")} | TASK,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    yield process
    process.communicate("\n", timeout=60)


def test_a_task_is_a_rank_and_what_it_has_started_is_none(task: subprocess.Popen[str]) -> None:
    pytest.importorskip("torch")
    assert task.stdout is not None
    child = int(task.stdout.readline())
    ranks = {target.pid: target.rank for target in discover.targets() if target.pid in (task.pid, child)}
    assert ranks == {task.pid: 5, child: None}
    told = discover.rank_of(task.pid)
    assert told is not None
    assert (told.rank, told.world_size, told.local_rank) == (5, 8, 1)
    assert discover.rank_of(child) is None
