"""This host's GPUs, with the verdict on them."""

from __future__ import annotations

import dataclasses
from typing import Any

from .diagnose import gpu as rules
from .model import GpuReport
from .outside import gpu

__all__ = ["gpu_report"]


def gpu_report(timeout: float, **about_the_job: Any) -> GpuReport:
    """What was seen and the findings; `about_the_job` as for `jupyter_traindbg.outside.gpu.report`."""
    report = gpu.report(timeout, **about_the_job)
    return dataclasses.replace(report, verdict=tuple(rules.findings(report)))
