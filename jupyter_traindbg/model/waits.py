"""What a thread does at one moment: its state, and what it waits for. Rules go by the kinds; people read `Wait` as words.

The English words are here, since JSON and tables have them; `jupyter_traindbg.words.waits` says them in the reader's language.
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
    "lock", "native", "network", "none", "peer", "pipe", "process", "queue", "ray", "sleep", "store", "teardown", "terminal", "thread",
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
        return self.template.format(op=self.op, on=self.on)

    @property
    def template(self) -> str:
        """Its words in English, with ``{op}`` and ``{on}`` where they stand."""
        words = ENGLISH.get((self.kind, self.op)) or ENGLISH[(self.kind, "")]
        if isinstance(words, str):
            return words
        named, unnamed = words
        return named if self.on else unnamed


NO_WAIT = Wait("none")
"""It does not wait, or nothing tells for what; falsy."""


Templates = Mapping[tuple[WaitKind, str], str | tuple[str, str]]
"""The words for each kind and op, with an empty op for all others of a kind; two where ``on`` may be known: with it, and without."""

ENGLISH: Templates = {
    ("backward", ""): "the backward pass (autograd's threads; under DDP also its all_reduce)",
    ("child", ""): "a child process to end",
    ("child", "program"): "a subprocess to end",
    ("child", "spawned"): "the processes that it spawned",
    ("collective", ""): "the collective {op}",
    ("collective", "ddp_shapes"): "the other ranks to build their DDP",
    ("collective", "ddp_parameters"): "the broadcast of parameters to all ranks",
    ("collective", "ddp_buffers"): "the broadcast of DDP's buffers",
    ("coroutine", ""): "{on}",
    ("device", ""): ("the device {on}", "a device"),
    ("file", ""): ("the file {on}", "a file"),
    ("file", "list"): ("the file {on} to be listed", "a directory to be listed"),
    ("file", "look_up"): ("the file {on} to be looked up", "a file to be looked up"),
    ("file", "open"): ("the file {on} to open", "a file to open"),
    ("file", "read"): ("data from the file {on}", "data from a file, pipe or socket"),
    ("file", "sync"): ("the disk (fsync of {on})", "the disk (fsync)"),
    ("file", "write"): ("the file {on} to take its data", "a file, pipe or socket to take its data"),
    ("future", ""): "the result of a future",
    ("gil", ""): ("the GIL, held by {on}", "the GIL"),
    ("gpu", ""): "the GPU",
    ("gpu", "synchronize"): "the GPU (CUDA synchronise)",
    ("idle", ""): "idle",
    ("idle", "batches"): "idle: waiting for batches to pin",
    ("idle", "calls"): "idle: waiting for a call",
    ("idle", "connections"): "idle: waiting for a connection",
    ("idle", "events"): "idle: its event loop waits for events",
    ("idle", "indices"): "idle: waiting for indices",
    ("idle", "ranks"): "idle: watching its ranks",
    ("idle", "sending"): "idle: nothing to send",
    ("idle", "work"): "idle: waiting for work",
    ("init", ""): "the other ranks to join ({op})",
    ("loader", ""): "the next batch from the DataLoader workers",
    ("loader_end", ""): "the DataLoader workers to end",
    ("lock", ""): "a lock",
    ("lock", "file"): ("a lock on the file {on}", "a lock on a file"),
    ("lock", "lock_file"): "a lock file",
    ("lock", "shared"): "a lock shared between processes",
    ("native", ""): "a lock or another thread",
    ("network", ""): "a socket",
    ("network", "connect"): "a connection to be made",
    ("network", "poll"): "a socket or a pipe",
    ("network", "read"): "data from a socket",
    ("network", "write"): "a socket to take its data",
    ("none", ""): "",
    ("peer", ""): "its peer in {op}",
    ("pipe", ""): "a pipe",
    ("pipe", "read"): "data from a pipe",
    ("pipe", "write"): "a pipe to take its data",
    ("process", ""): "another process",
    ("process", "accept"): "another process to connect",
    ("process", "get"): "an item from another process (a queue)",
    ("process", "put"): "room in a queue to another process",
    ("process", "receive"): "data from another process (a pipe)",
    ("process", "result"): "the result of a worker process",
    ("process", "send"): "another process to take its data (a pipe)",
    ("queue", ""): "an item from a queue",
    ("queue", "join"): "a queue to be worked off",
    ("queue", "put"): "room in a queue",
    ("ray", ""): "a result from Ray",
    ("ray", "get"): "ray.get",
    ("ray", "wait"): "ray.wait",
    ("sleep", ""): "sleep",
    ("store", ""): ("the key {on} of the process group's store", "a key of the process group's store"),
    ("teardown", ""): "the process group to close",
    ("terminal", ""): "the terminal",
    ("terminal", "read"): "data from the terminal",
    ("terminal", "write"): "the terminal to take its data",
    ("thread", ""): "a condition or an event",
    ("thread", "join"): "another thread to end",
}
