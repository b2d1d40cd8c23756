"""What one thread does at one moment, as a kind that rules can ask for, and in words for people. Pure functions.

The stacks bring the words of `frames.waits.waiting_for`; a test holds the table here against the one there. A wait that has no frame of
its own (C code called from the user's line) is told by the source line, where there is one: ``with self.lock`` or ``work.wait()``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ...frames.whose import own_frames, where
from ...language import text
from ...model import Frame, NotAvailable, SourceLine, Thread

__all__ = ["FOR_OTHER_RANKS", "Doing", "Kind", "doing", "kind_of", "phrase"]

Kind = Literal[
    "backward", "child", "collective", "computing", "device", "file", "future", "gil", "gpu", "idle", "init", "loader", "loader_end",
    "lock", "native", "network", "peer", "pipe", "process", "queue", "ray", "signal", "sleep", "teardown", "terminal", "thread", "unknown",
]  # fmt: skip

FOR_OTHER_RANKS: frozenset[Kind] = frozenset({"collective", "peer", "init", "teardown"})
"""Waits that end when other ranks do their part."""

# How the words begin -> kind; the first that fits counts.
_KINDS: Sequence[tuple[str, Kind]] = (
    ("the collective ", "collective"),
    ("the other ranks to build their DDP", "collective"),
    ("the broadcast of", "collective"),
    ("its peer in ", "peer"),
    ("the other ranks to join", "init"),
    ("the process group to close", "teardown"),
    ("the backward pass", "backward"),
    ("the next batch from the DataLoader workers", "loader"),
    ("the DataLoader workers to end", "loader_end"),
    ("sleep", "sleep"),
    ("the GIL", "gil"),
    ("a lock on the file", "lock"),
    ("a lock on a file", "lock"),
    ("a lock file", "lock"),
    ("a lock shared between processes", "lock"),
    ("a lock or another thread", "native"),
    ("a lock", "lock"),
    ("a condition or an event", "thread"),
    ("another thread to end", "thread"),
    ("an item from a queue", "queue"),
    ("room in a queue to another process", "process"),
    ("room in a queue", "queue"),
    ("a queue to be worked off", "queue"),
    ("an item from another process", "process"),
    ("the result of a future", "future"),
    ("the result of a worker process", "process"),
    ("data from another process", "process"),
    ("another process to", "process"),
    ("the processes that it spawned", "child"),
    ("a child process to end", "child"),
    ("a subprocess to end", "child"),
    ("data from the terminal", "terminal"),
    ("the terminal to take", "terminal"),
    ("data from the file", "file"),
    ("the file ", "file"),
    ("a file to open", "file"),
    ("a file to be looked up", "file"),
    ("a directory to be listed", "file"),
    ("the disk", "file"),
    ("data from a pipe", "pipe"),
    ("a pipe to take", "pipe"),
    ("data from a file, pipe or socket", "file"),
    ("a file, pipe or socket to take", "file"),
    ("a socket or a pipe", "network"),
    ("data from a socket", "network"),
    ("a socket", "network"),
    ("a connection to be made", "network"),
    ("the device", "device"),
    ("a device", "device"),
    ("the GPU", "gpu"),
    ("a result from Ray", "ray"),
    ("idle", "idle"),
)

_CHINESE: Mapping[Kind, str] = {
    "backward": "等待反向传播", "child": "等待子进程结束", "device": "等待设备", "file": "等待文件",
    "future": "等待 future 的结果", "gil": "等待 GIL", "gpu": "等待 GPU", "init": "等待其他 rank 加入",
    "loader": "等待 DataLoader 的下一个 batch", "loader_end": "等待 DataLoader worker 结束", "lock": "等待锁",
    "native": "在 C 代码中等待（锁或其他线程）", "network": "等待网络", "peer": "等待点对点通信的对端", "pipe": "等待管道",
    "process": "等待另一个进程", "queue": "等待队列", "ray": "等待 Ray 的结果", "teardown": "等待进程组关闭",
    "thread": "等待另一个线程",
}  # fmt: skip


@dataclass(frozen=True)
class Doing:
    """``words``: what is waited for, as the stack tells it. ``frame``: where that is, in the user's code if there is any on the stack.
    ``at``: what tells whether two looks saw the same: kind and the user's lines, or the functions of libraries where none is the user's.
    """

    kind: Kind
    words: str = ""
    frame: Frame | None = None
    thread: Thread | None = None
    at: tuple[object, ...] = ()

    @property
    def users(self) -> Frame | None:
        """``frame``, if it is the user's code."""
        return self.frame if self.frame is not None and not self.frame.library else None

    @property
    def operation(self) -> str:
        """The collective or point-to-point call: ``all_reduce``; empty where it has no name."""
        return self.words.rsplit(" ", 1)[-1] if self.kind in ("collective", "peer") else ""


def doing(thread: Thread | None, sources: Mapping[str, SourceLine]) -> Doing:
    """What `thread` does, from its stack and the kernel's view, and the source of the line where the stack ends in C code."""
    if thread is None:
        return Doing("unknown")
    frame = where(thread.frames)
    kind = kind_of(thread)
    top = thread.frames[0] if thread.frames else None
    words = thread.waiting_for or ""
    if kind in ("native", "pipe", "file") and top is not None and frame is top:
        kind = _by_source(kind, sources.get(f"{top.file}:{top.line}"))
        words = {"lock": "a lock", "thread": "another thread to end"}.get(kind, words)
    own = own_frames(thread.frames)
    places: list[object] = [(f.file, f.line, f.function) for f in own if not f.library]
    if not places:
        places = [(f.file, f.function) for f in own]  # a library waits in loops, as often as not: its lines change
    return Doing(kind, words, frame, thread, (kind, *places))


def kind_of(thread: Thread) -> Kind:
    """From the words alone."""
    if thread.waiting_for is not None:
        return next((kind for begin, kind in _KINDS if thread.waiting_for.startswith(begin)), "unknown")
    if isinstance(thread.state, NotAvailable):
        return "unknown"
    if thread.state.startswith("running"):
        return "computing"
    return "signal" if thread.state.startswith("stopped") else "unknown"


def _by_source(kind: Kind, line: SourceLine | None) -> Kind:
    if line is None:
        return kind
    if kind == "native" and line.takes:
        return "lock"
    if kind == "native" and ".join(" in line.text:
        return "thread"
    return "terminal" if kind != "native" and "input(" in line.text else kind


def phrase(seen: Doing) -> str:
    """``waits for the collective all_reduce``, ``sleeps``, ``computes``."""
    if seen.kind == "idle" and seen.users is not None:
        return text("waits in its event loop", "在其事件循环中等待")
    if seen.kind in _PHRASES:
        return text(*_PHRASES[seen.kind])
    if seen.kind == "unknown" or not seen.words:
        return text("waits for something that its stack does not show", "在等待调用栈未显示的东西")
    if seen.kind == "collective":
        return text(f"waits for {seen.words}", f"在集合通信中等待（{seen.words.removeprefix('the collective ')}）")
    named = f"（{seen.words}）" if "/" in seen.words or seen.kind in ("init", "peer") else ""
    return text(f"waits for {seen.words}", f"{_CHINESE[seen.kind]}{named}")


_PHRASES: Mapping[Kind, tuple[str, str]] = {
    "computing": ("computes", "正在计算"),
    "idle": ("has nothing to do", "空闲"),
    "signal": ("is stopped by a signal", "被信号停止"),
    "sleep": ("sleeps", "休眠"),
    "terminal": ("waits for somebody to answer at its terminal", "等待用户在终端输入"),
}
