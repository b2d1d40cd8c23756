"""Each rank logs what it happens to have at its step, all under one number: what is averaged are two different things."""

import time

import torch.distributed as dist
from parts import Run, train_step

EXPECTED = {
    "code": "collective_mispaired",
    "state": ("progressing",),
    "ranks": "all",
    "where": ("training_step",),
    "worlds": (2,),
}


class Module:
    """Logs as the modules of trainers do: under a name, averaged over the ranks."""

    def __init__(self, run):
        self.run, self.logged = run, {}

    def log(self, name, value, *, sync_dist=True):
        value = value.detach().clone()
        if sync_dist:
            dist.all_reduce(value)
        self.logged[name] = value / self.run.world

    def training_step(self, step, loss):
        if (step + self.run.rank) % 2:
            self.log("train/loss", loss)  # HERE
        else:
            self.log("train/perplexity", loss.exp())  # HERE


def main():
    run = Run()
    model, optimizer = run.model()
    module = Module(run)
    for step, batch in enumerate(run.loader()):
        module.training_step(step, train_step(model, optimizer, batch))
        run.trouble(step)
        time.sleep(0.03)


if __name__ == "__main__":
    main()
