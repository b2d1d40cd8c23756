"""A training that steps no optimizer of torch's: its program changes the weights itself. Each backward pass counts as a step then.

`ByHand` stands where an optimizer stands, so that what records steps, takes norms and counts runs needs to know nothing of it.
"""

from __future__ import annotations

import threading
import time
import weakref
from typing import TYPE_CHECKING, Any, Dict, Iterable, Iterator, List, Set

from .saying import Said, said

if TYPE_CHECKING:
    from .objects import Objects
    from .recorder import Recorder
    from .safepoint import SafePoints

FEW_PASSES = 2
"""So many backward passes without a step, before anybody looks whether there is an optimizer; then after twice as many."""
NONE_FOUND = said("no optimizer was found")
A_PASS_S = 1.0
"""How long a backward pass is waited for where there is no optimizer: it tells whether anything is trained at all."""
MOST_NODES = 4096
"""So much of a graph is searched for tensors that belong to no module."""


class _Living:
    """Tensors that are not kept alive; iterates over those that live."""

    def __init__(self, tensors: Iterable[Any]) -> None:
        self._refs = [weakref.ref(tensor) for tensor in tensors]

    def __iter__(self) -> Iterator[Any]:
        return (tensor for tensor in (ref() for ref in self._refs) if tensor is not None)

    def __bool__(self) -> bool:
        return next(iter(self), None) is not None


class ByHand:
    """The tensors that the program trains, in place of an optimizer that holds them: without state, and without a learning rate."""

    def __init__(self, of_modules: Iterable[Any]) -> None:
        parameters = _Living(of_modules)
        self._has_modules = bool(parameters)
        self.to_learn = not parameters
        """Whether only a backward pass can tell what is trained: no module has it."""
        self.param_groups: List[Dict[str, Any]] = [{"params": parameters}]
        self.state: Dict[Any, Any] = {}

    def gone(self) -> bool:
        """Whether the modules that it trained are gone. Tensors of no module may be others at every step: then those are learnt anew."""
        if not self._has_modules:
            self.to_learn = self.to_learn or not self.param_groups[0]["params"]
            return False
        return not self.param_groups[0]["params"]

    def learn(self, roots: List[Any]) -> None:
        """Take the leaves of the graph that a backward pass from `roots` is about to go through. 1 us a node, `MOST_NODES` of them."""
        self.to_learn = False
        self.param_groups[0]["params"] = _Living(_leaves([root.grad_fn for root in roots]))


def _leaves(roots: List[Any]) -> Iterator[Any]:
    seen: Set[Any] = set()
    queue = [node for node in roots if node is not None]
    while queue and len(seen) < MOST_NODES:
        node = queue.pop()
        if node in seen:
            continue
        seen.add(node)
        if node.name() == "torch::autograd::AccumulateGrad":
            yield node.variable
        queue.extend(following for following, _ in node.next_functions if following is not None)


class Search:
    """Finds out whether a training has no optimizer, and when that has changed. `look` is called on the agent's thread."""

    def __init__(self, safepoints: SafePoints, recorder: Recorder, objects: Objects) -> None:
        self._safepoints, self._recorder, self._objects = safepoints, recorder, objects
        self._again = FEW_PASSES

    def look(self) -> None:
        """Nothing where an optimizer steps; a search for the objects after the first passes of a training in which none does."""
        safepoints, objects = self._safepoints, self._objects
        if safepoints.by_hand is not None:
            if safepoints.by_hand.gone():  # a cell was run again
                safepoints.by_hand, self._again = None, FEW_PASSES
            return
        passes = self._recorder.losses.backwards
        if not safepoints.active or passes < self._again or objects.stepped():
            return
        self._again = 2 * passes
        if not objects.find().held():
            from .objects import named_parameters  # which needs the recorder, which needs us

            trained = (p for model in objects.models() for _, p in named_parameters(model))
            safepoints.by_hand = ByHand(p for p in trained if p.requires_grad and p.is_leaf)


def no_optimizer(recorder: Recorder) -> Said:
    """Why there is no optimizer to show or to change: in words, from what was seen. On a client's thread: an agent that has just come in
    waits for a backward pass, `A_PASS_S` at most."""
    ends = time.monotonic() + (A_PASS_S if threading.current_thread().name.startswith("traindbg-") else 0.0)
    while not recorder.backwards and time.monotonic() < ends:
        time.sleep(0.01)
    if not recorder.backwards:
        return NONE_FOUND
    return said(
        "no optimizer of torch's was found, and backward passes were seen: the program changes its weights by itself, with a learning "
        "rate of its own"
    )


__all__ = ["NONE_FOUND", "ByHand", "Search", "no_optimizer"]
