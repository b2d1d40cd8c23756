"""What is wrong, who is to blame and what to do: findings, stacks with the ranks that share them, ranks by process groups, workers."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from ..frames.whose import at_place, line_of, short_path, short_place
from ..language import pgettext, text
from ..model import Collectives, Diagnosis, NotAvailable, RankState, RayWorker, Stacks, Subject
from ..render.clean import clean
from ..render.collective_rows import RankRow, families_of, family_of, family_words, row_of
from ..render.common import clock
from ..render.frames import runs
from ..render.grouping import StackGroup, group_by, group_stacks
from ..render.views.diagnosis import state_words
from ..words.durations import duration
from ..words.ranks import compact_ranks
from ..words.waits import awaited
from ..words.waits import state_words as thread_state
from .cards import cards, leads, silences
from .view import Content, Host, View

__all__ = ["DiagnosisView"]

DIAGNOSE_S = 20.0
LOOK_S = 10.0
GROUPS, FRAMES = 200, 200
FAMILIES = 12
"""Columns of the matrix: a job with more kinds of groups is told by the first ones."""


class DiagnosisView(View):
    """Looks when it is asked to, and once when its tab is opened first: a diagnosis enters every rank and takes seconds."""

    name: ClassVar[str] = "diagnosis"

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._doing: set[str] = set()
        self._shown: dict[str, dict[str, Any]] = {}
        self._does: dict[str, tuple[str, Callable[[], dict[str, Any]]]] = {
            "diagnose": (text("diagnosing the job"), self._diagnose),
            "stacks": (text("reading the stacks"), self._stacks),
            "collectives": (text("reading the collectives"), self._collectives),
        }
        if callable(getattr(host.job, "workers", None)):
            self._does["workers"] = (text("asking Ray for its workers"), self._workers)

    def opened(self) -> None:
        if "diagnosis" not in self._shown:
            self._begin("diagnose")

    def received(self, content: Content, buffers: Sequence[memoryview]) -> None:
        do, page = content.get("do"), content.get("from")
        if do == "hello":
            to = page if isinstance(page, str) else None
            self.host.send({"kind": "hello", "can": list(self._does), "doing": sorted(self._doing)}, to=to)
            for message in list(self._shown.values()):
                self.host.send(message, to=to)
        elif isinstance(do, str) and do in self._does:
            self._begin(do)

    def _begin(self, do: str) -> None:
        """Do it, unless it is under way; whoever asks meanwhile gets that answer."""
        if do in self._doing:
            return
        what, look = self._does[do]
        self._doing.add(do)
        self._tell_doing()

        def run() -> None:
            try:
                message = look()
                self._shown[str(message["kind"])] = message
                self.host.send(message)
            finally:
                self._doing.discard(do)
                self._tell_doing()

        self.host.work(what, run, deadline_s=DIAGNOSE_S * 2)

    def _tell_doing(self) -> None:
        self.host.send({"kind": "doing", "doing": sorted(self._doing)})

    def _diagnose(self) -> dict[str, Any]:
        found: Diagnosis = self.host.job.diagnose(timeout=DIAGNOSE_S)
        return diagnosis_message(found)

    def _stacks(self) -> dict[str, Any]:
        found: Stacks = self.host.job.stacks(timeout=LOOK_S)
        return stacks_message(found)

    def _collectives(self) -> dict[str, Any]:
        found: Collectives = self.host.job.collectives(timeout=LOOK_S)
        return collectives_message(found)

    def _workers(self) -> dict[str, Any]:
        found = self.host.job.workers(timeout=LOOK_S)
        rows = [_ray_row(i, worker) for i, worker in enumerate(found.workers)]
        return {"kind": "workers", "at": clock(time.time()), "rows": rows, "notes": [clean(n) for n in found.notes]}


# --- the verdict -----------------------------------------------------------------------------------------------------------

ODD_FIRST = ("stopped", "ended", "not seen", "not known", "computing", "starting", "waiting", "stepping", "idle")


def diagnosis_message(found: Diagnosis) -> dict[str, Any]:
    words, tone = state_words(found)
    return {
        "kind": "diagnosis",
        "state": found.state,
        "words": words,
        "tone": "warning" if tone == "warn" else tone,
        "at": clock(time.time()),
        "took": duration(found.taken_s),
        "why": [clean(line) for line in found.why],
        "checks": [
            {"topic": clean(c.topic), "state": c.state, "words": clean(c.words), "verb": c.verb} for c in found.checks
        ],
        "cards": cards(found.verdict),
        "silent": silences(found.silent),
        "named": any(rank.who for rank in found.ranks),
        "ranks": _state_rows(found),
    }


def _state_rows(found: Diagnosis) -> list[dict[str, Any]]:
    """Every rank; ``odd`` puts those first that are to blame, then the odd states, and of one state what few do."""
    alike = Counter((rank.state, rank.doing, rank.where) for rank in found.ranks)
    blamed = {one for finding in found.verdict for one in finding.who}
    rows = []
    for rank in found.ranks:
        state = ODD_FIRST.index(rank.state) if rank.state in ODD_FIRST else len(ODD_FIRST)
        few = 1 - 1 / (1 + alike[rank.state, rank.doing, rank.where])
        odd = -1.0 if blamed & {Subject("rank", rank.rank), rank.who} else state + few
        rows.append(_state_row(rank, odd))
    return rows


def _state_row(rank: RankState, odd: float) -> dict[str, Any]:
    return {
        "rank": rank.rank,
        "who": clean(rank.who),
        "pid": rank.pid or None,
        "state": rank.state,
        "odd": odd,
        "doing": clean(rank.doing),
        "where": clean(rank.where or ""),
        "link": leads(at_place(rank.where or "")),
        "step": rank.steps,
        "since_s": rank.since_s,
    }


def _ray_row(order: int, worker: RayWorker) -> dict[str, Any]:
    since, names = worker.since_s, pgettext("list", ", ").join(worker.waits_for)
    waits = text("; waits for {names}", names=names) if names else ""
    return {
        "rank": order if worker.rank is None else worker.rank,
        "who": clean(worker.who),
        "pid": worker.pid or None,
        "state": str(worker.state),
        "odd": order,
        "doing": clean(worker.words + waits),
        "where": "" if isinstance(worker.where, NotAvailable) else clean(worker.where),
        "link": None if isinstance(worker.where, NotAvailable) else leads(at_place(worker.where)),
        "step": None if isinstance(worker.executed, NotAvailable) else worker.executed,
        "since_s": None if isinstance(since, NotAvailable) or not math.isfinite(since) else since,
    }


# --- stacks ----------------------------------------------------------------------------------------------------------------


def stacks_message(stacks: Stacks) -> dict[str, Any]:
    """Sections of threads, in each the places where they are, identical ones once, the rarest first."""
    groups = group_stacks(stacks)
    sections = group_by(groups[:GROUPS], _section)
    return {
        "kind": "stacks",
        "at": clock(time.time()),
        "took": duration(stacks.taken_s),
        "more": max(0, len(groups) - GROUPS),
        "silent": silences(stacks.silent),
        "sections": [
            {"title": _section(same[0]), "groups": [_stack_group(group) for group in same]} for same in sections
        ],
    }


def _section(group: StackGroup) -> str:
    if group.training and group.role == "rank":
        return text("Training threads")
    if group.idle:
        return text("Idle helpers")
    if group.role != "rank":
        return text("DataLoader workers and other child processes")
    return text("Other threads")


def _stack_group(group: StackGroup) -> dict[str, Any]:
    state = group.state.reason if isinstance(group.state, NotAvailable) else thread_state(group.state)
    words = [
        state,
        awaited(group.waiting_for) if group.waiting_for else "",
        *(p.words for p in group.phases),
        text("holds the GIL") if group.holds_gil else "",
    ]
    return {
        "ranks": compact_ranks(group.ranks),
        "count": len(group.ranks),
        "threads": group.threads,
        "name": clean(group.name),
        "role": group.role,
        "source": group.source,
        "where": clean(short_place(group.where)) if group.where else text("no Python frame"),
        "link": leads(group.where),
        "state": clean(text(", ").join(filter(None, words))),
        "note": clean(group.note),
        "runs": [
            {
                "folded": clean(run.summary) if run.folded and len(run.frames) > 1 else "",
                "frames": [
                    {
                        "place": clean(short_place(f)),
                        "path": clean(line_of(f, short_path(f))),
                        "library": f.library,
                        "link": leads(f),
                    }
                    for f in run.frames[:FRAMES]
                ],
            }
            for run in runs(group.frames)
        ],
    }


# --- collectives -----------------------------------------------------------------------------------------------------------


def collectives_message(found: Collectives) -> dict[str, Any]:
    """Ranks by process groups. Ranks that are alike share a row; every rank by itself is in ``each``, as the number of its row."""
    ranks = sorted(found.ranks, key=lambda rank: rank.rank)
    families = families_of(ranks)
    shown = families[:FAMILIES]
    rows = [row_of(rank) for rank in ranks]
    alike = group_by(rows, lambda row: row.key)
    blamed = {rank for finding in found.verdict for rank in finding.ranks}
    alike.sort(
        key=lambda same: (not _is_blamed(same, blamed), same[0].pending is not None, len(same), same[0].rank.rank)
    )
    ahead = {family: max((_issued(row, family) for row in rows), default=0) for family in shown}
    return {
        "kind": "collectives",
        "at": clock(time.time()),
        "took": duration(found.taken_s),
        "families": [clean(family_words(family)) for family in shown],
        "more_families": len(families) - len(shown),
        "cards": cards(found.verdict),
        "silent": silences(found.silent),
        "missing": compact_ranks(found.missing) + text(": no record, and nothing that could be asked")
        if found.missing
        else "",
        "notes": [clean(note) for note in dict.fromkeys(rank.note for rank in ranks if rank.note)],
        "rows": [_matrix_row(same, shown, ahead, blamed) for same in alike],
        "each": [
            {"rank": row.rank.rank, "pid": row.rank.pid or None, "row": n}
            for n, same in enumerate(alike)
            for row in same
        ],
    }


def _is_blamed(same: Sequence[RankRow], blamed: set[int]) -> bool:
    return any(row.rank.rank in blamed for row in same)


def _issued(row: RankRow, family: str) -> int:
    return row.progress.get(family, (None, None))[0] or 0


def _matrix_row(
    same: Sequence[RankRow], families: Sequence[str], ahead: dict[str, int], blamed: set[int]
) -> dict[str, Any]:
    row = same[0]
    call = row.pending
    pending_in = None if call is None else family_of(row.rank, call.group)
    waits_in = ""
    if call is not None and pending_in is not None:
        name, family = f"{call.op} #{call.sequence}", family_words(pending_in)
        waits_in = text("{call} of {family}", call=name, family=family)
    waits = [
        r.rank.waiting_s
        for r in same
        if not isinstance(r.rank.waiting_s, NotAvailable) and math.isfinite(r.rank.waiting_s)
    ]
    return {
        "ranks": compact_ranks([r.rank.rank for r in same]),
        "count": len(same),
        "blamed": _is_blamed(same, blamed),
        "cells": [_cell(row, family, ahead[family], waits=family == pending_in) for family in families],
        "waits_in": clean(waits_in),
        "for_s": max(waits, default=None) if call is not None else None,
        "at": clean(row.place or ""),
    }


def _cell(row: RankRow, family: str, ahead: int, *, waits: bool) -> dict[str, Any] | None:
    """Last issued and last completed on a group; None for a rank that is not in it."""
    if family not in row.progress:
        return None
    issued, completed = row.progress[family]
    return {
        "issued": issued,
        "completed": completed,
        "behind": 0 if issued is None else max(0, ahead - issued),
        "waits": waits,
    }
