"""Which rank a process is, as its environment tells. Pure functions of the variables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["RankProcess", "rank_told", "task_told"]


@dataclass(frozen=True)
class RankProcess:
    """A rank of a launcher's job on this host. The numbers come from its environment; None where it has none
    (``mp.spawn``).
    """

    pid: int
    rank: int | None
    world_size: int | None
    local_rank: int | None


def rank_told(pid: int, environ: Mapping[str, str]) -> RankProcess:
    """By the variables that torch reads."""
    return _numbered(pid, environ, "RANK", "WORLD_SIZE", "LOCAL_RANK")


def task_told(pid: int, environ: Mapping[str, str]) -> RankProcess | None:
    """By Slurm's own variables: which of several tasks of an ``srun`` it is; None where it is none, or was told its rank in torch's way.

    A batch script has a task number and no step: what it runs itself is a job of its own. What a task starts inherits all of them.
    """
    task = _numbered(pid, environ, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID")
    several = task.rank is not None and (task.world_size or 0) > 1
    return task if several and "RANK" not in environ else None


def _numbered(pid: int, environ: Mapping[str, str], rank: str, world_size: str, local_rank: str) -> RankProcess:
    def number(name: str) -> int | None:
        value = environ.get(name, "")
        return int(value) if value.isdigit() else None

    return RankProcess(pid, number(rank), number(world_size), number(local_rank))
