"""Where torch keeps the hooks of a module or an optimizer, and by which methods they are registered."""

HOOKS = (
    "_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks", "_state_dict_hooks",
    "_load_state_dict_pre_hooks", "_optimizer_step_pre_hooks", "_optimizer_step_post_hooks",
)  # fmt: skip
REGISTERS = frozenset(
    ("register_forward_hook", "register_forward_pre_hook", "register_full_backward_hook", "register_full_backward_pre_hook",
     "register_hook", "register_post_accumulate_grad_hook", "register_step_post_hook", "register_step_pre_hook")
)  # fmt: skip
