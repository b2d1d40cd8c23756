"""The moment of a checkpoint: whether the job makes steps, and its state copied at one boundary between two of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from ...errors import ActionRefused, DeadlineExceeded
from ...language import text
from ...words.ranks import ranks_words
from ..agreement import agree
from . import ranks

LOOK_S = 0.1
WAIT_S = 0.25
"""How long an agent is asked to wait for its boundary before we look whether the job still moves."""


class NoStep(ActionRefused):
    """The job made steps, and then none for a while."""


def all_going(found: ranks.Survey) -> bool:
    return all(ranks.pace_of(answer) == "going" for answer in found.answers.values())


def watch(found: ranks.Survey, timeout: float) -> tuple[bool, ranks.Survey]:
    """Whether all ranks make steps, and the latest survey.

    A rank that has made none for a moment may be evaluating, and an agent that has just come in has seen none yet: then a step is waited
    for, half of `timeout` at most. One rank that stands still is enough for a hung job: the others will wait for it, if they do not yet.
    """
    ends = time.monotonic() + min(ranks.WITHOUT_HISTORY_S, timeout / 2)
    while not all_going(found):
        if time.monotonic() > ends or any(ranks.pace_of(answer) == "still" for answer in found.answers.values()):
            return False, found
        time.sleep(LOOK_S)
        found = ranks.survey(list(found.links.values()), timeout)
    return True, found


def snapshot(
    found: ranks.Survey, ident: str, params: Callable[[int], dict[str, Any]], timeout: float
) -> dict[int, dict[str, Any]]:
    """Have every rank copy its state at one boundary, the same step on all; what each says of it.

    Raises `NoStep` where the job stopped meanwhile, `DeadlineExceeded` where its steps take longer than `timeout`.
    """
    if len(found.links) == 1:
        alone = {"do": "prepare", "ident": ident, "decision": None}
        _, errors = ranks.ask(found.links, lambda rank: {**alone, **params(rank)}, timeout + found.to_prepare_s)
        if errors:
            raise ranks.blame(errors)
    else:
        agree(
            list(found.links.values()),
            "checkpoint",
            lambda link: params(link.rank),
            timeout + 2 * found.to_prepare_s,
            ident=ident,
            prepare_s=found.to_prepare_s,
            wait=False,
            cancel="cancel",
        )
    return _outcomes(found, ident, timeout)


def _outcomes(found: ranks.Survey, ident: str, timeout: float) -> dict[int, dict[str, Any]]:
    """The outcomes of all ranks, once they have passed the boundary."""
    ends = time.monotonic() + timeout + found.to_prepare_s
    done: dict[int, dict[str, Any]] = {}
    while len(done) < len(found.links):
        open_ = {rank: link for rank, link in found.links.items() if rank not in done}
        answers, errors = ranks.ask(open_, lambda rank: {"do": "outcome", "ident": ident, "wait_s": WAIT_S}, timeout)
        if errors:
            raise ranks.blame(errors)
        lost = [rank for rank, answer in answers.items() if answer["aborted"]]
        if lost:
            raise ActionRefused(
                text("{ranks} did not find what was decided", ranks=ranks_words(lost)), text("try again")
            )
        done |= {rank: answer["value"] for rank, answer in answers.items() if answer["done"]}
        if len(done) < len(found.links):
            _still_worth_waiting(found, ends, timeout)
    return done


def _still_worth_waiting(found: ranks.Survey, ends: float, timeout: float) -> None:
    answers, errors = ranks.ask(found.links, lambda rank: {}, timeout, "pace")
    if errors:
        raise ranks.blame(errors)
    # The copy itself is a step that takes longer, in proportion to what there is to copy.
    still = {rank: answer for rank, answer in answers.items() if ranks.pace_of(answer, found.to_prepare_s) != "going"}
    if still:
        since = max(float(answer["since_last_step_s"]) for answer in still.values())
        raise NoStep(
            text("no step of {ranks} for {since:.1f} s", ranks=ranks_words(still), since=since),
            text("nothing was written; try again"),
        )
    if time.monotonic() > ends:
        raise DeadlineExceeded(
            _no_boundary(answers, timeout),
            text("nothing was written; give a longer --timeout"),
        )


def _no_boundary(answers: Mapping[int, Mapping[str, Any]], timeout: float) -> str:
    usual = [float(a["usual_step_s"]) for a in answers.values() if a["usual_step_s"] is not None]
    if not usual:
        return text("no boundary between two iterations came in {timeout:g} s", timeout=timeout)
    return text(
        "no boundary between two iterations came in {timeout:g} s (a step of this job takes about {usual:.3g} s)",
        timeout=timeout,
        usual=max(usual),
    )
