"""`RayJob`: the processes of one Ray job, wherever they run, asked like those of any other job.

What changes the training goes to the trainers alone, the processes that have an optimizer.
"""

from __future__ import annotations

import glob
import time
from collections.abc import Callable, Sequence

from ..attach.ray.hosts import open_hosts
from ..errors import NoTarget, TraindbgError
from ..job import DEADLINE_S
from ..language import text
from ..model import Diagnosis, RayCluster, RayJobInfo, RayWorkers, Result, parse_cluster
from ..outside.raystate import ClusterAddress, pick_job, read, resolve
from ..spread.job import SpreadJob
from .members import job_processes, members

__all__ = ["RayJob", "connect"]


def connect(target: str, timeout: float = DEADLINE_S) -> RayJob:
    """The job that ``ray:JOB@ADDRESS`` names; nothing is entered, and no helper made, before a question needs it.

    Takes 0.1 s on a small cluster. Raises `NoTarget`, `AmbiguousTarget`, `NotPermitted` for a token, `CannotAttach` where nobody answers.
    """
    ends = time.monotonic() + timeout
    asked = parse_cluster(target)
    address = resolve(asked.address, timeout)
    cluster = read(address, asked.id or None, max(0.5, ends - time.monotonic()))
    return RayJob(target, address, cluster, pick_job(cluster, asked.id))


class RayJob(SpreadJob):
    """A Ray job: its trainers, its driver and its other workers, in this order; ``who`` says what each rank is."""

    def __init__(self, name: str, address: ClusterAddress, cluster: RayCluster, info: RayJobInfo) -> None:
        placed = members(cluster, info)
        nodes = {one.host for one in placed}
        hosts = open_hosts(address, [n for n in cluster.nodes if n.node_id in nodes])
        names = {node.node_id: f"node {node.name or node.ip}" for node in cluster.nodes}
        super().__init__(name, hosts, placed, names)
        self.address, self.info = address, info

    def _nobody_trains(self) -> TraindbgError:
        return NoTarget(super()._nobody_trains().cause, text("`traindbg ray-workers` shows what its workers do"))

    # --- questions --------------------------------------------------------------------------------------------------

    def workers(
        self, *, progress: Sequence[str] = (), tier: int | None = None, timeout: float = DEADLINE_S
    ) -> RayWorkers:
        """What every worker of this job does: its state in words, the line that it is at, whom it waits for; those in trouble first.

        0.1 to 1 s where agents need not be brought in, at most `timeout`; see `jupyter_traindbg.ray.report.gather` for the rest.
        """
        from .report import gather

        return gather(self.name, progress=progress, tier=tier, timeout=timeout)[1]

    def diagnose(self, *, timeout: float = DEADLINE_S) -> Diagnosis:
        """What is wrong with this job: with its actors and tasks, by what Ray and their stacks tell, and with its trainers as ranks.

        Both at once, 2 to 5 s, at most `timeout`. Raises a `TraindbgError` where nothing at all could be learned.
        """
        from .diagnosing import diagnose

        def ranks(left_s: float, workers: RayWorkers) -> Diagnosis:
            return self.diagnose_training(workers, timeout=left_s)

        return diagnose(self.name, timeout, ranks=ranks)

    def diagnose_training(self, workers: RayWorkers, *, timeout: float = DEADLINE_S) -> Diagnosis:
        """`diagnose_ranks` where the trainers make one training: those of several trials are no ranks of each other. Raises `NoTarget`
        otherwise. `workers`: a look at all of the job, for whom trainers may wait.
        """
        placed = self._need_trainers(timeout)
        if len(placed) > 1 and all(p.member.world_size == 1 for p in placed):
            raise NoTarget(
                text("{count} processes of {name} train, each by itself", count=len(placed), name=self.name),
                text("ask each by its pid"),
            )
        return self.diagnose_ranks(timeout=timeout, processes=job_processes(workers.workers))

    def _questions(self) -> dict[str, Callable[[float], Result]]:
        return {**super()._questions(), "ray workers": lambda s: self.workers(timeout=s)}

    def _left_logs(self) -> Sequence[str]:
        """Ray keeps the output of workers and drivers in its session's folder; only that of this machine can be read from here."""
        folder, job, submission = self.address.session_dir, self.info.job_id, self.info.submission_id
        if not folder:
            return ()
        of_workers = [f"{folder}/logs/worker-*-{glob.escape(job)}-*.{kind}" for kind in ("err", "out")] if job else []
        return [*of_workers, *([f"{folder}/logs/job-driver-{glob.escape(submission)}.log"] if submission else [])]
