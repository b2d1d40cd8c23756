"""How deep the autograd graph behind a tensor is: counted along ``next_functions``, which belong to C++ alone."""

from __future__ import annotations

import sys
from typing import Any, List, Tuple

MOST_NODES = 3000
"""So many are counted at most: 0.5 us each. Of a deeper one it is told what was added since the last time."""


def grad_fn(tensor: Any) -> Any:
    """The node that made it, read past its class; None of a leaf."""
    return sys.modules["torch"]._C.TensorBase.grad_fn.__get__(tensor)


def number(node: Any) -> int:
    """Nodes are numbered as they are made, on each thread; leaves have the greatest number of all."""
    of_torch = sys.modules["torch"]._C._FunctionBase
    if issubclass(type(node), of_torch):
        return int(of_torch._sequence_nr(node))
    return int(node._sequence_nr()) if _is_own(node) else -1


def depth(node: Any, which: int, before: int, newest: int) -> int:
    """How many nodes lie on the way that always takes a node's first input (`which` is 0), or its last one (-1).

    `before`: how many there were the last time, when ``number`` of the node was `newest`.
    """
    length = added = 0
    reached = False
    below: List[Any] = [node]
    while below and length < MOST_NODES:
        one = below[which]
        reached = reached or number(one) <= newest
        added += not reached
        below = _inputs(one)
        length += 1
    return before + added if below and reached else length


def _inputs(node: Any) -> List[Any]:
    """The nodes whose outputs it takes."""
    of_torch = sys.modules["torch"]._C._FunctionBase
    told: Tuple[Any, ...] = ()
    if issubclass(type(node), of_torch):  # a torch.autograd.Function: the user's class may have a property of that name
        told = of_torch.next_functions.__get__(node)
    elif _is_own(node):
        told = node.next_functions
    return [one for one, _ in told or () if one is not None]


def _is_own(node: Any) -> bool:
    """Whether its class is torch's own, and not the user's."""
    return type.__dict__["__module__"].__get__(type(node)) in ("builtins", "torch.autograd", "torch._C._functions")
