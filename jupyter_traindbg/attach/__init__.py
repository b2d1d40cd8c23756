"""Ways into a training process, one file each; all end in links (`jupyter_traindbg.attach.base.Link`)."""

from __future__ import annotations

import logging
import re
from importlib import import_module

from ..errors import AmbiguousTarget, NoTarget, UnknownTarget
from ..language import text
from ..model import TargetName, names_to_type, parse_target
from .base import Link, Way

log = logging.getLogger(__name__)

_RAY_JOB = re.compile(r"[0-9a-f]{8}|raysubmit_\w+")
_PID = re.compile(r"(?i)(?:pid|process)[ =:]+(\d+)")
WAYS = {"process": "process", "kernel": "kernel", "launcher": "torchrun", "self": "local", "socket": "agent_socket"}
"""The module by the kind of the target. A Ray job, whose processes may be anywhere, is `jupyter_traindbg.ray.job`'s."""
SPELLED_OUT = 64
"""Processes that are told of one by one, of a job or of a machine."""


def resolve(named: TargetName, deadline_s: float) -> list[Link]:
    """The links that a target names. Raises what the way in raises."""
    way: Way = import_module(f"{__name__}.{WAYS[named.kind]}")
    links = way.links(named, deadline_s)
    for link in links[:SPELLED_OUT]:
        log.debug("%s: rank %d of %d is process %d", named, link.rank, link.world_size, link.pid)
    if len(links) > SPELLED_OUT:
        log.debug("%s: and %d processes more", named, len(links) - SPELLED_OUT)
    return links


def parsed(named: str) -> TargetName:
    """What `named` means. Raises `UnknownTarget`, with what may have been meant."""
    target = parse_target(named)
    if target is not None:
        return target
    hint = text("a job of Ray is ray:{job}, or ray:{job}@ADDRESS", job=named) if _RAY_JOB.fullmatch(named) else None
    if (pid := _PID.fullmatch(named)) is not None:
        hint = text("a pid stands alone: {pid}", pid=pid[1])
    raise UnknownTarget(text("{named!r} is not a target", named=named), hint)


def only_candidate() -> str:
    """The one thing here that trains. Raises `NoTarget`, or `AmbiguousTarget` with the list."""
    from . import local
    from .discover import targets

    found = targets()
    for t in found[:SPELLED_OUT]:
        log.debug("seen: %s %s, %s", t.kind, t.name, t.why_not or ("may be entered" if t.attachable else "closed"))
    seen = [t for t in found if t.part_of is None and (t.kind != "kernel" or t.framework)]
    names = names_to_type(found)
    jobs = {t.name: t.notebook or t.command for t in seen if t.attachable}
    if local.trains_here():
        jobs[str(TargetName("self"))] = text("this kernel")
    if len(jobs) == 1:
        return next(iter(jobs))
    if jobs:
        candidates = {names.get(name, name): runs for name, runs in jobs.items()}
        raise AmbiguousTarget(text("there are {count} jobs to choose from", count=len(jobs)), candidates=candidates)
    closed = text("; ").join(text("{who}: {what}", who=t.name, what=t.why_not) for t in seen)
    raise NoTarget(
        text("no training process was found that lets us in ({closed})", closed=closed)
        if closed
        else text("no training process was found")
    )
