"""Change learning rate, weight decay or gradient clipping at one agreed step, see `jupyter_traindbg.agent.tuning`."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Callable, Dict, Optional

from ..refused import Refused
from ..safepoint import is_idle
from ..saying import said

if TYPE_CHECKING:
    from ..core import Agent

CHANGES = "learning rate, weight decay or gradient clipping, from an agreed optimizer step on; can be undone"


def run(
    agent: Agent,
    *,
    do: str = "prepare",
    ident: str = "",
    change: Optional[Dict[str, Any]] = None,
    after_step: int = 0,
    decision: Optional[str] = None,
    wait_s: float = 0.0,
) -> Dict[str, Any]:
    """``prepare`` answers ``{"rows": what would change}``, and has it done at the first boundary after `after_step` steps if the file
    `decision` says so by then; ``outcome`` is that of `Agreed` with the changed rows as its value; ``abort`` forgets it; ``report`` is
    `Tuning.report`. ``now`` is for a job that stands still: it changes at once, and answers ``{"rows", "step"}``."""
    if do == "report":
        return agent.tuning.report()
    if do == "outcome":
        return agent.agreed.outcome(ident, wait_s)
    if do == "abort":
        agent.agreed.abort(ident)
        return {}
    deeds: Dict[str, Callable[[], Dict[str, Any]]] = {
        "prepare": lambda: _prepare(agent, ident, change or {}, after_step, decision),
        "now": lambda: _now(agent, change or {}),
    }
    if do not in deeds:
        raise Refused(
            said("there is no {deed}; there are {deeds}", deed=repr(do), deeds="prepare, outcome, abort, report, now")
        )
    return deeds[do]()


def _prepare(
    agent: Agent, ident: str, change: Dict[str, Any], after_step: int, decision: Optional[str]
) -> Dict[str, Any]:
    plan = agent.tuning.plan(change)
    rows = agent.tuning.preview(plan)
    agent.agreed.prepare(ident, after_step, decision, functools.partial(agent.tuning.commit, plan), exact=True)
    return {"rows": rows}


def _now(agent: Agent, change: Dict[str, Any]) -> Dict[str, Any]:
    plan = agent.tuning.plan(change)
    if agent.boundary.updating() or not is_idle():
        raise Refused(
            said("the job is computing: changes are made between its steps"), said("leave it to the next step")
        )
    return {"rows": agent.tuning.commit(plan), "step": agent.recorder.step + 1}
