"""Where a job stands that does not step any more, from its optimizers' own counts."""

from __future__ import annotations

import torch

from jupyter_traindbg.agent.core import Agent


def stepped(kind: type[torch.optim.Optimizer], times: int) -> torch.optim.Optimizer:
    parameter = torch.nn.Parameter(torch.ones(3))
    optimizer = kind([parameter], lr=0.1)
    for _ in range(times):
        parameter.grad = torch.ones(3)
        optimizer.step()
    return optimizer


def test_an_optimizer_that_counts_tells_its_steps(agent: Agent) -> None:
    held = stepped(torch.optim.AdamW, 5)
    assert agent.call("counts", {}) == {"steps": [5]}
    del held
    plain = stepped(torch.optim.SGD, 4)
    assert agent.call("counts", {}) == {"steps": []}, "nothing is made up where none is kept"
    del plain


def test_a_parameter_that_is_not_counted_does_not_stand_for_those_that_are(agent: Agent) -> None:
    """As in optimizers that treat matrices in another way than the rest."""
    optimizer = stepped(torch.optim.AdamW, 3)
    other = torch.nn.Parameter(torch.ones(2))
    optimizer.state[other] = {"momentum": torch.ones(2)}
    optimizer.param_groups[0]["params"].insert(0, other)
    assert agent.call("counts", {}) == {"steps": [3]}


def test_the_inner_one_of_a_wrapper_counts_once(agent: Agent) -> None:
    class Wrapper(torch.optim.Optimizer):
        def __init__(self, inner: torch.optim.Optimizer) -> None:
            self.optimizer = inner

        @property
        def state(self) -> dict[str, object]:
            raise AssertionError("the wrapper's own property is not called")

    wrapper = Wrapper(stepped(torch.optim.Adam, 2))
    assert agent.call("counts", {}) == {"steps": [2]}
    del wrapper
