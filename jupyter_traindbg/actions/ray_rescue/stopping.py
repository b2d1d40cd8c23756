"""Stop a job: a submitted one by the job API, any other by its driver's process."""

from __future__ import annotations

import os
import time
from dataclasses import replace

from ...attach.ray.hosts import open_hosts
from ...errors import ActionRefused, CannotAttach
from ...language import text
from ...model import NotAvailable, RayJobInfo, RayRescue
from ...outside import raystate
from ...outside.raystate.dashboard import Dashboard, Refused
from .case import Case

__all__ = ["stop"]

END = "jupyter_traindbg.actions.ray_rescue.on_node:end"
LOOK = "jupyter_traindbg.actions.ray_rescue.on_node:command"
GRACE_S = 5.0
RELAY_S = 0.5


def stop(case: Case, words: str, *, yes: bool) -> list[RayRescue]:
    """Stop the job `words`. Ray ends a submitted one by SIGTERM and, 3 s later, SIGKILL; so do we with a driver that was not submitted."""
    job = raystate.pick_job(case.cluster, words)
    ident = job.submission_id or job.job_id or words
    before = f"{job.status}: {job.entrypoint[:80]}"
    if not job.running:
        raise ActionRefused(
            text("job {ident} does not run: it is {status}", ident=ident, status=job.status),
            text("what it left: `%ray_rescue --leftovers`"),
        )
    planned = RayRescue("job", f"job {ident}", ident, before, _will(case, job))
    if not yes:
        return [planned]
    began = time.monotonic()
    if job.submission_id is not None:
        _by_the_job_api(case, job.submission_id)
    else:
        _by_its_driver(case, job)
    good = case.until(lambda _: not _same(case, job).running)
    after = _same(case, job).status
    note = "" if good else "it was told to stop, and still runs"
    return [
        replace(
            planned, state="verified" if good else "not done", after=after, took_s=time.monotonic() - began, note=note
        )
    ]


def _same(case: Case, job: RayJobInfo) -> RayJobInfo:
    """What the cluster says of `job` now. One that it has forgotten has ended."""
    ids = (job.job_id, job.submission_id)
    return next((j for j in case.cluster.jobs if (j.job_id, j.submission_id) == ids), replace(job, status="gone"))


def _will(case: Case, job: RayJobInfo) -> str:
    if job.submission_id is not None:
        return "stop it by Ray's job API: its driver and all its workers end"
    pid, node = _driver(job)
    if pid == os.getpid() and _is_here(case, node):
        raise ActionRefused(text("the driver of this job is this very process"), text("call ray.shutdown() here"))
    said = _on_node(case, node, LOOK, pid)
    if said is None:
        raise ActionRefused(
            text("process {pid}, the driver, is not there", pid=pid), text("look again: the job may have just ended")
        )
    return (
        f"it was not submitted, so its driver is ended: process {pid} on node {node[:12]} ({said}) gets SIGTERM, and SIGKILL where it "
        f"has not ended {GRACE_S:g} s later; its workers end with it"
    )


def _driver(job: RayJobInfo) -> tuple[int, str]:
    if isinstance(job.driver_pid, NotAvailable) or not job.driver_pid or job.driver_node_id is None:
        raise ActionRefused(
            text("the cluster does not say where the driver of job {job_id} runs", job_id=job.job_id),
            text("end it where it was started"),
        )
    return job.driver_pid, job.driver_node_id


def _is_here(case: Case, node_id: str) -> bool:
    hosts = open_hosts(case.address, case.cluster.nodes)
    try:
        return hosts.is_here(node_id)
    finally:
        hosts.close()


def _on_node(case: Case, node_id: str, function: str, *arguments: object) -> str | None:
    hosts = open_hosts(case.address, case.cluster.nodes)
    try:
        found: str | None = hosts.run(node_id, function, *arguments, deadline_s=case.left_s + RELAY_S)
    finally:
        hosts.close()
    return found


def _by_its_driver(case: Case, job: RayJobInfo) -> None:
    pid, node = _driver(job)
    began = None if isinstance(job.started_at, NotAvailable) else job.started_at
    _on_node(case, node, END, pid, began, min(GRACE_S, case.left_s / 2))


def _by_the_job_api(case: Case, submission_id: str) -> None:
    if not case.address.dashboard:
        raise CannotAttach(
            text("a submitted job is stopped through the dashboard, whose address is not known"),
            text("name it: http://HOST:8265"),
        )
    dashboard = Dashboard(case.address.dashboard, case.address.token)
    try:
        dashboard.post(f"/api/jobs/{submission_id}/stop", case.ends)
    except Refused as e:
        raise ActionRefused(
            text("Ray does not stop job {job}: {why}", job=submission_id, why=e),
            text("look at it with `ray job status`"),
        ) from None
