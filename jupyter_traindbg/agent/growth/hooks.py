"""Where torch keeps the hooks of a module, an optimizer or a tensor, and by which methods they are registered."""

from __future__ import annotations

import sys
from typing import Any, Dict

HOOKS = (
    "_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks", "_state_dict_hooks",
    "_load_state_dict_pre_hooks", "_optimizer_step_pre_hooks", "_optimizer_step_post_hooks", "_post_accumulate_grad_hooks",
)  # fmt: skip
_OF_TENSORS = ("_backward_hooks", "_post_accumulate_grad_hooks")
REGISTERS = frozenset(
    ("register_forward_hook", "register_forward_pre_hook", "register_full_backward_hook", "register_full_backward_pre_hook",
     "register_hook", "register_post_accumulate_grad_hook", "register_step_post_hook", "register_step_pre_hook")
)  # fmt: skip


def of_tensor(tensor: Any) -> Dict[str, Any]:
    """Those of a tensor, which C++ keeps, by the name of where. Nothing of its class runs where torch's functions are not overridden."""
    base = sys.modules["torch"]._C.TensorBase
    told = [(name, getattr(base, name).__get__(tensor)) for name in _OF_TENSORS if hasattr(base, name)]
    return {name: hooks for name, hooks in told if hooks is not None}
