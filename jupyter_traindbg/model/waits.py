"""What a thread does at one moment: its state, and what it waits for. Rules go by the kinds; people read `Wait` as words.

The English words are here, since JSON and tables have them; `jupyter_traindbg.words.waits` has the Chinese ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from .base import Worded

__all__ = ["ASLEEP", "NO_WAIT", "ThreadState", "Wait", "WaitKind"]

ThreadState = Literal[
    "running", "waiting", "in uninterruptible sleep", "stopped by a signal", "stopped by a debugger", "ended", "idle"
]
"""As the kernel has it: ``waiting`` may be interrupted, the uninterruptible sleep is one in the disk, a driver or a file system; ``idle``
is a kernel thread.
"""
ASLEEP: frozenset[ThreadState] = frozenset(("waiting", "in uninterruptible sleep"))

WaitKind = Literal[
    "backward", "child", "collective", "coroutine", "device", "file", "future", "gil", "gpu", "idle", "init", "loader", "loader_end",
    "lock", "native", "network", "none", "peer", "pipe", "process", "queue", "ray", "sleep", "teardown", "terminal", "thread",
]  # fmt: skip
"""``native`` is C code: a lock or another thread. ``thread``: a condition, an event, or a thread to end; ``lock`` also of files and between
processes. ``init`` is joining a process group, ``teardown`` closing it; ``loader`` is the next batch, ``loader_end`` the end of the
DataLoader's workers; ``idle`` is a helper without work.
"""


@dataclass(frozen=True)
class Wait(Worded):
    """What a thread waits for. ``str()`` of it is English: ``the collective all_reduce``, ``data from the file /data/shard-7``.

    ``op``: the call that waits, where a kind has several: the collective or the point-to-point call of a ``collective`` or a ``peer``;
    ``read``, ``write``, ``poll`` or ``connect`` of the ``network``. ``on``: the file or device, or the thread that keeps the GIL, where
    that is known; of a ``coroutine`` whatever it awaits.
    """

    kind: WaitKind
    op: str = ""
    on: str = ""

    def __bool__(self) -> bool:
        return self.kind != "none"

    def __str__(self) -> str:
        return self.told_by(ENGLISH)

    def told_by(self, templates: Mapping[tuple[WaitKind, str], tuple[str, str]]) -> str:
        """In the words of a language: for each kind and op, else kind alone, those with and those without ``on``."""
        named, unnamed = templates.get((self.kind, self.op)) or templates[self.kind, ""]
        return (named if self.on else unnamed).format(op=self.op, on=self.on)


NO_WAIT = Wait("none")
"""It does not wait, or nothing tells for what; falsy."""


def _same(words: str) -> tuple[str, str]:
    return words, words


ENGLISH: Mapping[tuple[WaitKind, str], tuple[str, str]] = {
    ("backward", ""): _same("the backward pass (autograd's threads; under DDP also its all_reduce)"),
    ("child", ""): _same("a child process to end"),
    ("child", "program"): _same("a subprocess to end"),
    ("child", "spawned"): _same("the processes that it spawned"),
    ("collective", ""): _same("the collective {op}"),
    ("collective", "ddp_shapes"): _same("the other ranks to build their DDP"),
    ("collective", "ddp_parameters"): _same("the broadcast of parameters to all ranks"),
    ("collective", "ddp_buffers"): _same("the broadcast of DDP's buffers"),
    ("coroutine", ""): _same("{on}"),
    ("device", ""): ("the device {on}", "a device"),
    ("file", ""): ("the file {on}", "a file"),
    ("file", "list"): ("the file {on} to be listed", "a directory to be listed"),
    ("file", "look_up"): ("the file {on} to be looked up", "a file to be looked up"),
    ("file", "open"): ("the file {on} to open", "a file to open"),
    ("file", "read"): ("data from the file {on}", "data from a file, pipe or socket"),
    ("file", "sync"): ("the disk (fsync of {on})", "the disk (fsync)"),
    ("file", "write"): ("the file {on} to take its data", "a file, pipe or socket to take its data"),
    ("future", ""): _same("the result of a future"),
    ("gil", ""): ("the GIL, held by {on}", "the GIL"),
    ("gpu", ""): _same("the GPU"),
    ("gpu", "synchronize"): _same("the GPU (CUDA synchronise)"),
    ("idle", ""): _same("idle"),
    ("idle", "batches"): _same("idle: waiting for batches to pin"),
    ("idle", "connections"): _same("idle: waiting for a connection"),
    ("idle", "events"): _same("idle: its event loop waits for events"),
    ("idle", "indices"): _same("idle: waiting for indices"),
    ("idle", "ranks"): _same("idle: watching its ranks"),
    ("idle", "sending"): _same("idle: nothing to send"),
    ("idle", "work"): _same("idle: waiting for work"),
    ("init", ""): _same("the other ranks to join ({op})"),
    ("loader", ""): _same("the next batch from the DataLoader workers"),
    ("loader_end", ""): _same("the DataLoader workers to end"),
    ("lock", ""): _same("a lock"),
    ("lock", "file"): ("a lock on the file {on}", "a lock on a file"),
    ("lock", "lock_file"): _same("a lock file"),
    ("lock", "shared"): _same("a lock shared between processes"),
    ("native", ""): _same("a lock or another thread"),
    ("network", ""): _same("a socket"),
    ("network", "connect"): _same("a connection to be made"),
    ("network", "poll"): _same("a socket or a pipe"),
    ("network", "read"): _same("data from a socket"),
    ("network", "write"): _same("a socket to take its data"),
    ("none", ""): _same(""),
    ("peer", ""): _same("its peer in {op}"),
    ("pipe", ""): _same("a pipe"),
    ("pipe", "read"): _same("data from a pipe"),
    ("pipe", "write"): _same("a pipe to take its data"),
    ("process", ""): _same("another process"),
    ("process", "accept"): _same("another process to connect"),
    ("process", "get"): _same("an item from another process (a queue)"),
    ("process", "put"): _same("room in a queue to another process"),
    ("process", "receive"): _same("data from another process (a pipe)"),
    ("process", "result"): _same("the result of a worker process"),
    ("process", "send"): _same("another process to take its data (a pipe)"),
    ("queue", ""): _same("an item from a queue"),
    ("queue", "join"): _same("a queue to be worked off"),
    ("queue", "put"): _same("room in a queue"),
    ("ray", ""): _same("a result from Ray"),
    ("ray", "get"): _same("ray.get"),
    ("ray", "wait"): _same("ray.wait"),
    ("sleep", ""): _same("sleep"),
    ("teardown", ""): _same("the process group to close"),
    ("terminal", ""): _same("the terminal"),
    ("terminal", "read"): _same("data from the terminal"),
    ("terminal", "write"): _same("the terminal to take its data"),
    ("thread", ""): _same("a condition or an event"),
    ("thread", "join"): _same("another thread to end"),
}
"""By kind and op: the words where ``on`` is known, and where it is not."""
