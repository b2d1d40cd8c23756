"""The GPUs of a job's host, with the verdict on them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from ..diagnose import gpu as rules
from ..model import GpuReport
from ..outside import gpu, procfs
from .base import DEADLINE_S, Ranks, Whom

__all__ = ["ask", "of_machine"]

WHOM = Whom.EVERYBODY


def ask(job: Ranks, *, timeout: float = DEADLINE_S) -> GpuReport:
    """This host's GPUs, with this job's processes marked and numbered as the job sees them."""
    links = job.open_links()
    return of_machine(
        timeout,
        environ=procfs.environ(links[0].pid),
        ours={link.pid: link.rank for link in links if link.ended() is None},
    )


def of_machine(timeout: float, *, environ: Mapping[str, str], ours: Mapping[int, int] | None = None) -> GpuReport:
    """This machine's GPUs, numbered as a program sees them that has `environ`; the processes `ours`, by pid, are marked with their rank."""
    report = gpu.report(
        timeout,
        visible=environ.get("CUDA_VISIBLE_DEVICES"),
        device_order=environ.get("CUDA_DEVICE_ORDER"),
        ours=ours,
    )
    return dataclasses.replace(report, verdict=tuple(rules.findings(report)))
