"""A change of learning rates and the like, as it was asked for: is there such a thing, and does the value make sense?"""

from __future__ import annotations

import math
import weakref
from typing import Any, Dict, List, Optional, Sequence, Tuple

from .adjust import CLIP_NORM, HOLD, LR, RELEASE, SCALE, UNDO, VALUES, WEIGHT_DECAY, is_tensor
from .by_hand import NONE_FOUND
from .objects import inner_optimizers
from .refused import Refused
from .saying import Said, said

MODES = (HOLD, SCALE, RELEASE, UNDO)
SETTINGS = (LR, WEIGHT_DECAY, CLIP_NORM)
WORDS = {LR: said("learning rate"), WEIGHT_DECAY: said("weight decay"), CLIP_NORM: said("norm to clip at")}
JUMP = 100.0
"""A value that is so many times larger or smaller than the one before is taken for a slip of the pen."""


class Target:
    """One optimizer, and which of its groups: None for all, also those that are added later."""

    def __init__(self, number: int, optimizer: Any, groups: Optional[List[int]]) -> None:
        self.number, self.optimizer, self.groups = number, weakref.ref(optimizer), groups


NEXT = said("wait until the training has begun, or name another target")
NEXT_BY_HAND = said("change its variable in the program, or train with an optimizer of torch.optim")


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


def plan(change: Any, optimizers: Sequence[Any], *, others_held: bool = False, why_none: Said = NONE_FOUND) -> Plan:
    """`change` made complete and resolved against the live `optimizers`. Raises `Refused`.

    `others_held`: something is in force on optimizers that are not among them, and may be released. `why_none`: why there are none.
    """
    full = _complete(change)
    if full["mode"] == UNDO or (full["mode"] == RELEASE and not optimizers and others_held):
        return Plan(full, [])
    if not optimizers:
        raise Refused(why_none, NEXT if why_none == NONE_FOUND else NEXT_BY_HAND)
    numbers = _indices(full["optimizers"], said("optimizers are named by a list of their numbers"))
    wanted = list(range(len(optimizers))) if numbers is None else numbers
    groups = _indices(full["groups"], said("groups are named by a list of their numbers"))
    if groups is not None and full["setting"] == CLIP_NORM:
        raise Refused(
            said("gradients are clipped by the norm over all groups of an optimizer"), said("leave the groups out")
        )
    targets = [_target(number, optimizers, groups) for number in wanted]
    if full["mode"] != RELEASE:
        for target in targets:
            fits(full["setting"], target.number, optimizers[target.number], target.groups)
    return Plan(full, targets)


def see(setting: Optional[str]) -> Said:
    """The command that shows what is in force of `setting`: the next step of who cannot change it."""
    return said("{command} shows what is in force", command=f"`%{'clip' if setting == CLIP_NORM else setting or LR}`")


def refuse_other_undo(asked: Optional[str], last: Optional[str]) -> None:
    """Raise `Refused` where the undoing of one setting would undo the change of another."""
    if asked is not None and last is not None and asked != last:
        raise Refused(
            said("the last change was one of the {last}, and not of the {asked}", last=WORDS[last], asked=WORDS[asked]),
            said("undo that one first, or release the {asked}", asked=WORDS[asked]),
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
        raise Refused(said("a change is an object with {keys}", keys=", ".join(full)))
    full.update(change)
    setting, mode, value = full["setting"], full["mode"], full["value"]
    if mode not in MODES:
        raise Refused(
            said("there is no way {mode} to change a value; there are {modes}", mode=repr(mode), modes=", ".join(MODES))
        )
    if setting not in SETTINGS and not (setting is None and mode in (RELEASE, UNDO)):
        there_are = ", ".join(SETTINGS)
        raise Refused(
            said("there is no setting {setting}; there are {settings}", setting=repr(setting), settings=there_are)
        )
    if mode in (RELEASE, UNDO):
        full["value"] = None
    elif setting == CLIP_NORM and (mode == SCALE or value is None):
        raise Refused(
            said("clipping needs the norm to clip at"), said("give a number such as {example}", example="1.0")
        )
    elif mode == SCALE and value is None:
        raise Refused(said("scaling needs a factor"), said("give a number such as {example}", example="0.1"))
    elif value is not None:
        full["value"] = _sensible(value, setting, mode)
    full["force"] = bool(full["force"])
    return full


def _sensible(value: Any, setting: str, mode: str) -> float:
    word = said("factor for the {setting}", setting=WORDS[setting]) if mode == SCALE else WORDS[setting]
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Refused(said("the {word} must be a number, and not a {type}", word=word, type=type(value).__name__))
    if not math.isfinite(value):
        raise Refused(said("the {word} must be finite, and {value} is not", word=word, value=str(value)))
    if value < 0:
        raise Refused(said("the {word} must not be negative, and {value} is", word=word, value=f"{value:g}"))
    if setting == CLIP_NORM and value == 0:
        raise Refused(said("clipping at norm 0 would take all gradients away"), said("give a positive number"))
    return float(value)


def sensible_part(part: Any) -> Dict[str, Any]:
    """One entry of `Tuning.export` from a file, checked."""
    if part["mode"] not in (HOLD, SCALE) or part["setting"] not in SETTINGS:
        raise Refused(said("{what} is nothing that can be in force", what=f"{part['mode']} {part['setting']}"))
    return {**part, "value": _sensible(part["value"], part["setting"], part["mode"])}


def _indices(wanted: Any, or_else: Said) -> Optional[List[int]]:
    if wanted is None:
        return None
    if not isinstance(wanted, list) or not wanted or not all(type(i) is int for i in wanted):
        raise Refused(or_else)
    return sorted(set(wanted))


def _target(number: int, optimizers: Sequence[Any], groups: Optional[List[int]]) -> Target:
    if not 0 <= number < len(optimizers):
        raise Refused(
            said("there is no optimizer {number}; there are {there_are}", number=number, there_are=_named(optimizers)),
            said("give one of those"),
        )
    count = len(optimizers[number].param_groups)
    absent = [g for g in groups or () if not 0 <= g < count]
    if absent:
        name = called(number, optimizers[number])
        if count == 1:
            raise Refused(
                said("{name} has no group {group}; it has only group 0", name=name, group=absent[0]),
                said("give that one"),
            )
        raise Refused(
            said("{name} has no group {group}; it has groups 0 to {last}", name=name, group=absent[0], last=count - 1),
            said("give one of those"),
        )
    return Target(number, optimizers[number], groups)


def called(number: int, optimizer: Any) -> Said:
    """What an optimizer is called in a sentence."""
    return said("optimizer {number} ({class_name})", number=number, class_name=type(optimizer).__name__)


def _named(optimizers: Sequence[Any]) -> str:
    return ", ".join(f"{i} ({type(o).__name__})" for i, o in enumerate(optimizers))


def fits(setting: str, number: int, optimizer: Any, groups: Optional[List[int]]) -> None:
    """Raise `Refused` where `setting` cannot be changed in these `groups` of an optimizer (None: in all)."""
    name = called(number, optimizer)
    if setting == CLIP_NORM:
        _one_rank_sees_the_norm(name, optimizer)
        return
    what = WORDS[setting]
    indices = range(len(optimizer.param_groups)) if groups is None else groups
    for index in indices:
        value = optimizer.param_groups[index].get(setting)
        own = setting == LR and optimizer.param_groups[index].get(
            "relative_step"
        )  # transformers' Adafactor ignores it then
        if value is None or own:
            raise Refused(said("group {index} of {name} has no {what} of its own", index=index, name=name, what=what))
        if is_tensor(value) and value.requires_grad:
            raise Refused(
                said("the {what} of group {index} of {name} is itself being trained", what=what, index=index, name=name)
            )
        if is_tensor(value) and value.numel() != 1:
            has = said("is a tensor of {count} elements", count=value.numel())
            raise Refused(
                said("the {what} of group {index} of {name} {has}", what=what, index=index, name=name, has=has)
            )
        sharing = [i for i, g in enumerate(optimizer.param_groups) if is_tensor(value) and g.get(setting) is value]
        if not set(sharing) <= set(indices):
            both = ", ".join(map(str, sharing))
            raise Refused(
                said("groups {both} of {name} share one tensor as their {what}", both=both, name=name, what=what),
                said("change them together"),
            )


def _one_rank_sees_the_norm(name: Said, optimizer: Any) -> None:
    """Refuse to clip where the gradients that this optimizer holds are a part of the whole which torch cannot put together."""
    if any(type(p).__name__ == "FlatParameter" for g in optimizer.param_groups for p in g["params"]):
        raise Refused(
            said("{name} holds FSDP1's flat shards, whose norm takes the other ranks", name=name),
            said("clip in the job's own code"),
        )


def refuse_shards(targets: Sequence[Target], all_optimizers: Sequence[Any]) -> None:
    """The same for optimizers inside one that deals the parameters out to the ranks."""
    for outer in all_optimizers:
        if type(outer).__name__ != "ZeroRedundancyOptimizer":
            continue
        inner = inner_optimizers(outer)
        if any(t.optimizer() is i for t in targets for i in inner):
            raise Refused(
                said("ZeroRedundancyOptimizer deals the parameters out to the ranks: none of them sees the whole norm")
            )


def refuse_jump(setting: str, name: Said, before: Optional[float], after: Optional[float]) -> None:
    """Refuse a value that is `JUMP` times off the one in effect; `name` says whose it is."""
    what = WORDS[setting]
    if before is None or after is None:
        raise Refused(
            said("the {what} of {name} did not come from the GPU, so a slip could not be told", what=what, name=name),
            said("`--force` if it is meant"),
        )
    force = said("`--force` if {value} is meant", value=f"{after:g}")
    if before == after or (after == 0 and setting == WEIGHT_DECAY):
        return
    if before == 0:
        raise Refused(
            said("the {what} of {name} is 0 now, so a slip cannot be told from a wish", what=what, name=name), force
        )
    if after == 0:
        raise Refused(said("with a {what} of 0, {name} would learn nothing any more", what=what, name=name), force)
    ratio = max(after / before, before / after)
    if ratio > JUMP * (1 + 1e-6):
        figures = {"after": f"{after:g}", "before": f"{before:g}", "ratio": f"{ratio:.0f}", "what": what, "name": name}
        if after > before:
            raise Refused(
                said("{after} is {ratio} times larger than the {what} of {name} now, {before}", **figures), force
            )
        raise Refused(
            said("{after} is {ratio} times smaller than the {what} of {name} now, {before}", **figures), force
        )


__all__ = ["SETTINGS", "VALUES", "Plan", "Target", "fits", "plan", "refuse_jump", "refuse_shards"]
