"""One rank while the evidence is taken: two threads, one that enters it and one that looks, write down here what they get."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import statistics
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from .. import evidence, evidence_collectives, evidence_compiling, evidence_variables
from ..attach.base import Link
from ..errors import DeadlineExceeded, GilHeld, TraindbgError
from ..frames.whose import cells_of
from ..model import (
    CallSites,
    Compilations,
    Coroutine,
    Handled,
    Joining,
    Look,
    Making,
    Maybe,
    NotAvailable,
    Pace,
    ProcessStacks,
    Rank,
    RankCollectives,
    Replica,
    Scope,
    Step,
)
from ..outside import procfs
from ..step_parts import PARTS, StepPart
from . import stacks

__all__ = ["Plan", "Watched"]

T = TypeVar("T")

PROBE_S = 2.0
SURELY_STUCK_S = 0.3
"""A slow disk keeps a thread in uninterruptible sleep for less."""
RECENT_STEPS = 32


@dataclass
class Plan:
    """Who does what when, on the monotonic clock. The window opens once: when all are entered, or patience has run out."""

    began: float
    ends: float
    enter_s: float
    window_s: float
    opened: threading.Event = field(default_factory=threading.Event)
    opened_at: float = 0.0

    def open(self) -> None:
        self.opened_at = time.monotonic()
        self.opened.set()

    def sleep_to(self, share: float) -> None:
        """Until that share of the window has passed."""
        until = min(self.opened_at + share * self.window_s, self.ends)
        time.sleep(max(0.0, until - time.monotonic()))

    @property
    def left_s(self) -> float:
        return self.ends - time.monotonic()


class Watched:
    """What is known about the process of one link so far. Nothing here raises but programming errors."""

    def __init__(self, link: Link, plan: Plan) -> None:
        self.link, self._plan = link, plan
        self.who: Rank | None = None
        self.environ: Mapping[str, str] | NotAvailable = NotAvailable("not read in time")
        self.looks: list[Look] = []
        self.pace: Maybe[Pace] = NotAvailable("not asked in time")
        self.collectives: Maybe[RankCollectives] = NotAvailable("not asked in time")
        self.call_sites: Maybe[CallSites] = NotAvailable("not asked in time")
        self.calls_in_window: Maybe[int] = NotAvailable("not asked in time")
        self.joining: Maybe[Joining] = NotAvailable("not asked in time")
        self.making: Maybe[Making] = NotAvailable("not asked in time")
        self.coroutines: Sequence[Coroutine] = ()
        self.scopes: Sequence[Scope] = ()
        """The functions that its training thread is in, with their variables, where it made no step."""
        self.scopes_before: Sequence[Scope] = ()
        """The same half a window earlier, where it was asleep."""
        self.handled: Sequence[Handled] = ()
        self.replicas: Sequence[Replica] = ()
        self.compilations: Maybe[Compilations] = NotAvailable("not asked in time")
        self._closed = ""
        """Why it cannot be entered."""
        self._mute = ""
        """Why its agent does not answer, although it is there."""
        self._blind = ""
        """Why a look from outside failed."""
        self.shut_out = False
        """Whether its agent is in it, or on its way, and cannot run."""

    @property
    def rank(self) -> int:
        return self.link.rank

    @property
    def pid(self) -> int:
        return self.link.pid

    @property
    def problem(self) -> str:
        """Why its agent does not answer, in one line; empty where it does."""
        outside_too = self._blind if not self.looks else ""
        late = "no agent came in in time" if self.link.client is None else ""
        return self._closed or self._mute or outside_too or late

    # --- the two threads

    def enter(self) -> None:
        """Bring the agent in and have the process say who it is. One that the kernel does not let go is left alone."""
        if self._has_ended():
            return
        if procfs.uninterruptible([self.link.pid], settle_s=SURELY_STUCK_S):
            self._closed = f"process {self.link.pid} is in uninterruptible sleep: nothing is tried inside"
            return
        self.who = self.link.identify(self._plan.enter_s)
        if not self.who.agent:
            reason = self.link.problem
            if self.link.client is None:
                self.shut_out = self.shut_out or isinstance(reason, GilHeld)
                self._closed = reason.cause if reason is not None else self.who.note
            else:
                self._mute = self._mute or self.who.note

    def watch(self) -> None:
        """Look three times over the window; ask the agent at its two ends. Of one that has ended there is nothing to see."""
        if self._has_ended():
            return
        self._read_environ()
        self._plan.opened.wait(max(0.0, self._plan.left_s))
        self._look(children=True)
        pace_before, calls_before = self._first_pace(), self._collectives()
        self._plan.sleep_to(0.5)
        self._look(children=False)
        if isinstance(calls_before, NotAvailable):
            calls_before = self._collectives()  # its agent may have come meanwhile
        if self._waits_in("sleep"):
            self.scopes_before = self._variables()[0]
        self._plan.sleep_to(1.0)
        self.pace = self._pace(pace_before)
        self.collectives = self._collectives()
        self.call_sites = self._ask("call_sites", {}, evidence_collectives.call_sites)
        self.calls_in_window = _new_calls(calls_before, self.collectives)
        self.joining, self.making = self._joining()
        self.compilations = self._ask("compiling", {}, evidence_compiling.compilations)
        self._look(children=True)
        if self._waits_in("idle", "events"):  # what it waits for is on no stack then
            told = self._ask("coroutines", {}, evidence.coroutines)
            self.coroutines = () if isinstance(told, NotAvailable) else told
        if isinstance(self.pace, NotAvailable) or self.pace.steps_in_window == 0:
            self._where_it_stands()

    def _where_it_stands(self) -> None:
        self.scopes, self.handled = self._variables()
        replicas = self._ask("ddp", {}, evidence_variables.replicas)
        self.replicas = () if isinstance(replicas, NotAvailable) else replicas

    def _variables(self) -> tuple[Sequence[Scope], Sequence[Handled]]:
        told = self._ask("variables", {}, dict)
        if isinstance(told, NotAvailable):
            return (), ()
        return evidence_variables.scopes(told), evidence_variables.handled(told)

    def cell(self, file: str) -> str | None:
        """The text of the cell that the process runs as `file`; None where it is none, or its agent does not tell in time."""
        if cells_of(file) is None or self.problem:
            return None
        with contextlib.suppress(TraindbgError):
            text = self.link.call("cell", {"file": file}, min(PROBE_S, self._plan.left_s))["text"]
            return None if text is None else str(text)
        return None

    def _has_ended(self) -> bool:
        ended = self.link.ended()
        if ended is not None:
            self._closed = ended.cause
        return ended is not None

    def _read_environ(self) -> None:
        pid = self.link.pid
        if procfs.uninterruptible([pid]):
            self.environ = NotAvailable("it is in uninterruptible sleep: reading it could block")
        elif os.access(f"/proc/{pid}/environ", os.R_OK):
            self.environ = procfs.training_environ(pid)
        else:
            self.environ = NotAvailable("it is closed to this user, or the process is gone")

    # --- stacks

    def _look(self, *, children: bool) -> None:
        at = time.monotonic()
        if self._plan.left_s < 0.05:
            return
        try:
            seen = self._stacks(children)
        except TraindbgError as e:
            self._blind = e.cause
            return
        self.looks.append(Look(at - self._plan.began, tuple(seen)))

    def _stacks(self, children: bool) -> list[ProcessStacks]:
        client = None if self._mute else self.link.client
        return stacks.of(self.link, client, self._plan.ends, children=children, mute=self._is_mute)

    def _is_mute(self, why: TraindbgError) -> None:
        if isinstance(why, DeadlineExceeded):
            self.shut_out = True
            self._mute = f"its agent has not answered for {stacks.QUICK_S:g} s: no Python runs in it, as where C code holds the GIL"
        else:
            self._mute = why.cause

    def _waits_in(self, kind: str, op: str = "") -> bool:
        """Whether its training thread waited so at the last look."""
        threads = [t for look in self.looks[-1:] for p in look.processes if p.pid == self.link.pid for t in p.threads]
        waits = [t.waiting_for for t in threads if t.training and t.waiting_for is not None]
        return any((wait.kind, wait.op) == (kind, op) for wait in waits)

    # --- what only the agent knows

    def _ask(self, method: str, params: dict[str, Any], build: Callable[[Any], T]) -> Maybe[T]:
        client = self.link.client
        if client is None or self._mute:  # one that has not answered once would cost the same time at every question
            return NotAvailable(self.problem)
        try:
            return build(client.call(method, params, min(PROBE_S, max(0.05, self._plan.left_s))))
        except TraindbgError as e:
            return NotAvailable(e.cause)

    def _first_pace(self) -> Maybe[Mapping[str, Any]]:
        return self._ask("pace", {}, dict)

    def _pace(self, before: Maybe[Mapping[str, Any]]) -> Maybe[Pace]:
        rank, pid = self.link.rank, self.link.pid
        params = {"last": RECENT_STEPS, "deadline_s": 0.0}
        recorded = self._ask("steps", params, lambda answer: evidence.steps(rank, pid, answer).steps)
        # An agent that came within the window has counted from its arrival on.
        first: Mapping[str, Any] = {} if isinstance(before, NotAvailable) else before
        steps = () if isinstance(recorded, NotAvailable) else recorded
        pace = self._ask("pace", {}, lambda answer: _to_pace(answer, steps, first))
        if isinstance(pace, NotAvailable) or pace.optimizer_step is not None:
            return pace
        own = self._ask("counts", {}, lambda answer: max(answer["steps"], default=None))  # no step since the agent came
        return pace if isinstance(own, NotAvailable) else dataclasses.replace(pace, optimizer_step=own)

    def _joining(self) -> tuple[Maybe[Joining], Maybe[Making]]:
        told = self._ask("joining", {}, dict)
        if isinstance(told, NotAvailable):
            return told, told
        joining, making = told["joining"], told["making"]
        return (
            Joining(**joining) if joining else NotAvailable("it is not on its way into a process group"),
            Making(making["name"], tuple(making["ranks"]))
            if making
            else NotAvailable("it makes no other process group"),
        )

    def _collectives(self) -> Maybe[RankCollectives]:
        return self._ask(
            "collectives", {}, lambda answer: evidence_collectives.collectives(self.link.rank, self.link.pid, answer)
        )


def _to_pace(answer: Mapping[str, Any], recorded: Sequence[Step], first: Mapping[str, Any]) -> Pace:
    """`first`: what the same probe said at the beginning of the window; empty where no agent was there yet."""
    marks = answer["marks"]
    parts = {
        _part_key(part, recorded): [v for step in recorded if (v := getattr(step, part.field)) is not None]
        for part in PARTS
    }
    return Pace(
        steps=answer["step"],
        optimizer_step=marks[-1][2] if marks else None,
        since_last_s=answer["since_last_step_s"],
        usual_s=answer["usual_step_s"],
        recent_s=tuple(step.duration_s for step in recorded if step.duration_s is not None),
        steps_in_window=max(0, answer["step"] - first.get("step", 0)),
        gpu_busy=bool(first.get("gpu_busy") and answer["gpu_busy"]),
        parts={name: statistics.median(values) for name, values in parts.items() if values},
    )


def _part_key(part: StepPart, recorded: Sequence[Step]) -> str:
    """``forward``; ``before_backward`` where the calls of the model were not seen, and all before backward counts as forward."""
    if part.field == "forward_s" and not all(step.forward_seen for step in recorded):
        return "before_backward"
    return part.field.removesuffix("_s")


def _new_calls(before: Maybe[RankCollectives], after: Maybe[RankCollectives]) -> Maybe[int]:
    """How many collectives were issued between the two, over all groups."""
    if isinstance(after, NotAvailable):
        return after
    if isinstance(before, NotAvailable):
        return before
    then = {group.name: group.last_issued or 0 for group in before.groups}
    return sum(max(0, (group.last_issued or 0) - then.get(group.name, 0)) for group in after.groups)
