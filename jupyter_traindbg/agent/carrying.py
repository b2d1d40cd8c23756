"""What becomes of an action when the optimizer that it is in force on is replaced, as by a notebook's cell that is run again.

An action is in force until it is released. So it goes over to the optimizer that takes its place, at that one's first step, and is logged.
"""

from __future__ import annotations

import sys
from typing import Any, Dict, List, Optional, Tuple

from . import runs
from .adjust import CLIP_NORM, Force, Held
from .changes import fits
from .notebook import cell
from .objects import Objects
from .refused import Refused
from .saying import Text, said

CARRIED, ENDED, BESIDE = "carried", "ended", "beside"
"""What is logged as the ``mode`` of a change: what was in force went over to a new optimizer; it ended, since no such one came; it stays
where it is, and a new optimizer steps without it."""

WAIT_STEPS = 64
"""So many steps of others an action waits for an optimizer that takes the place of one that is gone."""


def takes_place_of(optimizer: Any, force: Force, objects: Objects) -> Optional[Tuple[int, bool]]:
    """The key in `force` of the optimizer whose place a new one takes, and whether the program could still step that one.

    It is one of the same class that is gone, or forgotten by the program, that was called as the new one is now, or one with parameters of
    the same shapes that got its action in another cell. None where there is none. Microseconds, and one search by frames where it lives.
    """
    main = vars(sys.modules["__main__"])
    shapes = runs.shapes(optimizer)
    same_class = [(key, held) for key, held in force.items() if held and held.name == type(optimizer).__name__]
    same_class.sort(key=lambda one: one[1].shapes != shapes)
    for key, held in same_class:
        former = held.optimizer()
        if former is None or objects.forgotten(former):
            return key, former is not None and held.shapes != shapes  # else a trainer may hide it where we do not look
        called_so = any(main.get(name) is optimizer for name in held.variables)
        if called_so or (held.shapes == shapes and held.cell != cell()):
            return key, True
    return None


def go_over(force: Force, key: int, optimizer: Any, *, leave: bool) -> Force:
    """`force` with what is held on `key` also in force on `optimizer`; with `leave` it stays on the former one, too."""
    held = force.get(key)
    if not held:
        return force
    following = {k: h for k, h in force.items() if leave or k != key}
    following[id(optimizer)] = held.for_another(optimizer, held.number)
    return following


def why_not(held: Held, optimizer: Any) -> Text:
    """Why what is held cannot be in force on `optimizer`; empty where it can."""
    twin = held.for_another(optimizer, held.number)
    settings: Dict[str, List[int]] = {}
    for setting, group in twin.groups:
        settings.setdefault(setting, []).append(group)
    wanted: List[Tuple[str, Optional[List[int]]]] = [*settings.items()]
    if twin.clip is not None:
        wanted.append((CLIP_NORM, None))
    try:
        for setting, groups in wanted:
            fits(setting, held.number, optimizer, groups)
    except Refused as e:
        return e.cause
    return "" if wanted else said("it has no such param group")


def logged(mode: str, held: Held, optimizer: Any = None, why: Text = "") -> Dict[str, Any]:
    """The ``change`` of the log's entry; `optimizer` is the new one, where there is one."""
    return {
        "mode": mode,
        "setting": None,
        "value": None,
        "optimizers": None,
        "groups": None,
        "force": True,
        "of": held.name,
        "to": None if optimizer is None else type(optimizer).__name__,
        "why": why,
    }


__all__ = ["BESIDE", "CARRIED", "ENDED", "WAIT_STEPS", "go_over", "logged", "takes_place_of", "why_not"]
