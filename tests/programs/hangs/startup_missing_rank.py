"""The program expects one rank more than were started: a world size written into the code. All wait for one that nobody starts."""

import torch.distributed as dist
from parts import Run, say

EXPECTED = {"code": "init_incomplete", "ranks": "culprit", "where": "main"}


def main():
    run = Run(group=False)
    if run.rank == 0:
        say(f"culprit {run.world}")  # the one that is not there, whatever the seed
    run.ready()
    dist.init_process_group("gloo", rank=run.rank, world_size=run.world + 1)  # HERE


if __name__ == "__main__":
    main()
