"""From what a dump tells to processes as everything else knows them: whose frames, what each thread waits for, which one trains."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from ...command_lines import is_helper, launched_by, words
from ...frames.c_calls import by_functions, by_line
from ...frames.waits import in_dataloader_worker, waiting_for
from ...frames.whose import RawFrame, bare, frames_of, user_frame
from ...model import (
    ASLEEP,
    DumpedProcess,
    Frame,
    Maybe,
    NotAvailable,
    ProcessStacks,
    SourceLine,
    Thread,
    ThreadState,
    Wait,
)
from .groups import C10D, joining, making
from .told import ToldProcess, ToldThread

__all__ = ["dumped", "with_lines"]

NOT_TOLD = NotAvailable("the dump does not say")
_ENGINE = ("torch/autograd/graph.py", "_engine_run_backward")
_LAUNCHERS = ("torch/distributed/elastic/agent/server/api.py", "torch/multiprocessing/spawn.py")
_MOST_SHOWN, _LONGEST_SHOWN = 12, 120
_BY_KERNEL = ("pystack", "gdb")
"""They call threads as the kernel does."""
_LOCKS = ("lock_PyThread_acquire_lock", "_thread.lock.__enter__", "_thread.lock.acquire", "rlock_acquire")
_P2P = frozenset(("send", "recv", "isend", "irecv"))


def dumped(process: ToldProcess, file: str) -> DumpedProcess:
    """One look at one process, its training thread first. ``stacks.rank`` is -1 where no rank is told."""
    main = _main(process.threads)
    common = "" if main is None else main.name
    for thread in process.threads:
        if thread is not main and thread.name == common:
            thread.name = ""  # the kernel's name for threads that have none
    if main is not None and process.tool in _BY_KERNEL:
        main.name = "MainThread"
    threads = [
        _thread(t, training=t is main, stopped=process.stopped) for t in process.threads if t.frames or t is main
    ]
    threads.sort(key=lambda t: not t.training)
    rank = -1 if process.rank is None else process.rank
    stacks = ProcessStacks(
        rank, process.pid, _role(process, threads), process.tool, tuple(threads), command=process.command
    )
    quotes = {f"{f.file}:{f.line}": f.code for t in process.threads for f in t.frames if f.code}
    shown = _variables(main) if main is not None else {}
    return DumpedProcess(
        stacks,
        file,
        process.tool,
        process.rank,
        process.parent,
        process.prefix,
        ident="" if main is None else main.ident,
        hint=process.hint,
        problem=process.problem,
        quotes=quotes,
        variables=shown,
        joining=None if main is None else joining(main),
        making=None if main is None else making(main),
    )


def with_lines(stacks: ProcessStacks, lines: Mapping[str, SourceLine]) -> ProcessStacks:
    """With what threads wait for in C code, where the line tells that they have called it from."""
    return dataclasses.replace(stacks, threads=tuple(_with_line(thread, lines) for thread in stacks.threads))


def _with_line(thread: Thread, lines: Mapping[str, SourceLine]) -> Thread:
    top = thread.frames[0] if thread.frames else None
    line = lines.get(f"{top.file}:{top.line}") if top is not None else None
    open_still = thread.waiting_for is None and (isinstance(thread.state, NotAvailable) or thread.state in ASLEEP)
    if line is None or not open_still:
        return thread
    call = "futex" if line.takes else by_line(line.text)
    waits = waiting_for([_raw(frame) for frame in thread.frames], call)
    return thread if waits is None else dataclasses.replace(thread, waiting_for=waits, state="waiting")


def _main(threads: Sequence[ToldThread]) -> ToldThread | None:
    return next((t for t in threads if t.main), threads[0] if threads else None)


def _role(process: ToldProcess, threads: Sequence[Thread]) -> str:
    """``rank``, ``DataLoader worker``, ``child``, or ``launcher``."""
    main = [_raw(f) for f in threads[0].frames] if threads else []
    if in_dataloader_worker(main):
        return "DataLoader worker"
    command = words(process.command)
    if launched_by(command) is not None or any(file.endswith(_LAUNCHERS) for file, _, _ in main):
        return "launcher"
    return "child" if is_helper(command) else "rank"


def _raw(frame: Frame) -> RawFrame:
    return frame.file, frame.line, frame.function


def _thread(told: ToldThread, *, training: bool, stopped: bool) -> Thread:
    raw = [(f.file, f.line, f.function) for f in told.frames]
    waits = None if stopped else waiting_for(raw, _call(told))
    if told.wants_gil and waits is None:
        waits = Wait("gil")
    if waits == Wait("native") and any(name in _LOCKS for name in told.calls):
        waits = Wait("lock")
    return Thread(
        name=told.name or told.ident,
        tid=NOT_TOLD if told.tid is None else told.tid,
        state="stopped by a signal" if stopped else _state(told, waits),
        frames=frames_of(raw),
        waiting_for=waits,
        holds_gil=NOT_TOLD if told.holds_gil is None else told.holds_gil,
        training=training,
        peer=_peer(told),
    )


def _state(told: ToldThread, waits: Wait | None) -> Maybe[ThreadState]:
    if told.active is None:
        return NOT_TOLD if waits is None else "waiting"
    return "running" if told.active else "waiting"


def _call(told: ToldThread) -> str | None:
    """The system call that it sits in, in the words of the kernel: by C functions, by the quoted line; None where nothing tells."""
    if told.active:
        return "running"
    call = by_functions(told.calls)
    if call is None and told.frames:
        top = told.frames[0]
        engine = top.file.endswith("/" + _ENGINE[0]) and bare(top.function) == _ENGINE[1]
        call = "futex" if engine else by_line(top.code)
    return call


def _peer(told: ToldThread) -> int | None:
    """The rank that a send or a receive is for, where its locals were dumped."""
    for frame, variables in zip(told.frames, told.variables, strict=False):
        if bare(frame.function) in _P2P and frame.file.endswith(C10D):
            value = variables.get("src") or variables.get("dst") or ""
            return int(value) if value.isdigit() and len(value) < 7 else None
    return None


def _variables(main: ToldThread) -> dict[str, str]:
    own = user_frame(frames_of((f.file, f.line, f.function) for f in main.frames))
    at = next(
        (i for i, f in enumerate(main.frames) if own is not None and (f.file, f.line) == (own.file, own.line)), None
    )
    shown = {} if at is None or at >= len(main.variables) else main.variables[at]
    return {name: value[:_LONGEST_SHOWN] for name, value in list(shown.items())[:_MOST_SHOWN]}
