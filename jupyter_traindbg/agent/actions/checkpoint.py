"""An emergency checkpoint: this rank's part of it. The client leads all ranks through the stages; see `checkpoint.writing.Writing`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional

from ..checkpoint import files as on_disk
from ..checkpoint import survey, writing
from ..refused import Refused
from ..saying import said

if TYPE_CHECKING:
    from ..core import Agent

CHANGES = "nothing in the training: copies its state to host memory at a boundary and writes it to a new directory"


def run(
    agent: Agent,
    do: str = "survey",
    *,
    ident: str = "",
    directory: str = "",
    bytes: int = 0,  # noqa: A002
    overwrite: bool = False,
    after_step: int = 0,
    decision: Optional[str] = None,
    weights: bool = True,
    wait_s: float = 0.0,
    plans: Optional[Dict[str, List[Dict[str, Any]]]] = None,
    plan: Optional[List[Dict[str, Any]]] = None,
    manifest: Optional[Dict[str, Any]] = None,
    files: Optional[Dict[str, Dict[str, Any]]] = None,
    names: Optional[List[str]] = None,
    results: Optional[Dict[str, List[List[Any]]]] = None,
) -> Dict[str, Any]:
    """Stage `do` of the checkpoint `ident`. Raises `Refused`, nothing changed, where it cannot be done.

    survey {} -> what would be saved, and what is against it. begin {ident, directory, bytes, overwrite} (lowest rank).
    prepare {ident, directory, after_step, decision, weights}, outcome {ident, wait_s}: at a boundary; cancel {ident}: not at that one.
    take {ident, directory, weights}: a job that hangs. plan {ident}, merge {ident, plans} (lowest rank): sharded ones.
    write {ident, plan}, progress {ident}. commit {ident, manifest, files, results} (lowest rank). abort {ident}.
    look {directory, ident, names}: what is there, for a client on another host.
    """
    known = agent.checkpoints
    first: Dict[str, Stage] = {
        "begin": lambda w: w.begin(bytes, overwrite=overwrite),
        "prepare": lambda w: w.prepare(after_step, decision, weights=weights),
        "take": lambda w: w.take(weights=weights),
    }
    later: Dict[str, Stage] = {
        "outcome": lambda w: w.outcome(wait_s),
        "cancel": lambda w: w.cancel(),
        "plan": lambda w: {"plan": w.plan()},
        "merge": lambda w: w.merge(plans or {}),
        "write": lambda w: w.write(plan),
        "progress": lambda w: w.progress(),
    }
    if do in first:
        return _opened(agent, ident, directory, first[do])
    if do in later:
        return later[do](known.get(ident))
    if do == "commit":
        committed = known.get(ident).commit(manifest or {}, files or {}, results or {})
        known.forget(ident)
        return committed
    if do == "abort":
        return {"known": known.abort(ident)}
    if do == "look":
        return on_disk.look(directory, ident, names or [])
    if do == "survey":
        return survey.survey(agent)
    raise Refused(
        said("a checkpoint has no stage {stage}", stage=repr(do[:40])),
        said("the client and the agent are of different versions"),
    )


Stage = Callable[[writing.Writing], Dict[str, Any]]


def _opened(agent: Agent, ident: str, directory: str, stage: Stage) -> Dict[str, Any]:
    """`stage` of a checkpoint that this rank may not know yet; one that is refused at its first stage is forgotten at once."""
    if not ident or not ident.replace("-", "").isalnum() or not ident.isascii() or len(ident) > 64:
        raise Refused(
            said("the id of a checkpoint is letters, digits and hyphens"), said("choose another one")
        )  # it is part of names
    known = agent.checkpoints.knows(ident)
    opened = agent.checkpoints.open(ident, directory)
    try:
        return stage(opened)
    except BaseException:
        if not known:
            agent.checkpoints.abort(ident)
        raise
