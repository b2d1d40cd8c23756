"""GPUs and driver: what NVML says, with the verdict on it, and what `nvidia-smi` and `nvidia-smi topo -m` print, if they end."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ...model import GpuReport, NotAvailable, Result
from ...outside import procfs
from ...questions import gpu
from ..asking import first_line, tool
from ..context import Context, Part, Unavailable

TITLE = "GPUs and driver"
ORDER = 60
FROM_JOB = False
AFTER = ""
_TOOLS = {"gpu/nvidia-smi.txt": ["nvidia-smi"], "gpu/topology.txt": ["nvidia-smi", "topo", "-m"]}
TOOL_S = 5.0


def collect(context: Context) -> Part:
    if context.subject.elsewhere:
        return _of_hosts(context.ask("gpu"))
    report = _report(context)
    texts, missing = {}, []
    if report.hung_call:
        missing.append(f"nvidia-smi was not asked: the driver hangs in {report.hung_call}")
    for name, words in _TOOLS.items() if not report.hung_call else ():
        try:
            texts[name] = tool(words, context.left_s(TOOL_S))
        except Unavailable as e:
            missing = list(dict.fromkeys([*missing, str(e)]))
    if version := first_line("/proc/driver/nvidia/version"):
        texts["gpu/driver.txt"] = version + "\n"
    return _part(report, texts, missing)


def _of_hosts(report: Result) -> Part:
    """Those of all of them; what its tools say is asked there."""
    part = _part(report, {}, [])
    seen = getattr(report, "devices", ())
    return replace(part, summary=part.summary if seen else "no GPU was seen on any host", issue=[])


def _part(report: Result, texts: Mapping[str, str], missing: Sequence[str]) -> Part:
    assert isinstance(report, GpuReport)
    names = [str(d.name) for d in report.devices]
    words_ = _words(names) if names else str(report.problem or "no GPU")
    driver = [] if isinstance(report.driver, NotAvailable) else [f"NVIDIA driver: {report.driver}"]
    return Part(
        words_,
        results=[report],
        texts=texts,
        findings=report.findings,
        issue=[f"GPUs: {words_}", *driver],
        missing=missing,
    )


def _report(context: Context) -> GpuReport:
    pids = context.readable
    first = next(iter(pids.values()), None)
    environ = procfs.environ(first) if first else os.environ
    ours = {pid: rank for rank, pid in context.subject.pids.items()}
    return gpu.of_machine(context.left_s(), environ=environ, ours=ours)


def _words(names: list[str]) -> str:
    """``8 x NVIDIA H100, 1 x ...``."""
    return ", ".join(f"{names.count(name)} x {name}" for name in dict.fromkeys(names))
