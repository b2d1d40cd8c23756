"""Learning rate, weight decay and gradient clipping of a live job: ask all ranks to change at one step, then look what that step used."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from .. import evidence
from ..attach.base import Link, ask_all, ask_each, identified, whole_job
from ..errors import ActionRefused, TraindbgError, UsageError
from ..language import later, text
from ..model import Changed, Finding, GroupChange, InForce, NotAvailable, RankChange, Silent, Subject, rank_subjects
from .agreement import RankOutcome, agree, missing_ranks, require_all

__all__ = ["Change", "change", "clip", "end_all", "hold_or_scale", "release", "undo"]

METHOD = "tune"
LR, WEIGHT_DECAY, CLIP_NORM = "lr", "weight_decay", "clip_norm"
SAME = 1e-6
"""A learning rate kept as a float32 tensor differs from what was asked for in the eighth digit."""
REPORT_S = 2.0
END_S = 5.0
"""How long leaving waits for a step at which all ranks go back to the schedule."""
LOOK_AGAIN_S = 0.02
STILL_S, SLOWER_THAN_USUAL = 2.0, 5.0
"""A process whose last step is longer ago than this may stand still; its agent then looks whether it does."""
AS_MUCH_AS_A_STEP_S = 0.5

NO_STEP = later("no step yet")

State = Literal["verified", "differs", "in force", "armed"]
Change = dict[str, Any]
Numbers = int | Sequence[int] | None


# --- what was asked for --------------------------------------------------------------------------------------------


def hold_or_scale(
    setting: str,
    *,
    value: float | None,
    scale: float | None,
    hold: bool | float,
    group: Numbers,
    optimizer: Numbers,
    force: bool,
) -> Change:
    """The change that pins `setting` at a value (or, with `hold` True, at the present one) or scales its schedule. Raises `UsageError`."""
    wished = [value, scale, None if hold is False or hold is True else hold]
    given = [v for v in wished if v is not None]
    if len(given) > 1 or (hold is True and scale is not None):
        raise UsageError(
            text("one change of the {setting} at a time", setting=text(evidence.NAMES[setting])),
            text("give a value, or scale=, or hold="),
        )
    if not given and hold is not True:
        raise UsageError(
            text("no {setting} was given", setting=text(evidence.NAMES[setting])),
            text("give a value, or scale=, or hold=True"),
        )
    what = "scale" if scale is not None else text("the {setting}", setting=text(evidence.NAMES[setting]))
    number = _number(given[0], what) if given else None
    return {
        "setting": setting,
        "mode": "hold" if scale is None else "scale",
        "value": number,
        "optimizers": _numbers(optimizer, "optimizer"),
        "groups": _numbers(group, "group"),
        "force": bool(force),
    }


def release(setting: str | None, group: Numbers, optimizer: Numbers) -> Change:
    """The change that gives `setting` (None: all that was changed) back to the training's own code. Raises `UsageError`."""
    return _back("release", setting, group, optimizer)


def undo(setting: str | None) -> Change:
    """The change that takes the last one back; refused by the agent where that was not one of `setting`. Raises `UsageError`."""
    return _back("undo", setting, None, None)


def clip(max_norm: float, optimizer: Numbers) -> Change:
    """The change that clips gradients at `max_norm` before each step. Raises `UsageError`."""
    number = _number(max_norm, text("the norm to clip at"))
    if number == 0:
        raise UsageError(text("clipping at norm 0 would stop the training"), text("give a norm greater than 0"))
    return hold_or_scale(CLIP_NORM, value=number, scale=None, hold=False, group=None, optimizer=optimizer, force=False)


def _back(mode: str, setting: str | None, group: Numbers, optimizer: Numbers) -> Change:
    if setting not in evidence.NAMES:
        known = ", ".join(repr(name) for name in evidence.NAMES if name)
        raise UsageError(
            text("there is no setting {setting!r}", setting=setting), text("the settings are {known}", known=known)
        )
    return {
        "setting": setting,
        "mode": mode,
        "value": None,
        "optimizers": _numbers(optimizer, "optimizer"),
        "groups": _numbers(group, "group"),
        "force": False,
    }


def _number(value: Any, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise UsageError(
            text("{what} must be a number, not {kind}", what=what, kind=type(value).__name__),
            text("give a number such as 1e-4"),
        )
    if not math.isfinite(value):
        raise UsageError(
            text("{what} must be finite, not {value}", what=what, value=value), text("give a number such as 1e-4")
        )
    if value < 0:
        raise UsageError(
            text("{what} must not be negative, and {value:g} is", what=what, value=value),
            text("give a number of 0 or more"),
        )
    return float(value)


def _numbers(wanted: Numbers, what: str) -> list[int] | None:
    if wanted is None:
        return None
    numbers = [wanted] if isinstance(wanted, int) else list(wanted)
    if not numbers or any(isinstance(n, bool) or not isinstance(n, int) or n < 0 for n in numbers):
        raise UsageError(text("{what}= takes the number of the {what}, counted from 0, or a list of them", what=what))
    return numbers


# --- doing it ------------------------------------------------------------------------------------------------------


def change(target: str, links: list[Link], wanted: Change, timeout: float) -> Changed:
    """Make the change on all `links` at the same step, and look at the first step under it.

    Costs the training thread some microseconds a step while it is in force. Raises `ActionRefused` where it was made nowhere. Where no step
    comes in `timeout` seconds it stays armed, which the result says.
    """
    began = time.monotonic()
    require_all(links, timeout)
    at_once = _at_once(links[0], wanted, began + timeout) if len(links) == 1 else None
    ranks, silent = _agreed(links, wanted, began + timeout) if at_once is None else ([at_once], [])
    return Changed(
        target,
        evidence.words_of(wanted),
        tuple(ranks),
        same_step=len(links) > 1,
        undo=_how_to_undo(wanted),
        waited_s=time.monotonic() - began,
        silent=tuple(silent),
        verdict=tuple(_findings(ranks, silent)),
    )


def _agreed(links: list[Link], wanted: Change, ends: float) -> tuple[list[RankChange], list[Silent]]:
    """The change made at one step, and what it came to on each rank; those that had agreed and cannot tell."""
    check = None if wanted["mode"] == "release" else _same_optimizers
    by_number = wanted["optimizers"] is not None
    left = max(0.5, ends - time.monotonic())
    agreed = agree(links, METHOD, {"change": wanted}, left, check=check, by_number=by_number)
    outcomes = {(outcome.rank, outcome.pid): outcome for outcome in agreed.ranks}  # on two hosts two may have one pid
    left = max(AS_MUCH_AS_A_STEP_S, ends - time.monotonic())
    alive = [link for link in links if not outcomes[link.rank, link.pid].problem]
    told = ask_all(alive, lambda link: _rank(link, outcomes[link.rank, link.pid], left), left + REPORT_S)
    silent = [
        Silent(o.rank, o.pid, text("it had agreed, but then: {what}", what=o.problem))
        for o in agreed.ranks
        if o.problem
    ]
    return [rank for _, rank in told.answers], [*silent, *told.silent]


def _at_once(link: Link, wanted: Change, ends: float) -> RankChange | None:
    """The change made there and then in a single process that stands still (a notebook between two cells, a hang); None where it moves."""
    pace = link.call("pace", {}, REPORT_S)
    since, usual = pace["since_last_step_s"], pace["usual_step_s"] or 0.0
    moving = since is not None and since < max(STILL_S, SLOWER_THAN_USUAL * usual)
    if moving and not (
        link.here and link.pid == os.getpid()
    ):  # this very thread may be the one that trains, and it is here
        return None
    try:
        # the optimizers are looked for among all objects: on a host without a free core that takes seconds
        told = link.call(METHOD, {"do": "now", "change": wanted}, max(REPORT_S, ends - time.monotonic()))
    except ActionRefused:
        return None  # it computes, or the change makes no sense: the ordinary way does or says what is to be
    rows = evidence.group_changes(told["rows"])
    why = text("the job stands still: it takes effect at the next step")
    return RankChange(link.rank, link.pid, "armed", told["step"] - 1, NotAvailable(text(NO_STEP)), rows, why)


def end_all(links: list[Link], timeout: float, *, force: bool = False) -> tuple[list[InForce], str]:
    """Release all that is in force on `links`, at one step: what that was, and a note where it could not be one step.

    Ranks whose agents leave one after the other would otherwise go back to the schedule at different steps, and a clipped norm that takes
    all ranks to compute would leave the last of them waiting. `links` have their agents. Raises `ActionRefused` where some ranks of the
    job are not among them, unless `force`: they may be gone.
    """
    identified(links, REPORT_S)
    found = ask_each(links, _in_force, REPORT_S)
    actions = [action for _, answer in found if not isinstance(answer, TraindbgError) for action in answer]
    if not actions:
        return [], ""
    missing = [] if force else missing_ranks(links)
    if missing:
        raise ActionRefused(
            text(
                "what is in force would end on rank {rank} alone, and its {count} other ranks would drift apart "
                "from it",
                rank=links[0].rank,
                count=len(missing),
            ),
            text(
                "name the whole job, {job}, to detach from all ranks; --force where the others are gone",
                job=whole_job(links),
            ),
        )
    first = next(answer for _, answer in found if answer and not isinstance(answer, TraindbgError))
    if len(links) == 1:
        return first, ""
    try:
        agreed = agree(links, METHOD, {"change": release(None, None, None)}, min(timeout, END_S))
    except ActionRefused as e:
        return first, text("the ranks could not end it at one step: {why}", why=e.cause)
    return first, "" if agreed.done else text("no step came meanwhile: it ended where each rank stands")


def _in_force(link: Link) -> list[InForce]:
    return evidence.in_force(link.call(METHOD, {"do": "report"}, REPORT_S)["in_force"])


def _same_optimizers(prepared: Sequence[tuple[Link, Any]]) -> None:
    """Refuse a change that would concern an optimizer on one rank that another rank does not have, or has not found."""
    concerned = [(link, sorted({(r["optimizer"], r["class"]) for r in told["rows"]})) for link, told in prepared]
    first, wanted = concerned[0]
    for link, found in concerned[1:]:
        if [name for _, name in found] != [name for _, name in wanted]:
            raise ActionRefused(
                text(
                    "rank {first} would change {wanted}, but rank {rank} (pid {pid}) {found}",
                    first=first.rank,
                    wanted=_named(wanted),
                    rank=link.rank,
                    pid=link.pid,
                    found=_named(found),
                ),
                text(
                    "nothing was changed on any rank; name the optimizer by its number (`traindbg lr TARGET` shows it)"
                ),
            )


def _named(optimizers: Sequence[tuple[int, str]]) -> str:
    named = [text("optimizer {number} ({name})", number=number, name=name) for number, name in optimizers]
    return text(", ").join(named) or text("nothing")


def _rank(link: Link, outcome: RankOutcome, wait_s: float) -> RankChange:
    rows = evidence.group_changes(outcome.value if outcome.done else outcome.prepared["rows"])
    if not outcome.done or outcome.at_step is None:
        after = outcome.after_step or NotAvailable(text("the next step, whenever it comes"))
        why = text("it takes effect at the next step, and none came in this time")
        return RankChange(link.rank, link.pid, "armed", after, NotAvailable(text(NO_STEP)), rows, why)
    optimizers = {row.optimizer for row in rows}
    first: dict[int, Mapping[str, Any]] = {}
    for first in _first_steps(link, outcome.at_step, wait_s):
        if optimizers <= first.keys() or len(optimizers) == len(first) == 1:
            break
    else:
        note = text("the first step under it has not come yet")
        none = NotAvailable(text(NO_STEP))
        return RankChange(link.rank, link.pid, "in force", outcome.at_step, none, rows, note)
    if len(optimizers) == len(first) == 1:
        first = dict.fromkeys(optimizers, next(iter(first.values())))
    own = next(iter(first.values()))["optimizer_step"] if len(first) == 1 else None
    count = NotAvailable(text("the optimizer keeps no count, or there are several")) if own is None else own
    state, note = _compare(rows, first)
    return RankChange(link.rank, link.pid, state, outcome.at_step, count, rows, note)


def _first_steps(link: Link, after_step: int, wait_s: float) -> Iterator[dict[int, Mapping[str, Any]]]:
    """The first recorded step after `after_step` of each optimizer, by its number, again and again as more come."""
    ends = time.monotonic() + wait_s
    while True:
        answer = link.call("steps", {"since": after_step, "deadline_s": 0.0}, max(0.5, ends - time.monotonic()))
        records = [dict(zip(answer["fields"], record, strict=True)) for record in answer["records"]]
        yield {record["optimizer"]: record for record in reversed(records)}
        if time.monotonic() > ends:
            return
        time.sleep(LOOK_AGAIN_S)


def _compare(rows: Sequence[GroupChange], first: Mapping[int, Mapping[str, Any]]) -> tuple[State, str]:
    """Whether the first step of each optimizer used what it was to use."""
    checked, notes, wrong = False, [], []
    for row in rows:
        after = row.after
        if row.setting != LR or row.group is None or isinstance(after, NotAvailable):
            continue
        used = first[row.optimizer]["lr"][row.group]
        if used is None:
            notes.append(text("the learning rate lies on a GPU and was not read"))
        elif math.isclose(used, after, rel_tol=SAME, abs_tol=0.0):
            checked = True
        elif row.action.startswith("hold") or used == row.before:
            wrong.append(
                text(
                    "group {group} of {optimizer} used {used:g} and not {after:g}",
                    group=row.group,
                    optimizer=row.optimizer_class,
                    used=used,
                    after=after,
                )
            )
        else:
            notes.append(text("the schedule has moved on: group {group} used {used:g}", group=row.group, used=used))
    if wrong:
        return "differs", text("; ").join(wrong)
    return ("verified" if checked and not notes else "in force"), text("; ").join(dict.fromkeys(notes))


def _how_to_undo(wanted: Change) -> str:
    if wanted["mode"] in ("undo", "release"):
        return ""
    verb = {LR: "lr", WEIGHT_DECAY: "weight_decay", CLIP_NORM: "clip"}[wanted["setting"]]
    return text("{undo}; with --release, as the training's code has it", undo=f"`%{verb} --undo`")


def _findings(ranks: Sequence[RankChange], silent: Sequence[Silent]) -> Iterator[Finding]:
    wrong = [rank for rank in ranks if rank.state == "differs"]
    if wrong:
        yield Finding(
            "action_not_effective",
            "critical",
            text("the first step under the change did not use what was asked for"),
            who=rank_subjects(rank.rank for rank in wrong),
            evidence=[text("rank {rank}: {note}", rank=rank.rank, note=rank.note) for rank in wrong],
            cause=text("the training's own code sets the learning rate inside the step, or right before it"),
            next_steps=[text("`%lr --release` gives it back to the schedule")],
            confidence="high",
        )
    stepped = {r.rank: r.optimizer_step for r in ranks if not isinstance(r.optimizer_step, NotAvailable)}
    if len({r.state for r in ranks}) == 1 and len(set(stepped.values())) > 1:
        yield Finding(
            "ranks_changed_apart",
            "critical",
            text("the ranks did not change at the same step"),
            who=rank_subjects(stepped),
            evidence=[
                text("rank {rank}: first step under it {step}", rank=rank, step=step) for rank, step in stepped.items()
            ],
            cause=text("their steps were told to be the same by count, and are not"),
            next_steps=[text("stop the job and start it from its last checkpoint")],
        )
    if silent and ranks:
        yield Finding(
            "rank_lost_during_change",
            "critical",
            text("a rank that had agreed does not say that it has changed"),
            who=[Subject("rank", s.rank) for s in silent if s.rank is not None],
            evidence=[s.reason for s in silent],
            cause=text("it has ended, or hangs, since it agreed"),
            next_steps=[text("`traindbg stacks` shows what it does; compare `traindbg lr`")],
            confidence="medium",
        )
