"""A change of learning rates and the like, as it was asked for: is there such a thing, and does the value make sense?"""

from __future__ import annotations

import math
import weakref
from typing import Any, Dict, List, Optional, Sequence, Tuple

from .adjust import CLIP_NORM, HOLD, LR, RELEASE, SCALE, UNDO, VALUES, WEIGHT_DECAY, is_tensor
from .by_hand import NONE_FOUND
from .objects import inner_optimizers
from .refused import Refused

MODES = (HOLD, SCALE, RELEASE, UNDO)
SETTINGS = (LR, WEIGHT_DECAY, CLIP_NORM)
WORDS = {LR: "learning rate", WEIGHT_DECAY: "weight decay", CLIP_NORM: "norm to clip at"}
JUMP = 100.0
"""A value that is so many times larger or smaller than the one before is taken for a slip of the pen."""


class Target:
    """One optimizer, and which of its groups: None for all, also those that are added later."""

    def __init__(self, number: int, optimizer: Any, groups: Optional[List[int]]) -> None:
        self.number, self.optimizer, self.groups = number, weakref.ref(optimizer), groups


NEXT = "wait until the training has begun, or name another target"
NEXT_BY_HAND = "change its variable in the program, or train with an optimizer of torch.optim"


class Plan:
    """A change that makes sense: what to do, and to which optimizers."""

    def __init__(self, change: Dict[str, Any], targets: List[Target]) -> None:
        self.change, self.targets = change, targets
        self.mode: str = change["mode"]
        self.value: Optional[float] = change["value"]

    def settings(self) -> Tuple[str, ...]:
        return SETTINGS if self.change["setting"] is None else (self.change["setting"],)

    @property
    def releases_all(self) -> bool:
        """Whether it is for every optimizer on which anything is in force, also for those that step no more."""
        return self.mode == RELEASE and self.change["optimizers"] is None


def plan(change: Any, optimizers: Sequence[Any], *, others_held: bool = False, why_none: str = NONE_FOUND) -> Plan:
    """`change` made complete and resolved against the live `optimizers`. Raises `Refused`.

    `others_held`: something is in force on optimizers that are not among them, and may be released. `why_none`: why there are none.
    """
    full = _complete(change)
    if full["mode"] == UNDO or (full["mode"] == RELEASE and not optimizers and others_held):
        return Plan(full, [])
    if not optimizers:
        raise Refused(why_none, NEXT if why_none == NONE_FOUND else NEXT_BY_HAND)
    numbers = _indices(full["optimizers"], "optimizer")
    wanted = list(range(len(optimizers))) if numbers is None else numbers
    groups = _indices(full["groups"], "group")
    if groups is not None and full["setting"] == CLIP_NORM:
        raise Refused("gradients are clipped by the norm over all groups of an optimizer", "leave the groups out")
    targets = [_target(number, optimizers, groups) for number in wanted]
    if full["mode"] != RELEASE:
        for target in targets:
            fits(full["setting"], target.number, optimizers[target.number], target.groups)
    return Plan(full, targets)


def see(setting: Optional[str]) -> str:
    """The command that shows what is in force of `setting`: the next step of who cannot change it."""
    return f"`%{'clip' if setting == CLIP_NORM else setting or LR}` shows what is in force"


def refuse_other_undo(asked: Optional[str], last: Optional[str]) -> None:
    """Raise `Refused` where the undoing of one setting would undo the change of another."""
    if asked is not None and last is not None and asked != last:
        raise Refused(
            f"the last change was one of the {WORDS[last]}, and not of the {WORDS[asked]}",
            f"undo that one first, or release the {WORDS[asked]}",
        )


def _complete(change: Any) -> Dict[str, Any]:
    full: Dict[str, Any] = {
        "setting": LR,
        "mode": None,
        "value": None,
        "optimizers": None,
        "groups": None,
        "force": False,
    }
    if not isinstance(change, dict) or not set(change) <= set(full):
        raise Refused("a change is an object with " + ", ".join(full))
    full.update(change)
    setting, mode, value = full["setting"], full["mode"], full["value"]
    if mode not in MODES:
        raise Refused(f"there is no way {mode!r} to change a value; there are {', '.join(MODES)}")
    if setting not in SETTINGS and not (setting is None and mode in (RELEASE, UNDO)):
        raise Refused(f"there is no setting {setting!r}; there are {', '.join(SETTINGS)}")
    if mode in (RELEASE, UNDO):
        full["value"] = None
    elif setting == CLIP_NORM and (mode == SCALE or value is None):
        raise Refused("clipping needs the norm to clip at", "give a number such as 1.0")
    elif mode == SCALE and value is None:
        raise Refused("scaling needs a factor", "give a number such as 0.1")
    elif value is not None:
        full["value"] = _sensible(value, setting, mode)
    full["force"] = bool(full["force"])
    return full


def _sensible(value: Any, setting: str, mode: str) -> float:
    word = f"factor for the {WORDS[setting]}" if mode == SCALE else WORDS[setting]
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Refused(f"the {word} must be a number, and not a {type(value).__name__}")
    if not math.isfinite(value):
        raise Refused(f"the {word} must be finite, and {value} is not")
    if value < 0:
        raise Refused(f"the {word} must not be negative, and {value:g} is")
    if setting == CLIP_NORM and value == 0:
        raise Refused("clipping at norm 0 would take all gradients away", "give a positive number")
    return float(value)


def sensible_part(part: Any) -> Dict[str, Any]:
    """One entry of `Tuning.export` from a file, checked."""
    if part["mode"] not in (HOLD, SCALE) or part["setting"] not in SETTINGS:
        raise Refused(f"{part['mode']} {part['setting']} is nothing that can be in force")
    return {**part, "value": _sensible(part["value"], part["setting"], part["mode"])}


def _indices(wanted: Any, what: str) -> Optional[List[int]]:
    if wanted is None:
        return None
    if not isinstance(wanted, list) or not wanted or not all(type(i) is int for i in wanted):
        raise Refused(f"{what}s are named by a list of their numbers")
    return sorted(set(wanted))


def _target(number: int, optimizers: Sequence[Any], groups: Optional[List[int]]) -> Target:
    if not 0 <= number < len(optimizers):
        raise Refused(f"there is no optimizer {number}; there are {_named(optimizers)}", "give one of those")
    count = len(optimizers[number].param_groups)
    absent = [g for g in groups or () if not 0 <= g < count]
    if absent:
        name = f"optimizer {number} ({type(optimizers[number]).__name__})"
        there_are = "only group 0" if count == 1 else f"groups 0 to {count - 1}"
        raise Refused(
            f"{name} has no group {absent[0]}; it has {there_are}",
            "give that one" if count == 1 else "give one of those",
        )
    return Target(number, optimizers[number], groups)


def _named(optimizers: Sequence[Any]) -> str:
    return ", ".join(f"{i} ({type(o).__name__})" for i, o in enumerate(optimizers))


def fits(setting: str, number: int, optimizer: Any, groups: Optional[List[int]]) -> None:
    """Raise `Refused` where `setting` cannot be changed in these `groups` of an optimizer (None: in all)."""
    name = f"optimizer {number} ({type(optimizer).__name__})"
    if setting == CLIP_NORM:
        _one_rank_sees_the_norm(name, optimizer)
        return
    indices = range(len(optimizer.param_groups)) if groups is None else groups
    for index in indices:
        value = optimizer.param_groups[index].get(setting)
        own = setting == LR and optimizer.param_groups[index].get(
            "relative_step"
        )  # transformers' Adafactor ignores it then
        if value is None or own:
            raise Refused(f"group {index} of {name} has no {WORDS[setting]} of its own")
        if is_tensor(value) and (value.numel() != 1 or value.requires_grad):
            why = "is itself being trained" if value.requires_grad else f"is a tensor of {value.numel()} elements"
            raise Refused(f"the {WORDS[setting]} of group {index} of {name} {why}")
        sharing = [i for i, g in enumerate(optimizer.param_groups) if is_tensor(value) and g.get(setting) is value]
        if not set(sharing) <= set(indices):
            both = ", ".join(map(str, sharing))
            raise Refused(f"groups {both} of {name} share one tensor as their {WORDS[setting]}", "change them together")


def _one_rank_sees_the_norm(name: str, optimizer: Any) -> None:
    """Refuse to clip where the gradients that this optimizer holds are a part of the whole which torch cannot put together."""
    if any(type(p).__name__ == "FlatParameter" for g in optimizer.param_groups for p in g["params"]):
        raise Refused(
            f"{name} holds FSDP1's flat shards, whose norm takes the other ranks", "clip in the job's own code"
        )


def refuse_shards(targets: Sequence[Target], all_optimizers: Sequence[Any]) -> None:
    """The same for optimizers inside one that deals the parameters out to the ranks."""
    for outer in all_optimizers:
        if type(outer).__name__ != "ZeroRedundancyOptimizer":
            continue
        inner = inner_optimizers(outer)
        if any(t.optimizer() is i for t in targets for i in inner):
            raise Refused(
                "ZeroRedundancyOptimizer deals the parameters out to the ranks: none of them sees the whole norm"
            )


def refuse_jump(setting: str, name: str, before: Optional[float], after: Optional[float]) -> None:
    """Refuse a value that is `JUMP` times off the one in effect; `name` says whose it is."""
    value = "it" if after is None else f"{after:g}"
    force = f"`--force` if {value} is meant"
    if before is None or after is None:
        raise Refused(f"the {WORDS[setting]} of {name} did not come from the GPU, so a slip could not be told", force)
    if before == after or (after == 0 and setting == WEIGHT_DECAY):
        return
    if before == 0:
        raise Refused(f"the {WORDS[setting]} of {name} is 0 now, so a slip cannot be told from a wish", force)
    if after == 0:
        raise Refused(f"with a {WORDS[setting]} of 0, {name} would learn nothing any more", force)
    ratio = max(after / before, before / after)
    if ratio > JUMP * (1 + 1e-6):
        way = "larger" if after > before else "smaller"
        raise Refused(
            f"{after:g} is {ratio:.0f} times {way} than the {WORDS[setting]} of {name} now, {before:g}", force
        )


__all__ = ["SETTINGS", "VALUES", "Plan", "Target", "fits", "plan", "refuse_jump", "refuse_shards"]
