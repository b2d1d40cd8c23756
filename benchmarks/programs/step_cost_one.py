"""KIND SECONDS: what steps of steady.py cost more with the hooks of the agent that PYTHONPATH has. JSON, in microseconds."""

import json
import statistics
import sys
import time

import steady
import torch
import torch.nn.modules.module as modules
import torch.optim.optimizer as optimizers

from jupyter_traindbg import agent as agents

STEP_MS = 5.0
BLOCK, SETTLE = 12, 3


class Hooks:
    """What the running agent has put into torch."""

    def __init__(self, agent):
        self.agent = agent
        self.listening = [optimizers._global_optimizer_pre_hooks, optimizers._global_optimizer_post_hooks]
        self.hooks = [dict(hooks) for hooks in self.listening]
        self.patches = [*agent.recorder._patches._patches, *agent.boundary._patches._patches]

    def put(self, *, back):
        for listening, hooks in zip(self.listening, self.hooks, strict=True):
            listening.clear()
            listening.update(hooks if back else {})
        for patch in self.patches:
            setattr(patch.owner, patch.name, patch.wrapper if back else patch.original)
        if not back:
            modules._global_forward_pre_hooks.clear()


def block_us(steps):
    times = []
    for _ in range(BLOCK):
        began = time.perf_counter()
        next(steps)
        times.append(time.perf_counter() - began)
    return statistics.median(times[SETTLE:]) * 1e6


def main(kind, seconds):
    torch.set_num_threads(1)
    make, first_try = steady.KINDS[kind]
    steps = make(steady.fitting_size(make, first_try, STEP_MS) if kind != "bare" else first_try)
    agent = agents.start(version="benchmark", keep=True)
    for _ in range(100):
        next(steps)
    hooks = Hooks(agent)
    with_us, without_us, ends = [], [], time.perf_counter() + seconds
    while time.perf_counter() < ends:
        for back in (True, False) if len(with_us) % 2 else (False, True):
            hooks.put(back=back)
            (with_us if back else without_us).append(block_us(steps))
    hooks.put(back=True)
    agent.stop()
    more = [a - b for a, b in zip(with_us, without_us, strict=True)]
    print(json.dumps({"from": agents.__file__, "more_us": more, "step_us": statistics.median(without_us)}))


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
