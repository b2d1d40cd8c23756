"""What every thread of every rank is doing, with the source lines of the user's frames. Also of ranks that are stopped or hold the GIL."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...errors import TraindbgError
from ...frames.whose import full_place, where
from ...model import Frame, NotAvailable, ProcessStacks, SourceLine, Stacks
from ...outside import sources
from ..context import Context, Part, Unavailable

TITLE = "Stacks"
ORDER = 20
FROM_JOB = True
AFTER = ""


def collect(context: Context) -> Part:
    refused = []
    if "enter" in context.subject.questions:
        try:
            context.ask("enter", context.timeout / 2)
        except TraindbgError as e:
            refused.append(f"no rank could be entered: {e.cause}")  # their stacks can be had from outside
    stacks = context.ask("stacks")
    if not isinstance(stacks, Stacks):
        raise Unavailable("the job gave no stacks")
    lines = sources.read(stacks.processes)
    ranks = {p.rank for p in stacks.processes if p.role == "rank"}
    return Part(
        f"{len(stacks.processes)} processes of {len(ranks)} rank{'s' * (len(ranks) != 1)}",
        results=[stacks],
        texts={"stacks.txt": "\n".join(_told(stacks, lines)) + "\n"},
        missing=refused + [f"rank {s.rank} (pid {s.pid}): {s.reason}" for s in stacks.silent],
        issue=[f"Rank {p.rank}: {_where(p)}" for p in stacks.processes if p.role == "rank"][:16],
    )


def _told(stacks: Stacks, lines: Mapping[str, SourceLine]) -> Iterator[str]:
    for process in stacks.processes:
        yield f"== rank {process.rank} · {process.role} · pid {process.pid} · by {process.source} {process.note}".rstrip()
        if process.command:
            yield f"   {process.command}"
        for thread in process.threads:
            state = "" if isinstance(thread.state, NotAvailable) else f" ({thread.state})"
            waits = f" waiting for {thread.waiting_for}" if thread.waiting_for else ""
            gil = " holding the GIL" if thread.holds_gil is True else ""
            yield f"  -- {thread.name}{' [training]' * thread.training}{state}{gil}{waits}"
            for frame in thread.frames:
                yield f"     {full_place(frame)}"
                yield from _source(frame, lines)
        yield ""


def _source(frame: Frame, lines: Mapping[str, SourceLine]) -> Iterator[str]:
    line = lines.get(f"{frame.file}:{frame.line}")
    if line is not None and line.text:
        yield f"         {line.text.strip()}"


def _where(process: ProcessStacks) -> str:
    threads = sorted(process.threads, key=lambda t: not t.training)
    frame = where(threads[0].frames) if threads else None
    return f"`{full_place(frame)}`" if frame else "no Python frames"
