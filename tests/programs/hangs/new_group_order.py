"""Two process groups that share ranks; one rank makes them in the other order, and members wait in new_group for each other."""

import torch.distributed as dist
from parts import Run, train_step

EXPECTED = {"code": "collective_order", "ranks": "culprit", "where": "make_groups", "doubt": True}


def make_groups(groups):
    for ranks in groups:
        dist.new_group(ranks)  # HERE


def main():
    run = Run()
    model, optimizer = run.model()
    groups = [list(range(run.world - 1)), list(range(run.world - 2, run.world))]
    for step, batch in enumerate(run.loader()):
        train_step(model, optimizer, batch)
        if step == run.step:
            make_groups(reversed(groups) if run.trouble(step) else groups)


if __name__ == "__main__":
    main()
