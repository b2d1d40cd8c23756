"""The training jobs of this host as lines of a list, and what is done with one of them. Called from worker threads; knows no HTTP."""

from __future__ import annotations

import os
import re
import shutil
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .. import commands
from ..attach.discover import targets
from ..errors import TraindbgError, UnknownTarget, UsageError
from ..language import text
from ..model import Diagnosis, Target, available, is_cluster
from ..report.opening import opened
from . import passive
from .following import Following

if TYPE_CHECKING:
    from ..job import Job

__all__ = ["Jobs"]

FRESH_S = 0.8
"""Browser tabs that ask at about the same time share one look."""
VERB_S = 20.0


class Jobs:
    """What the server knows of this host's jobs. `root` is the server's directory: where reports and checkpoints go by default."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.following = Following()
        self._looking = threading.Lock()
        self._taken: tuple[float, dict[str, Any]] | None = None

    # --- the list ---------------------------------------------------------------------------------------------------

    def look(self) -> dict[str, Any]:
        """All jobs, each as plain JSON. 20 ms for an ordinary host, 1 ms more a rank with an agent; brings nothing into any process."""
        with self._looking:
            if self._taken is None or time.monotonic() - self._taken[0] > FRESH_S:
                began = time.monotonic()
                lines = self._lines()
                answer = {"host": socket.gethostname(), "jobs": lines, "taken_s": time.monotonic() - began}
                self._taken = time.monotonic(), answer
            return self._taken[1]

    def _lines(self) -> list[dict[str, Any]]:
        groups = _groups(targets())
        figures = passive.seen({name: members for name, (_, members) in groups.items()})
        followed = self.following.snapshots()
        lines = []
        for name, (head, members) in groups.items():
            line = {**_line(head, members), **figures[name], "followed": False, "gone": False}
            lines.append({**line, **followed.pop(name, {})})
        # What was followed and is there no more stays in the list, with its end, until it is let go.
        lines += [{**_gone(name), **snapshot, "gone": True} for name, snapshot in followed.items()]
        return lines

    # --- one job ----------------------------------------------------------------------------------------------------

    def follow(self, name: str) -> None:
        """Bring agents into a job and keep reading its steps until `Following.drop`. Raises a `TraindbgError`."""
        self.following.add(self._checked(name))
        self._taken = None

    def unfollow(self, name: str) -> None:
        """Let go of a job; its agents leave with us, unless others use them. Nothing happens where it is not followed."""
        self.following.drop(name)
        self._taken = None

    def stacks(self, name: str) -> dict[str, Any]:
        """What every thread of every rank does, as the text that `%stacks` prints. Brings nothing into any process."""
        with self._job(name) as job:
            return {"text": str(job.stacks(timeout=VERB_S / 2))}

    def diagnose(self, name: str) -> dict[str, Any]:
        """What is wrong with the job. Enters its ranks for as long as it takes."""
        from ..questions.jobless import launcher

        target = self._checked(name)
        try:
            with self._job(target) as job:
                result: Diagnosis | None = job.diagnose(timeout=VERB_S / 2)
        except TraindbgError:
            # a launcher whose ranks have died has a verdict all the same
            result = launcher.ask(target, timeout=VERB_S / 2)
            if result is None:
                raise
        assert result is not None
        findings = result.to_dict()["findings"]
        with commands.about(target):
            return {"findings": commands.spelled_all(findings), "text": str(result)}

    def report(self, name: str) -> dict[str, Any]:
        """Write the report's zip into the server's directory and unpack it; its path there, and that of its page."""
        relative = f"traindbg-report-{_file_name(name)}-{time.strftime('%Y%m%d-%H%M%S')}.zip"
        with self._job(name) as job:
            report = job.report(os.path.join(self.root, relative), timeout=VERB_S / 2)
        report = opened(report, notebook=True)
        index = os.path.relpath(report.index, self.root) if report.index else None
        return {"path": relative, "text": str(report), "index": index}

    def plan(self, name: str, directory: str | None) -> dict[str, Any]:
        """What an emergency checkpoint would be, and where. Changes nothing."""
        suggested = os.path.join("traindbg-checkpoints", f"{_file_name(name)}-{time.strftime('%Y%m%d-%H%M%S')}")
        with self._job(name) as job:
            plan = job.checkpoint_plan(self.place(directory or suggested), timeout=VERB_S / 2)
        return {
            "directory": plan.directory,
            "kind": plan.kind,
            "bytes": plan.bytes,
            "free_bytes": plan.free_bytes if available(plan.free_bytes) else _free_bytes(plan.directory),
            "pause_s": plan.pause_s if available(plan.pause_s) else None,
            "there": plan.there,
            "still": list(plan.still),
            "missing": list(plan.missing),
            "note": plan.note,
        }

    def place(self, directory: str) -> str:
        """The directory of a checkpoint: as it is where absolute, else below the server's. Raises `UsageError`."""
        if not directory.strip() or "\0" in directory:
            raise UsageError(text("a checkpoint needs a directory"), text("name one"))
        return os.path.abspath(os.path.join(self.root, os.path.expanduser(directory)))

    def checkpoint(self, name: str, directory: str, progress: Callable[[int, int], None]) -> dict[str, Any]:
        """Write an emergency checkpoint to a directory that does not exist yet, read it again, and say what is there."""
        from ..checkpoints import verify

        place = self.place(directory)
        os.makedirs(os.path.dirname(place), exist_ok=True)
        with self._job(name) as job:
            saved = job.checkpoint(place, progress=progress)
        checked = verify(saved.directory)
        return {
            "directory": saved.directory,
            "bytes": saved.bytes,
            "duration_s": saved.duration_s,
            "exact": saved.exact,
            "verified": not checked.findings,
            "text": f"{saved}\n\n{checked}",
        }

    def _checked(self, name: str) -> str:
        """`name`, if it is of a job in the list: a browser names nothing else. Raises `UnknownTarget`."""
        if name not in _groups(targets()) and name not in self.following:
            raise UnknownTarget(
                text("{name!r} is no job of this host (any more)", name=name), text("look at the list again")
            )
        return name

    def _job(self, name: str) -> _Borrowed:
        return _Borrowed(self.following.job(name), self._checked(name))


class _Borrowed:
    """A job for one question: the one that is followed, or a new one that is closed afterwards."""

    def __init__(self, followed: Job | None, name: str) -> None:
        self._followed, self._name = followed, name
        self._own: Job | None = None

    def __enter__(self) -> Job:
        if self._followed is not None:
            return self._followed
        from ..job import connect

        self._own = connect(self._name, timeout=VERB_S / 2)
        return self._own

    def __exit__(self, *raised: object) -> None:
        if self._own is not None:
            self._own.close()


def _groups(found: Sequence[Target]) -> dict[str, tuple[Target, list[Target]]]:
    """Jobs by name, each with its processes. Kernels in which nothing trains are left out, and this one's own are not to be seen."""
    by_name = {target.name: target for target in found}

    def top(target: Target) -> Target:
        for _ in range(8):  # a rank, its launcher, its Ray cluster
            above = by_name.get(target.part_of or "")
            if above is None:
                break
            target = above
        return target

    groups: dict[str, tuple[Target, list[Target]]] = {}
    for target in found:
        head = top(target)
        if head.kind == "kernel" and not head.framework and not head.agent:
            continue
        groups.setdefault(head.name, (head, []))
        if target.kind != "launcher":
            groups[head.name][1].append(target)
    return {name: (head, _once(members)) for name, (head, members) in groups.items()}


def _once(members: Sequence[Target]) -> list[Target]:
    return list({member.pid: member for member in members}.values())


def _line(head: Target, members: Sequence[Target]) -> dict[str, Any]:
    return {
        "name": head.name,
        "kind": "ray" if is_cluster(head.name) else head.kind,
        "pid": head.pid,
        "command": head.command,
        "user": head.user,
        "framework": head.framework if available(head.framework) else None,
        "processes": len(members),
        "ranks": head.world_size or (len(members) if head.kind == "launcher" else 1),
        "running_s": head.running_s,
        "agent": bool(members) and all(member.agent for member in members),
        "why_not": head.why_not,
    }


def _gone(name: str) -> dict[str, Any]:
    nobody = replace(_NOBODY, name=name)
    return {
        **_line(nobody, []),
        "step": None,
        "own_step": None,
        "at": "",
        "loss": [],
        "rss_bytes": None,
        "cuda_bytes": None,
        "state": None,
    }


_NOBODY = Target(name="", pid=0, kind="process", command="", user="", running_s=0.0, framework="")


def _free_bytes(directory: str) -> int | None:
    """The free space for a directory that does not exist yet: where its nearest parent lies."""
    while not os.path.isdir(directory):
        directory = os.path.dirname(directory)
    try:
        return shutil.disk_usage(directory).free
    except OSError:
        return None  # a file system that does not tell


def _file_name(target: str) -> str:
    """A target's text as a part of a file's name."""
    return re.sub(r"[^A-Za-z0-9.-]+", "-", target).strip("-.")[:60] or "job"
