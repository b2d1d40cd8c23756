"""Which optimizers belong to the run that steps, and which an earlier one left: a notebook whose cells were run again is full of them.

What tells is who stepped when (`turns`), who is held by the program's own variables (`reachable`), and who trains what.
"""

from __future__ import annotations

import sys
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Set, Tuple

FEW_STEPS = 8
"""So many steps of others say nothing yet of an optimizer that has not stepped, or once."""
LONG = 64
"""So many do, of one that looks as if it had stepped before we came."""
LONGER = 2
"""An optimizer that was passed over for more than so many times its longest pause so far does not step any more."""
ROUNDS = 16
"""More runs than these are rounds of one program (federated training, an optimizer for each task), and no person's doing."""


class Turn(NamedTuple):
    """The steps of one optimizer among all recorded ones, by their numbers; `pause` is the longest between two of its own, 0 with one."""

    first: int
    last: int
    pause: int

    def is_over(self, now: int) -> bool:
        """Whether others have stepped for too long since, at step number `now`."""
        return now - self.last > max(LONGER * self.pause, 0 if self.pause else FEW_STEPS)


def turns(steps: Iterable[Tuple[int, int]]) -> Dict[int, Turn]:
    """By the number of an optimizer, its turn, from ``(step number, number of the optimizer)`` in order. 0.2 us a step."""
    found: Dict[int, Turn] = {}
    for step, optimizer in steps:
        known = found.get(optimizer)
        if known is None:
            found[optimizer] = Turn(step, step, 0)
        else:
            found[optimizer] = Turn(known.first, step, max(known.pause, step - known.last))
    return found


def began(by_optimizer: Dict[int, Turn], over: Set[int]) -> int:
    """The number of the first recorded step of this run, where the optimizers with the numbers in `over` were an earlier one's.

    A run begins where one of those ended and none that goes on had stepped before: an optimizer made anew for each task within a training
    begins none.
    """
    cuts = [
        by_optimizer[ended].last
        for ended in over & set(by_optimizer)
        if not any(turn.first <= by_optimizer[ended].last < turn.last for turn in by_optimizer.values())
    ]
    later = [cut for cut in cuts if any(turn.first > cut for turn in by_optimizer.values())]
    return max(later) + 1 if 0 < len(later) <= ROUNDS else 0


class Standing(NamedTuple):
    """What is known of one optimizer."""

    optimizer: Any
    turn: Optional[Turn]
    """None where it was not seen stepping."""
    near: bool
    """Whether the program's own variables lead to it. Those of a trainer may hide it, so this alone does not tell."""
    kin: bool
    """Whether it trains parameters of a model of which others are trained now."""
    known: bool
    """Whether its parameters belong to any model that was found."""


def left_over(all_of: List[Standing], now: int, *, last_is_gone: bool = False) -> List[Any]:
    """The optimizers that an earlier run left. Where nothing steps, as in a job that never began, none is.

    `now`: the number of the last step; `last_is_gone`: whether what made it does not exist any more, as after a function that trains.
    """
    stepping = [s for s in all_of if s.turn is not None and not s.turn.is_over(now)]
    if not stepping:
        return [s.optimizer for s in all_of if last_is_gone and s.turn is not None and not s.near]
    others = [s for s in all_of if not any(s is other for other in stepping)]
    return [s.optimizer for s in others if _is_left(s, stepping, now)]


def _is_left(one: Standing, stepping: List[Standing], now: int) -> bool:
    parameters = {id(p) for p in _parameters(one.optimizer)}
    trained = {id(p) for s in stepping for p in _parameters(s.optimizer)}
    if one.turn is None:
        if now < FEW_STEPS:
            return False
        used = bool(one.optimizer.state) and now >= LONG
        return not one.known or not (one.near or one.kin) or (used and any(_alike(one, s) for s in stepping))
    forgotten = not one.near and (not one.kin or parameters <= trained)
    replaced = any(s.turn is not None and s.turn.first > one.turn.last and _alike(one, s) for s in stepping)
    return forgotten or replaced


def _alike(one: Standing, other: Standing) -> bool:
    """Whether they are of the same class and train parameters of the same shapes."""
    return type(one.optimizer) is type(other.optimizer) and shapes(one.optimizer) == shapes(other.optimizer)


def shapes(optimizer: Any) -> List[Tuple[int, ...]]:
    """The shape of each of its parameters; an empty one of those that have none yet."""
    is_lazy = sys.modules["torch"].nn.parameter.is_lazy
    return [() if is_lazy(p) else tuple(p.shape) for p in _parameters(optimizer)]


def _parameters(optimizer: Any) -> List[Any]:
    return [p for g in optimizer.param_groups for p in g["params"]]


__all__ = ["Standing", "Turn", "began", "left_over", "shapes", "turns"]
