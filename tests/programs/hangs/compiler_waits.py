"""The C++ compiler of one rank is a wrapper that takes a token out of a pipe first, so that not too many run at once. All tokens are
out: inductor waits for it for ever, and the others for that rank's gradients.
"""

import os
from pathlib import Path

import torch
from parts import WIDTH, Run
from torch import nn
from torch.nn.parallel import DistributedDataParallel

SCRATCH = Path(os.environ["SCENE_FOLDER"], "node-" + os.environ["RANK"])
SCRATCH.mkdir(exist_ok=True)
os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(SCRATCH / "inductor")
os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
WRAPPER = """#!/bin/sh
case "$*" in
  *.main.cpp*|*/c[a-z0-9]*.cpp*) read -r token < "$TOKENS" ;;
esac
exec g++ "$@"
"""


def tokened_compiler():
    """A g++ that asks for a token, as those of a build farm do."""
    os.mkfifo(SCRATCH / "tokens")
    os.open(SCRATCH / "tokens", os.O_RDWR)
    os.environ["TOKENS"] = str(SCRATCH / "tokens")
    (SCRATCH / "g++").write_text(WRAPPER)
    (SCRATCH / "g++").chmod(0o755)
    os.environ["CXX"] = str(SCRATCH / "g++")


EXPECTED = {
    "code": ("python_wait", "io_wait"),
    "ranks": "culprit",
    "where": "forward",
    "says": (r"(?i)compil|g\+\+", r"tokens|(?i:fifo|pipe)|node-\d+/g\+\+"),
}


class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.gate, self.down = nn.Linear(WIDTH, 64), nn.Linear(WIDTH, 64), nn.Linear(64, 1)
        self.fused = torch.compile(self.mix, dynamic=False)
        self.fuse = False

    def mix(self, x):
        return torch.sigmoid(self.gate(x)) * torch.tanh(self.up(x)) + 0.5

    def forward(self, x):
        if not self.fuse:
            return self.down(self.mix(x))
        return self.down(self.fused(x))  # HERE


def main():
    run = Run()
    if run.is_culprit:
        tokened_compiler()
    model = DistributedDataParallel(Gated())
    optimizer = torch.optim.AdamW(model.parameters())
    for step, (x, y) in enumerate(run.loader()):
        model.module.fuse = step == run.step and run.is_culprit
        if step == run.step:
            run.ready(30.0)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()


if __name__ == "__main__":
    main()
