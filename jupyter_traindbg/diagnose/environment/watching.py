"""Variables by which a hang goes unnoticed, or a healthy job is taken for a hang."""

from __future__ import annotations

from collections.abc import Iterator

from ...language import text
from .setting import Judged, Rule, Setting, judge

__all__ = ["RULES"]

SHORT_HEARTBEAT_S = 60


def waits_for_ever(setting: Setting) -> Iterator[Judged]:
    new, old = "TORCH_NCCL_ASYNC_ERROR_HANDLING", "NCCL_ASYNC_ERROR_HANDLING"
    blocking = set(setting.on("TORCH_NCCL_BLOCKING_WAIT")) | set(setting.on("NCCL_BLOCKING_WAIT"))
    ranks = tuple(r for r in setting.newest(new, old, lambda v: v.strip() == "0") if r not in blocking)
    if ranks and setting.nccl:
        yield judge(
            setting,
            [name for name in (new, old) if name in setting.names],
            ranks,
            "warning",
            title=text("a stuck NCCL collective never times out: error handling is off"),
            cause=text("With 0, nobody acts on time-outs and errors of NCCL; the job hangs silently."),
            steps=[text("Leave it out: the default (3) ends the process.")],
        )


def no_watchdog(setting: Setting) -> Iterator[Judged]:
    ranks = setting.newest(
        "TORCH_NCCL_BLOCKING_WAIT", "NCCL_BLOCKING_WAIT", lambda v: v.strip().lower() in ("1", "y", "yes", "t", "true")
    )
    if ranks and setting.nccl:
        yield judge(
            setting,
            [n for n in ("TORCH_NCCL_BLOCKING_WAIT", "NCCL_BLOCKING_WAIT") if n in setting.names],
            ranks,
            "warning",
            title=text("TORCH_NCCL_BLOCKING_WAIT leaves the job without a watchdog"),
            cause=text(
                "Every wait() blocks the CPU, and no thread looks for time-outs: no flight recorder is dumped "
                "when it hangs."
            ),
            steps=[text("Leave it out, unless the program catches the exception.")],
        )


def no_monitoring(setting: Setting) -> Iterator[Judged]:
    ranks = setting.off("TORCH_NCCL_ENABLE_MONITORING")
    if ranks and setting.nccl:
        yield judge(
            setting,
            ["TORCH_NCCL_ENABLE_MONITORING"],
            ranks,
            "warning",
            title=text("nobody ends the job when NCCL's watchdog itself hangs"),
            cause=text("A watchdog that is stuck in CUDA or NCCL is only noticed by the monitor."),
            steps=[text("Leave it out; where it ended a job too early, raise TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC.")],
        )


def short_heartbeat(setting: Setting) -> Iterator[Judged]:
    name = "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC"
    ranks = setting.where(name, lambda v: v.strip().isdigit() and 0 < int(v) < SHORT_HEARTBEAT_S)
    if ranks and setting.nccl:
        yield judge(
            setting,
            [name],
            ranks,
            "warning",
            title=text("a healthy job may be ended: the watchdog's heartbeat is short"),
            cause=text(
                "It is not the time-out of collectives. A long CUDA call, or the GIL held for long, is enough to "
                "end the process."
            ),
            steps=[text("Leave it out (480 s); for collectives use init_process_group(timeout=...).")],
            confidence="medium",
        )


def no_recorder(setting: Setting) -> Iterator[Judged]:
    ranks = setting.newest("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE", lambda v: v.strip() == "0")
    if ranks:
        yield judge(
            setting,
            [n for n in ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE") if n in setting.names],
            ranks,
            "info",
            title=text("the flight recorder is off"),
            cause=text("Which collective a rank is at can then only be told from its stack."),
            steps=[text("Leave it out: 2000 entries are kept by default, at no noticeable cost.")],
        )


RULES: tuple[Rule, ...] = (
    waits_for_ever,
    no_watchdog,
    no_monitoring,
    short_heartbeat,
    no_recorder,
)
