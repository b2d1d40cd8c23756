"""One rank gets a sequence that is far longer than those for which the model was compiled: its loop is unrolled anew, for minutes, and the
others wait in the all_reduce of their gradients. Nothing is stuck.
"""

import torch
import torch.distributed as dist
from parts import WIDTH, Run
from torch import nn

EXPECTED = {
    "code": "cpu_phase",
    "ranks": "culprit",
    "where": "main",
    "state": "progressing",
    "says": (
        r"compiles compile_new_length\.py:\d+ Recurrent\.forward for the 2nd time, for [\d.]+ s so far",
        r"size mismatch at index 0\. expected 6, actual 20000",
        r"before that, the last (graph|\d+ graphs) that rank \d compiled took",
    ),
}


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.read = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 1)

    def forward(self, x):
        state = torch.zeros(WIDTH)
        for row in x:
            state = torch.tanh(self.cell(row + state))
        return self.read(state)


def main():
    run = Run()
    net = Recurrent()
    model = torch.compile(net, backend="aot_eager", dynamic=False)
    optimizer = torch.optim.SGD(net.parameters(), 1e-3)
    step = 0
    while True:
        length = 20_000 if run.trouble(step) else 6
        model(torch.rand(length, WIDTH)).square().mean().backward()  # HERE
        for parameter in net.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()
        optimizer.zero_grad()
        step += 1


if __name__ == "__main__":
    main()
