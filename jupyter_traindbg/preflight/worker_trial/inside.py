"""What runs in the trial worker itself, on whatever node Ray puts it: import the class, make one, call it, and say what that took.

It travels there by value, so it imports nothing of this package and runs on any Python that Ray runs on. What it answers is plain data.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import os
import resource
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any

__all__ = ["TraindbgTrial"]

Answer = dict[str, Any]
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
DECLARED = ("num_cpus", "num_gpus", "memory", "resources")


class TraindbgTrial:
    """The actor. Every answer is a dict; ``error`` is there where the user's code raised."""

    def __init__(self) -> None:
        self.found: Any = None
        self.made: Any = None

    def here(self) -> Answer:
        """That the process is there, where, and what it has cost so far."""
        ray = sys.modules["ray"]
        node = ray.get_runtime_context().get_node_id()
        return {"pid": os.getpid(), "node_id": node, "cpu_s": _cpu_s(), "rss_bytes": _rss()}

    def load(self, module: str, name: str, paths: Sequence[str]) -> Answer:
        """Import the class. ``declared`` is what its ``@ray.remote`` asks for."""
        for path in reversed(paths):
            if os.path.isdir(path) and path not in sys.path:
                sys.path.insert(0, path)
        answer = _timed(lambda: getattr(importlib.import_module(module), name))
        self.found = answer.pop("value", None)
        options = getattr(self.found, "_default_options", None) or {}
        answer["declared"] = {key: options[key] for key in DECLARED if options.get(key) is not None}
        actor_class = getattr(self.found, "__ray_metadata__", None)
        if actor_class is not None:
            self.found = actor_class.modified_class
        if "error" not in answer and not isinstance(self.found, type):
            answer.update(error=f"{module}:{name} is no class", where=None)
        return answer

    def make(self, arguments: Mapping[str, Any]) -> Answer:
        """Make one."""
        answer = _timed(lambda: self.found(**arguments))
        self.made = answer.pop("value", None)
        return answer

    def call(self, method: str, arguments: Sequence[Any]) -> Answer:
        """Call it once; what it returns is dropped."""

        def once() -> Any:
            value = getattr(self.made, method)(*arguments)
            return asyncio.run(_awaited(value)) if inspect.isawaitable(value) else value

        answer = _timed(once)
        answer.pop("value", None)
        return answer

    def cost(self) -> Answer:
        """What it has of the machine, now that it is there."""
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        threads = len(os.listdir("/proc/self/task")) if os.path.isdir("/proc/self/task") else 0
        return {
            "peak_bytes": peak,
            "own_bytes": max(0, peak - _shared()),
            "threads": threads,
            "gpu_bytes": _gpu_bytes(),
        }


async def _awaited(value: Any) -> Any:
    return await value


def _timed(what: Callable[[], Any]) -> Answer:
    before, began = _cpu_s(), time.monotonic()
    answer: Answer = {}
    try:
        answer["value"] = what()
    except BaseException as e:  # noqa: BLE001 - SystemExit of the user's code as well: it is told, and the trial goes on
        answer.update(error=_words(e), where=_where(e))
    answer.update(took_s=time.monotonic() - began, cpu_s=_cpu_s() - before, rss_bytes=_rss())
    return answer


def _words(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return type(error).__name__ + (f": {lines[0][:300]}" if lines else "")


def _where(error: BaseException) -> str | None:
    """The innermost frame of the user's own code."""
    frames = [
        f for f in traceback.extract_tb(error.__traceback__) if f.filename != __file__ and "importlib" not in f.filename
    ]
    own = [f for f in frames if "site-packages" not in f.filename and f"{os.sep}lib{os.sep}python" not in f.filename]
    last = (own or frames)[-1:]
    return f"{last[0].filename}:{last[0].lineno} {last[0].name}" if last else None


def _cpu_s() -> float:
    """Of all threads of this process, and of the children that have ended."""
    of = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(used.ru_utime + used.ru_stime for used in of)


def _rss() -> int:
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * PAGE_BYTES
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _shared() -> int:
    """Resident bytes that other processes map as well: one more worker does not need them again."""
    try:
        with open("/proc/self/smaps_rollup", encoding="ascii") as file:
            lines = [line.split() for line in file]
    except OSError:
        return 0
    return sum(int(line[1]) * 1024 for line in lines if line and line[0] in ("Shared_Clean:", "Shared_Dirty:"))


def _gpu_bytes() -> int | None:
    """By torch's allocator, if the class has brought torch to a GPU; None where it has not."""
    torch = sys.modules.get("torch")
    try:
        return int(torch.cuda.max_memory_reserved()) if torch is not None and torch.cuda.is_initialized() else None
    except Exception:  # noqa: BLE001 - half imported, or a build without CUDA
        return None
