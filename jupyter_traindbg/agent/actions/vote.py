"""Let the ranks of a job agree where they share no file system: a decision in the store of their process group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict

from ..refused import Refused
from ..saying import said

if TYPE_CHECKING:
    from ..core import Agent

CHANGES = "nothing in the training; one key in the store of its process group, until it is forgotten"


def run(
    agent: Agent, *, do: str = "cast", key: str = "", wish: str = "", claimant: str = "", for_s: float = 0.0
) -> Dict[str, Any]:
    """``cast`` writes `wish` under `key` unless something stands there, and answers ``{"stands": ...}``; ``forget`` takes `key` out.

    ``claim`` answers ``{"claimed": bool}``: whether `claimant` alone may begin votes at this rank, for `for_s` seconds or until ``free``.
    """
    if do == "cast":
        return {"stands": agent.agreed.store.decide(key, wish)}
    if do == "forget":
        agent.agreed.store.forget(key)
        return {}
    if do == "claim":
        return {"claimed": agent.agreed.claim.take(claimant, for_s)}
    if do == "free":
        agent.agreed.claim.free(claimant)
        return {}
    raise Refused(said("there is no {deed}; there are {deeds}", deed=repr(do), deeds="cast, forget, claim, free"))
